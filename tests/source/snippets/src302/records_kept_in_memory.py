# expect: none  (the object pickled the bytes itself)
import pickle

import numpy as np


class Records:
    """Pickled once, so that forked workers share the pages."""

    def __init__(self, records):
        parts = [np.frombuffer(pickle.dumps(each, protocol=4), dtype=np.uint8) for each in records]
        self.ends = np.cumsum([len(part) for part in parts])
        self.data = np.concatenate(parts)

    def __getitem__(self, index):
        start = 0 if index == 0 else self.ends[index - 1]
        view = memoryview(self.data[start : self.ends[index]])
        return pickle.loads(view)
