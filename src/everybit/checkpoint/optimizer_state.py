"""Optimizer state matched by parameter name and shape, never by position alone.

torch matches by position: after layers changed their order, moments land on other parameters and
nothing fails. Here a position counts only through the name that it had when the file was written:
the file's list of names, or the order of the model's own keys in the same file; where both are
there and contradict each other, the state is refused.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import torch

from everybit.checkpoint.live_bytes import tensor_tree
from everybit.checkpoint.staging import read_stored
from everybit.checkpoint.stored_optimizer import StoredOptimizer, find_optimizers, nested
from everybit.core.errors import FindingsError, UsageError
from everybit.core.finding import Certainty, Finding, Location, Severity
from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.core.verdict import Skipped

if TYPE_CHECKING:
    from everybit.checkpoint.held import Held
    from everybit.checkpoint.stored import Chosen
    from everybit.files.model import Model, ModelTensor

#: State that has the parameter's own shape in every optimizer that keeps it.
SHAPED: Final = frozenset(
    {
        "exp_avg", "exp_avg_sq", "max_exp_avg_sq", "exp_inf", "momentum_buffer", "square_avg",
        "grad_avg", "acc_delta", "sum", "ax", "mu_product_buffer", "prev", "step_size", "exp_avgs",
        "exp_avg_diff", "neg_pre_grad", "z",
    }
)  # fmt: skip


#: Settings that groups of any optimizer may have, or that come with a release or a scheduler.
_ANY: Final = frozenset(
    {
        "params", "param_names", "lr", "weight_decay", "eps", "maximize", "foreach", "capturable",
        "differentiable", "fused", "decoupled_weight_decay", "initial_lr", "max_lr", "min_lr",
        "swa_lr", "base_momentum", "max_momentum", "name", "lr_scale", "group_name",
    }
)  # fmt: skip


@dataclass(slots=True, kw_only=True, eq=False)
class Plan:
    """What will be loaded into an optimizer, checked and in memory."""

    optimizer: torch.optim.Optimizer
    state: dict[str, Any] = field(default_factory=dict)
    staged: dict[int, dict[str, Any]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    def apply(self) -> int:
        """Load it, and prove that it arrived; return for how many parameters.

        Raises:
            FindingsError: A moment does not hold what was loaded.
        """
        self.optimizer.load_state_dict(self.state)
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        for index, slots in self.staged.items():
            held = self.optimizer.state[parameters[index]]
            for slot, value in slots.items():
                found = held.get(slot)
                if isinstance(value, torch.Tensor) and isinstance(found, torch.Tensor):
                    expected = value.to(found.dtype).reshape(found.shape)
                    if tensor_tree(expected) != tensor_tree(found):
                        what = f"{slot} of parameter {index} does not hold what was loaded into it"
                        raise FindingsError(f"FIL116 {what}", todo="load again")
        return len(self.staged)


def plan_optimizer(
    optimizer: torch.optim.Optimizer,
    file: Model,
    chosen: Chosen,
    held: Held,
    *,
    key: str | None = None,
    strict: bool = True,
) -> Plan:
    """Match a file's optimizer state to the parameters of a live optimizer.

    Args:
        optimizer: The live one; its groups may be in another order than the file's.
        file: The file.
        chosen: Which of its tensors are the model's, and their new names.
        held: The live model's tensors.
        key: Dotted key in the file under which its state lies; found where None.
        strict: Refuse where a parameter has no state in the file.

    Raises:
        UsageError: It is no optimizer, or the file holds no optimizer state, or several that fit.
        PathError: The file cannot be read.
    """
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise UsageError(f"a {type(optimizer).__name__} is no optimizer", where="optimizer")
    stored = [each for each in find_optimizers(file) if key is None or each.root == f"{key}."]
    if not stored:
        raise UsageError(
            "holds no optimizer state", where=str(file.path), todo="leave `optimizer` out"
        )
    live = _live_names(optimizer, held)
    matched = [(each, _match(each, live, chosen, held)) for each in stored]
    fitting = [pair for pair in matched if not pair[1].problems]
    if len(fitting) > 1:
        raise UsageError(
            f"holds {len(fitting)} optimizers that fit ({', '.join(p[0].root for p in fitting)})",
            where=str(file.path),
            todo="load each from a file of its own",
        )
    source, match = fitting[0] if fitting else matched[0]
    match.problems += _other_kind(optimizer, source)
    plan = Plan(optimizer=optimizer)
    if match.by_position:
        why = (
            "the file says neither their names nor the order of the model's keys: only shapes "
            "and positions were held against each other"
        )
        plan.skipped.append(Skipped(what="names of the parameters of the optimizer state", why=why))
    problems = match.problems or (match.absent if strict else [])
    if problems or match.absent:
        plan.findings.append(
            _finding(file, source, problems or match.absent, refused=bool(problems))
        )
    if not problems:
        _fill(plan, file, source, match, live)
    return plan


@dataclass(slots=True, kw_only=True)
class _Match:
    numbers: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    by_position: bool = False


def _other_kind(optimizer: torch.optim.Optimizer, stored: StoredOptimizer) -> list[str]:
    """Tell a state that another kind of optimizer left, by the settings of their groups."""
    if not stored.groups or not optimizer.param_groups:
        return []
    theirs = {key.partition(".")[0] for key in next(iter(stored.groups.values()))} - _ANY
    ours = set(optimizer.param_groups[0]) - _ANY
    if theirs - ours and ours - theirs:
        has = ", ".join(sorted(ours - theirs))
        what = f"it is of another kind of optimizer, with {', '.join(sorted(theirs - ours))}; "
        return [f"{what}{type(optimizer).__name__} has {has} instead"]
    return []


def _live_names(optimizer: torch.optim.Optimizer, held: Held) -> list[list[str]]:
    names = {id(tensor): name for name, tensor in reversed(list(held.tensors.items()))}
    return [
        [names.get(id(p), f"group {g}, parameter {i}") for i, p in enumerate(group["params"])]
        for g, group in enumerate(optimizer.param_groups)
    ]


def _match(stored: StoredOptimizer, live: list[list[str]], chosen: Chosen, held: Held) -> _Match:
    """Find the number of each live parameter in the file."""
    order = _order(chosen)
    result = _Match()
    wanted = [name for group in live for name in group]
    by_order = _by_order(stored, live, order)
    if stored.has_names:
        named = {
            _renamed(name, chosen): number
            for group, numbers in stored.members.items()
            for name, number in zip(stored.names[group], numbers, strict=True)
        }
        result.numbers = {name: named[name] for name in wanted if name in named}
        if _runs_backwards(stored, chosen, order):
            wrong = _misshapen(stored, result.numbers, held)
            if by_order is not None and by_order != result.numbers:
                fits = not _misshapen(stored, by_order, held)
                if fits or wrong:
                    result.problems.append(
                        "the file's list of parameter names is in another order than the keys of "
                        "the model in the same file: it is stale (loading an optimizer after its "
                        "layers changed order does that), and which moments belong to which "
                        "parameter cannot be told"
                    )
                    return result
    elif by_order is not None:
        result.numbers = by_order
        result.by_position = not all(name in order for name in wanted)
    else:
        sizes = [len(numbers) for numbers in stored.members.values()]
        result.problems.append(
            f"the file's groups have {sizes} parameters and the optimizer's "
            f"{[len(group) for group in live]}, and the file does not say their names"
        )
        return result
    result.problems += _misshapen(stored, result.numbers, held)
    result.absent = [name for name in wanted if name not in result.numbers]
    if not result.numbers:
        result.problems.append("none of the file's parameter names is one of the optimizer's")
    return result


def _by_order(
    stored: StoredOptimizer, live: list[list[str]], order: dict[str, int]
) -> dict[str, int] | None:
    """Match group by group, in the order of the file's model keys; of the live ones without."""
    groups = list(stored.members.values())
    if [len(numbers) for numbers in groups] != [len(group) for group in live]:
        return None
    found: dict[str, int] = {}
    for numbers, group in zip(groups, live, strict=True):
        known = all(name in order for name in group)
        ranked = sorted(group, key=lambda name: order[name]) if known else group
        found.update(zip(ranked, numbers, strict=True))
    return found


