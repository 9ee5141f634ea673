"""Interpreters with other versions of torch: each in a virtual environment, kept and used again."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import everybit
from everybit.core.atomic import write_atomically
from everybit.core.errors import PathError, UsageError
from everybit.host.suspicions import suspicions_folder
from everybit.host.versions import Release, release

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The oldest torch that a Guard works with.
GUARDED: Final[Release] = (2, 6)
#: Up to here torch was built against the first NumPy's interface.
_OLD_NUMPY: Final[Release] = (2, 3)
_VERSION: Final = re.compile(r"[0-9]+(\.[0-9]+)+([a-z0-9.+-]*)")
_READY: Final = "ready.json"


class CannotInstallError(Exception):
    """A version that cannot be had here; its text says why."""


class Installer(Protocol):
    """Hands out interpreters."""

    def python(self, version: str) -> Path:
        """Return an interpreter that imports this version of torch.

        Raises:
            CannotInstallError: It cannot be had.
        """
        ...


class PipInstaller:
    """Makes a virtual environment a version, with pip as it is configured here.

    Args:
        requirements: A requirements file with what the script needs beside torch.
        folder: Where they are kept; the user's state folder where None.

    Raises:
        PathError: `requirements` cannot be read.
    """

    def __init__(self, requirements: Path | None = None, folder: Path | None = None) -> None:
        self._requirements = requirements
        try:
            self._asked = requirements.read_bytes() if requirements is not None else b""
        except OSError as error:
            raise PathError.from_os_error(error, requirements) from error
        self._folder = folder or suspicions_folder() / "environments"

    def python(self, version: str) -> Path:
        """Return the interpreter of its environment; made where there is none yet."""
        place = self._folder / self._name(version)
        python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
        if (place / _READY).is_file():
            self._renew(version, place, python)
            return python
        shutil.rmtree(place, ignore_errors=True)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            self._run([sys.executable, "-m", "venv", str(place)])
            self._run([str(python), "-m", "pip", "install", "-q", *self._wanted(version)])
            self._bring_everybit(version, place, python)
        except BaseException as error:
            # Half an environment is none; also after Ctrl-C.
            shutil.rmtree(place, ignore_errors=True)
            if isinstance(error, (OSError, PathError)):
                raise CannotInstallError(str(error)) from error
            raise
        return python

    def _name(self, version: str) -> str:
        told = b"\n".join((self._asked, everybit.__version__.encode()))
        python = f"py{sys.version_info.major}{sys.version_info.minor}"
        return f"torch-{version}-{python}-{sha256(told).hexdigest()[:8]}"

    def _wanted(self, version: str) -> list[str]:
        wanted = [f"torch=={version}"]
        if release(version) < _OLD_NUMPY:
            wanted.append("numpy<2")
        if release(version) >= GUARDED:
            wanted += _own_requirements()
        if self._requirements is not None:
            wanted += ["-r", str(self._requirements)]
        return wanted

    def _renew(self, version: str, place: Path, python: Path) -> None:
        """Copy everybit in again where it has changed since."""
        try:
            stamp = json.loads((place / _READY).read_bytes())["everybit"]
        except (OSError, ValueError, KeyError, TypeError):
            stamp = ""
        if stamp != _stamp():
            self._bring_everybit(version, place, python)

    def _bring_everybit(self, version: str, place: Path, python: Path) -> None:
        """Copy this everybit in: that very one records on every side. Then it is ready."""
        if release(version) >= GUARDED:
            code = "import sysconfig; print(sysconfig.get_path('purelib'))"
            target = Path(self._run([str(python), "-c", code]).strip()) / "everybit"
            (place / _READY).unlink(missing_ok=True)
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(_source(), target, ignore=shutil.ignore_patterns("__pycache__"))
        told = {"torch": version, "python": sys.version, "everybit": _stamp()}
        write_atomically(place / _READY, json.dumps(told).encode())

    def _run(self, command: Sequence[str]) -> str:
        environ = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
        for name in ("PYTHONPATH", "PYTHONHOME"):
            environ.pop(name, None)
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
        if done.returncode:
            raise CannotInstallError(_reason(done.stderr) or f"exit code {done.returncode}")
        return done.stdout


def check_version(version: str) -> str:
    """Return a version of torch as somebody named it.

    Raises:
        UsageError: It is none.

    >>> check_version("2.6.0")
    '2.6.0'
    """
    if not _VERSION.fullmatch(version):
        raise UsageError(f"{version!r} is no version of torch", todo="give one such as 2.6.0")
    return version


def _source() -> Path:
    return Path(everybit.__file__).resolve().parent


def _stamp() -> str:
    """Return what changes when a file of this everybit does."""
    files = sorted(path for path in _source().rglob("*") if path.suffix not in ("", ".pyc"))
    told = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return sha256(repr(told).encode()).hexdigest()[:16]


def _own_requirements() -> list[str]:
    try:
        return [each for each in metadata.requires("everybit") or () if "extra ==" not in each]
    except metadata.PackageNotFoundError:
        return []


def _reason(errors: str) -> str:
    """Return pip's own last word, without addresses."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    told = [line for line in lines if line.upper().startswith("ERROR")] or lines[-1:]
    return re.sub(r"\S+://\S+", "<address>", told[-1])[:300] if told else ""
