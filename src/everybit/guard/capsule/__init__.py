"""Capsules: the failing part of a model alone, with all it began with, to be computed elsewhere."""

from everybit.guard.capsule.capture import capture_capsule
from everybit.guard.capsule.content import Capsule
from everybit.guard.capsule.files import find_capsules, read_capsule, write_capsule
from everybit.guard.capsule.keeping import Attribution
from everybit.guard.capsule.trying import Attempt, Comparison, try_capsule

__all__ = [
    "Attempt",
    "Attribution",
    "Capsule",
    "Comparison",
    "capture_capsule",
    "find_capsules",
    "read_capsule",
    "try_capsule",
    "write_capsule",
]
