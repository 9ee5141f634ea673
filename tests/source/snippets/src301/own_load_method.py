# expect: none  (a class of this file, named torch, is not the library)
class Config:
    @classmethod
    def load(cls, path, weights_only=None):
        return cls()


class Torch:
    @staticmethod
    def load(path):
        return path


torch = Torch()
first = Config.load("a.cfg")
second = torch.load("a.pt")
