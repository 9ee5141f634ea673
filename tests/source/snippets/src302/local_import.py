# expect: SRC302@6
def read(path):
    from pickle import load

    with open(path, "rb") as file:
        return load(file)


def other(path, load):
    return load(path)
