# expect: none  (only names on a list are let through)
import pickle

ALLOWED = {("collections", "OrderedDict"), ("torch._utils", "_rebuild_tensor_v2")}


class SafeUnpickler(pickle.Unpickler):
    def find_class(self, module, name):
        if (module, name) in ALLOWED:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed")


def read(file):
    return SafeUnpickler(file).load()
