"""Numbers of the last step in Prometheus's text format, for node_exporter's textfile collector.

The format (exposition format 0.0.4) is a line a value; the file is replaced whole, so that no
reader sees a part of it.
"""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from everybit.sinks.worker import Job, Recorder

_NOT_A_NAME: Final = re.compile(r"[^a-zA-Z0-9_]")
_FINDINGS: Final = "everybit/findings/"


def open_recorder(job: Job) -> Recorder:
    """Begin the file `job.place`."""
    return _TextFile(job)


class _TextFile:
    def __init__(self, job: Job) -> None:
        self._path = Path(job.place)
        self._labels = {"run": Path(job.run).name, "rank": str(job.rank)}
        self._values: dict[str, float] = {}
        self._findings: dict[str, float] = {}
        self._at: tuple[int, float] | None = None
        self._up = 1
        self._changed = True
        self.tick()

    def scalars(self, step: int, time_s: float, values: dict[str, float]) -> None:
        for name, value in values.items():
            if name.startswith(_FINDINGS):
                self._findings[name.removeprefix(_FINDINGS)] = value
            else:
                self._values[_NOT_A_NAME.sub("_", name)] = value
                self._at = (step, time_s)
        self._changed = True

    def finding(self, step: int, rule: str, severity: str, message: str) -> None:
        """Findings are counted with the numbers."""

    def tick(self) -> None:
        if not self._changed:
            return
        self._changed = False
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            draft.write_text(self._text(), encoding="utf-8")
            draft.chmod(0o644)
            draft.replace(self._path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise

    def close(self, status: str) -> None:
        self._up = 0
        self._changed = True
        self.tick()

    def _text(self) -> str:
        lines = self._metric("everybit_up", "Whether the run goes on.", self._up)
        for name, value in sorted(self._values.items()):
            lines += self._metric(name, "Of the last step on record.", value)
        if self._at is not None:
            lines += self._metric("everybit_step", "The last step on record.", self._at[0])
            told = "When that step ended, seconds since the epoch."
            lines += self._metric("everybit_step_time_seconds", told, self._at[1])
        lines.append("# HELP everybit_findings_total Findings so far, by rule.")
        lines.append("# TYPE everybit_findings_total counter")
        lines += [
            f"everybit_findings_total{self._label(rule=rule)} {_number(count)}"
            for rule, count in sorted(self._findings.items())
        ]
        return "\n".join([*lines, ""])

    def _metric(self, name: str, told: str, value: float) -> list[str]:
        head = [f"# HELP {name} {told}", f"# TYPE {name} gauge"]
        return [*head, f"{name}{self._label()} {_number(value)}"]

    def _label(self, **more: str) -> str:
        pairs = (f'{key}="{_escaped(text)}"' for key, text in {**self._labels, **more}.items())
        return "{" + ",".join(pairs) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
