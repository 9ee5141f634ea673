"""A program run again to one step: `python -m everybit.api.zoomed SPEC`.

SPEC is a JSON file: what to run, what to look at, and where to write. What the program prints goes
to files beside it, and so does what it writes.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everybit.guard.check import Check
    from everybit.guard.magnify import Magnifier
    from everybit.guard.record import RecordCheck
    from everybit.guard.state import CarriedState

ENDED = "ended.json"


class _Rehearsal:
    """Guards of the program record beside; the one that made the run carries the magnifier."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._out = Path(spec["out"])
        self._spec = spec
        self._num_guards = 0
        self._is_given = False
        self._magnifier: Magnifier | None = None
        self._passed_over = 0
        self.magnified = False

    def place(self, wanted: Path) -> Path:
        """Return a folder beside; note whether this Guard is the one."""
        outer = self._out / "run"
        self._num_guards += 1
        self._is_given = self._is_the_one(wanted)
        return outer if wanted == outer else self._out / f"guard-{self._num_guards}"

    def _is_the_one(self, wanted: Path) -> bool:
        if self.magnified:
            return False
        if self._spec["outer"]:
            return wanted == self._out / "run"
        name = str(self._spec["run_name"])
        # A folder with a time in its name has another one this time.
        return wanted.name == name or name.startswith("20")

    def check(self, run: Path, state: CarriedState, record: RecordCheck) -> Check | None:
        """Return the magnifier for the Guard whose place was asked for just now."""
        if not self._is_given:
            return None
        from everybit.guard.magnify import Magnifier, Wanted

        self.magnified = True
        wanted = dict(self._spec["wanted"])
        wanted["folder"] = self._out
        self._magnifier = magnifier = Magnifier(Wanted(**wanted), state, record)
        magnifier.pass_over(self._passed_over)
        return magnifier

    def pass_over(self, steps: int) -> None:
        """Expect the step so many steps earlier: a Vault has given a later state."""
        if self._magnifier is not None:
            self._magnifier.pass_over(steps - self._passed_over)
        self._passed_over = steps


def main() -> None:
    """Run the program of SPEC."""
    spec = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    out = Path(spec["out"])
    from everybit.api.zoom_overlay import Overlay

    Overlay(out / "files", (out,)).install()
    told: dict[str, Any] = {"error": "", "magnified": False}
    rehearsal = _Rehearsal(spec)
    if spec.get("began_s") is not None:
        from everybit.api.zoom_vault import VaultsThen

        VaultsThen(
            began_s=spec["began_s"],
            step=spec["wanted"]["step"],
            near=spec["near"],
            out=out,
            passed_over=rehearsal.pass_over,
        ).install()
    try:
        told["error"] = _run(spec, out, rehearsal)
    except BaseException as error:
        traceback.print_exc()
        told["error"] = f"{type(error).__name__}: {error}"[:300]
    told["magnified"] = rehearsal.magnified
    (out / ENDED).write_text(json.dumps(told), encoding="utf-8")


def _run(spec: Mapping[str, Any], out: Path, rehearsal: _Rehearsal) -> str:
    """Run it, under a Guard of ours where the first run was; return how it ended badly."""
    from everybit.api.program import find_program
    from everybit.core.after_import import AfterImport

    program = find_program(spec["target"], module=spec["module"])
    guards: list[Any] = []

    def begin() -> None:
        # Only now: what the program sets before it imports torch has to come before.
        from everybit.guard.rehearsal import rehearse

        rehearse(rehearsal)
        if spec["outer"]:
            from everybit.core.config import Config
            from everybit.guard import Guard

            config = Config().updated({**spec["settings"], "run": str(out / "run")})
            guard = Guard(config=config)
            guard.__enter__()
            guards.append(guard)

    waiting = AfterImport("torch", begin)
    with program.in_place(list(spec["args"])):
        waiting.install()
        try:
            program.execute()
        except SystemExit as end:
            code = end.code
            return "" if code in (None, 0) else f"it exits with {code}"
        finally:
            for guard in guards:
                guard.__exit__(*sys.exc_info())
    return ""


if __name__ == "__main__":
    main()
