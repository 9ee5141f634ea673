# expect: SRC302@11, SRC302@22, SRC302@30
import os
import pickle
from pathlib import Path


def features(folder, data):
    path = os.path.join(folder, "cached.pkl")
    if os.path.exists(path) and data is not None:
        with open(path, "rb") as file:
            found = pickle.load(file)
    else:
        found = [len(each) for each in data]
        with open(path, "wb") as file:
            pickle.dump(found, file)
    return found


def early(path, data):
    path = Path(path)
    if path.is_file():
        return pickle.load(path.open("rb"))
    pickle.dump(data, path.open("wb"))
    return data


def resumed(path, rounds):
    state = None
    if os.path.exists(path):
        state = pickle.load(open(path, "rb"))
    for number in range(rounds):
        state = number
        pickle.dump(state, open(path, "wb"))
    return state
