# expect: SRC301@7, SRC301@8
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import FileSystemReader


def resume(state, folder):
    dcp.load(state, checkpoint_id=folder)
    dcp.load(state, storage_reader=FileSystemReader(folder))
