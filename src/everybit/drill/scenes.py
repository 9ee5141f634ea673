"""The demo's faults: what is planted, when, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from everybit.core.change import changes_between
from everybit.inject import Pattern, apply, draw_fault

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from everybit.core.change import Change
    from everybit.drill.gpt import GPT


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What a scene really did to memory.

    Attributes:
        parameter: state_dict key of the weight or buffer hit, or the one whose state was hit.
        tensor: Name of the optimizer state tensor, "" for a weight or buffer.
        changes: Every changed element.
    """

    parameter: str
    tensor: str
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One fault of the demo.

    Attributes:
        title: What happens, for people.
        step: The step before which it is planted.
        where: Address pattern of the tensor.
        pattern: Shape of the damage; None for a plain NumPy write.
        bits: The bits hit.
        num_elements: Elements hit; drawn where None.
        seed: Seed of what is drawn.
    """

    title: str
    step: int
    where: str
    pattern: Pattern | None = Pattern.FLIP
    bits: tuple[int, ...] | None = None
    num_elements: int | None = None
    seed: int = 0

    def plant(self, model: GPT, optimizer: torch.optim.Optimizer) -> Truth:
        """Damage the memory and return the truth about it."""
        if self.pattern is None:
            return _write_through_numpy(model, self.where, self.num_elements or 1)
        fault = draw_fault(
            model,
            optimizer,
            seed=self.seed,
            pattern=self.pattern,
            where=self.where,
            bits=self.bits,
            num_elements=self.num_elements,
        )
        injection = apply(fault, model, optimizer)
        return Truth(
            parameter=fault.parameter, tensor=fault.tensor, changes=tuple(injection.changes)
        )


def _write_through_numpy(model: GPT, key: str, num_elements: int) -> Truth:
    """Write zeros through a NumPy view, as code that kept one too long does."""
    tensor = model.get_parameter(key).detach()
    view = tensor.numpy().reshape(-1)
    start = 1000
    before = view[start : start + num_elements].tobytes()
    view[start : start + num_elements] = 0.0
    after = view[start : start + num_elements].tobytes()
    return Truth(
        parameter=key,
        tensor="",
        changes=tuple(changes_between("float32", before, after, start)),
    )


def demo_scenes() -> Sequence[Scene]:
    """Return the demo's faults in the order of their steps."""
    return (
        Scene(
            title="a bit flips in a weight: the top exponent bit",
            step=6,
            where="blocks.1.up.weight",
            bits=(30,),
        ),
        Scene(
            title="a bit flips in a weight: the lowest of all, far below any threshold",
            step=9,
            where="blocks.2.qkv.weight",
            bits=(0,),
        ),
        Scene(
            title="code that kept a NumPy view writes zeros over part of a weight",
            step=12,
            where="blocks.0.down.weight",
            pattern=None,
            num_elements=37,
        ),
        Scene(
            title="a faulty lane flips one bit in every n-th element of a weight",
            step=15,
            where="head.weight",
            pattern=Pattern.STRIDED,
            bits=(21,),
            num_elements=12,
        ),
        Scene(
            title="a bit flips in a buffer, which no optimizer ever rewrites",
            step=18,
            where="positions",
            bits=(27,),
        ),
        Scene(
            title="the sign of Adam's second moment flips: NaN one step later",
            step=21,
            where="blocks.3.down.weight:exp_avg_sq",
            bits=(31,),
        ),
        Scene(
            title="several bits of one element of Adam's first moment flip",
            step=24,
            where="embed.weight:exp_avg",
            pattern=Pattern.MULTI_BIT,
        ),
        Scene(
            title="a stray write hits Adam's first moment",
            step=27,
            where="blocks.2.out.weight:exp_avg",
            pattern=Pattern.STRAY_WRITE,
            num_elements=64,
        ),
    )
