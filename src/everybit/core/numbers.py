"""Numbers of one step: what the judges of numerics see, live and over a run's record alike."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from everybit.core.observation import StepRecord

#: No gradient arrived, or nothing was measured.
NOTHING = -1.0


class Source(StrEnum):
    """What held the first non-finite value."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    INPUT = "input"
    OPERATION = "operation"
    GRADIENT = "gradient"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where non-finite values begin.

    Attributes:
        source: What held the first of them.
        parameter: Label of the bad parameter or buffer; beside an operation, of the nearest
            parameter that its value passed last.
        module: Qualified name of the module that owns it ("" for the root itself).
        operation: Name of the operation, as autograd knows it (`sqrt`).
        value: `nan`, `inf` or `-inf`.
        num_bad: Non-finite elements there.
        num_elements: Elements there.
        neighbour: The nearest parameter that is finite, where the order says something.
        detail: More, in words.
    """

    source: Source
    parameter: str | None = None
    module: str | None = None
    operation: str | None = None
    value: str = "nan"
    num_bad: int = 0
    num_elements: int = 0
    neighbour: str | None = None
    detail: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the form of a finding's evidence."""
        data = {
            "source": str(self.source),
            "parameter": self.parameter,
            "module": self.module,
            "operation": self.operation,
            "value": self.value,
            "num_bad": self.num_bad,
            "num_elements": self.num_elements,
            "finite_neighbour": self.neighbour,
            "detail": self.detail,
        }
        return {key: value for key, value in data.items() if value not in (None, "")}


