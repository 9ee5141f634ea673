# expect: none  (the other format may have such a key)
from safetensors.torch import load_file

from checkpoints import read_checkpoint


def load(path):
    if path.endswith(".safetensors"):
        state = load_file(path)
    else:
        state = read_checkpoint(path)
    return state, state.get("__metadata__", {})
