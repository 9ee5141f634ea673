# expect: SRC302@10
import pickle

import torch.distributed as dist


def labels(path, counts):
    dist.all_reduce(counts)
    with open(path, "rb") as file:
        return pickle.load(file)
