# expect: none  (every other name is refused first)
import importlib
import pickle

ALLOWED = frozenset({"collections.OrderedDict"})


class SafeUnpickler(pickle.Unpickler):
    def find_class(self, module, name):
        if f"{module}.{name}" not in ALLOWED:
            raise pickle.UnpicklingError(name)
        return super().find_class(module, name)
