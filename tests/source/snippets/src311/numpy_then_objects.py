# expect: SRC311@9
import numpy as np


def load(path):
    try:
        return np.load(path)
    except ValueError:
        return np.load(path, allow_pickle=True)
