"""Keep a capsule with a finding of replay, as far as there is room."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from everybit.guard.capsule.capture import MAX_BYTES, capture_capsule
from everybit.guard.capsule.content import NotPlainError
from everybit.guard.capsule.files import write_capsule
from everybit.guard.replay.repeat import CannotRepeatError

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.core.finding import Finding
    from everybit.guard.replay.compare import Difference
    from everybit.guard.replay.record import CallRecord

#: Capsules of one run: what always errs has said enough by then.
MAX_KEPT: Final = 8


class Keeper:
    """Writes capsules into a run folder.

    Args:
        run: The run folder.
        megabytes: Room for all capsules of the run, in MB; 0 for none.
    """

    def __init__(self, run: Path, megabytes: int) -> None:
        self._run = run
        self._left = megabytes * 1_000_000
        self._num_kept = 0

    def __call__(self, record: CallRecord, difference: Difference, finding: Finding) -> Finding:
        """Return the finding, with the capsule's folder in its evidence, or why there is none."""
        if not self._left or self._num_kept >= MAX_KEPT:
            return finding
        try:
            room = min(self._left, MAX_BYTES)
            capsule = capture_capsule(record, difference, finding, max_bytes=room)
            folder = write_capsule(capsule, self._run)
        except (NotPlainError, CannotRepeatError) as error:
            return _with(finding, "capsule_not_kept", str(error))
        except OSError as error:
            self._left = 0
            return _with(finding, "capsule_not_kept", error.strerror or str(error))
        except Exception as error:
            return _with(finding, "capsule_not_kept", f"{type(error).__name__}: {error}")
        self._num_kept += 1
        self._left -= sum(path.stat().st_size for path in folder.iterdir())
        self._left = max(self._left, 0)
        return _with(finding, "capsule", folder.relative_to(self._run).as_posix())


def _with(finding: Finding, key: str, value: str) -> Finding:
    return replace(finding, evidence={**finding.evidence, key: value})
