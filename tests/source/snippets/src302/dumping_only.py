# expect: none  (writing runs nothing)
import pickle

import joblib
import numpy as np


def save(path, value):
    with open(path, "wb") as file:
        pickle.dump(value, file)
    joblib.dump(value, path)
    np.save(path, value, allow_pickle=True)
    return pickle.dumps(value)