def _order(chosen: Chosen) -> dict[str, int]:
    """Return the places of the model's keys in its state dict; none where the file tells none.

    A pickle keeps the order. safetensors and DCP sort their keys, and shards cut them up.
    """
    if not chosen.keeps_order:
        return {}
    return {name: place for place, name in enumerate(chosen.tensors)}


def _renamed(name: str, chosen: Chosen) -> str:
    new = chosen.rename.apply(name)
    return new if new is not None and new in chosen.tensors else name


def _runs_backwards(stored: StoredOptimizer, chosen: Chosen, order: dict[str, int]) -> bool:
    """Whether names within a group stand in another order than the model's keys in the file."""
    for names in stored.names.values():
        places = [order.get(_renamed(name, chosen)) for name in names]
        known = [place for place in places if place is not None]
        if any(a > b for a, b in itertools.pairwise(known)):
            return True
    return False


def _misshapen(stored: StoredOptimizer, numbers: dict[str, int], held: Held) -> list[str]:
    problems = []
    for name, number in numbers.items():
        tensor = held.tensors.get(name)
        for slot, moment in stored.tensors.get(number, {}).items():
            if tensor is not None and slot in SHAPED and moment.shape != tuple(tensor.shape):
                problems.append(
                    f"{slot} of number {number} has shape {list(moment.shape)} and {name} has "
                    f"{list(tensor.shape)}"
                )
    return problems


