"""The answers of an evaluation: of each sample the class that its scores choose, and the mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from everybit.core.boundary import Boundary
from everybit.guard.by_sample import MAX_SAMPLES
from everybit.guard.check import Check
from everybit.probe.digest import flatten, readable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everybit.core.finding import Finding
    from everybit.guard.moment import Moment

#: What is recorded of a step.
KIND: Final = "answers"
#: Modules in another mode than the rest that are named.
_TOLD: Final = 8


class AnswersCheck(Check):
    """Note which class each sample of an evaluation is given, and in which mode the model is.

    Digests tell that scores differ, not whether an answer does. Scores are floating point tensors
    of samples by two classes at least, on the CPU.
    """

    def __init__(self) -> None:
        self._answers: dict[str, list[int]] = {}
        self._mode = self._told_mode = ""

    def __call__(self, boundary: Boundary, moment: Moment) -> Sequence[Finding]:
        """Look at what an evaluating call returned."""
        if boundary is Boundary.FORWARD_START and moment.evaluating and moment.root is not None:
            self._mode = mode_of(moment.root)
        elif boundary is Boundary.FORWARD_END and moment.evaluating:
            self._answers = {
                name: value.detach().argmax(1).tolist()
                for name, value in flatten(list(moment.outputs))
                if _is_scores(value)
            }
        return ()

    def observed(self) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Hand over the answers of the finished step."""
        answers, self._answers = self._answers, {}
        told: dict[str, Any] = {"of": answers} if answers else {}
        if self._mode != self._told_mode:
            told["mode"] = self._told_mode = self._mode
        return [(KIND, told)] if told else []


def mode_of(root: torch.nn.Module) -> str:
    """Return `train` or `eval` where all modules are in one mode, else which ones train."""
    training = [name or "the root" for name, part in root.named_modules() if part.training]
    if not training:
        return "eval"
    if all(part.training for part in root.modules()):
        return "train"
    more = f" and {len(training) - _TOLD} more" if len(training) > _TOLD else ""
    return f"train in {', '.join(training[:_TOLD])}{more}"


def _is_scores(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and not value.is_nested
        and readable(value)
        and value.dim() == 2
        and value.shape[1] > 1
        and 0 < value.shape[0] <= MAX_SAMPLES
        and value.is_floating_point()
        and value.device.type == "cpu"
    )
