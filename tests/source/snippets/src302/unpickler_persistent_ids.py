# expect: SRC302@5
from pickle import Unpickler


class StorageUnpickler(Unpickler):
    def persistent_load(self, pid):
        return self.storages[pid]
