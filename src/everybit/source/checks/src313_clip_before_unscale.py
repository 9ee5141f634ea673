"""SRC313: gradients clipped between a GradScaler's backward pass and its `unscale_`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from everybit.source.checks.flow import (
    bodies,
    calls_in,
    end,
    inside,
    last_word,
    place,
    precedes,
    unrelated,
    words_of,
    written,
)
from everybit.source.checks.reach import Reach
from everybit.source.checks.training import is_backward, is_scaler, is_switched_off, scaled_by
from everybit.source.hit import Fix, Hit, InsertBefore
from everybit.source.meaning import Defined

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.source.module import Module

RULE_ID: Final = "SRC313"
WORDS: Final = ("clip_grad",)
NEEDS: Final = ("backward|step",)
_CLIPS: Final = frozenset(
    {
        "torch.nn.utils.clip_grad_norm_",
        "torch.nn.utils.clip_grad_value_",
        "torch.nn.utils.clip_grads_with_norm_",
    }
)
#: Clips, backward passes and steps of one function that are put beside each other.
_MAX_IN_ONE: Final = 64
#: Words of code that takes the scale into account by itself.
_AWARE: Final = frozenset({"get_scale", "_scale", "inv_scale"})


def check(module: Module) -> Iterator[Hit]:
    """Yield one hit for each clip of gradients that are still scaled."""
    reach = Reach(module)
    for body in bodies(module):
        calls = list(calls_in([body]))
        clips = [call for call in calls if module.resolve(call.func) in _CLIPS]
        if not clips or any(word in _AWARE for node in inside([body]) for word in words_of(node)):
            continue
        step = _Step(reach, calls)
        for clip in clips[:_MAX_IN_ONE]:
            hit = _judge(step, clip)
            if hit is not None:
                yield hit


class _Step:
    """The calls of one function that matter to a clip, in the order of the text.

    Args:
        reach: What the file's functions reach.
        calls: All calls of the function.
    """

    def __init__(self, reach: Reach, calls: list[ast.Call]) -> None:
        module = self.module = reach.module
        self.calls = calls
        self.unscaling = [call for call in calls if _unscales(reach, call)]
        self.backwards = [call for call in calls if is_backward(call)][:_MAX_IN_ONE]
        self.scaled = [
            (call, scaler)
            for call in self.backwards
            if (scaler := scaled_by(module, call)) is not None
        ]
        self.steps = [
            call
            for call in calls
            if last_word(call.func) == "step"
            and isinstance(call.func, ast.Attribute)
            and call.args
            and is_scaler(module, call.func.value)
        ][:_MAX_IN_ONE]


def _judge(step: _Step, clip: ast.Call) -> Hit | None:
    module = step.module
    if any(precedes(module, call, clip) for call in step.unscaling):
        return None
    scaled = [
        (call, scaler)
        for call, scaler in step.scaled
        if precedes(module, call, clip) and not unrelated(module, call, clip)
    ]
    steps = [
        call
        for call in step.steps
        if precedes(module, clip, call) and not unrelated(module, clip, call)
    ]
    if scaled:
        backward, scaler = scaled[-1]
        if is_switched_off(module, scaler) or _given_away(step.calls, backward, clip, scaler):
            return None
        if any(
            precedes(module, backward, call) and precedes(module, call, clip)
            for call in step.backwards
        ):
            return None  # another backward pass, unscaled, is what is clipped
        return _hit(module, clip, scaler, backward, steps)
    if steps and "unscale" not in module.text and "scale(" in module.text:
        func = steps[0].func
        if isinstance(func, ast.Attribute) and not is_switched_off(module, func.value):
            return _hit(module, clip, func.value, None, steps)
    return None


def _unscales(reach: Reach, call: ast.Call) -> bool:
    """Whether a call unscales, or calls something that does."""
    if "unscale" in last_word(call.func):
        return True
    elsewhere = [
        meaning.node
        for meaning in reach.module.resolver.meanings(call.func)
        if isinstance(meaning, Defined) and meaning.module is not reach.module
    ]
    return any(
        "unscale" in word
        for function in (*reach.functions(last_word(call.func)), *elsewhere)
        for node in inside([function], nested=True)
        for word in words_of(node)
    )


def _given_away(
    calls: list[ast.Call], backward: ast.Call, clip: ast.Call, scaler: ast.expr
) -> bool:
    """Whether the scaler goes to other code between the two, which may unscale."""
    name = written(scaler)
    return any(
        end(backward) <= place(call)
        and end(call) <= place(clip)
        and any(written(arg) == name for arg in (*call.args, *(k.value for k in call.keywords)))
        for call in calls
    )


def _hit(
    module: Module,
    clip: ast.Call,
    scaler: ast.expr,
    backward: ast.Call | None,
    steps: list[ast.Call],
) -> Hit:
    name = written(scaler) or module.source(scaler)
    clipped = last_word(clip.func)
    optimizer = written(steps[0].args[0]) if steps else None
    evidence: dict[str, object] = {"scaler": name, "clip": clipped, "clip_line": clip.lineno}
    if backward is not None:
        evidence["backward_line"] = backward.lineno
    return Hit(
        rule=RULE_ID,
        node=clip,
        message=(
            f"`{clipped}` clips gradients that `{name}` has scaled and not unscaled: the threshold "
            "is compared with values up to 65536 times too large"
        ),
        evidence=evidence,
        remedy=f"Call `{name}.unscale_({optimizer or 'optimizer'})` before the clip.",
        fix=_fix(module, clip, name, optimizer, backward, steps),
    )


def _fix(
    module: Module,
    clip: ast.Call,
    scaler: str,
    optimizer: str | None,
    backward: ast.Call | None,
    steps: list[ast.Call],
) -> Fix | None:
    """Return the missing call, where scale, clip and step follow each other in one block."""
    if backward is None or optimizer is None or len(steps) != 1:
        return None
    statements = [module.statement(node) for node in (backward, clip, steps[0])]
    owners = {id(module.parents[statement]) for statement in statements}
    if len(owners) != 1 or not isinstance(statements[1], ast.Expr | ast.Assign):
        return None
    if "unscale" in module.text and any(
        last_word(call.func) == "unscale_" for call in calls_in(module.parents[statements[1]])
    ):
        return None  # a second unscale_ of one step raises
    text = f"{scaler}.unscale_({optimizer})"
    return Fix(
        what=f"call {text} before the clip",
        edits=(InsertBefore(statement=statements[1], text=text),),
    )
