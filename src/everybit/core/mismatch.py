"""A call that was computed again and gave other bits: where, and what the repeats say of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everybit.core.change import Change
    from everybit.core.link import Link


class Cause(StrEnum):
    """What the repeats of a call say of a difference.

    `transient`: they agree with each other and not with the first computation, of a model that has
    repeated before. `repeat-erred`: all agree but one repeat; the step itself is right.
    `unproven`: as transient, of a model that has not repeated before. `nondeterministic`: they
    differ among themselves, or the operation adds up in no fixed order. `changed-after`: the call
    repeats exactly, but what it returned holds other bytes now, and no write was counted.
    `race`: repeats differ among themselves on an accelerator, and agree when it is waited for after
    each operation. `persistent`: what the repeats agree on is not what another device comes to.
    """

    TRANSIENT = "transient"
    REPEAT_ERRED = "repeat-erred"
    UNPROVEN = "unproven"
    NONDETERMINISTIC = "nondeterministic"
    CHANGED_AFTER = "changed-after"
    RACE = "race"
    PERSISTENT = "persistent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """What another device says of a call's failing part, which it has computed too.

    Attributes:
        device: Which one, in words: `the CPU`, `rank 1 (cuda:0)`.
        first: Whether the first computation may be right; None where that is not known.
        repeats: Whether the repeats may be.
        proven: It stands on equal bits, or on a bound that no order of adding up exceeds; else on
            an estimate.
        how: What was compared, in words.
        exact: Bits were compared, not distances.
    """

    device: str
    first: bool | None
    repeats: bool | None
    proven: bool
    how: str
    exact: bool = False

    @property
    def tells(self) -> bool:
        """Whether it tells the two apart, or speaks against both."""
        return self.repeats is False or self.first is False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """A difference between a call and its repeats.

    Attributes:
        step: Updates finished or skipped before it.
        rank: Rank of the process.
        call: Number of the root call within the step.
        link: `forward` or `grad`.
        module: The first part that gave something else from the same inputs; "" for the root.
        operation: Of autograd, in the backward pass; of the forward, where one is to blame.
        cause: What the repeats say.
        num_for: Computations that agree with each other.
        num_against: Computations that do not agree with these.
        num_exact: How often this part has repeated exactly before in this run.
        outputs: Paths of the outputs that differ.
        parameters: Names of the parameters whose gradients from this call differ.
        tensor: What the elements are of, in words; "" where none can be told.
        parameter: Name of the parameter whose gradient the elements are of.
        device: Where it was computed.
        dtype: Of that tensor.
        shape: Of that tensor.
        elements: Flat row-major indices of differing elements, the first of them.
        num_elements: How many differ.
        num_bits: And bits in all.
        changes: The first of them: `before` is what the repeats gave, `after` what was computed
            first.
        pattern: How they lie (core/pattern.py).
        whole: The call was compared as a whole: which part erred is not known.
        opinions: What other devices say.
        not_asked: Why another device was not asked, by device.
    """

    step: int
    rank: int
    call: int
    link: Link
    module: str
    cause: Cause
    operation: str = ""
    num_for: int = 0
    num_against: int = 0
    num_exact: int = 0
    outputs: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    tensor: str = ""
    parameter: str | None = None
    device: str | None = None
    dtype: str = ""
    shape: tuple[int, ...] = ()
    elements: tuple[int, ...] = ()
    num_elements: int = 0
    num_bits: int = 0
    changes: tuple[Change, ...] = ()
    pattern: Mapping[str, Any] | None = None
    whole: bool = False
    opinions: tuple[Opinion, ...] = ()
    not_asked: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrepeatable:
    """An operation that gave something else from the same inputs, in repeats before the run.

    Attributes:
        module: The part of the model it belongs to, "" for its own code.
        operation: Its name.
        backward: Whether it is of the backward pass.
        num_repeats: Repeats that were compared.
        repeats_with: What makes it repeat, as calls of torch.
    """

    module: str
    operation: str
    backward: bool
    num_repeats: int
    repeats_with: tuple[str, ...]
