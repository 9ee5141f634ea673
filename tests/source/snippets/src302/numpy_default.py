# expect: none  (allow_pickle is off)
import numpy as np

a = np.load("a.npy")
b = np.load("b.npz", mmap_mode="r", allow_pickle=False)
c = np.loadtxt("c.txt")
d = np.fromfile("d.bin", dtype=np.float32)
