"""The closure form: whole steps, computed again where they are tested or have gone wrong."""

from everybit.guard.stepping.count import StepCount
from everybit.guard.stepping.stepping import Stepping

__all__ = ["StepCount", "Stepping"]
