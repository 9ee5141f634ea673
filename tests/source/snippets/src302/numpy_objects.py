# expect: SRC302@4, SRC302@5
import numpy as np

boxes = np.load("boxes.npy", allow_pickle=True)
names = np.load("names.npz", None, True)["names"]
