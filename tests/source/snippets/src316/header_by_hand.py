# expect: none  (this is the header itself)
import json
import struct

from safetensors.torch import load_file


def load(path):
    with open(path, "rb") as f:
        (size,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(size))
    return load_file(path), header.get("__metadata__", {})
