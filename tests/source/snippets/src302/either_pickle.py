# expect: SRC302@9
try:
    import cPickle as pickle
except ImportError:
    import pickle


def read(path):
    return pickle.load(open(path, "rb"))
