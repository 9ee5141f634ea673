# expect: none  (the state that goes to a worker has no handle)
import zipfile

from torch.utils.data import DataLoader, Dataset, get_worker_info


class Zipped(Dataset):
    def __init__(self, path):
        self.path = path
        self.archive = zipfile.ZipFile(path)
        self.owner = None

    def __getitem__(self, i):
        info = get_worker_info()
        if info is not None and self.owner != info.id:
            self.archive = zipfile.ZipFile(self.path)
            self.owner = info.id
        return self.archive.read(str(i))


loader = DataLoader(Zipped("a.zip"), num_workers=4)
