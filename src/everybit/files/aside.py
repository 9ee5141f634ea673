"""Slow digests on threads of their own, over the buffers that a file is read into.

A few buffers take turns: while BLAKE3 or SHA-256 works on one, the other is read and looked at. All
of them release the interpreter's lock.
"""

from __future__ import annotations

import hashlib
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Protocol

from everybit.core.tree import LEAF_BYTES
from everybit.files.cores import blake3_hasher
from everybit.files.mapped import MappedHash, can_map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from everybit.files.source import ByteSource

#: A whole number of leaves. What fits the cache is hashed twice as fast as what does not, and is
#: still large enough for BLAKE3 to share out among cores.
BUFFER_BYTES: Final = 8 * LEAF_BYTES
_NUM_BUFFERS: Final = 4
#: Where all cores hash, and nothing else looks at the bytes: enough for each of them.
_SHARED_BYTES: Final = 8 * BUFFER_BYTES


class Hasher(Protocol):
    """What `hashlib` and `blake3` give."""

    def update(self, data: Any, /) -> Any:
        """Add the next bytes."""

    def hexdigest(self) -> str:
        """Return the digest of all bytes so far."""


def new_hasher(algorithm: str, *, size_bytes: int = 0, all_cores: bool = False) -> Hasher:
    """Return a hasher by name: `blake3`, `git-sha1`, or one that `hashlib` knows.

    Args:
        algorithm: The name.
        size_bytes: Size of the file; git hashes it first.
        all_cores: Let BLAKE3 use them all: faster only where nothing else keeps them busy.
    """
    if algorithm == "blake3":
        return blake3_hasher(all_cores=all_cores)
    if algorithm == "git-sha1":
        hasher = hashlib.sha1(usedforsecurity=False)
        hasher.update(b"blob %d\0" % size_bytes)
        return hasher
    return hashlib.new(algorithm, usedforsecurity=False)


def read_hashed(
    source: ByteSource, hashers: Sequence[Hasher], *, buffer_bytes: int = BUFFER_BYTES
) -> Iterator[memoryview]:
    """Yield a file's bytes in order, each piece while the hashers work on it.

    A view is valid until the next one is asked for. When the last was taken, the hashers are done.

    Raises:
        PathError: The file cannot be read.
    """
    source.advise_sequential()
    if source.size <= buffer_bytes:
        for chunk in source.chunks(size=buffer_bytes):
            for hasher in hashers:
                hasher.update(chunk)
            yield chunk
        return
    buffers = [memoryview(bytearray(buffer_bytes)) for _ in range(_NUM_BUFFERS)]
    threads = [_Thread(hasher) for hasher in hashers]
    try:
        position = count = 0
        while position < source.size:
            if count >= _NUM_BUFFERS:  # the buffer was in use: wait until its turn is over
                for thread in threads:
                    thread.wait()
            buffer = buffers[count % _NUM_BUFFERS]
            length = source.read_into(position, buffer[: min(buffer_bytes, source.size - position)])
            if not length:
                break
            chunk = buffer[:length]
            for thread in threads:
                thread.give(chunk)
            yield chunk
            position += length
            count += 1
    finally:
        for thread in threads:
            thread.end()
    for thread in threads:
        thread.check()


class _Thread:
    """Feeds one hasher, in the order given. Lighter than an executor: there are many pieces."""

    def __init__(self, hasher: Hasher) -> None:
        self._hasher = hasher
        self._todo: SimpleQueue[memoryview | None] = SimpleQueue()
        self._done: SimpleQueue[None] = SimpleQueue()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def give(self, chunk: memoryview) -> None:
        """Let it hash a piece, which must not change until a `wait` more has returned."""
        self._todo.put(chunk)

    def wait(self) -> None:
        """Wait until one piece more is done."""
        self._done.get()
        self.check()

    def end(self) -> None:
        """Wait until all pieces are done, and end the thread."""
        self._todo.put(None)
        self._thread.join()

    def check(self) -> None:
        """Raise what the hasher raised, if it did."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        while (chunk := self._todo.get()) is not None:
            try:
                if self._error is None:
                    self._hasher.update(chunk)
            except BaseException as error:
                self._error = error  # told by the next `wait`, on the thread that asks
            self._done.put(None)


def hash_file(
    source: ByteSource, algorithms: Sequence[str], progress: Callable[[int], None]
) -> dict[str, str]:
    """Read a file once and return its digests in hexadecimal, by algorithm."""
    alone = tuple(algorithms) == ("blake3",)
    if alone and can_map(source):
        with MappedHash(source, progress) as mapped:
            digest = mapped.digest()
        if digest is not None:
            return {"blake3": digest}
    hashers = [new_hasher(name, size_bytes=source.size, all_cores=alone) for name in algorithms]
    buffer_bytes = _SHARED_BYTES if alone else BUFFER_BYTES
    for chunk in read_hashed(source, hashers, buffer_bytes=buffer_bytes):
        progress(len(chunk))
    return {name: hasher.hexdigest() for name, hasher in zip(algorithms, hashers, strict=True)}
