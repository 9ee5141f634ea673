"""A finding that accuses a device: has that device been accused before?"""

from __future__ import annotations

import platform
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

from everybit.core.finding import Severity
from everybit.guard.policy import LOGGER
from everybit.host.suspicions import Suspicion, Suspicions, current_core, host_serial

if TYPE_CHECKING:
    from everybit.core.finding import Finding

#: Rules behind which a device may stand; what a checksum or a sensor only suspects is none.
_ACCUSING: Final = frozenset({"CMP701", "CMP702", "MEM601", "MEM602", "MEM603"})
#: Findings of one run that are kept: a device that always errs has said enough by then.
_MAX_KEPT: Final = 20
#: Verdicts that clear the device.
_CLEARED: Final = frozenset({"nondeterministic", "race", "data"})


class Suspects:
    """Keeps the record of accused devices, and adds to a finding what it says.

    Args:
        folder: Where the record is; the user's state folder for None.
        run: The run folder.
        rank: Of this process: what another rank's device did is not told of ours.
    """

    def __init__(self, folder: str | None, run: Path, rank: int) -> None:
        self._record = Suspicions(None if folder is None else Path(folder))
        self._run = run
        self._rank = rank
        self._num_kept = 0

    def noted(self, finding: Finding) -> Finding:
        """Return the finding with its device's history in the evidence, and add it to that.

        A finding that accuses no device comes back as it is.
        """
        verdict = str(finding.evidence.get("verdict", ""))
        if (
            finding.rule not in _ACCUSING
            or finding.severity is not Severity.ERROR
            or finding.where.rank not in (None, self._rank)
            or verdict in _CLEARED
            or self._num_kept >= _MAX_KEPT
        ):
            return finding
        serial, core = device_serial(finding.where.device or "cpu")
        earlier = self._record.read(serial)
        history: dict[str, Any] = {
            "serial": serial,
            "earlier": len(earlier),
            "earlier_runs": len({each.run for each in earlier}),
        }
        if core is not None:
            history["core"] = core
            history["earlier_on_core"] = sum(each.core == core for each in earlier)
        if earlier:
            history["last"] = earlier[-1].at
        told = replace(finding, evidence={**finding.evidence, "device_history": history})
        self._num_kept += 1
        try:
            self._record.add(
                Suspicion(
                    serial=serial,
                    core=core,
                    at=datetime.now(UTC).isoformat(timespec="seconds"),
                    host=platform.node(),
                    rule=finding.rule,
                    verdict=verdict,
                    run=str(self._run.resolve()),
                    step=finding.where.step,
                    finding=told.id,
                )
            )
        except OSError as error:
            LOGGER.debug("everybit: the record of suspected devices cannot be written: %s", error)
        return told


def device_serial(device: str) -> tuple[str, int | None]:
    """Return the serial of a device as torch names it, and the core where it is the CPU.

    Args:
        device: `cuda:0`, `cpu` ...
    """
    kind, _, index = device.partition(":")
    if kind == "cuda" and torch.cuda.is_available():
        number = int(index) if index else torch.cuda.current_device()
        uuid = getattr(torch.cuda.get_device_properties(number), "uuid", None)
        return (f"GPU-{uuid}" if uuid else f"{host_serial()}/{device}"), None
    if kind == "cpu":
        return host_serial(), current_core()
    return f"{host_serial()}/{device}", None
