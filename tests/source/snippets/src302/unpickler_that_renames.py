# expect: SRC302@5
import pickle


class RenamingUnpickler(pickle.Unpickler):
    def find_class(self, module, name):
        if module.startswith("old_package"):
            module = module.replace("old_package", "new_package")
        return super().find_class(module, name)


def read(file):
    return RenamingUnpickler(file).load()