def _finding(
    file: Model, stored: StoredOptimizer, problems: list[str], *, refused: bool
) -> Finding:
    first = problems[0] if refused and len(problems[0]) > 60 else ", ".join(problems[:4])
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    what = f"the optimizer state{f' under {stored.root[:-1]}' if stored.root else ''}"
    message = (
        f"{what} does not belong to these parameters: {first}{more}"
        if refused
        else f"{what} has nothing for {len(problems)} parameters ({first}): these start afresh"
    )
    return rule("FIL115").finding(
        message,
        where=Location(path=str(file.path), link=Link.LOAD),
        evidence={"problems": problems[:32]},
        remedy="Build the optimizer as it was built for the save, or start it afresh.",
        severity=Severity.ERROR if refused else Severity.WARNING,
        certainty=Certainty.PROOF if refused else Certainty.STRONG,
    )


def _fill(
    plan: Plan, file: Model, stored: StoredOptimizer, match: _Match, live: list[list[str]]
) -> None:
    """Build the state dict in the live optimizer's own order."""
    plan.state = plan.optimizer.state_dict()
    groups: list[dict[str, Any]] = [dict(group) for group in plan.state["param_groups"]]
    same_groups = len(stored.members) == len(groups)
    for number, group in enumerate(groups):
        if not same_groups:
            continue
        for key, value in nested(stored.groups.get(number, {})).items():
            now = group.get(key)
            group[key] = tuple(value) if isinstance(now, tuple) else value
        for tensor in file.tensors:
            key = tensor.name.removeprefix(f"{stored.root}param_groups.{number}.")
            if key != tensor.name and key in group:
                group[key] = read_stored(file, tensor)[0]
    indices = itertools.chain.from_iterable(group["params"] for group in groups)
    state: dict[int, dict[str, Any]] = {}
    for index, name in zip(indices, itertools.chain.from_iterable(live), strict=True):
        found = match.numbers.get(name)
        slots = {} if found is None else stored.slots(found)
        if slots:
            state[index] = nested({slot: _value(file, value) for slot, value in slots.items()})
    plan.staged = state
    plan.state = {**plan.state, "state": state, "param_groups": groups}


def _value(file: Model, value: ModelTensor | object) -> Any:
    from everybit.files.model import ModelTensor

    return read_stored(file, value)[0] if isinstance(value, ModelTensor) else value
