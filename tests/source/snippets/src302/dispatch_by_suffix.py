# expect: SRC302@9
import json
import pickle

READERS = {".json": json.load, ".pkl": pickle.load}

def read(path):
    with open(path, "rb") as file:
        return READERS[path.suffix](file)
