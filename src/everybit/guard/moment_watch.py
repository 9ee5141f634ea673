"""The state of one optimizer between its updates: what was written, and what cannot be."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import torch

from everybit.core.numbers import MomentFault
from everybit.detect.moment_impossible import adam_bound
from everybit.probe.memory import version
from everybit.probe.moments import MomentState, find_moment_faults, is_adam

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Of all elements, this part is looked at anew a step, whatever is known of them.
ROUNDS = 2048
#: What a first beta of an earlier run may have been: schedules of momentum go down to it.
_LOWEST_BETA = 0.8


class MomentWatch:
    """What one optimizer's state was after its last update.

    State is looked at element by element where something other than the optimizer's step wrote to
    it (its identity or version counter tells), and the first time; a part of it in turn.

    Args:
        optimizer: The optimizer. Not kept.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.num_tested = 0
        self._is_adam = is_adam(optimizer)
        self._left: dict[int, tuple[tuple[int, int], ...]] = {}
        self._counts: dict[str, float] = {}
        self._bounds: dict[int, float] = {}
        self._names: tuple[Any, ...] = ()
        self._turn = 0
        self._credit = 0.0
        self._beta2 = 0.999
        self._met = False

    def before_update(
        self,
        optimizer: torch.optim.Optimizer,
        named: Sequence[tuple[str, torch.Tensor]],
        groups: Sequence[int],
    ) -> list[MomentFault]:
        """Return what is wrong with the state that an update is about to use.

        Args:
            optimizer: The optimizer.
            named: Labels and parameters.
            groups: Index of each parameter's group.
        """
        self._note_betas(optimizer)
        written = [
            index
            for index, (_, parameter) in enumerate(named)
            if self._marks(optimizer, parameter) != self._left.get(id(parameter), ())
        ]
        if not self._met and written:
            self._loosen()
        chosen = written or self._next_in_turn(named)
        faults = list(self._faults(optimizer, named, groups, chosen))
        faults += self._counters_written(optimizer, named)
        faults += self._names_exchanged(optimizer, named)
        self._met = True
        return faults

    def after_update(
        self, optimizer: torch.optim.Optimizer, named: Sequence[tuple[str, torch.Tensor]]
    ) -> None:
        """Take the state as the update left it."""
        self._left = {id(p): self._marks(optimizer, p) for _, p in named}
        self._counts = self._read_counts(optimizer, named)

    def forget(self) -> None:
        """Forget the counters: updates have gone by unseen."""
        self._counts = {}

    def look_at(
        self,
        optimizer: torch.optim.Optimizer,
        named: Sequence[tuple[str, torch.Tensor]],
        groups: Sequence[int],
        labels: Sequence[str],
    ) -> list[MomentFault]:
        """Look at the state of some parameters: they have turned bad."""
        wanted = set(labels)
        chosen = [index for index, (label, _) in enumerate(named) if label in wanted]
        return list(self._faults(optimizer, named, groups, chosen))

    def _faults(
        self,
        optimizer: torch.optim.Optimizer,
        named: Sequence[tuple[str, torch.Tensor]],
        groups: Sequence[int],
        chosen: Sequence[int],
    ) -> Iterator[MomentFault]:
        for index in chosen:
            label, parameter = named[index]
            state = optimizer.state.get(parameter)
            if isinstance(state, dict) and state:
                self.num_tested += 1
                bound = self._bounds.get(groups[index], math.inf) if self._is_adam else math.inf
                yield from find_moment_faults(MomentState(label, parameter, state, bound))

    def _next_in_turn(self, named: Sequence[tuple[str, torch.Tensor]]) -> list[int]:
        """Return the next parameters in turn: a large one is due as seldom as it is large.

        On accelerators none: to look at them is a sync.
        """
        chosen: list[int] = []
        self._credit += sum(parameter.numel() for _, parameter in named) / ROUNDS
        for _ in range(len(named)):
            place = self._turn % len(named)
            parameter = named[place][1]
            if parameter.numel() > self._credit:
                break
            self._credit -= parameter.numel()
            self._turn += 1
            if parameter.device.type == "cpu":
                chosen.append(place)
        return chosen

    def _marks(
        self, optimizer: torch.optim.Optimizer, parameter: torch.Tensor
    ) -> tuple[tuple[int, int], ...]:
        state = optimizer.state.get(parameter)
        if not isinstance(state, dict):
            return ()
        return tuple(
            (id(value), version(value))
            for value in state.values()
            if isinstance(value, torch.Tensor) and value.dim()
        )

    def _note_betas(self, optimizer: torch.optim.Optimizer) -> None:
        for index, group in enumerate(optimizer.param_groups if self._is_adam else ()):
            betas = group.get("betas", ())
            known = all(isinstance(beta, (int, float)) for beta in betas) and len(betas) == 2
            bound = adam_bound(*betas) if known else math.inf
            self._bounds[index] = max(self._bounds.get(index, 0.0), bound)
            self._beta2 = betas[1] if known else 0.999

    def _loosen(self) -> None:
        """Allow for a schedule of momentum in the run that the state comes from."""
        loose = adam_bound(_LOWEST_BETA, self._beta2) if self._is_adam else math.inf
        self._bounds = {index: max(bound, loose) for index, bound in self._bounds.items()}

    def _read_counts(
        self, optimizer: torch.optim.Optimizer, named: Sequence[tuple[str, torch.Tensor]]
    ) -> dict[str, float]:
        if not self._is_adam:
            return {}
        counts = {}
        for label, parameter in named:
            count = optimizer.state.get(parameter, {}).get("step")
            if isinstance(count, torch.Tensor) and count.device.type == "cpu":
                counts[label] = float(count.numpy())
            elif isinstance(count, (int, float)):
                counts[label] = float(count)
        return counts

    def _counters_written(
        self, optimizer: torch.optim.Optimizer, named: Sequence[tuple[str, torch.Tensor]]
    ) -> Iterator[MomentFault]:
        """Yield step counters that something set, so that they disagree with the others."""
        if not self._counts:
            return
        now = self._read_counts(optimizer, named)
        known = {label: count for label, count in now.items() if label in self._counts}
        changed = [label for label, count in known.items() if count != self._counts[label]]
        if not changed:
            return
        if len(changed) == len(known):
            # A checkpoint was loaded: counters that went together go together still.
            if len(set(self._counts.values())) > 1 or len(set(known.values())) == 1:
                return
            (usual, _), *_ = Counter(known.values()).most_common(1)
            changed = [label for label, count in known.items() if count != usual]
        parameters = dict(named)
        for label in changed:
            state = optimizer.state.get(parameters[label], {})
            if known[label] == 0 and not bool(torch.as_tensor(state.get("exp_avg", 0)).any()):
                continue  # The state was made anew on purpose.
            yield MomentFault(
                parameter=label,
                tensor="step",
                what=f"went from {self._counts[label]:g} to {known[label]:g} with no update, "
                "unlike the others",
                exact=False,
                evidence={
                    "before": self._counts[label],
                    "after": known[label],
                    "num_changed": len(changed),
                    "num_counters": len(known),
                },
            )

    def _names_exchanged(
        self, optimizer: torch.optim.Optimizer, named: Sequence[tuple[str, torch.Tensor]]
    ) -> Iterator[MomentFault]:
        """Yield parameters whose state, by the names that came with it, is another one's."""
        names = tuple(tuple(group.get("param_names", ())) for group in optimizer.param_groups)
        before, self._names = self._names, names
        # Names that replace others came with a load, which is judged where it happens (FIL115).
        if names == before or any(before):
            return
        label_of = {id(parameter): label for label, parameter in named}
        labels = set(label_of.values())
        for group, group_names in zip(optimizer.param_groups, names, strict=True):
            for parameter, name in zip(group["params"], group_names, strict=False):
                label = label_of.get(id(parameter))
                plain = str(name).removeprefix("module.").removeprefix("_orig_mod.")
                if label is not None and plain != label and plain in labels:
                    yield MomentFault(
                        parameter=label,
                        tensor="param_names",
                        what=f"says that this state is that of {plain}",
                        exact=False,
                        evidence={"name": plain},
                    )
