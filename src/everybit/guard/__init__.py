"""The Guard: watch a training loop, test what it carries, act on what is found."""

from everybit.guard.guard import Guard
from everybit.ledger.default_folder import default_folder

__all__ = ["Guard", "default_folder"]
