# expect: SRC302@8
try:
    import cPickle as pickle
except ImportError:
    import pickle

with open("labels.pkl", "rb") as file:
    labels = pickle.load(file, encoding="latin1")
