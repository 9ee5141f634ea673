# expect: SRC301@7
from base import Checkpointed


class Trainer(Checkpointed):
    def resume(self, path):
        return self._read(path, safe=False)

    def look(self, path):
        return self._read(path)
