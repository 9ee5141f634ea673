"""everybit: find, place, explain and undo silent data corruption in PyTorch."""

from everybit._version import __version__

__all__ = ["__version__"]
