# expect: SRC309@8, SRC309@9, SRC309@10
import os
import subprocess

import torch
from torch.serialization import add_safe_globals

torch.serialization.add_safe_globals([getattr, os.system])
add_safe_globals([eval])
with torch.serialization.safe_globals([subprocess.Popen]):
    state = torch.load("model.pt")
