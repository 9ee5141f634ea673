"""Faults of computing as values: which result is wrong, when, and how often.

A `Fault` (core/fault.py) names elements of a tensor that lies in memory. What a kernel is about to
write does not lie anywhere yet, and its shape may change from batch to batch: a `ComputedFault`
names the computation, and its elements are drawn from its seed when the result is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Self

from everybit.core.fault import Pattern
from everybit.core.link import Link

if TYPE_CHECKING:
    from collections.abc import Mapping


class ComputedKind(StrEnum):
    """What is computed wrong, or handed on wrong within a step.

    `activation`: what a module's forward returns. `input-gradient` and `parameter-gradient`: what
    its backward computes for its inputs, or for one of its parameters, before anything is
    accumulated or reduced. `saved-activation`: what autograd kept for the backward, damaged after
    the forward has used it. `loss`: what `backward` is called on. `batch`: what the root module is
    given. `rng`: the state of torch's random generator at the root's call.
    """

    ACTIVATION = "activation"
    INPUT_GRADIENT = "input-gradient"
    PARAMETER_GRADIENT = "parameter-gradient"
    SAVED = "saved-activation"
    LOSS = "loss"
    BATCH = "batch"
    RNG = "rng"


#: Kinds that a module's call takes part in; the others belong to the root's call or the loss.
OF_MODULES: Final = frozenset(
    {
        ComputedKind.ACTIVATION,
        ComputedKind.INPUT_GRADIENT,
        ComputedKind.PARAMETER_GRADIENT,
        ComputedKind.SAVED,
    }
)

_LINKS: Final = {
    ComputedKind.ACTIVATION: Link.FORWARD,
    ComputedKind.LOSS: Link.LOSS,
    ComputedKind.BATCH: Link.BATCH,
    ComputedKind.RNG: Link.RNG,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedFault:
    """A wrong result of one computation, once or for as long as it lasts.

    Attributes:
        kind: What is wrong.
        module: Qualified name of the module within its root; "" for the root itself.
        parameter: For `parameter-gradient`: the state_dict key; "" takes any of the module's.
        tensor: Which of several tensors (a tuple's, a dictionary's) is hit, in order; drawn where
            None.
        pattern: The shape of the damage.
        num_elements: How many elements; drawn where None. A smaller tensor is hit as far as it
            goes.
        bits: The bits hit in each element; drawn where None.
        stride: Of `strided`: every how-many-th element in memory order; drawn where None.
        step: The step, counted as in findings.
        call: Which call of the module (of the root for `batch` and `rng`, of `backward` for
            `loss`) in that step, from 0.
        lasts: Whether it is there again at every later call, repeated ones too: a device that is
            always wrong, not one that erred once.
        last_step: Of one that lasts: its last step; None: until the end.
        probability: Of one that lasts: how likely each call is hit.
        rank: The rank whose device errs; None: every one.
        seed: What is drawn follows from it and from the tensor's shape and dtype.
    """

    kind: ComputedKind
    module: str = ""
    parameter: str = ""
    tensor: int | None = None
    pattern: Pattern = Pattern.FLIP
    num_elements: int | None = None
    bits: tuple[int, ...] | None = None
    stride: int | None = None
    step: int = 0
    call: int = 0
    lasts: bool = False
    last_step: int | None = None
    probability: float = 1.0
    rank: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 < self.probability <= 1.0:
            raise ValueError("a probability lies above 0 and is at most 1")
        if not self.lasts and (self.last_step is not None or self.probability < 1.0):
            raise ValueError("last_step and probability are of faults that last")
        if self.pattern is Pattern.STUCK and not self.lasts:
            raise ValueError("a stuck fault lasts")
        if self.pattern is Pattern.STALE and self.kind is not ComputedKind.ACTIVATION:
            raise ValueError("only what a forward writes can be stale")
        if self.step < 0 or self.call < 0:
            raise ValueError("step and call count from 0")

    @property
    def link(self) -> Link:
        """The link of the chain that breaks."""
        return _LINKS.get(self.kind, Link.GRAD)

    def is_due(self, step: int, call: int) -> bool:
        """Whether it is there at a call, counted within its step; chance is not asked here.

        >>> once = ComputedFault(kind=ComputedKind.ACTIVATION, module="fc", step=3)
        >>> once.is_due(3, 0), once.is_due(3, 1), once.is_due(4, 0)
        (True, False, False)
        """
        if not self.lasts:
            return (step, call) == (self.step, self.call)
        return self.step <= step and (self.last_step is None or step <= self.last_step)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            name: getattr(self, name)
            if name not in ("kind", "pattern", "bits")
            else (None if self.bits is None else list(self.bits))
            if name == "bits"
            else str(getattr(self, name))
            for name in self.__dataclass_fields__
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild a fault from `to_json`'s form."""
        plain = dict(data)
        plain["kind"] = ComputedKind(plain["kind"])
        plain["pattern"] = Pattern(plain["pattern"])
        if plain["bits"] is not None:
            plain["bits"] = tuple(plain["bits"])
        return cls(**plain)
