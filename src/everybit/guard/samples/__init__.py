"""Sample accounting: what loaders deliver, who made it, and where a resumed run goes on."""

from everybit.guard.samples.check import SampleCheck
from everybit.guard.samples.data import Data
from everybit.guard.samples.delivery import Delivery

__all__ = ["Data", "Delivery", "SampleCheck"]
