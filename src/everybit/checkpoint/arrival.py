"""What came of a load: what arrived, what did not, why, and whether it is still there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from everybit.checkpoint.held import held_by
from everybit.checkpoint.live_bytes import tensor_tree
from everybit.core.errors import UsageError
from everybit.core.finding import Location
from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.core.verdict import Checked, Coverage, Verdict
from everybit.probe.memory import dtype_name, why_unreadable

if TYPE_CHECKING:
    import weakref
    from collections.abc import Iterable, Mapping

    from everybit.core.digest import Digest
    from everybit.core.finding import Finding

_MAX_SHOWN = 6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arrival:
    """The outcome of `everybit.load_into`.

    Attributes:
        path: The file or folder.
        verdict: Findings (FIL116, FIL115 and what the file itself has), and what was checked.
        loaded: Names of the model's tensors that hold the file's values, proved by digest.
        missing: Names of the model that the file has not.
        unexpected: Names of the file that the model has not.
        mismatched: `{name: "[5, 4] in the file, [4, 4] in the model"}`.
        tied: `{missing name: the name that shares its memory and was loaded}`.
        explained: `{name: why it is harmless}`.
        converted: `{name: "float32 to bfloat16"}`.
        prefix: What was done to the file's names, as a sentence; "" for nothing.
        suggestion: What would make more of it fit, as a clause; "" for nothing.
        optimizer: Number of parameters whose optimizer state arrived; None where none was asked.
        values: Plain values beside the tensors in the file (step, epoch ...), by dotted key.
        expected: `{name: (digest, dtype)}` of what was loaded.
        model: The model that was loaded into, weakly held.
    """

    path: str
    verdict: Verdict
    loaded: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    mismatched: Mapping[str, str] = field(default_factory=dict)
    tied: Mapping[str, str] = field(default_factory=dict)
    explained: Mapping[str, str] = field(default_factory=dict)
    converted: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""
    suggestion: str = ""
    optimizer: int | None = None
    values: Mapping[str, object] = field(default_factory=dict)
    expected: Mapping[str, tuple[Digest, str]] = field(default_factory=dict, repr=False)
    model: weakref.ref[torch.nn.Module] | None = field(default=None, repr=False)

    @property
    def ok(self) -> bool:
        """Whether everything that was asked for arrived, and that is proved."""
        return self.verdict.ok

    def __str__(self) -> str:
        lines = [f"{len(self.loaded)} tensors arrived from {self.path}, each proved by its digest"]
        if not self.loaded:
            lines = [f"nothing was loaded from {self.path}"]
        if self.prefix:
            lines.append(f"names: {self.prefix}")
        for what, names in (("missing", self.missing), ("unexpected", self.unexpected)):
            if names:
                lines.append(f"{what}: {len(names)} ({listed(names)})")
        if self.mismatched:
            shown = [f"{name} {how}" for name, how in self.mismatched.items()]
            lines.append(f"other shapes: {len(shown)} ({listed(shown)})")
        reasons: dict[str, list[str]] = {}
        for name, why in self.explained.items():
            reasons.setdefault(why, []).append(name)
        lines += [f"harmless: {listed(names)}: {why}" for why, names in reasons.items()]
        kinds: dict[str, list[str]] = {}
        for name, how in self.converted.items():
            kinds.setdefault(how, []).append(name)
        lines += [f"converted {how}: {len(names)} tensors" for how, names in kinds.items()]
        if self.optimizer is not None:
            lines.append(f"optimizer state: arrived for {self.optimizer} parameters, by name")
        lines += [f"{item.rule} {item.severity}: {item.message}" for item in self.verdict.findings]
        if self.suggestion and not any(self.suggestion in line for line in lines):
            lines.append(f"to do: {self.suggestion}")
        return "\n  ".join(lines)

    def still_there(self) -> Verdict:
        """Prove again that the model holds what was loaded: nothing wrote over it since.

        For after `post_init`, `tie_weights`, adapters and compilation, and before the first step;
        after a step the weights differ, as they should.

        Raises:
            UsageError: The model does not live any more.
        """
        model = self.model() if self.model is not None else None
        if model is None:
            raise UsageError("the model that was loaded into is gone", where="still_there")
        now = held_by(model).tensors
        gone = [name for name in self.expected if name not in now]
        changed: dict[str, str] = {}
        converted = []
        for name, (expected, dtype) in self.expected.items():
            tensor = now.get(name)
            if tensor is None or why_unreadable(tensor):
                continue
            if tensor_tree(tensor) == expected:
                continue
            if dtype_name(tensor.dtype) != dtype:
                converted.append(name)
            else:
                changed[name] = _how(tensor)
        findings = []
        if changed or gone:
            findings.append(self._overwritten(changed, gone))
        checked = (Checked(what="tensors held against what was loaded", count=len(self.expected)),)
        return Verdict(
            command="load_into",
            target=(self.path,),
            findings=tuple(findings),
            coverage=Coverage(checked=checked),
            stats={"changed": len(changed), "gone": len(gone), "converted": len(converted)},
        )

    def _overwritten(self, changed: Mapping[str, str], gone: list[str]) -> Finding:
        names = [*changed, *gone]
        parts = []
        if changed:
            shown = [f"{name} ({how})" if how else name for name, how in changed.items()]
            parts.append(
                f"{len(changed)} of {len(self.expected)} loaded tensors hold other values "
                f"now: {listed(shown)}"
            )
        if gone:
            parts.append(f"{len(gone)} are not in the model any more: {listed(gone)}")
        return rule("FIL116").finding(
            "; ".join(parts),
            where=Location(parameter=names[0], link=Link.LOAD),
            evidence={
                "changed": list(changed)[:64],
                "num_changed": len(changed),
                "gone": gone[:64],
                "now": {name: how for name, how in list(changed.items())[:16] if how},
            },
            remedy="Load after everything that initialises, ties or replaces weights, or keep it "
            "from touching what was loaded.",
        )


def _how(tensor: torch.Tensor) -> str:
    """Return what an overwritten tensor holds, where that tells how it came about."""
    with torch.no_grad():
        flat = tensor.detach().reshape(-1)
        if not flat.numel():
            return ""
        if bool((flat == flat[0]).all()):
            return f"all {flat[0].item():g}" if not flat.is_complex() else "constant"
    return ""


def listed(names: Iterable[str]) -> str:
    """Return the first names, and how many more there are."""
    names = list(names)
    more = f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
    return ", ".join(names[:_MAX_SHOWN]) + more
