"""Activation checkpointing computes twice what it throws away: the two are compared."""

from everybit.guard.recompute.check import RecomputeCheck

__all__ = ["RecomputeCheck"]
