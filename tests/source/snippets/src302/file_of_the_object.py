# expect: SRC302@15
import pickle


class Cached:
    def __init__(self, path):
        self.path = path

    def write(self, records):
        with open(self.path, "wb") as file:
            pickle.dump(records, file)

    def read(self):
        with open(self.path, "rb") as file:
            return pickle.load(file)
