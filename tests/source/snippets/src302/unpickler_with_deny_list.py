# expect: SRC302@7
import pickle

FORBIDDEN = {"os", "subprocess", "builtins"}


class CarefulUnpickler(pickle.Unpickler):
    def find_class(self, module, name):
        if module in FORBIDDEN:
            raise pickle.UnpicklingError(module)
        return super().find_class(module, name)
