# expect: SRC302@7
import pickle


def vocabulary(path):
    with open(path, "rb") as file:
        return pickle.load(file)
