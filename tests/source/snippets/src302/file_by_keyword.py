# expect: SRC302@17
import numpy as np


def twice(path, values):
    np.save(path, values)
    return np.load(allow_pickle=True, file=path)


def copied(path, values):
    np.save(file=path, arr=values)
    return np.load(path, allow_pickle=True)


def other(path, values):
    np.save("other.npy", values)
    return np.load(allow_pickle=True, file=path)