class Stillness(StrEnum):
    """In which way an update is missing, or one too many."""

    UNMOVED = "unmoved"  # The optimizer's own formula says that it had to move.
    UNMOVED_LONG = "unmoved for long"  # The others of its group moved, again and again.
    MOVED_ALONE = "moved without a gradient"
    RATE_ZERO = "learning rate fell to zero"
    REPLACED = "not the optimizer's"  # The optimizer holds a tensor the model has no more.


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """A parameter that moved otherwise than its gradient says.

    Attributes:
        parameter: Its label.
        kind: In which way.
        since: First step of it.
        detail: What the optimizer's formula or the group says, in words.
        evidence: Numbers, JSON-ready.
    """

    parameter: str
    kind: Stillness
    since: int
    detail: str = ""
    evidence: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferNumbers:
    """A float buffer that a step changes.

    Attributes:
        name: Its label.
        kind: `mean` or `variance` of a normalisation layer, `other` else.
        norm: L2 norm after the step.
        size: Elements.
        negative: A variance below zero is in it.
        finite: No NaN in it, and no infinity where none was at the start.
        was_finite: So at the start of the run.
    """

    name: str
    kind: str
    norm: float
    size: int
    negative: bool = False
    finite: bool = True
    was_finite: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentFault:
    """Optimizer state that cannot be.

    Attributes:
        parameter: Label of the parameter.
        tensor: Name of the state tensor (`exp_avg_sq`).
        what: What is wrong, in words.
        exact: Confirmed element by element.
        elements: The first elements that are impossible.
        num_bad: How many there are.
        evidence: Numbers, JSON-ready.
    """

    parameter: str
    tensor: str
    what: str
    exact: bool = True
    elements: tuple[int, ...] = ()
    num_bad: int = 0
    evidence: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A parameter whose values were replaced between two updates.

    Attributes:
        parameter: Its label.
        before: L2 norm that the last update left.
        after: L2 norm at the start of the next one.
        cosine: Cosine of the angle between a sample of the values before and after; NaN where
            too few were sampled.
    """

    parameter: str
    before: float
    after: float
    cosine: float = math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class StepNumbers:
    """Numbers of one finished or skipped update; parts are empty where they were not measured.

    Attributes:
        step: Updates finished or skipped before this one.
        optimizer: Name of the optimizer, "" with none.
        skipped: The update did not happen.
        losses: What `backward` received since the last step, unscaled.
        scale: Scale of the GradScaler that this step used; NaN with none.
        scale_after: And afterwards, where known.
        rates: Learning rate of each parameter group.
        names: Labels of the optimizer's parameters.
        matrices: Which of them have two dimensions or more.
        gradient_norms: L2 norms, one a name; `NOTHING` where none arrived.
        weight_norms: L2 norms after the update, one a name; may be empty.
        update_norms: Estimated L2 norms of the update, one a name; may be empty.
        gradient_norm: L2 norm of all gradients; NaN where not measured or not finite.
        weight_norm: And of all weights.
        update_norm: And of the whole update, estimated.
        loss_origin: Where a non-finite loss comes from.
        gradient_origin: Where a non-finite gradient comes from.
        movements: Parameters that moved otherwise than they should.
        buffers: Float buffers that change.
        moments: Optimizer state that cannot be.
        replaced: Parameters that something else wrote to since the last update.
        rewritten: Most parameters were: a checkpoint was loaded.
    """

    step: int
    optimizer: str = ""
    skipped: bool = False
    losses: tuple[float, ...] = ()
    scale: float = math.nan
    scale_after: float = math.nan
    rates: tuple[float, ...] = ()
    names: tuple[str, ...] = ()
    matrices: tuple[bool, ...] = ()
    gradient_norms: tuple[float, ...] = ()
    weight_norms: tuple[float, ...] = ()
    update_norms: tuple[float, ...] = ()
    gradient_norm: float = math.nan
    weight_norm: float = math.nan
    update_norm: float = math.nan
    loss_origin: Origin | None = None
    gradient_origin: Origin | None = None
    movements: tuple[Movement, ...] = ()
    buffers: tuple[BufferNumbers, ...] = ()
    moments: tuple[MomentFault, ...] = ()
    replaced: tuple[Replacement, ...] = ()
    rewritten: bool = False

    @property
    def loss(self) -> float:
        """The mean loss of the step; NaN with none."""
        return sum(self.losses) / len(self.losses) if self.losses else math.nan

    @property
    def rate(self) -> float:
        """The highest learning rate; NaN with none."""
        return max(self.rates, default=math.nan)

    @property
    def bad_gradients(self) -> tuple[str, ...]:
        """Names of the parameters whose gradient norm is not finite."""
        pairs = zip(self.names, self.gradient_norms, strict=False)
        return tuple(name for name, norm in pairs if not math.isfinite(norm))

    @property
    def bad_weights(self) -> tuple[str, ...]:
        """Names of the parameters that are not finite after the update."""
        pairs = zip(self.names, self.weight_norms, strict=False)
        return tuple(name for name, norm in pairs if not math.isfinite(norm))

    def scalars(self) -> dict[str, float]:
        """Return the numbers for timelines and trackers; those not measured are left out."""
        found = {
            "grad_norm": self.gradient_norm,
            "weight_norm": self.weight_norm,
            "update_norm": self.update_norm,
            "scale": self.scale,
            "lr": self.rate,
        }
        measured = {"grad_norm": self.gradient_norms, "weight_norm": self.weight_norms}
        return {
            key: value for key, value in found.items() if not math.isnan(value) or measured.get(key)
        }


def total_norm(norms: Iterable[float]) -> float:
    """Return the L2 norm over tensors from their norms; those below 0 are left out.

    >>> total_norm([3.0, NOTHING, 4.0])
    5.0
    """
    return math.sqrt(sum(norm * norm for norm in norms if not norm < 0))


def numbers_of(record: StepRecord) -> StepNumbers:
    """Return the numbers that a step's record keeps: for judging a run afterwards."""
    scalars = record.scalars
    rate = scalars.get("lr", math.nan)
    return StepNumbers(
        step=record.step,
        optimizer=record.optimizer,
        skipped=record.skipped,
        losses=record.losses,
        scale=scalars.get("scale", math.nan),
        rates=() if math.isnan(rate) else (rate,),
        gradient_norm=scalars.get("grad_norm", math.nan),
        weight_norm=scalars.get("weight_norm", math.nan),
        update_norm=scalars.get("update_norm", math.nan),
    )
