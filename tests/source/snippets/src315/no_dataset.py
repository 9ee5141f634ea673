# expect: none  (a reader that is no dataset)
class Reader:
    def __init__(self, path):
        self.file = open(path, "rb")

    def __getitem__(self, i):
        self.file.seek(i)
        return self.file.read(1)
