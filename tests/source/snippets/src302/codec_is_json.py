# expect: none
import json


class Store:
    codec = json

    def read(self, path):
        with open(path, "rb") as file:
            return self.codec.load(file)
