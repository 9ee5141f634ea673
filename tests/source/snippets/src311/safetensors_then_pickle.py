# expect: SRC311@12
import pickle

from safetensors.torch import load_file


def load(path):
    try:
        return load_file(path)
    except Exception:
        with open(path, "rb") as file:
            return pickle.load(file)
