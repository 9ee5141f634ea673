# expect: SRC315@8
import lmdb
from torch.utils.data import Dataset


class Records(Dataset):
    def __init__(self, root):
        self.env = lmdb.open(root, readonly=True, lock=False)
        with self.env.begin() as txn:
            self.n = int(txn.get(b"n"))

    def __getitem__(self, i):
        return self._read(str(i).encode())

    def _read(self, key):
        with self.env.begin(write=False) as txn:
            return txn.get(key)
