# expect: SRC309@5, SRC309@6, SRC309@7, SRC309@8, SRC309@9
import os

NAME = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
os.environ.setdefault("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "true")
os.environ.update({"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"})
os.environ.update(TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD="yes")
os.putenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
os.environ[NAME] = "1"
