"""Spot checks: products and convolutions are tested by checksums while they are computed."""

from everybit.guard.spot.check import SpotCheck

__all__ = ["SpotCheck"]
