"""Hash a file that is open, by mapping it: `python -I -S mapped_child.py DESCRIPTOR SIZE FOLDER`.

FOLDER is where the package `blake3` lies. Prints how many bytes are done, as they are, and the
digest in the end. Whoever starts it must bear that it dies: a file that shrinks while it is mapped,
or a disk that fails, ends a process by SIGBUS.
"""

import mmap
import os
import sys

_STEP_BYTES = 64 << 20


def main(descriptor: int, size_bytes: int) -> None:
    """Print the BLAKE3 digest of the first `size_bytes` bytes of an open file."""
    import blake3

    hasher = blake3.blake3(max_threads=blake3.blake3.AUTO)
    whole = mmap.mmap(descriptor, size_bytes, prot=mmap.PROT_READ)
    view = memoryview(whole)
    for start in range(0, size_bytes, _STEP_BYTES):
        hasher.update(view[start : start + _STEP_BYTES])
        print(min(start + _STEP_BYTES, size_bytes), flush=True)
    print(hasher.hexdigest(), flush=True)


if __name__ == "__main__":
    sys.path.append(sys.argv[3])
    main(int(sys.argv[1]), int(sys.argv[2]))
    os._exit(0)  # There is nothing to tidy up, and unmapping takes its time.
