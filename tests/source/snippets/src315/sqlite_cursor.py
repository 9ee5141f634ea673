# expect: SRC315@9
import sqlite3

from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __init__(self, path):
        self.connection = sqlite3.connect(path)
        self.cursor = self.connection.cursor()

    def __getitem__(self, i):
        return self.cursor.execute("select x from t where id = ?", (i,)).fetchone()


loader = DataLoader(Rows("a.db"), num_workers=1)
