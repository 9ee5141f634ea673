"""One call of a model as it happened: all that is needed to make it again, and what it gave."""

from __future__ import annotations

import time
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from everybit.guard.replay.graph import CallGraph, entries_from, graph_of, hook_nodes
from everybit.guard.replay.held import Held
from everybit.guard.replay.obstacles import CollectiveCounter, why_not_now, why_not_there
from everybit.guard.replay.settings import Settings
from everybit.guard.replay.trace import Event, Trace
from everybit.guard.replay.values import (
    kept,
    leaves,
    shape_of,
    tensors_in,
    why_unrepeatable,
    word_of,
)
from everybit.probe.memory import version
from everybit.probe.state import RngState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everybit.guard.readout import Word


@dataclass(slots=True, eq=False)
class Pass:
    """One backward pass through a call.

    Attributes:
        seeds: The gradient that came in, and its version counter, by `(node's place, its input)`.
        words: Digest words of the gradients of each node's inputs, by the node's place.
        order: The places in the order in which they were computed.
        differentiable: The pass recorded a graph itself (`create_graph=True`).
        announced: It was known before it began where gradients come in.
    """

    seeds: dict[tuple[int, int], tuple[torch.Tensor, int]] = field(default_factory=dict)
    words: dict[int, list[Word | None]] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)
    differentiable: bool = False
    announced: bool = False


@dataclass(slots=True, eq=False)
class CallRecord:
    """A captured call of a root's inner module.

    Attributes:
        step: Updates finished or skipped before it.
        call: Its number within the step.
        args: Positional inputs, the program's own objects.
        kwargs: Keyword inputs.
        inputs: Each input tensor with its version counter and digest word.
        weights: Each parameter with its name, version counter and digest word.
        rng: The random generators before it.
        held: Buffers and attributes before it.
        settings: Modes of torch.
        events: What its parts took and gave.
        paths: Dotted paths of the output tensors.
        output_words: Their digest words.
        outputs: Themselves, detached, with version counters, as far as they are held.
        graph: The nodes it recorded; None where it recorded none.
        owners: The part that recorded each node.
        passes: Backward passes through it, by autograd's number.
        obstacle: Why it cannot be repeated, "" where it can.
        complete: It has ended as it should.
        planned: It is of a step that every rank repeats.
    """

    step: int
    call: int
    module: weakref.ref[torch.nn.Module]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    inputs: list[tuple[torch.Tensor, int, Word | None]] = field(default_factory=list)
    weights: list[tuple[str, torch.nn.Parameter, int, Word | None]] = field(default_factory=list)
    rng: RngState | None = None
    held: Held | None = None
    settings: Settings | None = None
    events: list[Event] = field(default_factory=list)
    paths: tuple[str, ...] = ()
    output_words: list[Word | None] = field(default_factory=list)
    outputs: list[tuple[torch.Tensor, int]] = field(default_factory=list)
    graph: CallGraph | None = None
    owners: list[str] = field(default_factory=list)
    passes: dict[int, Pass] = field(default_factory=dict)
    obstacle: str = ""
    complete: bool = False
    planned: bool = True

    def why_changed(self) -> str:
        """Return what of its inputs or weights is another one now, "" where nothing is."""
        for tensor, before, _ in self.inputs:
            if version(tensor) != before:
                return "an input was written to after the call"
        module = self.module()
        now = [] if module is None else list(module.parameters())
        if not _are(now, self.weights):
            return "it was called with other tensors in the place of its own"
        for name, parameter, before, _ in self.weights:
            if version(parameter) != before:
                return f"{name} was written to after the call"
        assert self.settings is not None
        return self.settings.why_changed()


