# expect: SRC302@6
import numpy as np
import pickle

def read(path):
    return pickle.load(open(path, "rb"))

def array(path, objects=False):
    return np.load(path, allow_pickle=objects)
