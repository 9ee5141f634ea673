"""Faults on purpose: draw, write into memory, know exactly what changed, take back.

Memory: `draw_fault` makes a `Fault`, `apply` or `planted` writes one now, a `Campaign` at its
moment in a running loop. Computing: a `ComputedCampaign` makes the results of a `ComputedFault`
wrong when they are computed; `list_computed_targets` tells what a model computes. Only drills and
the api use this package.
"""

from everybit.core.boundary import Boundary
from everybit.core.computed_fault import ComputedFault, ComputedKind
from everybit.core.fault import Fault, Pattern, TargetKind
from everybit.inject.campaign import Campaign
from everybit.inject.computed import ComputedCampaign
from everybit.inject.computed_targets import ComputedListing, ComputedTarget, list_computed_targets
from everybit.inject.draw import draw_fault
from everybit.inject.injection import Injection, Undone, apply, planted
from everybit.inject.targets import Target, find_target, list_targets
from everybit.inject.wrong_result import Hit

__all__ = [
    "Boundary",
    "Campaign",
    "ComputedCampaign",
    "ComputedFault",
    "ComputedKind",
    "ComputedListing",
    "ComputedTarget",
    "Fault",
    "Hit",
    "Injection",
    "Pattern",
    "Target",
    "TargetKind",
    "Undone",
    "apply",
    "draw_fault",
    "find_target",
    "list_computed_targets",
    "list_targets",
    "planted",
]