class Recorder:
    """Records one call of a module: hooks it from before the call until behind its backward.

    Args:
        module: The inner module of a root, unwrapped.
        parts: All its parts.
        step: Updates finished or skipped.
        call: Number of the call within the step.
        quick: Take no digest, and look into no part, until `awake` is called.

    Attributes:
        record: What was recorded.
        quick: The same.
        spent_s: Time that recording the call has taken.
        edges: Of a quick record: where the gradient of each output comes in, None where none does.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        parts: list[torch.nn.Module],
        *,
        step: int,
        call: int,
        quick: bool = False,
    ) -> None:
        self.record = CallRecord(
            step=step, call=call, module=weakref.ref(module), planned=not quick
        )
        self.spent_s = 0.0
        self.quick = quick
        self.edges: list[tuple[Any, int] | None] = []
        self._tensors: list[torch.Tensor] = []
        self._parts = parts
        self._first = 0
        self._shape: tuple[tuple[str, int], ...] = ()
        self._running = False
        self._trace: Trace | None = None
        self._collectives: CollectiveCounter | None = None
        self._entries: set[tuple[int, int]] = set()
        self._announced = False
        self._on_nodes: list[Any] = []
        self._on_calls = [
            module.register_forward_pre_hook(self._before, with_kwargs=True),
            module.register_forward_hook(self._after, with_kwargs=True),
        ]

    def end_call(self) -> None:
        """Take the hooks of the forward pass away; the call has ended, however."""
        for handle in self._on_calls:
            handle.remove()
        self._on_calls = []
        if self._trace is not None:
            self._trace.remove()
            self._trace = None
        if not self.record.complete and not self.record.obstacle:
            self.record.obstacle = "the call did not end, or never reached the model"
        if self.record.obstacle:
            self.close()

    def awake(self) -> None:
        """Take what a quick record has left out; its backward pass has not begun."""
        record = self.record
        try:
            with torch.no_grad(), torch._C.DisableTorchFunction():
                if record.obstacle or (why := record.why_changed()):
                    record.obstacle = record.obstacle or why
                    return
                if any(version(tensor) != before for tensor, before in record.outputs):
                    record.obstacle = "its outputs were written to"
                    return
                record.inputs = [(t, v, word_of(t)) for t, v, _ in record.inputs]
                record.weights = [(n, p, v, word_of(p)) for n, p, v, _ in record.weights]
                record.output_words = [word_of(tensor) for tensor in self._tensors]
            self._attach(None)
        except Exception as error:
            self.fail(error)

    def expect(self, extra: set[tuple[int, int]]) -> None:
        """Be told where gradients come in besides the outputs: a backward pass begins."""
        self._announced = True
        self._catch(extra)

    def pass_ended(self) -> None:
        """Be told that `backward` has ended: what comes next is none that was announced."""
        self._announced = False

    def _catch(self, extra: set[tuple[int, int]]) -> None:
        graph = self.record.graph
        if graph is None:
            return
        by_node: dict[int, set[int]] = {}
        for place, number in extra - self._entries:
            by_node.setdefault(place, set()).add(number)
        self._entries |= extra
        for place, numbers in by_node.items():
            hook = self._catcher(place, numbers)
            self._on_nodes.append(graph.nodes[place].register_prehook(hook))

    def close(self) -> None:
        """Let go of everything that the call holds."""
        for handle in (*self._on_calls, *self._on_nodes):
            handle.remove()
        if self._trace is not None:
            self._trace.remove()
        self._on_calls, self._on_nodes, self._trace = [], [], None
        self.let_go_of_graph()
        record = self.record
        record.args, record.kwargs, record.inputs, record.weights = (), {}, [], []
        record.events, record.outputs, record.graph, record.held = [], [], None, None
        record.passes = {}

    def let_go_of_graph(self) -> None:
        """Let go of what a quick record holds for a backward pass."""
        self._tensors, self.edges = [], []

    def fail(self, error: Exception) -> None:
        """Give the call up because of an error of our own."""
        self.record.obstacle = f"a fault of its own: {type(error).__name__}: {error}"

    def _before(self, module: Any, args: Any, kwargs: Any) -> None:
        if self.record.obstacle:
            return
        began = time.perf_counter()
        try:
            if self._running or self.record.complete:
                self.record.obstacle = "the model is called within its own call, or twice in one"
                return
            self.record.settings = Settings.capture()
            with torch.no_grad(), torch._C.DisableTorchFunction():
                self._take_inputs(module, args, kwargs)
            if not self.record.obstacle:
                self._trace = None if self.quick else Trace(module, self.fail)
                self._collectives = CollectiveCounter()
                self._running = True
                self._first = torch._C._autograd._get_sequence_nr()
        except Exception as error:
            self.fail(error)
        self.spent_s += time.perf_counter() - began

    def _take_inputs(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        record = self.record
        record.obstacle = why_not_now() or why_unrepeatable(args, kwargs)
        if record.obstacle:
            return
        record.obstacle = why_not_there(module)
        if record.obstacle:
            return
        record.args, record.kwargs = args, dict(kwargs)
        self._shape = shape_of((args, kwargs))
        tensors = [t for _, t in leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        record.inputs = [(t, version(t), self._word(t)) for t in tensors]
        record.weights = [
            (name, parameter, version(parameter), self._word(parameter))
            for name, parameter in module.named_parameters()
        ]
        record.held = Held(module, self._parts)
        record.rng = RngState.capture()

    def _after(self, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        if self.record.obstacle or not self._running:
            return
        began = time.perf_counter()
        try:
            self._running = False
            self._take_outputs(module, output)
        except Exception as error:
            self.fail(error)
        self.spent_s += time.perf_counter() - began

    def _word(self, tensor: torch.Tensor) -> Word | None:
        return None if self.quick else word_of(tensor)

    def _take_outputs(self, module: torch.nn.Module, output: Any) -> None:
        record, trace = self.record, self._trace
        assert record.held is not None
        assert self._collectives is not None
        if trace is not None:
            trace.remove()
            record.events = trace.events
        found = tensors_in(output)
        record.paths = tuple(path for path, _ in found)
        with torch.no_grad(), torch._C.DisableTorchFunction():
            record.output_words = [self._word(tensor) for _, tensor in found]
            record.outputs = [(t.detach(), version(t)) for _, t in found]
            record.obstacle = (
                self._collectives.why_moved() or self._why_changed(module) or record.held.why_lost()
            )
        unread = not self.quick and all(word is None for word in record.output_words)
        if not record.obstacle and unread:
            record.obstacle = "it returned no tensor whose bytes can be read"
        if record.obstacle:
            return
        self._tensors = [tensor for _, tensor in found]
        record.complete = True
        if not self.quick:
            self._attach(trace)
            return
        # What writes into an output later puts another node in this one's place.
        self.edges = [(t.grad_fn, t.output_nr) if t.grad_fn else None for _, t in found]

    def _attach(self, trace: Trace | None) -> None:
        """Hook the nodes that the call has recorded."""
        record, tensors = self.record, self._tensors
        self._tensors = []
        graph = graph_of(tensors, self._first)
        if not graph.nodes:
            return
        record.graph = graph
        numbers = [node._sequence_nr() for node in graph.nodes]
        record.owners = ["" if trace is None else trace.owner(number) for number in numbers]
        self._on_nodes = hook_nodes(graph, self._fired)
        self._catch(
            {
                (place, tensor.output_nr)
                for place, tensor in zip(graph.shape.roots, tensors, strict=True)
                if place >= 0
            }
        )

    def _why_changed(self, module: torch.nn.Module) -> str:
        record = self.record
        if shape_of((record.args, record.kwargs)) != self._shape:
            return "its forward changes what it is given"
        for tensor, before, _ in record.inputs:
            if version(tensor) != before:
                return "its forward writes into an input"
        if not _are(list(module.parameters()), record.weights):
            return "its forward puts other tensors in the place of its own"
        for name, parameter, before, _ in record.weights:
            if version(parameter) != before:
                return f"its forward writes into {name}"
        return ""

    def _pass(self) -> Pass:
        number = torch._C._current_graph_task_id()
        return self.record.passes.setdefault(number, Pass(announced=self._announced))

    def _fired(self, place: int, gradients: Sequence[torch.Tensor | None]) -> None:
        try:
            found = self._pass()
            found.differentiable |= torch.is_grad_enabled()
            with torch.no_grad(), torch._C.DisableTorchFunction():
                found.words[place] = [word_of(gradient) for gradient in gradients]
            found.order.append(place)
        except Exception as error:
            self.fail(error)

    def _catcher(self, place: int, numbers: set[int]) -> Any:
        def catch(gradients: Any) -> None:
            try:
                found = self._pass()
                with torch.no_grad(), torch._C.DisableTorchFunction():
                    for number in numbers:
                        gradient = gradients[number]
                        if gradient is not None:
                            found.seeds[place, number] = kept(gradient)
            except Exception as error:
                self.fail(error)

        return catch


def expect_passes(recorders: Sequence[Recorder], losses: Sequence[torch.Tensor]) -> None:
    """Prepare recorded calls for a backward pass that begins at some tensors."""
    open_ = [each for each in recorders if each.record.graph is not None]
    graphs = [each.record.graph for each in open_ if each.record.graph is not None]
    for recorder, extra in zip(open_, entries_from(losses, graphs), strict=True):
        recorder.expect(extra)


def _are(parameters: list[Any], weights: list[Any]) -> bool:
    return len(parameters) == len(weights) and all(
        one is other for one, (_, other, _, _) in zip(parameters, weights, strict=True)
    )
