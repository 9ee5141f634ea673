"""Proof that an adversarial file is hostile: the real loader, in a process of its own, runs it.

    python -m bench.scan_corpus.canary JOBS OUT

One process imports the libraries; each file is loaded in a fork of it, in an empty folder of its
own, with a limit on time. A file's payload prints, makes a file there, or is seen by an audit
hook: nothing that it does outlasts the fork.
"""

from __future__ import annotations

import atexit
import gzip
import importlib.util
import json
import os
import pickle
import select
import shutil
import signal
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_LIMIT_S: Final = 20


def _pickles(path: Path) -> None:
    """What readers of several pickles do: torch's legacy format, and loops until the end."""
    with path.open("rb") as file:
        while True:
            # everybit: ignore[SRC302] to see it run, in a fork of its own, is the canary's purpose
            pickle.load(file)


def _torch(path: Path) -> None:
    import torch

    with path.open("rb") as file:  # by its content: given a path, torch looks at the suffix too
        # everybit: ignore[SRC301] to see it run, in a fork of its own, is the canary's purpose
        torch.load(file, weights_only=False, map_location="cpu")


def _torch_jit(path: Path) -> None:
    import torch

    # everybit: ignore[SRC301] to see it run, in a fork of its own, is the canary's purpose
    torch.jit.load(str(path))


def _numpy(path: Path) -> None:
    import numpy as np

    # everybit: ignore[SRC302] to see it run, in a fork of its own, is the canary's purpose
    loaded = np.load(path, allow_pickle=True)
    for name in getattr(loaded, "files", ()):
        _ = loaded[name]


def _joblib(path: Path) -> None:
    import joblib

    # everybit: ignore[SRC302] to see it run, in a fork of its own, is the canary's purpose
    joblib.load(path)


def _compressed(path: Path) -> None:
    import bz2
    import lzma

    opened = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open, ".lzma": lzma.open}
    with opened[path.suffix](path) as file:
        # everybit: ignore[SRC302] to see it run, in a fork of its own, is the canary's purpose
        pickle.load(file)


def _zip_members(path: Path) -> None:
    """What tools do that keep pickles in an archive, and look at no name."""
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            # everybit: ignore[SRC302] to see it run, in a fork of its own, is the canary's purpose
            pickle.loads(archive.read(member))


def _dcp(path: Path) -> None:
    import torch.distributed.checkpoint as dcp

    reader = dcp.FileSystemReader(path)
    # everybit: ignore[SRC301] to see it run, in a fork of its own, is the canary's purpose
    metadata = reader.read_metadata()
    value: dict[str, Any] = dict.fromkeys(metadata.state_dict_metadata)
    # everybit: ignore[SRC301] to see it run, in a fork of its own, is the canary's purpose
    dcp.load(value, storage_reader=reader, no_dist=True)


def _pickle(path: Path) -> None:
    with path.open("rb") as file:
        # everybit: ignore[SRC302] to see it run, in a fork of its own, is the canary's purpose
        pickle.load(file)


#: The real loaders, by name.
LOADERS: Final[dict[str, Callable[[Path], None]]] = {
    "pickle": _pickle,
    "pickles": _pickles,
    "torch": _torch,
    "torch.jit": _torch_jit,
    "numpy": _numpy,
    "joblib": _joblib,
    "compressed": _compressed,
    "zip members": _zip_members,
    "dcp": _dcp,
}


def _child(job: dict[str, str], place: Path, told: int) -> None:
    """Load one file; ends the fork."""
    atexit._clear()
    os.chdir(place)
    out = os.open(place / "told.txt", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    wanted = job["proof"].removeprefix("audit:") if job["proof"].startswith("audit:") else ""

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event == wanted and not (event == "open" and arguments[0] == job["path"]):
            os.write(told, b"!")

    signal.alarm(_LIMIT_S)
    loader = LOADERS[job["loader"]]
    sys.addaudithook(hear)
    code = 0
    try:
        loader(Path(job["path"]))
    except SystemExit as end:
        code = int(end.code or 0)
        os.write(1, b"exit:%d\n" % code)
    except BaseException as error:
        os.write(2, repr(error)[:400].encode(errors="replace") + b"\n")
    try:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _wait(child: int, seconds: float) -> int:
    """Wait for a fork; kills it when it stands still."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def _able(job: dict[str, str]) -> bool:
    module = "joblib" if job["loader"] == "joblib" else job["needs"].partition(".")[0]
    return not module or module in sys.modules or importlib.util.find_spec(module) is not None


def try_file(job: dict[str, str]) -> dict[str, str]:
    """Load one file in a fork.

    Returns:
        `ran`: `yes`, `no`, or `unable` where a library is missing; `told`: what was printed.
    """
    if not _able(job):
        return {"ran": "unable", "told": f"{job['needs']} is not here"}
    place = Path(tempfile.mkdtemp(prefix="canary-"))
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(readable)
        _child(job, place, writable)
    os.close(writable)
    status = _wait(child, _LIMIT_S + 5)
    time.sleep(0.01)  # a process that the payload started may still be printing
    heard = os.read(readable, 1) if _has_more(readable) else b""
    os.close(readable)
    text = (place / "told.txt").read_text(errors="replace")
    made = [path.name for path in place.iterdir()]
    shutil.rmtree(place)
    proof = job["proof"]
    ran = bool(heard) if proof.startswith("audit:") else proof in made or proof in text
    if proof.startswith("exit:"):
        ran = ran or os.waitstatus_to_exitcode(status) == int(proof[5:]) != 0
    missing = any(f"{kind}(" in text for kind in ("ModuleNotFoundError", "ImportError"))
    outcome = "yes" if ran else ("unable" if missing else "no")
    return {"ran": outcome, "told": text[-400:]}


def _has_more(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


def _of_torch(job: dict[str, str]) -> bool:
    return job["loader"].startswith(("torch", "dcp")) or job["needs"].startswith("torch")


def main() -> None:
    """Try every job of a list, and write down what ran."""
    jobs = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    import numpy as np

    del np
    # A fork of a process that has no torch in it yet is much the faster.
    told = {job["name"]: try_file(job) for job in jobs if not _of_torch(job)}
    rest = [job for job in jobs if _of_torch(job)]
    if rest:
        import torch
        import torch.distributed.checkpoint

        torch.set_num_threads(1)
        told |= {job["name"]: try_file(job) for job in rest}
    Path(sys.argv[2]).write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main()
