"""Read the scene of an incident back; damaged and hostile folders are one clear error.

Law: what `IncidentStore.keep` wrote, `load_incident` reads back equal, bit for bit; of anything
else it raises `PathError`, allocates no more than the folder's own size, and runs no foreign code.
"""

from __future__ import annotations

import importlib
import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from everybit.core.dtype import ITEMSIZE
from everybit.core.errors import PathError
from everybit.core.finding import Finding
from everybit.ledger.arrays import read_arrays
from everybit.ledger.folder import decode_run_file, open_regular
from everybit.ledger.scene import (
    ARRAYS_FILE,
    FOLDER,
    INCIDENT_FILE,
    NAME,
    SCHEMA,
    RngStates,
    SavedTensor,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_MAX_JSON_BYTES: Final = 16 * 1024 * 1024
_MAX_DIMS: Final = 64
_TODO: Final = "an incident is a folder below `incidents` of a run folder"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Incident:
    """What was kept of an incident. Made by `load_incident`.

    Attributes:
        path: Its folder.
        step: Updates finished or skipped when it was found.
        rank: Rank of the process.
        attempt: Attempt of the rank.
        time_s: When, seconds since the epoch.
        findings: What was found at that moment.
        tensors: Tensors involved, by name.
        rng: Random generators.
        losses: `(step, value)` of the last losses, oldest first.
        batch: The batch, where it was kept, by path in the inputs.
        notes: What was left out and why.
        log: File name of the log in the run folder that holds environment and command.
    """

    path: Path
    step: int
    rank: int
    attempt: int
    time_s: float
    findings: tuple[Finding, ...]
    tensors: Mapping[str, SavedTensor] = field(default_factory=dict)
    rng: RngStates = field(default_factory=RngStates)
    losses: tuple[tuple[int, float], ...] = ()
    batch: Mapping[str, SavedTensor] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    log: str = ""

    def torch(self, name: str, which: str = "found") -> Any:
        """Return a kept tensor, or one of the batch, as a torch tensor on the CPU.

        Args:
            name: Its name in `tensors` or `batch`.
            which: `found` or `right`.

        Returns:
            A copy: of the tensor's shape where it is whole, else the kept run, flat.

        Raises:
            KeyError: There is no such tensor, or its right bytes are not known.
        """
        saved = self.tensors[name] if name in self.tensors else self.batch[name]
        data = saved.bytes_of(which)
        torch = importlib.import_module("torch")
        dtype = getattr(torch, saved.dtype)
        shape = saved.shape if saved.whole else (saved.count,)
        if not len(data):
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(bytearray(data), dtype=torch.uint8).view(dtype).reshape(shape)

    def restore_rng(self) -> tuple[str, ...]:
        """Put Python's, NumPy's and torch's generators back as they were at the incident.

        Accelerators that are not here are left out.

        Returns:
            The generators that were put back.

        Raises:
            PathError: A state is none.
        """
        done = []
        for name, words in self.rng.arrays.items():
            try:
                if _restore(name, words, self.rng.facts.get(name)):
                    done.append(name)
            except (ValueError, TypeError, KeyError, OverflowError, RuntimeError) as error:
                raise _refusal(self.path, f"the state of {name} is none ({error})") from error
        return tuple(done)


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentEntry:
    """An incident as its folder's name tells it.

    Attributes:
        path: The folder.
        step: Updates finished or skipped when it was found.
        rule: Rule of its first finding.
        rank: Rank of the process.
        number: 1, and on where several share all that.
    """

    path: Path
    step: int
    rule: str
    rank: int
    number: int = 1


def list_incidents(run: Path) -> tuple[IncidentEntry, ...]:
    """Return the incidents of a run folder, by step, rank and number; none where unreadable."""
    try:
        with os.scandir(run / FOLDER) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return ()
    found = []
    for name in names:
        match = NAME.fullmatch(name)
        if match:
            step, rule, rank, number = match.groups()
            found.append(
                IncidentEntry(
                    path=run / FOLDER / name,
                    step=int(step),
                    rule=rule,
                    rank=int(rank),
                    number=int(number or 1),
                )
            )
    return tuple(sorted(found, key=lambda entry: (entry.step, entry.rank, entry.number)))


def load_incident(path: str | os.PathLike[str]) -> Incident:
    """Read an incident's folder.

    Args:
        path: The folder, as a finding's page or `open_run(run).incidents` names it.

    Raises:
        PathError: It is none, is damaged, or was written by a later everybit.
    """
    folder = Path(path)
    info = _read_info(folder)
    try:
        arrays = read_arrays(folder / ARRAYS_FILE, info["arrays"])
        return _build(folder, info, arrays)
    except OSError as error:
        raise PathError.from_os_error(error, folder / ARRAYS_FILE, todo=_TODO) from error
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise _refusal(folder, f"a damaged incident ({error or type(error).__name__})") from error


def _read_info(folder: Path) -> Mapping[str, Any]:
    try:
        with os.fdopen(open_regular(folder / INCIDENT_FILE), "rb") as file:
            data = file.read(_MAX_JSON_BYTES + 1)
    except OSError as error:
        raise PathError.from_os_error(error, folder / INCIDENT_FILE, todo=_TODO) from error
    found = decode_run_file(data)
    if found.damage:
        raise _refusal(folder, f"a damaged incident ({INCIDENT_FILE}: {found.damage})")
    if found.info.get("schema") != SCHEMA:
        raise PathError(
            f"its format is {found.info.get('schema')!r}, this everybit reads {SCHEMA!r}",
            where=str(folder),
            todo="read it with the everybit that wrote it, or a later one",
        )
    return found.info


def _build(folder: Path, info: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Incident:
    rng = info["rng"]
    return Incident(
        path=folder,
        step=_whole(info["step"]),
        rank=_whole(info["rank"]),
        attempt=_whole(info["attempt"]),
        time_s=float(info["time_s"]),
        findings=tuple(Finding.from_json(finding) for finding in info["findings"]),
        tensors=_tensors(info["tensors"], arrays),
        rng=RngStates(
            arrays={str(name): arrays[f"rng.{name}"] for name in rng["kept"]},
            facts=dict(rng["facts"]),
            missing=dict(rng["missing"]),
        ),
        losses=tuple((_whole(step), float(value)) for step, value in info["losses"]),
        batch=_tensors(info["batch"], arrays),
        notes=tuple(map(str, info["notes"])),
        log=str(info["log"]),
    )


def _tensors(
    entries: list[Mapping[str, Any]], arrays: Mapping[str, NDArray[Any]]
) -> dict[str, SavedTensor]:
    tensors: dict[str, SavedTensor] = {}
    for entry in entries:
        shape = tuple(map(_whole, entry["shape"]))
        if len(shape) > _MAX_DIMS or entry["dtype"] not in ITEMSIZE:
            raise ValueError("a tensor that cannot be")
        found = arrays[f"{entry['key']}.found"]
        right = arrays[f"{entry['key']}.right"] if entry["right"] else None
        total = 1
        for size in shape:
            total *= size
        first, size = _whole(entry["first"]), ITEMSIZE[entry["dtype"]]
        if found.dtype.str != "|u1" or len(found) % size or first + len(found) // size > total:
            raise ValueError("bytes that do not fit their tensor")
        if right is not None and (right.dtype.str != "|u1" or len(right) != len(found)):
            raise ValueError("right bytes that do not fit their tensor")
        name = str(entry["name"])
        tensors[name] = SavedTensor(
            name=name,
            dtype=str(entry["dtype"]),
            shape=shape,
            first=first,
            found=found,
            right=right,
            row_major=bool(entry["row_major"]),
            note=str(entry["note"]),
        )
    return tensors


def _whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{str(value)[:40]} is no whole number")
    return value


def _restore(name: str, words: NDArray[Any], facts: Any) -> bool:
    if name == "python":
        state = (int(facts["version"]), tuple(map(int, words.tolist())), facts["gauss"])
        random.setstate(state)
        return True
    if name == "numpy":
        import numpy as np

        np.random.set_state(
            ("MT19937", words, int(facts["pos"]), int(facts["has_gauss"]), float(facts["gauss"]))
        )
        return True
    torch = importlib.import_module("torch")
    state_tensor = torch.frombuffer(bytearray(words.tobytes()), dtype=torch.uint8)
    if name == "torch":
        torch.set_rng_state(state_tensor)
        return True
    kind, _, index = name.partition(":")
    if kind != "cuda" or int(index) >= torch.cuda.device_count():
        return False
    torch.cuda.set_rng_state(state_tensor, int(index))
    return True


def _refusal(folder: Path, what: str) -> PathError:
    return PathError(what, where=str(folder), todo="its findings are in the run's log too")
