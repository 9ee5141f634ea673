"""What the program has set: optimizers, modes, layers and precision, on record as it changes."""

from everybit.guard.configuration.check import ConfigurationCheck

__all__ = ["ConfigurationCheck"]
