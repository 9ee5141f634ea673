# expect: none  (saving runs nothing)
import torch.distributed.checkpoint as dcp


def save(state, folder):
    dcp.save(state, checkpoint_id=folder)
