# expect: none
import os

os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "0"
os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"
os.environ.pop("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", None)
if os.environ.get("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "0") == "1":
    raise SystemExit("unset TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1")
if "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD" in os.environ:
    del os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"]
print("export TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1")
