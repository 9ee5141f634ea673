# expect: none
def load(path, weights_only=False):
    return open(path).read()
