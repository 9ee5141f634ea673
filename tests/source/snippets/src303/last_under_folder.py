# expect: SRC303@8, SRC303@10
import os

import torch


def save(state, folder, is_best):
    torch.save(state, os.path.join(folder, "latest.pth"))
    path = folder + "/checkpoint_last.pth"
    torch.save(state, path)
