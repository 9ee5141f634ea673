# expect: SRC302@9
import pickle

class Store:
    codec = pickle

    def read(self, path):
        with open(path, "rb") as file:
            return self.codec.load(file)
