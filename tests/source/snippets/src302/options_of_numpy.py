# expect: SRC302@10, SRC302@11
from functools import partial

import numpy as np

objects = partial(np.load, allow_pickle=True)


def read(path, strict):
    a = objects(path)
    b = np.load(path, **({"allow_pickle": True} if not strict else {}))
    c = np.load(path, **({"allow_pickle": False} if strict else {}))
    return a, b, c
