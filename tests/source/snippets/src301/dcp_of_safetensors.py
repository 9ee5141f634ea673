# expect: none  (the reader reads safetensors)
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import HuggingFaceStorageReader


def resume(state, folder):
    reader = HuggingFaceStorageReader(folder)
    dcp.load(state, storage_reader=reader)
