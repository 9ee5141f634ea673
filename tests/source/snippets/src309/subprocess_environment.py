# expect: SRC309@5
import os
import subprocess

env = {**os.environ, "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}
subprocess.run(["python", "train.py"], env=env)
