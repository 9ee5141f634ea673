"""What becomes of a mismatch: its failing part is computed elsewhere, judged, and kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from everybit.detect.compute_mismatch import judge_mismatch, weighed
from everybit.guard.capsule.capture import MAX_BYTES, capture_capsule
from everybit.guard.capsule.content import NotPlainError
from everybit.guard.capsule.elsewhere import ask_cpu
from everybit.guard.capsule.files import write_capsule
from everybit.guard.replay.repeat import CannotRepeatError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from everybit.core.finding import Finding
    from everybit.core.mismatch import Mismatch, Opinion
    from everybit.guard.capsule.content import Capsule
    from everybit.guard.replay.compare import Difference
    from everybit.guard.replay.record import CallRecord

#: Capsules of one run: what always errs has said enough by then.
MAX_KEPT: Final = 8
_CPU: Final = "the CPU"


class Neighbour(Protocol):
    """Another rank, whose device can compute a part too; its answer comes later."""

    @property
    def is_there(self) -> bool:
        """Whether there is one."""
        ...

    def why_not(self) -> str:
        """Return why it cannot be asked, "" where it can."""
        ...

    def ask(self, capsule: Capsule, settle: Callable[[Opinion | str], Finding]) -> str:
        """Ask; `settle` is called once, with what it says, or why it says nothing.

        Returns:
            Why it was not asked, "" where it was.
        """
        ...


class Attribution:
    """Says what is behind a mismatch, and keeps a capsule of it in the run folder.

    Args:
        run: The run folder.
        megabytes: Room for all capsules of the run, in MB; 0 for none.
        neighbour: Another rank; None where there is none.
        held: Is told of a finding that comes later, as it is for now.
        cpu: Computes on the CPU what another device has computed, and says who may be right.
    """

    def __init__(
        self,
        run: Path,
        megabytes: int,
        *,
        neighbour: Neighbour | None = None,
        held: Callable[[Sequence[Finding]], None] = lambda _: None,
        cpu: Callable[[Capsule], Opinion] = ask_cpu,
    ) -> None:
        self._run = run
        self._left = megabytes * 1_000_000
        self._num_kept = 0
        self._neighbour = neighbour
        self._held = held
        self._cpu = cpu

    def __call__(
        self, record: CallRecord, difference: Difference, found: Mismatch
    ) -> list[Finding]:
        """Return the finding; none yet where another rank has been asked, which comes with it."""
        device = device_of(record)
        on_cpu = is_cpu(device)
        neighbour = self._neighbour if self._neighbour and self._neighbour.is_there else None
        asks = neighbour is not None and not neighbour.why_not()
        if on_cpu and not asks and not self._has_room:
            return [judge_mismatch(self._unasked(found, on_cpu=on_cpu))]
        room = min(max(self._left, 0 if on_cpu and not asks else MAX_BYTES), MAX_BYTES)
        try:
            capsule = capture_capsule(
                record, difference, device=device, rank=found.rank, max_bytes=room
            )
        except (NotPlainError, CannotRepeatError) as error:
            return [self._alone(found, str(error), on_cpu=on_cpu)]
        except Exception as error:
            return [self._alone(found, f"{type(error).__name__}: {error}", on_cpu=on_cpu)]
        found = self._unasked(found, on_cpu=True)
        if not on_cpu:
            found = self._with_cpu(found, capsule)

        def settle(said: Opinion | str) -> Finding:
            return self._settled(found, capsule, said)

        if neighbour is not None and asks:
            why = neighbour.ask(capsule, settle)
            if why:
                return [settle(why)]
            self._held([judge_mismatch(weighed(found))])
            return []
        return [self._settled(found, capsule, "")]

    @property
    def _has_room(self) -> bool:
        return self._left > 0 and self._num_kept < MAX_KEPT

    def _unasked(self, found: Mismatch, *, on_cpu: bool, why: str = "") -> Mismatch:
        """Say which devices there are that were not asked."""
        told: dict[str, str] = {}
        if not on_cpu:
            told[_CPU] = why
        neighbour = self._neighbour
        if neighbour is not None and neighbour.is_there and (no := why or neighbour.why_not()):
            told["another rank"] = no
        return replace(found, not_asked=told)

    def _alone(self, found: Mismatch, why: str, *, on_cpu: bool) -> Finding:
        finding = judge_mismatch(self._unasked(found, on_cpu=on_cpu, why=why))
        return _with(finding, "capsule_not_kept", why) if self._has_room else finding

    def _with_cpu(self, found: Mismatch, capsule: Capsule) -> Mismatch:
        try:
            return replace(found, opinions=(*found.opinions, self._cpu(capsule)))
        except Exception as error:
            why = f"it cannot compute the part ({type(error).__name__}: {error})"[:300]
            return replace(found, not_asked={**found.not_asked, _CPU: why})

    def _settled(self, found: Mismatch, capsule: Capsule, said: Opinion | str) -> Finding:
        """Return the finding with all that was said, and keep the capsule."""
        if isinstance(said, str):
            told = {"another rank": said} if said else {}
            found = replace(found, not_asked={**found.not_asked, **told})
        else:
            found = replace(found, opinions=(*found.opinions, said))
        finding = judge_mismatch(weighed(found))
        if not self._has_room:
            return finding
        capsule.finding = finding.to_json()
        try:
            folder = write_capsule(capsule, self._run)
        except OSError as error:
            self._left = 0
            return _with(finding, "capsule_not_kept", error.strerror or str(error))
        except Exception as error:
            return _with(finding, "capsule_not_kept", f"{type(error).__name__}: {error}")
        self._num_kept += 1
        self._left -= sum(path.stat().st_size for path in folder.iterdir())
        self._left = max(self._left, 0)
        return _with(finding, "capsule", folder.relative_to(self._run).as_posix())


def device_of(record: CallRecord) -> str:
    """Return the device that a call was computed on, as torch names it."""
    tensors = [t for t, _ in record.outputs] or [p for _, p, _, _ in record.weights]
    return str(tensors[0].device) if tensors else "cpu"


def is_cpu(device: str) -> bool:
    """Whether a device is the CPU itself."""
    return device.partition(":")[0] == "cpu"


def _with(finding: Finding, key: str, value: str) -> Finding:
    return replace(finding, evidence={**finding.evidence, key: value})
