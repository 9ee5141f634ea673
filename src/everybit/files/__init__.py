"""Model files at rest: formats read without torch, digests, manifests, and what changed.

sniff -> structure -> tensors       one file: what it is, what it holds, what cannot be right
seal  -> manifest  -> verify        digests of files and tensors, and where bytes differ
"""

from everybit.files.pickles.plain_values import read_plain_values
from everybit.files.reading import read_tensor_bytes, read_tensors
from everybit.files.tensor import FileFormat, FileTensor, FileTensors

__all__ = [
    "FileFormat",
    "FileTensor",
    "FileTensors",
    "read_plain_values",
    "read_tensor_bytes",
    "read_tensors",
]
