"""One trial of a drill: what is broken, where and when; and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Self

from everybit.core.computed_fault import ComputedKind
from everybit.core.fault import Pattern, TargetKind

if TYPE_CHECKING:
    from collections.abc import Mapping


class Site(StrEnum):
    """Where a fault strikes. `clean` is a trial without one, in which every alarm is false."""

    CLEAN = "clean"
    WEIGHT = "weight"
    BUFFER = "buffer"
    MOMENT = "moment"
    GRADIENT = "gradient"
    ACTIVATION = "activation"
    INPUT_GRADIENT = "input-gradient"
    PARAMETER_GRADIENT = "parameter-gradient"
    SAVED = "saved-activation"
    LOSS = "loss"
    BATCH = "batch"
    RNG = "rng"
    CHECKPOINT = "checkpoint"
    SENT = "gradient-sent"
    RECEIVED = "gradient-received"
    REDUCTION = "reduction"
    REPLICA = "replica"
    RANK = "rank"


class Shape(StrEnum):
    """How a fault looks: its pattern, and how long it lasts."""

    NONE = "none"
    FLIP = "flip"
    MULTI_BIT = "multi-bit"
    STRIDED_16 = "strided-16"
    STRIDED_32 = "strided-32"
    STRIDED_64 = "strided-64"
    TILE = "tile"
    STRAY_WRITE = "stray-write"
    ZERO = "zero"
    STALE = "stale"
    STUCK = "stuck"
    INTERMITTENT = "intermittent"

    @property
    def pattern(self) -> Pattern:
        """The pattern of the damage."""
        if self.name.startswith("STRIDED"):
            return Pattern.STRIDED
        return Pattern.FLIP if self in (Shape.INTERMITTENT, Shape.NONE) else Pattern(self.value)

    @property
    def num_elements(self) -> int | None:
        """How many elements, where that is fixed."""
        return int(self.value[-2:]) if self.pattern is Pattern.STRIDED else None


#: Sites in memory.
CARRIED: Final = {
    Site.WEIGHT: TargetKind.WEIGHT,
    Site.BUFFER: TargetKind.BUFFER,
    Site.MOMENT: TargetKind.STATE,
    Site.GRADIENT: TargetKind.GRADIENT,
}

#: Sites in computing.
COMPUTED: Final = {
    site: ComputedKind(site.value)
    for site in (
        Site.ACTIVATION,
        Site.INPUT_GRADIENT,
        Site.PARAMETER_GRADIENT,
        Site.SAVED,
        Site.LOSS,
        Site.BATCH,
        Site.RNG,
    )
}

#: Sites of a job on several ranks: on one of them, or in what all of them get.
RANKED: Final = (Site.SENT, Site.RECEIVED, Site.REDUCTION, Site.REPLICA, Site.RANK)

_CLUSTERS = (
    Shape.FLIP,
    Shape.MULTI_BIT,
    Shape.STRIDED_16,
    Shape.STRIDED_32,
    Shape.STRIDED_64,
    Shape.TILE,
    Shape.STRAY_WRITE,
    Shape.ZERO,
)
_LASTING = (Shape.STUCK, Shape.INTERMITTENT)

#: The shapes that a site can take, in the order of the table.
SHAPES: Final[dict[Site, tuple[Shape, ...]]] = {
    Site.CLEAN: (Shape.NONE,),
    Site.WEIGHT: (*_CLUSTERS, Shape.STALE, Shape.STUCK),
    Site.BUFFER: (*_CLUSTERS, Shape.STALE, Shape.STUCK),
    Site.MOMENT: (*_CLUSTERS, Shape.STALE, Shape.STUCK),
    Site.GRADIENT: _CLUSTERS,
    Site.ACTIVATION: (*_CLUSTERS, Shape.STALE, *_LASTING),
    Site.INPUT_GRADIENT: (*_CLUSTERS, *_LASTING),
    Site.PARAMETER_GRADIENT: (*_CLUSTERS, *_LASTING),
    Site.SAVED: _CLUSTERS,
    Site.LOSS: (Shape.FLIP,),
    Site.BATCH: (Shape.FLIP, Shape.STRAY_WRITE, Shape.ZERO),
    Site.RNG: (Shape.FLIP, Shape.STRAY_WRITE),
    Site.CHECKPOINT: (Shape.FLIP, Shape.STRAY_WRITE, Shape.ZERO),
    Site.SENT: (Shape.FLIP, Shape.ZERO),
    Site.RECEIVED: (Shape.FLIP, Shape.STRIDED_16, Shape.ZERO),
    Site.REDUCTION: (Shape.FLIP, Shape.STRIDED_16, Shape.ZERO),
    Site.REPLICA: (Shape.FLIP, Shape.STRIDED_16, Shape.ZERO),
    Site.RANK: (Shape.STUCK,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What is tried; with the same trial the same bits are hit.

    Attributes:
        subject: The model, or the script.
        dtype: Of what is hit.
        site: Where.
        shape: How.
        step: The step in which the fault is there first; of a clean trial, how many steps it has.
        seed: Decides which tensor, elements and bits.
        index: Which one of its cell it is.
        ranks: Processes that train together.
    """

    subject: str
    dtype: str
    site: Site
    shape: Shape
    step: int
    seed: int
    index: int
    ranks: int = 1

    @property
    def key(self) -> str:
        """Its name in a file of results."""
        name = f"{self.subject}/{self.dtype}/{self.site}/{self.shape}/{self.index}"
        return name if self.ranks == 1 else f"{name}/{self.ranks}"

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild a trial from `to_json`'s form."""
        plain = dict(data)
        plain["site"], plain["shape"] = Site(plain["site"]), Shape(plain["shape"])
        return cls(**plain)


