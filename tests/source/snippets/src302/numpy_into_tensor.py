# expect: SRC302@5
import numpy as np
import torch

features = torch.from_numpy(np.load("features.npy", allow_pickle=True))
