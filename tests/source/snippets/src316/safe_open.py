# expect: none  (safe_open reads the header)
from safetensors import safe_open


def load(path):
    with safe_open(path, framework="pt") as f:
        metadata = f.metadata()
        return {key: f.get_tensor(key) for key in f.keys()}, metadata
