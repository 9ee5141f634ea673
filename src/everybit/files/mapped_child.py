"""Hash a file that is open, by mapping it: `python -I -S mapped_child.py DESCRIPTOR SIZE FOLDER`.

FOLDER is where the package `blake3` lies. Writes how many bytes are done, as they are, and the
digest in the end. Whoever starts it must bear that it dies: a file that shrinks while it is mapped,
or a disk that fails, ends a process by SIGBUS.
"""

import mmap
import os
import resource
import sys

_STEP_BYTES = 64 << 20


def main(descriptor: int, size_bytes: int, out: int) -> None:
    """Write the BLAKE3 digest of the first `size_bytes` bytes of an open file to another one."""
    import blake3

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # There is nothing to be learnt from it.
    hasher = blake3.blake3(max_threads=blake3.blake3.AUTO)
    view = memoryview(mmap.mmap(descriptor, size_bytes, prot=mmap.PROT_READ))
    for start in range(0, size_bytes, _STEP_BYTES):
        hasher.update(view[start : start + _STEP_BYTES])
        os.write(out, b"%d\n" % min(start + _STEP_BYTES, size_bytes))
    os.write(out, hasher.hexdigest().encode() + b"\n")


if __name__ == "__main__":
    sys.path.append(sys.argv[3])
    main(int(sys.argv[1]), int(sys.argv[2]), 1)
    os._exit(0)  # There is nothing to tidy up, and unmapping takes its time.
