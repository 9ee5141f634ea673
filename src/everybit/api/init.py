"""`init_repro`: a minimal project to investigate in, runnable at once."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

from everybit.core.atomic import sync_folder
from everybit.core.errors import PathError, UsageError

if TYPE_CHECKING:
    import os

#: `{path in the project: template beside this file}`; "" is an empty file.
_FILES: Final = {
    "README.md": "README.md.txt",
    ".gitignore": "gitignore.txt",
    "configs/baseline.yaml": "baseline.yaml.txt",
    "scripts/train_debug.py": "train_debug.py.txt",
    "scripts/checksums.py": "checksums.py.txt",
    "scripts/verify_checkpoint.py": "verify_checkpoint.py.txt",
    "models/checksum_manifest.tsv": "",
    "models/by_pytorch_version/.gitkeep": "",
    "outputs/.gitkeep": "",
}
_COLUMNS: Final = "torch\tfile\tstep\tsize_bytes\ttree\tsha256\n"


def init_repro(folder: str | os.PathLike[str]) -> list[Path]:
    """Make the project in a folder that is new or empty.

    It holds a configuration, sample data (sealed), a training script under a Guard, a script that
    verifies checkpoints, places for checkpoints by torch version and for run folders, and a README
    that says what to do.

    Args:
        folder: Where to. Made where it does not exist; the folder above it has to.

    Returns:
        The files, sorted.

    Raises:
        PathError: It holds something, or cannot be written. Nothing is left behind.
        UsageError: torch is not installed: the sample data are a file of it.
    """
    place = Path(folder)
    _check(place)
    place = place.resolve()
    try:
        made = Path(tempfile.mkdtemp(prefix=f".{place.name}.", suffix=".part", dir=place.parent))
    except OSError as error:
        raise PathError.from_os_error(error, place.parent) from error
    try:
        _write(made)
        made.chmod(0o755)
        _move(made, place)
    except OSError as error:
        raise PathError.from_os_error(error, place) from error
    finally:
        shutil.rmtree(made, ignore_errors=True)
    sync_folder(place.parent)
    return sorted(path for path in place.rglob("*") if path.is_file())


def _check(place: Path) -> None:
    if place.is_dir():
        try:
            held = next(place.iterdir(), None)
        except OSError as error:
            raise PathError.from_os_error(error, place) from error
        if held is not None:
            raise PathError(
                f"is not empty ({held.name})", where=str(place), todo="name a new folder"
            )
    elif place.exists() or place.is_symlink():
        raise PathError("is a file, not a folder", where=str(place), todo="name a new folder")
    elif not place.absolute().parent.is_dir():
        raise PathError(
            "the folder it should lie in does not exist", where=str(place), todo="create it first"
        )


def _write(made: Path) -> None:
    from everybit.api.seal import seal

    templates = resources.files("everybit.api").joinpath("repro")
    for name, template in _FILES.items():
        path = made / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = templates.joinpath(template).read_bytes() if template else b""
        path.write_bytes(_COLUMNS.encode() if name.endswith(".tsv") else text)
    data = made / "data"
    data.mkdir()
    try:
        from everybit.drill.sample_input import write_sample_input
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise UsageError(
            "the sample data need torch", todo="`pip install 'everybit[torch]'` adds it"
        ) from error
    write_sample_input(data / "sample_input.pt")
    seal(data)


def _move(made: Path, place: Path) -> None:
    """Put the project in its place: one rename, or into the empty folder that is there."""
    if not place.exists():
        made.rename(place)
        return
    # The folder stays the one that it was: somebody may stand in it.
    moved: list[Path] = []
    try:
        for path in sorted(made.iterdir()):
            path.rename(place / path.name)
            moved.append(place / path.name)
    except OSError:
        for path in moved:
            with contextlib.suppress(OSError):
                path.rename(made / path.name)
        raise
