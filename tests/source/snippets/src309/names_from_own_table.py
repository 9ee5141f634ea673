# expect: none  (names are looked up in a table of the project's own)
from argparse import Namespace
from collections import OrderedDict

import torch

TABLE = {"argparse.Namespace": Namespace, "collections.OrderedDict": OrderedDict}


def load(path):
    needed = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    torch.serialization.add_safe_globals([TABLE[name] for name in needed if name in TABLE])
    return torch.load(path)