class Fate(StrEnum):
    """What became of a fault.

    `caught`: a finding of severity warning or error. `noted`: no more than a note. `missed`: bits
    of the run differ, and nobody said a word. `harmless`: no bit of any loss, gradient, weight,
    buffer or moment differs, and nobody said a word. `raised`: the program ended with an error of
    its own. `absent`: the fault could not be planted, or what it forces was there already.
    `untried`: the trial's process failed, which tells nothing. `clean` and `alarm` are those of
    trials without a fault.
    """

    CAUGHT = "caught"
    NOTED = "noted"
    MISSED = "missed"
    HARMLESS = "harmless"
    RAISED = "raised"
    ABSENT = "absent"
    UNTRIED = "untried"
    CLEAN = "clean"
    ALARM = "alarm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a trial.

    Attributes:
        trial: What was tried.
        fate: What became of it.
        rules: Rules of the findings, the first one first; each once.
        steps_after: Steps from the fault to the first finding.
        placed: Whether a finding names the tensor or module that was hit.
        exact: Whether it names every element that was hit, and no other.
        same_end: Whether the run ended with the bits of the undisturbed one.
        where: The place that was hit, as a finding would name it.
        num_elements: Elements changed, over all hits.
        loss: Loss of the last step; None where it is not a number, or was never reached.
        clean_loss: The same of the undisturbed run.
        steps: Steps trained.
        seconds: Time of these steps.
        bare_seconds: Time of as many without a Guard; of clean trials only.
        detail: Why it could not be, or what was raised.
    """

    trial: Trial
    fate: Fate
    rules: tuple[str, ...] = ()
    steps_after: int | None = None
    placed: bool | None = None
    exact: bool | None = None
    same_end: bool = False
    where: Mapping[str, Any] | None = None
    num_elements: int = 0
    loss: float | None = None
    clean_loss: float | None = None
    steps: int = 0
    seconds: float = 0.0
    bare_seconds: float | None = None
    detail: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            f.name: self.trial.to_json() if f.name == "trial" else _plain(getattr(self, f.name))
            for f in fields(self)
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild an outcome from `to_json`'s form."""
        plain = dict(data)
        plain["trial"] = Trial.from_json(plain["trial"])
        plain["fate"] = Fate(plain["fate"])
        plain["rules"] = tuple(plain["rules"])
        return cls(**plain)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, StrEnum) else value
