"""What is far outside a band: the common ground of the sensors on loss and gradient norm."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from everybit.detect.band import Place

#: Robust z of the loss above which it is a spike.
LOSS_Z: Final = 6.0
#: And of its logarithm: for losses with a heavy tail.
LOSS_LOG_Z: Final = 4.5
#: Times the moving average above which the loss is a spike.
LOSS_TIMES: Final = 10.0
#: Robust z of the log gradient norm above which it is a spike.
GRADIENT_Z: Final = 10.0
#: Values before a multiple of the moving average means anything.
ENOUGH_FOR_AVERAGE: Final = 16
#: A heavy tail is part of the band: a spike is this much further out than the furthest of it.
_BEYOND: Final = 2.0


def why_loss_spike(place: Place, *, start: float) -> str:
    """Say why a loss is a spike, "" where it is none.

    Args:
        place: Where it stands to its band.
        start: The largest absolute loss at the beginning of the phase: what is small beside it is
            noise of a loss that has all but vanished.
    """
    excess = place.value - place.median
    if excess < 0.02 * start:
        return ""
    if (
        place.count >= ENOUGH_FOR_AVERAGE
        and place.average > 0
        and place.value > LOSS_TIMES * max(place.average, place.highest / 4)
        and place.value > 0.05 * start
    ):
        return f"{place.value / place.average:.3g} times its moving average"
    if place.z > LOSS_Z and excess > _BEYOND * (place.highest - place.median):
        return f"robust z {place.z:.3g} over {place.count} steps"
    return ""


def why_gradient_spike(place: Place, *, largest: float) -> str:
    """Say why a log gradient norm is a spike, "" where it is none.

    Args:
        place: Where it stands to its band.
        largest: Log of the largest norm at the beginning of the phase.
    """
    excess = place.value - place.median
    if place.value < largest + math.log(0.05):
        return ""
    if place.z > GRADIENT_Z and excess > _BEYOND * (place.highest - place.median):
        return f"robust z {place.z:.3g} of its logarithm over {place.count} steps"
    return ""
