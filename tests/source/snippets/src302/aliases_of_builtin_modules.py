# expect: SRC302@8, SRC302@9, SRC302@10, SRC302@11, SRC302@12, SRC302@13
import _pickle
from multiprocessing.reduction import ForkingPickler

import pickle as pkl
import numpy as np

a = _pickle.loads(open("a.pkl", "rb").read())
b = pkl.Unpickler(open("a.pkl", "rb")).load()
c = ForkingPickler.loads(open("a.pkl", "rb").read())
d = getattr(pkl, "loads")(open("a.pkl", "rb").read())
e = np.load("a.npy", None, True)
f = list(map(pkl.loads, open("a.pkls", "rb")))
