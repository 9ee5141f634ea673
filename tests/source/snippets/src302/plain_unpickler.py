# expect: SRC302@6
import pickle


def read(file):
    return pickle.Unpickler(file).load()
