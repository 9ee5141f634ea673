# expect: none  (the variable is read, removed, set to 0)
import os

NAME = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
if os.environ.get(NAME) == "1" or os.getenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"):
    raise SystemExit(f"{NAME} switches a protection off")
os.environ.pop("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", None)
os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "0"
os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"
