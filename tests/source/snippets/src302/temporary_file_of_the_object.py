# expect: none  (a temporary file that the same object made and wrote)
import pickle
import tempfile
from pathlib import Path


class CachedOnDisk:
    def __init__(self, records):
        self.records = records
        self.path = Path(tempfile.mkstemp()[1])

    def write(self):
        with open(self.path, "wb") as file:
            pickle.dump(self.records, file)

    def read(self):
        with open(self.path, "rb") as file:
            return pickle.load(file)
