"""Faults on purpose: draw, write into memory, know exactly what changed, take back.

`draw_fault` makes a `Fault`, `apply` or `planted` writes one now, a `Campaign` at its moment in a
running loop. Only drills and the api use this package.
"""

from everybit.core.boundary import Boundary
from everybit.core.fault import Fault, Pattern, TargetKind
from everybit.inject.campaign import Campaign
from everybit.inject.draw import draw_fault
from everybit.inject.injection import Injection, Undone, apply, planted
from everybit.inject.targets import Target, find_target, list_targets

__all__ = [
    "Boundary",
    "Campaign",
    "Fault",
    "Injection",
    "Pattern",
    "Target",
    "TargetKind",
    "Undone",
    "apply",
    "draw_fault",
    "find_target",
    "list_targets",
    "planted",
]
