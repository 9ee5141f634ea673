# expect: none  (a module of the project, not the library)
from .formats import pickle


def read(path):
    return pickle.load(path)
