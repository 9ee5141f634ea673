# expect: SRC302@11
import pickle
from pathlib import Path


class Cache:
    def __init__(self, folder):
        self.folder = Path(folder)

    def get(self, key):
        return pickle.loads((self.folder / key).read_bytes())
