"""The check on values: losses, gradients, weights, buffers and moments, by their numbers."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from everybit.core.boundary import Boundary
from everybit.core.finding import Severity
from everybit.core.numbers import NOTHING, Origin, Source, StepNumbers, total_norm
from everybit.core.verdict import Checked, Coverage, Skipped
from everybit.detect.numerics import NumericsJudge
from everybit.guard.buffer_watch import BufferWatch
from everybit.guard.check import Check
from everybit.guard.marked import (
    buffers_of,
    fingerprints_of,
    norms_of,
    parameters_of,
    unowned_of,
)
from everybit.guard.moment_watch import MomentWatch
from everybit.guard.origin import find_gradient_origin, find_loss_origin
from everybit.guard.readout import bits_of, number_of
from everybit.guard.update_watch import UpdateWatch
from everybit.probe.numerics import Reading, with_known

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everybit.core.finding import Finding
    from everybit.guard.gradients import Gradients
    from everybit.guard.moment import Moment
    from everybit.guard.readout import Readout, Ticket
    from everybit.guard.state import CarriedState

#: Losses of one step that are judged one by one; further micro-batches are not.
MAX_LOSSES = 256


class _Step:
    """What one step has given so far."""

    def __init__(self) -> None:
        self.numbers = StepNumbers(step=-1)
        self.losses: list[torch.Tensor] = []
        self.gradients = Reading([])
        self.origin: Origin | None = None
        self.started = False
        self.updating = False
        self.closure = False
        self.elsewhere = False
        self.scale: torch.Tensor | None = None
        self.scaled = False  # The gradients are to be divided by it still.
        self.tickets: list[Ticket] = []


class NumericsCheck(Check):
    """Measure each step's numbers and have them judged.

    On the CPU losses are judged as the backward pass begins and gradients before the update; what
    is on an accelerator is judged at the end of the step, with the one readout of it.

    Args:
        state: The carried state, whose fingerprints tell what moved.
        readout: Brings what is on accelerators to the host at the end of the step.
        gradients: Marks of the gradients, which know norms where there are any.
        rank: Rank of this process.
        every: Updates from one that is seen to the next.
    """

    def __init__(
        self,
        state: CarriedState,
        readout: Readout,
        gradients: Gradients | None = None,
        *,
        rank: int,
        every: int = 1,
    ) -> None:
        self._marked = gradients
        self._every = every
        self._state = state
        self._readout = readout
        self._judge = NumericsJudge(rank)
        self._step = _Step()
        self._updates: dict[str, UpdateWatch] = {}
        self._moments: dict[str, MomentWatch] = {}
        self._optimizers: dict[str, int] = {}
        self._closures: set[str] = set()
        self._buffers = BufferWatch()
        self._last: Mapping[str, float] = {}
        self._awake = False
        self._num_crowded = 0
        self._held: tuple[NumericsJudge, dict[str, tuple[UpdateWatch, Any]]] | None = None

    def __call__(self, boundary: Boundary, moment: Moment) -> Sequence[Finding]:
        """Take what this boundary offers."""
        if not moment.alone:
            return self._give_up(boundary)
        if boundary is Boundary.FORWARD_START:
            self._buffers.meet(buffers_of(self._state))
        elif boundary is Boundary.BACKWARD_START:
            return self._losses(moment)
        elif boundary is Boundary.STEP_START and moment.optimizer is not None:
            return self._start(moment, moment.optimizer)
        elif boundary is Boundary.STEP_END and moment.optimizer is not None and self._step.started:
            self._end(moment, moment.optimizer)
        return ()

    def finish(self, moment: Moment) -> Sequence[Finding]:
        """Judge the step."""
        step, self._step = self._step, _Step()
        if not step.started or not step.tickets or moment.optimizer is None:
            return ()
        numbers = self._finished(step, moment, moment.optimizer)
        self._last = numbers.scalars()
        self._awake = self._judge.broken_since is not None
        if step.elsewhere:
            return self._judge.judge(numbers)
        return self._judge.end(numbers)

    def doubts(self, loss: torch.Tensor) -> bool:
        """Whether a loss is out of its band; on the CPU only, elsewhere it is not known yet."""
        if loss.device.type != "cpu" or loss.numel() != 1 or loss.is_complex():
            return False
        value = float(loss.detach())
        # What is not finite stays so: only its beginning is of interest.
        return self._judge.doubts(value) if math.isfinite(value) else not self._awake

    def doubts_gradients(self) -> bool:
        """Whether the gradients of the update that begins are out of their band, on the CPU."""
        step = self._step
        return step.started and not step.elsewhere and self._judge.doubts_norm(step.numbers)

    def scalars(self) -> Mapping[str, float]:
        """Return the numbers of the finished step."""
        return self._last

    def phase(self, name: str) -> None:
        """Begin a new phase."""
        self._judge.phase(name)

    def note(self, findings: Sequence[Finding]) -> None:
        """Take note of damage that was found at rest: its traces in numbers are no news."""
        for finding in findings:
            if finding.severity is Severity.NOTE:
                continue
            healed = finding.evidence.get("healed") and not finding.evidence.get("tainted")
            if finding.where.step is not None and not healed:
                self._judge.note_damage(finding.where.step)

    def hold(self) -> None:
        """Keep what is remembered of earlier steps."""
        watches = {name: (each, each.held()) for name, each in self._updates.items()}
        self._held = (copy.deepcopy(self._judge), watches)

    def put_back(self) -> None:
        """Remember what was remembered then."""
        if self._held is None:
            return
        judge, watches = self._held
        self._judge, self._step = copy.deepcopy(judge), _Step()
        living = {name: optimizer for optimizer, name in self._state.members.optimizers}
        for name in list(self._updates):
            if name not in watches or name not in living:
                del self._updates[name], self._moments[name], self._optimizers[name]
                continue
            update, held = watches[name]
            update.put_back(held)
            named = list(zip(update.labels, update.tensors, strict=True))
            self._moments[name].after_update(living[name], named)

    def let_go(self) -> None:
        """Keep nothing twice."""
        self._held = None

    def coverage(self) -> Coverage:
        """Return what was judged and what was not."""
        watches = self._updates.values()
        num_states = sum(each.num_tested for each in self._moments.values())
        what = "optimizer states looked at element by element"
        checked = (Checked(what=what, count=num_states),) if num_states else ()
        skipped = []
        rounded = sum(each.num_rounded for each in watches)
        if rounded:
            what, why = "updates too small to show", "rounding left the parameter as it was"
            skipped.append(Skipped(what=f"{rounded} {what}", why=why, promised=False))
        at_zero = sorted(label for each in watches for label in each.still_at_zero)
        if at_zero:
            what = f"updates of {len(at_zero)} parameters ({at_zero[0]} ...)"
            why = "their learning rate is zero"
            skipped.append(Skipped(what=what, why=why, promised=False))
        if self._num_crowded:
            what = f"numbers of {self._num_crowded} steps"
            why = "another thread was inside the model or an update"
            skipped.append(Skipped(what=what, why=why))
        return self._judge.coverage() + Coverage(checked=checked, skipped=tuple(skipped))

    def _give_up(self, boundary: Boundary) -> Sequence[Finding]:
        if boundary is Boundary.STEP_END:
            self._num_crowded += 1
            self._step = _Step()
        return ()

    def _losses(self, moment: Moment) -> Sequence[Finding]:
        step = self._step
        if step.updating:
            step.closure = True
        told: list[Finding] = []
        for loss in moment.losses:
            if loss.numel() != 1 or loss.is_complex() or len(step.losses) >= MAX_LOSSES:
                continue
            step.losses.append(loss.detach())
            if loss.device.type == "cpu" or self._awake:
                value = float(loss.detach())
                if not math.isfinite(value):
                    told += self._judge.loss(self._bad_loss(moment, loss, value))
        return told

    def _bad_loss(self, moment: Moment, loss: torch.Tensor, value: float) -> StepNumbers:
        step = self._step
        if step.numbers.loss_origin is None and self._judge.broken_since is None:
            buffers = self._buffers.finite_at_start(buffers_of(self._state))
            try:
                origin = find_loss_origin(loss, parameters_of(self._state), buffers)
            except (RuntimeError, TypeError, AttributeError, NotImplementedError) as error:
                # Graphs of other libraries may hold anything; the finding stands without it.
                origin = Origin(source=Source.UNKNOWN, detail=f"{type(error).__name__}: {error}")
            step.numbers = replace(step.numbers, loss_origin=origin)
        return replace(step.numbers, step=moment.step, losses=(value,))

    def _start(self, moment: Moment, optimizer: torch.optim.Optimizer) -> Sequence[Finding]:
        step = self._step
        step.started = step.updating = True
        name = self._state.members.name_of(optimizer) or ""
        update = self._update_of(name, optimizer)
        self._buffers.meet(buffers_of(self._state))
        if self._every > 1:
            update.forget()
            self._moments[name].forget()
        replaced = update.meet(optimizer, list(fingerprints_of(self._state, optimizer)))
        named = list(zip(update.labels, update.tensors, strict=True))
        faults = self._moments[name].before_update(optimizer, named, update.groups)
        scale = getattr(moment.scaler, "_scale", None)
        # Kept as it is now: the scaler will change it after the step, in place.
        step.scale = scale.detach().clone() if isinstance(scale, torch.Tensor) else None
        step.scaled = isinstance(getattr(optimizer, "grad_scale", None), torch.Tensor)
        self._read_gradients(optimizer, update)
        step.numbers = replace(
            step.numbers,
            step=moment.step,
            optimizer=name,
            skipped=bool(moment.skipped) if isinstance(moment.skipped, bool) else False,
            names=update.labels,
            matrices=tuple(tensor.dim() > 1 and tensor.numel() >= 16 for tensor in update.tensors),
            rates=update.rates(optimizer),
            replaced=tuple(replaced),
            rewritten=update.rewritten,
            moments=tuple(faults),
        )
        if self._on_device(step):
            return ()
        stale = name in self._closures
        step.numbers = self._with_gradients(step, update, stale=stale)
        numbers = replace(step.numbers, losses=_values(step.losses))
        return self._judge.start(numbers)

    def _end(self, moment: Moment, optimizer: torch.optim.Optimizer) -> None:
        step = self._step
        name = step.numbers.optimizer
        update = self._update_of(name, optimizer)
        step.updating = False
        if step.closure:
            self._closures.add(name)
            self._read_gradients(optimizer, update)
            if not step.gradients.words_wanted:
                step.numbers = self._with_gradients(step, update, stale=False)
        step.elsewhere = self._on_device(step)
        losses = [bits_of(loss) for loss in step.losses]
        scale = [] if step.scale is None else [bits_of(step.scale)]
        step.tickets = [
            self._readout.ask(words)
            for words in (
                losses,
                step.gradients.words_wanted,
                update.measure(norms_of(self._state, optimizer)),
                self._buffers.measure(buffers_of(self._state)),
                scale,
            )
        ]

    def _finished(
        self, step: _Step, moment: Moment, optimizer: torch.optim.Optimizer
    ) -> StepNumbers:
        """Return all numbers of a step, its values having been read."""
        name = step.numbers.optimizer
        update, moments = self._updates[name], self._moments[name]
        losses, gradients, norms, buffers, scale = step.tickets
        values = tuple(
            number_of(word, wide=loss.device.type == "cpu")
            for word, loss in zip(losses.words, step.losses, strict=True)
        )
        step.numbers = replace(step.numbers, skipped=bool(moment.skipped))
        if step.scale is not None:
            wide = step.scale.device.type == "cpu"
            number = number_of(scale.words[0], wide=wide)
            step.numbers = replace(step.numbers, scale=number)
        if step.gradients.words_wanted:
            step.gradients.fill(gradients.words)
            step.numbers = self._with_gradients(step, update, stale=False)
        weight_norms, update_norms = update.finish(norms.words)
        step.numbers = replace(
            step.numbers,
            losses=values,
            weight_norms=tuple(weight_norms),
            update_norms=tuple(update_norms),
            weight_norm=total_norm(weight_norms),
            update_norm=0.0 if moment.skipped else total_norm(update_norms),
            buffers=self._buffers.finish(buffers.words),
        )
        named = list(zip(update.labels, update.tensors, strict=True))
        if moment.skipped:
            update.stay()
        else:
            step.numbers = replace(
                step.numbers, movements=tuple(self._movements(step, optimizer, update))
            )
            bad = step.numbers.bad_weights
            # From what is bad in the loss or in gradients the moments follow.
            sound = not step.numbers.bad_gradients and all(map(math.isfinite, values))
            if bad and sound and self._judge.broken_since is None:
                faults = moments.look_at(optimizer, named, update.groups, bad)
                known = step.numbers.moments
                step.numbers = replace(step.numbers, moments=(*known, *faults))
        moments.after_update(optimizer, named)
        return step.numbers

    def _movements(self, step: _Step, optimizer: torch.optim.Optimizer, update: UpdateWatch) -> Any:
        # An exchange of tensors in this step has changed names and order.
        now = {id(p): (label, mark) for label, p, mark in fingerprints_of(self._state, optimizer)}
        prints = [now.get(id(tensor), ("", None))[1] for tensor in update.tensors]
        labels = [now.get(id(tensor), ("", None))[0] for tensor in update.tensors]
        norms = step.numbers.gradient_norms
        closure = step.closure or step.numbers.optimizer in self._closures
        number = step.numbers.step
        found = update.movements(optimizer, prints, norms, step=number, closure=closure)
        unowned = list(unowned_of(self._state))
        return found + update.orphans(step.numbers.optimizer, labels, norms, unowned, number)

    def _read_gradients(self, optimizer: torch.optim.Optimizer, update: UpdateWatch) -> None:
        gradients = [tensor.grad for tensor in update.tensors]
        known = self._marked.norms(optimizer) if self._marked is not None else {}
        norms = [known.get(id(tensor)) for tensor in update.tensors]
        self._step.gradients = with_known(gradients, norms, NOTHING)

    def _with_gradients(self, step: _Step, update: UpdateWatch, *, stale: bool) -> StepNumbers:
        """Return the numbers with the gradients, which are on the host now."""
        norms = [NOTHING] * len(update.labels) if stale else step.gradients.values
        if step.scaled and step.scale is not None:
            factor = step.numbers.scale
            if math.isnan(factor):
                factor = float(step.scale)
            norms = [norm if norm == NOTHING else norm / factor for norm in norms]
        origin: Origin | None = None
        if not all(math.isfinite(norm) for norm in norms) and self._judge.broken_since is None:
            gradients = [tensor.grad for tensor in update.tensors]
            named = list(zip(update.labels, gradients, strict=True))
            origin = find_gradient_origin(named, norms)
        measured = any(norm != NOTHING for norm in norms)
        return replace(
            step.numbers,
            gradient_norms=tuple(norms),
            gradient_norm=total_norm(norms) if measured else math.nan,
            gradient_origin=origin,
        )

    def _update_of(self, name: str, optimizer: torch.optim.Optimizer) -> UpdateWatch:
        """Return the memory of an optimizer's updates; a new one where another took its name."""
        if self._optimizers.get(name) != id(optimizer):
            self._optimizers[name] = id(optimizer)
            self._updates[name] = UpdateWatch()
            self._moments[name] = MomentWatch(optimizer)
        return self._updates[name]

    def _on_device(self, step: _Step) -> bool:
        """Whether something that is judged before the update is on an accelerator."""
        elsewhere = any(loss.device.type != "cpu" for loss in step.losses)
        return elsewhere or bool(step.gradients.words_wanted)


def _values(losses: Sequence[torch.Tensor]) -> tuple[float, ...]:
    return tuple(float(loss) for loss in losses)
