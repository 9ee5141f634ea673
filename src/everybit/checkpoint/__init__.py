"""Tensors to files and back: digests of live values, loading with proof, saving with proof."""

from everybit.checkpoint.arrival import Arrival
from everybit.checkpoint.check_load import check_load
from everybit.checkpoint.digests import digest
from everybit.checkpoint.loading import load_into
from everybit.checkpoint.record import Record
from everybit.checkpoint.restoring import restore
from everybit.checkpoint.saving import save
from everybit.checkpoint.vault import Vault

__all__ = [
    "Arrival",
    "Record",
    "Vault",
    "check_load",
    "digest",
    "load_into",
    "restore",
    "save",
]
