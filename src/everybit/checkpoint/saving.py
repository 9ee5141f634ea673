"""`everybit.save`: digests from the live tensors, the file written, read back, then named.

live tensors -> digests -> temporary file -> fsync -> read back from the disk -> compared
             -> renamed -> manifest, last
"""

from __future__ import annotations

import contextlib
import datetime
import os
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from everybit._version import __version__
from everybit.checkpoint.damaged_save import damaged_save
from everybit.checkpoint.live_tensors import live_digests, live_values, walk
from everybit.checkpoint.numbers import plain_counters, whole_step
from everybit.core.atomic import check_writable, sync_folder
from everybit.core.errors import DamagedError, PathError, UsageError
from everybit.files import read_plain_values
from everybit.files.damage import MalformedError
from everybit.files.seals.manifest import (
    Covers,
    Manifest,
    SealedFile,
    TakenFrom,
    load_manifest,
    write_manifest,
)
from everybit.files.seals.sealing import seal_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everybit.core.digest import Digest

    Live = Mapping[str, tuple[Digest, torch.Tensor | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A file that was written and proved.

    Attributes:
        path: The file.
        size_bytes: Its size.
        num_tensors: Tensors whose bytes on disk have the digests of the live ones.
        digest: `tree` digest of the whole file.
        seconds: What it took.
    """

    path: Path
    size_bytes: int
    num_tensors: int
    digest: Digest
    seconds: float


def save(
    obj: Any,
    path: str | os.PathLike[str],
    *,
    step: int | None = None,
    save_id: str = "",
    counters: Mapping[str, int | float] | None = None,
) -> Saved:
    """Save a nest of tensors and plain values, and prove that the disk holds it.

    Digests are taken from the live tensors before anything is written; the file is written under a
    temporary name, synchronised, read back from the disk and compared with them, renamed, and
    sealed in its folder's manifest. Another process sees the old file or the new one, never a part,
    and a process that is killed loses nothing. `torch.load` reads the file as any other.

    Args:
        obj: What `torch.save` takes: state dicts, lists, numbers. With a name that ends in
            `.safetensors` a flat mapping of names to tensors.
        path: The file. One that exists is replaced.
        step: Recorded in the manifest: updates that the saved state has seen.
        save_id: Recorded in the manifest: which save the files are of.
        counters: Recorded in the manifest.

    Returns:
        What was written.

    Raises:
        PathError: It cannot be written (no space, no permission); what was there is untouched.
        DamagedError: The disk does not hold what the tensors hold (FIL102), or the folder's
            manifest is damaged (FIL110); what was there is untouched.
        UsageError: A `.safetensors` file cannot hold this, the step or a counter is no number, or a
            whole module was given, whose tensors could not be proved.
    """
    began = time.perf_counter()
    place = Path(path)
    if step is not None:
        step = whole_step(step)
    numbers = plain_counters(counters)
    _check_place(place)
    manifest = _manifest(place.parent)
    live = live_digests(obj)
    entry = write_proved(obj, place, live)
    files = dict(manifest.files) if manifest is not None else {}
    old = manifest or Manifest(files={}, covers=Covers.FILES)
    replaced = place.name in files
    if replaced:
        # The seal of the file that is replaced must not outlive it.
        del files[place.name]
        write_manifest(place.parent, replace(old, files=files, parity=None))
    entry.name_it()
    write_manifest(
        place.parent,
        replace(
            old,
            files={**files, place.name: entry.sealed},
            parity=None if replaced else old.parity,  # it was of the bytes that are gone
            sealed_at=now(),
            sealed_by=f"everybit {__version__}",
            save_id=save_id or old.save_id,
            step=step if step is not None else old.step,
            counters={**old.counters, **numbers},
        ),
    )
    return Saved(
        path=place,
        size_bytes=entry.sealed.size_bytes,
        num_tensors=len(live),
        digest=entry.sealed.tree,
        seconds=time.perf_counter() - began,
    )


def _check_place(place: Path) -> None:
    try:
        check_writable(place)
        if place.exists() and not place.is_file():
            # A rename would put a file in the place of a device.
            raise PathError("is not a regular file", where=str(place), todo="name a file")
    except OSError as error:
        raise PathError.from_os_error(error, place) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A proved file under a temporary name."""

    temporary: Path
    path: Path
    sealed: SealedFile

    def name_it(self) -> None:
        """Give it its name, in one step; the name reaches the disk too.

        Raises:
            PathError: It cannot be renamed; what was there is untouched.
        """
        try:
            self.temporary.replace(self.path)
            sync_folder(self.path.parent)
        except OSError as error:
            self.temporary.unlink(missing_ok=True)
            raise PathError.from_os_error(error, self.path) from error


def write_proved(obj: Any, path: Path, live: Live) -> Written:
    """Write a file under a temporary name beside `path`, and hold it against live digests.

    Raises:
        PathError: It cannot be written.
        DamagedError: It does not hold what the tensors hold.
        UsageError: A `.safetensors` file cannot hold this.
    """
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise PathError.from_os_error(error, path) from error
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            if path.suffix == ".safetensors":
                file.write(_safetensors(obj, path))
            else:
                torch.save(obj, file)
            file.flush()
            os.fsync(file.fileno())
            _forget(file.fileno())
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
        temporary.chmod(mode)
        return Written(temporary=temporary, path=path, sealed=_prove(obj, temporary, path, live))
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise PathError.from_os_error(error, path) from error
        if isinstance(error, RuntimeError) and _is_full(error):
            raise PathError(
                "could not be written to its end", where=str(path), todo="free space on the disk"
            ) from error
        raise


def _prove(obj: Any, temporary: Path, path: Path, live: Live) -> SealedFile:
    try:
        sealed = seal_file(temporary, path.name)
    except DamagedError as error:
        raise DamagedError(
            f"was written damaged: {error.what}", rule=error.rule, where=str(path), todo=_AGAIN
        ) from error
    held = {tensor.name: tensor for tensor in sealed.tensors}
    for name, (expected, tensor) in live.items():
        there = held.get(name)
        if there is None or (there.tree is not None and there.tree != expected):
            raise damaged_save(temporary, path, name, there, tensor, expected)
    values, _ = read_plain_values(temporary)
    for key, value in live_values(obj).items():
        text = value[:4096] if isinstance(value, str) else value
        if key in values and repr(values[key]) != repr(text):
            what = f"was written damaged: {key} is {values[key]!r} in it and {value!r} in memory"
            raise DamagedError(what[:300], rule="FIL101", where=str(path), todo=_AGAIN)
    return replace(sealed, taken_from=TakenFrom.PROVED)


_AGAIN = "save again; where it repeats, suspect the disk or memory of this machine"


def _safetensors(obj: Any, path: Path) -> bytes:
    from safetensors.torch import save as encode

    tensors = {}
    for name, value in walk(obj):
        if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
            raise UsageError(
                f"a .safetensors file holds tensors alone, not a {type(value).__name__}",
                where=name or str(path),
                todo="give a flat state dict, or another file name",
            )
        # It writes conjugated and negated views wrong without a word, and refuses shared memory.
        tensors[name] = value.detach().resolve_conj().resolve_neg().contiguous().clone()
    encoded: bytes = encode(tensors)
    return encoded


def _manifest(folder: Path) -> Manifest | None:
    try:
        return load_manifest(folder)
    except MalformedError as error:
        raise DamagedError(
            error.damage.message,
            rule="FIL110",
            where=str(folder),
            todo="restore or remove it: a seal of the new file would replace it",
        ) from error


def _forget(descriptor: int) -> None:
    """Have the file read from the disk next time, not from the page cache."""
    if hasattr(os, "posix_fadvise"):
        with contextlib.suppress(OSError):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def _is_full(error: RuntimeError) -> bool:
    text = str(error)
    return "PytorchStreamWriter" in text or "unexpected pos" in text or "enforce fail" in text


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def now() -> str:
    """Return the time in UTC, in ISO 8601."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
