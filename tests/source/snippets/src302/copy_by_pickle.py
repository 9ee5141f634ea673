# expect: none  (the bytes are made in the same expression)
import pickle


def deep_copy(value):
    return pickle.loads(pickle.dumps(value, protocol=-1))
