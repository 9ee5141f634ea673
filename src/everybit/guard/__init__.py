"""The Guard: watch a training loop, test what it carries, act on what is found."""

from everybit.guard.folder import default_folder
from everybit.guard.guard import Guard

__all__ = ["Guard", "default_folder"]
