# expect: SRC315@10, SRC315@19
import tarfile
import zipfile

from torch.utils.data import DataLoader, Dataset


class Zipped(Dataset):
    def __init__(self, path):
        self.archive = zipfile.ZipFile(path)
        self.names = self.archive.namelist()

    def __getitem__(self, i):
        return self.archive.read(self.names[i])


class Tarred(Dataset):
    def __init__(self, path):
        self.tar = tarfile.open(path)
        self.members = self.tar.getmembers()

    def __getitem__(self, i):
        return self.tar.extractfile(self.members[i]).read()


def build(path, workers):
    return DataLoader(Zipped(path), num_workers=workers), DataLoader(Tarred(path), num_workers=workers)
