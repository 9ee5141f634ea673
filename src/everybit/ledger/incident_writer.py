"""Write the scenes of incidents: whole folders or none, within a budget."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from everybit.core.dtype import json_number
from everybit.ledger.arrays import write_arrays
from everybit.ledger.folder import create_private, encode_run_file, write_all
from everybit.ledger.scene import ARRAYS_FILE, FOLDER, INCIDENT_FILE, SCHEMA, SavedTensor, Scene

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

#: Findings of one moment that a scene lists; the run's log holds them all.
MAX_FINDINGS: Final = 64
#: What an array costs beside its bytes: headers of the archive and of the array.
_HEADERS_BYTES: Final = 512
#: Room that the JSON may take.
_JSON_BYTES: Final = 64 * 1024
_TAKEN: Final = {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR}


class IncidentStore:
    """The incidents of a run, as one rank writes them.

    Args:
        run: The run folder.
        rank: Rank of this process.
        attempt: Attempt of the rank.
        log: File name of the rank's log, where environment and command stand.
        max_bytes: Room for all incidents of the run, those of other ranks and attempts too.
        max_incidents: And their number.
        clock: Wall clock, seconds since the epoch.
    """

    def __init__(
        self,
        run: Path,
        *,
        rank: int,
        attempt: int,
        log: str,
        max_bytes: int,
        max_incidents: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = run / FOLDER
        self._rank = rank
        self._facts = {"rank": rank, "attempt": attempt, "log": log}
        self._max_bytes = max_bytes
        self._max_incidents = max_incidents
        self._clock = clock

    def room(self) -> int:
        """Return the bytes that are left; 0 where no more incidents are kept.

        That is never more than half of what is free on the disk: the job needs some too.

        Raises:
            OSError: The folder cannot be read.
        """
        count = used = 0
        try:
            folders = list(os.scandir(self._folder))
        except FileNotFoundError:
            folders = []
        for entry in folders:
            # What a killed process left half written counts too: the bound is on the disk.
            if entry.is_dir(follow_symlinks=False):
                count += 1
                with os.scandir(entry.path) as files:
                    used += sum(file.stat(follow_symlinks=False).st_size for file in files)
        if count >= self._max_incidents:
            return 0
        free = shutil.disk_usage(self._folder.parent).free
        return max(min(self._max_bytes - used, free // 2), 0)

    def keep(self, scene: Scene) -> Path | None:
        """Write a scene, cut to the room that is left; return its folder, None where that is none.

        Raises:
            OSError: It cannot be written; nothing is left of it.
        """
        fitted = _fit(scene, self.room() - _JSON_BYTES)
        if fitted is None:
            return None
        self._folder.mkdir(mode=0o700, exist_ok=True)
        draft = self._folder / f".{os.getpid()}.{uuid.uuid4().hex[:8]}.part"
        draft.mkdir(mode=0o700)
        try:
            self._write(draft, fitted)
            return self._publish(draft, fitted)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise

    def _write(self, draft: Path, scene: Scene) -> None:
        arrays, description = _describe(scene)
        written = write_arrays(draft / ARRAYS_FILE, arrays)
        info = {
            "schema": SCHEMA,
            "time_s": self._clock(),
            **self._facts,
            **description,
            "arrays": {"file": ARRAYS_FILE, **written},
        }
        fd = create_private(draft / INCIDENT_FILE)
        try:
            write_all(fd, encode_run_file(info))
            os.fsync(fd)
        finally:
            os.close(fd)

    def _publish(self, draft: Path, scene: Scene) -> Path:
        name = f"{scene.step}-{scene.findings[0].rule}-r{self._rank}"
        number = 1
        while True:
            place = self._folder / (name if number == 1 else f"{name}-{number}")
            number += 1
            if place.exists():  # an empty folder would be replaced
                continue
            try:
                draft.rename(place)
            except OSError as error:
                if error.errno in _TAKEN and number < 10_000:
                    continue
                raise
            with contextlib.suppress(OSError):  # some file systems cannot sync a folder
                fd = os.open(self._folder, os.O_RDONLY)
                try:
                    os.fsync(fd)
                finally:
                    os.close(fd)
            return place


def _size(tensor: SavedTensor) -> int:
    arrays = [tensor.found] if tensor.right is None else [tensor.found, tensor.right]
    return sum(len(array) + _HEADERS_BYTES for array in arrays)


def _fit(scene: Scene, room: int) -> Scene | None:
    """Leave out the batch, then the largest tensors, until the scene fits."""
    room -= 16 * len(scene.losses) + _HEADERS_BYTES
    room -= sum(array.nbytes + _HEADERS_BYTES for array in scene.rng.arrays.values())
    if room < 0:
        return None
    notes = list(scene.notes)
    tensors = sorted(scene.tensors, key=_size)
    while tensors and sum(map(_size, tensors)) > room:
        notes.append(f"{tensors.pop().name}: no room is left for it")
    room -= sum(map(_size, tensors))
    batch = scene.batch
    if sum(map(_size, batch)) > room:
        batch = ()
        notes.append("batch: no room is left for it")
    kept = {id(tensor) for tensor in tensors}
    if len(scene.findings) > MAX_FINDINGS:
        notes.append(f"{len(scene.findings) - MAX_FINDINGS} more findings: in the log")
    return replace(
        scene,
        findings=scene.findings[:MAX_FINDINGS],
        tensors=tuple(tensor for tensor in scene.tensors if id(tensor) in kept),
        batch=batch,
        notes=tuple(notes),
    )


def _describe(scene: Scene) -> tuple[dict[str, NDArray[np.generic]], dict[str, Any]]:
    """Return the arrays by their keys, and what is said of them in JSON."""
    arrays: dict[str, NDArray[Any]] = {f"rng.{k}": v for k, v in scene.rng.arrays.items()}
    told = {
        "step": scene.step,
        "findings": [finding.to_json() for finding in scene.findings],
        "tensors": _entries("tensor", scene.tensors, arrays),
        "batch": _entries("batch", scene.batch, arrays),
        "rng": {
            "kept": sorted(scene.rng.arrays),
            "facts": dict(scene.rng.facts),
            "missing": dict(scene.rng.missing),
        },
        "losses": [[step, json_number(value)] for step, value in scene.losses],
        "notes": list(scene.notes),
    }
    return arrays, told


def _entries(
    kind: str, tensors: Sequence[SavedTensor], arrays: dict[str, NDArray[Any]]
) -> list[dict[str, Any]]:
    entries = []
    for index, tensor in enumerate(tensors):
        key = f"{kind}.{index}"
        arrays[f"{key}.found"] = tensor.found
        if tensor.right is not None:
            arrays[f"{key}.right"] = tensor.right
        entries.append(
            {
                "key": key,
                "name": tensor.name,
                "dtype": tensor.dtype,
                "shape": list(tensor.shape),
                "first": tensor.first,
                "row_major": tensor.row_major,
                "right": tensor.right is not None,
                "note": tensor.note,
            }
        )
    return entries
