# expect: none  (names are never looked up)
import pickle


class Placeholder:
    def __init__(self, *args):
        self.args = args


class StructureUnpickler(pickle.Unpickler):
    def find_class(self, module, name):
        return Placeholder
