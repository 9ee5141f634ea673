"""One step looked at closely: every operation with the bits that it reads and gives."""

from everybit.guard.magnify.magnifier import EnoughError, Magnifier, Wanted

__all__ = ["EnoughError", "Magnifier", "Wanted"]
