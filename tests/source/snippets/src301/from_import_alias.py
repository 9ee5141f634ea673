# expect: SRC301@6
from torch import load as read_checkpoint


def restore(path):
    return read_checkpoint(path, None, weights_only=False)
