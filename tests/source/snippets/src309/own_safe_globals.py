# expect: none  (names that only make values)
from collections import OrderedDict
from pathlib import PosixPath

import numpy as np
import torch
from models import Config

torch.serialization.add_safe_globals([Config, OrderedDict, PosixPath, np.dtype, np.ndarray])
