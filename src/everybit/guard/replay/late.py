"""Calls that nobody planned to repeat, made again when the gradients of their step are doubted.

A gradient is doubted when backward is over: its graph is gone, and no node of it was watched. What
is there still is what went in (inputs, weights, the gradients that came into the outputs) and what
came out: the outputs, and a fingerprint of every gradient as backward left it. So the calls of the
step are made again, forward and backward, and added up as autograd does. Where other ranks put into
the gradients, or hooks of the program may change them, fingerprints are taken of what comes to the
parameters first (`incoming`): that is this process's own.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import torch

from everybit.guard.meeting import job_ranks
from everybit.guard.replay.incoming import Incoming
from everybit.guard.replay.repeat import CannotRepeatError, again, gradients_aside
from everybit.guard.replay.values import cut_off, differ, kept, on_host, tensors_in, word_of
from everybit.probe.digest import memory_words, readable
from everybit.probe.memory import version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from everybit.guard.readout import Word
    from everybit.guard.replay.record import CallRecord, Recorder
    from everybit.guard.replay.standby import Affordable

    Tensors = dict[int, torch.Tensor]

#: Inputs, outputs and gradients of calls that are held until their update.
MAX_BYTES: Final = 256 << 20
#: Calls of one step that are held.
MAX_CALLS: Final = 64
EXACTLY: Final = "exactly"


@dataclass(slots=True, eq=False)
class _Call:
    """A call, and the gradients that came into its outputs, by backward pass and output."""

    recorder: Recorder
    seeds: dict[int, dict[int, tuple[torch.Tensor, int]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Late:
    """What making a step's calls again has shown.

    Attributes:
        outcome: `exactly`, or why not, or what differs.
        record: A call whose outputs come out otherwise.
        outputs: The places of these, with what the repeats gave.
    """

    outcome: str
    record: CallRecord | None = None
    outputs: tuple[tuple[int, torch.Tensor], ...] = ()


class LateCalls:
    """The calls of one step that went through backward unwatched.

    Args:
        affordable: Is told what holding them takes.
        words: Returns the fingerprint of each gradient as it was marked, by its parameter's id.
    """

    def __init__(self, affordable: Affordable, words: Callable[[], dict[int, int]]) -> None:
        self._affordable = affordable
        self._words_now = words
        self._calls: list[_Call] = []
        self._hooks: list[Any] = []
        self._incoming = Incoming(affordable.spend, self.lose)
        self._words: dict[int, int] | None = None
        self._filled: set[int] | None = None
        self._number = 0
        self._left = MAX_BYTES
        self._lost = ""

    def __bool__(self) -> bool:
        return bool(self._calls) or bool(self._lost)

    def lose(self, why: str) -> None:
        """Take note that a call of this step cannot be made again."""
        self._lost = self._lost or why

    def begin(self, recorders: Sequence[Recorder]) -> None:
        """Take calls over from here on: a backward pass begins.

        Args:
            recorders: Quick records that have ended.
        """
        began = time.perf_counter()
        self._number += 1
        self._incoming.number = self._number
        several = job_ranks()[1] > 1
        for recorder in recorders:
            module = recorder.record.module()
            if module is not None:
                parameters = list(module.parameters())
                if self._filled is None:
                    self._filled = {id(p) for p in parameters if p.grad is not None}
                self._incoming.watch(p for p in parameters if several or _has_hooks(p))
            self._take(recorder)
        self._affordable.spend(time.perf_counter() - began)

    def end(self) -> None:
        """Take note that the backward pass has ended."""
        self._words = None
        for call in self._calls:
            call.recorder.let_go_of_graph()

    def look(self) -> None:
        """Take the fingerprints of the gradients, which are about to be rewritten."""
        if self._calls and self._words is None:
            began = time.perf_counter()
            self._words = self._words_now()
            self._affordable.spend(time.perf_counter() - began)

    def clear(self) -> None:
        """Let go of everything."""
        for hook in self._hooks:
            hook.remove()
        for call in self._calls:
            call.recorder.close()
        self._incoming.clear()
        self._calls, self._hooks = [], []
        self._words, self._filled = None, None
        self._number, self._left, self._lost = 0, MAX_BYTES, ""

    def judge(self, parameters: Iterable[tuple[str, torch.Tensor]]) -> Late:
        """Make the calls again, and compare.

        Args:
            parameters: Those that the update will use, with their names.
        """
        self.look()
        if self._lost:
            return Late(f"not replayed: {self._lost}")
        wanted = [(name, p) for name, p in parameters if p.grad is not None]
        if not wanted or not (self._words or all(p in self._incoming for _, p in wanted)):
            return Late("not replayed: no gradient of it was marked")
        if any(_has_hooks(p) and p not in self._incoming for _, p in wanted):
            return Late("not replayed: hooks of the program may change its gradients")
        try:
            for call in self._calls:
                record = call.recorder.record
                if outputs := _other_outputs(record):
                    return Late("differently: an output of the model", record, outputs)
            return Late(self._compared(wanted))
        except CannotRepeatError as error:
            return Late(f"not replayed: {error}")

    def _compared(self, wanted: Sequence[tuple[str, torch.Tensor]]) -> str:
        first = self._differing(wanted)
        if not first:
            return EXACTLY
        if self._differing(wanted) != first:
            return "not replayed: the model does not repeat"
        more = f" and of {len(first) - 1} more" if len(first) > 1 else ""
        return (
            f"differently: the gradient of {first[0][0]}{more}; a fault of the device, or a term"
            " that the loop adds outside of the model"
        )

    def _differing(self, wanted: Sequence[tuple[str, torch.Tensor]]) -> list[tuple[str, int]]:
        """Return the names of gradients that come out otherwise, with the words they have then."""
        passes = {number: self._sums(number) for number in range(1, self._number + 1)}
        totals = self._totals(passes)
        found = []
        for name, parameter in wanted:
            if parameter in self._incoming:
                pairs = [
                    (sums.get(id(parameter)), self._incoming.word(parameter, number))
                    for number, sums in passes.items()
                ]
                pairs = [pair for pair in pairs if pair != (None, None)]
            else:
                words = self._words or {}
                pairs = [(totals.get(id(parameter)), words.get(id(parameter)))]
            for gradient, word in pairs or [(None, None)]:
                if gradient is None or word is None:
                    raise CannotRepeatError(f"the gradient of {name} came from elsewhere as well")
                if not readable(gradient):
                    raise CannotRepeatError(f"the gradient of {name} has no plain bytes")
                now = memory_words([gradient])[0]
                if now != word:
                    found.append((name, now))
                    break
        return found

    def _sums(self, number: int) -> Tensors:
        """Return the gradients of one backward pass, added up as autograd adds them."""
        sums: Tensors = {}
        passing = [call for call in self._calls if number in call.seeds]
        cast = any(_is_cast(call.recorder.record) for call in passing)
        if cast and len(passing) > 1:
            raise CannotRepeatError("autocast casts weights once for several calls")
        # Autograd goes backward: what was computed last comes first.
        for call in reversed(passing):
            for key, gradient in _contributions(call, number).items():
                sums[key] = sums[key] + gradient if key in sums else gradient
        return sums

    def _totals(self, passes: Mapping[int, Tensors]) -> Tensors:
        """Return the gradients of the step, added up as autograd adds them."""
        totals: Tensors = {}
        for sums in passes.values():
            for key, gradient in sums.items():
                if key in totals:
                    totals[key] = totals[key] + gradient
                else:
                    filled = self._filled is not None and key in self._filled
                    # Zeros that were there make a zero of one with a sign.
                    totals[key] = torch.zeros_like(gradient) + gradient if filled else gradient
        return totals

    def _take(self, recorder: Recorder) -> None:
        record = recorder.record
        tensors = [tensor for tensor, _, _ in record.inputs] + [t for t, _ in record.outputs]
        self._left -= sum(_bytes_of(each) for each in tensors)
        if self._left < 0 or len(self._calls) >= MAX_CALLS:
            self.lose("its calls are too many, or too large, to be held")
        if self._lost:
            recorder.close()
            return
        call = _Call(recorder)
        self._calls.append(call)
        for place, edge in enumerate(recorder.edges):
            if edge is not None:
                self._hooks.append(edge[0].register_prehook(self._catcher(call, place, edge[1])))

    def _catcher(self, call: _Call, place: int, number: int) -> Callable[[Any], None]:
        def catch(gradients: Any) -> None:
            began = time.perf_counter()
            gradient = gradients[number]
            if gradient is None or self._lost:
                return
            try:
                with torch.no_grad(), torch._C.DisableTorchFunction():
                    self._left -= _bytes_of(gradient)
                    if self._left < 0:
                        self.lose("its gradients are too large to be held")
                    else:
                        call.seeds.setdefault(self._number, {})[place] = kept(gradient)
                if torch.is_grad_enabled():
                    self.lose("a backward pass recorded a graph itself (create_graph=True)")
            except Exception as error:
                self.lose(f"a fault of its own: {type(error).__name__}: {error}")
            self._affordable.spend(time.perf_counter() - began)

        return catch


def _other_outputs(record: CallRecord) -> tuple[tuple[int, torch.Tensor], ...]:
    """Return the places of outputs that come out otherwise, twice alike, and what came out."""
    known = [
        place for place, (tensor, before) in enumerate(record.outputs) if version(tensor) == before
    ]
    mine = on_host([word_of(record.outputs[place][0]) for place in known])
    found: list[list[tuple[int, Word | None]]] = []
    tensors: list[torch.Tensor] = []
    while len(found) < 2:
        with again(record) as module:
            tensors = _tensors_of(record, module(*record.args, **record.kwargs))
        theirs = on_host([word_of(tensors[place]) for place in known])
        found.append(
            [(p, two) for p, one, two in zip(known, mine, theirs, strict=True) if differ(one, two)]
        )
        if not found[0]:
            return ()
    if found[0] != found[1]:
        raise CannotRepeatError("the model does not repeat")
    return tuple((place, tensors[place].detach()) for place, _ in found[0])


def _tensors_of(record: CallRecord, output: Any) -> list[torch.Tensor]:
    tensors = [tensor for _, tensor in tensors_in(output)]
    if len(tensors) != len(record.outputs):
        raise CannotRepeatError("it took another path when it was repeated")
    return tensors


def _contributions(call: _Call, number: int) -> Tensors:
    """Return the gradients that one backward pass through a call gives to its parameters."""
    record, seeds = call.recorder.record, call.seeds[number]
    if any(version(gradient) != before for gradient, before in seeds.values()):
        raise CannotRepeatError("a gradient was written to after it was used")
    with again(record) as module:
        args, kwargs = cut_off((record.args, record.kwargs))
        tensors = _tensors_of(record, module(*args, **kwargs))
        leaves = [p for p in module.parameters() if p.requires_grad]
        # A backward pass runs outside of autocast.
        with gradients_aside(leaves), torch.autocast("cpu", enabled=False):
            found = torch.autograd.grad(
                [tensors[place] for place in seeds],
                leaves,
                [gradient for gradient, _ in seeds.values()],
                allow_unused=True,
            )
    pairs = zip(leaves, found, strict=True)
    return {id(leaf): gradient for leaf, gradient in pairs if gradient is not None}


def _has_hooks(parameter: torch.Tensor) -> bool:
    """Whether hooks of the program may change a gradient, on its way in or behind it."""
    behind = getattr(parameter, "_post_accumulate_grad_hooks", None)
    return bool(parameter._backward_hooks or behind)


def _is_cast(record: CallRecord) -> bool:
    return record.settings is not None and bool(record.settings.autocast)


def _bytes_of(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
