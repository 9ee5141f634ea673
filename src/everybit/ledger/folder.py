"""The run folder: `run.json`, and the names of its logs.

`run.json` is a JSON object whose last member is a digest of the file itself: the XXH3-128 of all
its bytes with the digest's 32 hexadecimal digits taken as zeros. So a changed bit is noticed
wherever it is, white space included; and since the first frame of every log holds the XXH3-128 of
the file as it is, so is another run's `run.json`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import xxhash

from everybit._version import __version__
from everybit.core.atomic import sync_folder
from everybit.core.errors import PathError, UsageError
from everybit.ledger.payload import encode_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

RUN_FILE: Final = "run.json"
SCHEMA: Final = "everybit.run/1"
#: Longer files are not looked at: a `run.json` is a few hundred bytes, with a long command some
#: more.
MAX_RUN_FILE_BYTES: Final = 4 * 1024 * 1024

_LOG_NAME: Final = re.compile(r"rank-(\d{5,9})\.attempt-(\d{3,9})\.log")
_DIGEST_START: Final = b',\n"digest": "xxh3-128:'
_DIGEST_END: Final = b'"\n}\n'
_DIGITS: Final = 32
#: How long a rank waits for the one that is writing `run.json` where the file system has no links.
_JOIN_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFile:
    """What `run.json` says, and whether it can be relied on.

    Attributes:
        info: The object; as much as can be read of a damaged one.
        digest: XXH3-128 of the file's bytes; None where it is damaged or missing.
        damage: What is wrong, empty where nothing is.
        size_bytes: Length of the file.
    """

    info: Mapping[str, Any]
    digest: bytes | None
    damage: str
    size_bytes: int


def log_name(rank: int, attempt: int) -> str:
    """Return the file name of a log.

    >>> log_name(3, 0)
    'rank-00003.attempt-000.log'
    """
    return f"rank-{rank:05d}.attempt-{attempt:03d}.log"


def list_logs(folder: Path) -> dict[int, list[int]]:
    """Return the attempts on record, sorted, by rank; raises `OSError`."""
    found: dict[int, list[int]] = {}
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries]
    for name in names:
        match = _LOG_NAME.fullmatch(name)
        if match and log_name(int(match[1]), int(match[2])) == name:
            found.setdefault(int(match[1]), []).append(int(match[2]))
    return {rank: sorted(found[rank]) for rank in sorted(found)}


def encode_run_file(info: Mapping[str, Any]) -> bytes:
    """Return the bytes of a `run.json` for these members, digest included."""
    plain = json.loads(encode_plain(info))
    body = json.dumps(plain, indent=1)[:-2].encode("ascii")
    zeros = body + _DIGEST_START + b"0" * _DIGITS + _DIGEST_END
    digest = xxhash.xxh3_128_hexdigest(zeros).encode()
    return body + _DIGEST_START + digest + _DIGEST_END


def encode_plain(info: Mapping[str, Any]) -> bytes:
    """Return strict JSON for members that may hold anything."""
    payload, flags = encode_json(info)
    if flags:
        import zlib

        payload = zlib.decompress(payload)
    return payload


def decode_run_file(data: bytes) -> RunFile:
    """Read the bytes of a `run.json`; damage is told, never raised."""
    info: dict[str, Any] = {}
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(data)
        info = value if isinstance(value, dict) else {}
    damage = _damage_of(data, info)
    return RunFile(
        info=info,
        digest=None if damage else xxhash.xxh3_128_digest(data),
        damage=damage,
        size_bytes=len(data),
    )


def _damage_of(data: bytes, info: Mapping[str, Any]) -> str:
    if not data:
        return "the file is empty"
    tail = len(_DIGEST_START) + _DIGITS + len(_DIGEST_END)
    start = len(data) - _DIGITS - len(_DIGEST_END)
    if (
        len(data) < tail
        or not data.endswith(_DIGEST_END)
        or data[start - len(_DIGEST_START) : start] != _DIGEST_START
    ):
        return "it does not end with a digest of itself"
    zeros = data[:start] + b"0" * _DIGITS + _DIGEST_END
    if xxhash.xxh3_128_hexdigest(zeros).encode() != data[start : start + _DIGITS]:
        return "its bytes do not match its own digest"
    return "" if info else "it holds no JSON object"


def read_run_file(folder: Path) -> RunFile:
    """Read `run.json` of a folder.

    Raises:
        FileNotFoundError: There is none.
        OSError: It cannot be opened.
        UsageError: A later everybit wrote it.
    """
    fd = open_regular(folder / RUN_FILE)
    try:
        with open(fd, "rb", closefd=False) as stream:
            data = stream.read(MAX_RUN_FILE_BYTES + 1)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        data = b""
    finally:
        os.close(fd)
    found = decode_run_file(data)
    schema = found.info.get("schema")
    if not found.damage and schema != SCHEMA:
        raise UsageError(
            f"its format is {schema!r}, this everybit reads {SCHEMA!r}",
            where=str(folder / RUN_FILE),
            todo="read it with the everybit that wrote it, or a later one",
        )
    return found


def open_regular(path: Path) -> int:
    """Open a regular file to read; anything else (a pipe would block for ever) is an `OSError`."""
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return fd


def create_or_join(
    folder: Path, *, world_size: int, command: Sequence[str], clock: Callable[[], float]
) -> RunFile:
    """Create the folder and its `run.json`, or read the one that another rank or attempt left.

    Raises:
        OSError: The place cannot be written.
        PathError: There is a `run.json`, and it is damaged.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / RUN_FILE
    if not path.exists():
        info = {
            "schema": SCHEMA,
            "id": uuid.uuid4().hex,
            "created_s": clock(),
            "everybit": __version__,
            "world_size": world_size,
            "command": list(command),
        }
        with contextlib.suppress(FileExistsError):  # another rank was first: join it
            os.close(publish(path, encode_run_file(info)))
    deadline = time.monotonic() + _JOIN_TIMEOUT_S
    while True:
        found = read_run_file(folder)
        if not found.damage:
            return found
        if time.monotonic() > deadline or found.size_bytes > 0:
            raise PathError(
                f"a damaged run record ({found.damage})",
                where=str(path),
                todo="choose another folder for this run, or remove this one",
            )
        time.sleep(0.05)


def publish(path: Path, data: bytes) -> int:
    """Write a new file that nobody ever sees in part; return its descriptor, open to append.

    Raises:
        FileExistsError: The name is taken; nothing was changed.
        OSError: It cannot be written.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}")
    fd = os.open(temporary, flags, 0o600)
    try:
        write_all(fd, data)
        os.fsync(fd)
        try:
            os.link(temporary, path)
        except FileExistsError:
            raise
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return _publish_in_place(path, data, flags, fd)
        sync_folder(path.parent)
        return fd
    except BaseException:
        os.close(fd)
        raise
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


_NO_LINKS: Final = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EINVAL}


def _publish_in_place(path: Path, data: bytes, flags: int, temporary_fd: int) -> int:
    # A file system without links: the first to create the name owns it, a joining rank waits.
    fd = os.open(path, flags, 0o600)
    try:
        write_all(fd, data)
        os.fsync(fd)
    except BaseException:
        os.close(fd)
        raise
    os.close(temporary_fd)
    return fd


def create_private(path: Path) -> int:
    """Create a file that its owner alone may read; return its descriptor. `OSError`: it exists."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write all of `data`: one `write(2)` unless the kernel takes less."""
    written = os.write(fd, data)
    while written < len(data):
        more = os.write(fd, memoryview(data)[written:])
        if more == 0:
            raise OSError(errno.EIO, "the file takes no more bytes")
        written += more
