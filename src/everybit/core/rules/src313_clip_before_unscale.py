"""Gradients are clipped while a GradScaler's factor is still in them.

What:
    `clip_grad_norm_` or `clip_grad_value_` is called between `scaler.scale(loss).backward()` and
    `scaler.step(optimizer)` without `scaler.unscale_(optimizer)` before it.

Why it matters:
    The gradients are still multiplied by the loss scale, 65536 at the start: the clip compares
    scaled gradients with an unscaled threshold. Nearly every step is cut down to almost nothing,
    how much depends on the scale of the moment, and no error is raised.

Evidence:
    The scaler, the clip, its line, and the line of the backward pass.

What to do:
    Call `scaler.unscale_(optimizer)` once for each optimizer before the clip.

Known false alarms:
    A scaler that is switched off in a way that cannot be seen. Accelerate, Fabric and Lightning
    unscale by themselves and are known.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="SRC313",
    slug="clip-before-unscale",
    severity=Severity.WARNING,
    certainty=Certainty.STRONG,
    remedy="Call `scaler.unscale_(optimizer)` before the clip.",
    doc=__doc__,
)
