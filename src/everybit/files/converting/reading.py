"""Reading a sidecar: bounded, strict, and with no code run, whoever wrote it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from everybit.core.errors import DamagedError, PathError
from everybit.files.converting.shards import SUFFIX as DATA_SUFFIX
from everybit.files.converting.sidecar import SCHEMA, SUFFIX
from everybit.files.damage import MalformedError
from everybit.files.formats import safetensors
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from everybit.files.tensor import FileTensor

_MAX_BYTES: Final = 1 << 30
_MAX_BRACKETS: Final = 20_000_000
_MAX_COMMAS: Final = 40_000_000
_MAX_FILES: Final = 100_000
_MAX_FOLDER: Final = 1000
_KINDS: Final = {"storages": list, "tensors": dict, "shared": list, "data": dict}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """A sidecar, its outer form checked.

    Attributes:
        path: Where it lies.
        tree: The object tree, as JSON.
        shared: What the tree refers to by number.
        storages: What is said of each storage.
        tensors: What is said of each tensor, by name.
        entries: Every entry of the safetensors files: which file, and where in it.
    """

    path: Path
    tree: Any
    shared: list[Any]
    storages: list[Any]
    tensors: dict[str, Any]
    entries: dict[str, tuple[Path, FileTensor]]

    def wrong(self, what: str) -> DamagedError:
        """Return the error for a sidecar that cannot be right."""
        return DamagedError(
            what, rule="FIL107", where=str(self.path), todo="convert the checkpoint again"
        )


def find_sidecars(path: Path) -> dict[str, Path]:
    """Return the sidecars that a path means, by what they are called.

    Args:
        path: A sidecar, a safetensors file with one beside it, or a folder of them.

    Raises:
        PathError: There is none.
    """
    if path.is_dir():
        found: dict[str, Path] = {}
        try:
            for place in path.iterdir():
                if place.name.endswith(SUFFIX) and place.is_file():
                    found[place.name.removesuffix(SUFFIX)] = place
                if len(found) > _MAX_FOLDER:
                    raise PathError(f"holds more than {_MAX_FOLDER} sidecars", where=str(path))
        except OSError as error:
            raise PathError.from_os_error(error, path) from error
        if not found:
            raise PathError(
                f"holds no sidecar (*{SUFFIX})",
                where=str(path),
                todo="name what `everybit convert` wrote",
            )
        return dict(sorted(found.items()))
    if path.name.endswith(DATA_SUFFIX):
        stem = path.name.removesuffix(DATA_SUFFIX)
        beside = path.with_name(stem + SUFFIX)
        if path.exists() and not beside.exists():
            raise PathError(
                f"has no sidecar {beside.name} beside it",
                where=str(path),
                todo="name what `everybit convert` wrote, or load it with safetensors",
            )
        path = beside
    return {path.name.removesuffix(SUFFIX): path}


def read_sidecar(path: Path) -> Sidecar:
    """Read a sidecar and the headers of the safetensors files that it names.

    Raises:
        PathError: It cannot be read, or is too large.
        DamagedError: It is no sidecar of this schema, or a file that it names is damaged or gone.
    """
    state = _parse(path)
    wrong = DamagedError(
        "is no sidecar that everybit wrote", rule="FIL107", where=str(path),
        todo="name what `everybit convert` wrote",
    )  # fmt: skip
    if not isinstance(state, dict) or not isinstance(state.get("schema"), str):
        raise wrong
    if state["schema"] != SCHEMA:
        raise PathError(
            f"is of schema {state['schema'][:40]!r}, and this release reads {SCHEMA}",
            where=str(path),
            todo="use the release that wrote it, or a newer one",
        )
    if "tree" not in state or any(
        not isinstance(state.get(key), kind) for key, kind in _KINDS.items()
    ):
        raise wrong
    names = state["data"].get("files")
    if not isinstance(names, list) or len(names) > _MAX_FILES:
        raise wrong
    return Sidecar(
        path=path,
        tree=state["tree"],
        shared=state["shared"],
        storages=state["storages"],
        tensors=state["tensors"],
        entries=_read_entries(path, names),
    )


def _parse(path: Path) -> Any:
    with ByteSource(path) as source:
        if source.size > _MAX_BYTES:
            raise PathError(f"has more than {_MAX_BYTES} bytes", where=str(path))
        raw = source.read(0, source.size)
    if raw.count(b"[") + raw.count(b"{") > _MAX_BRACKETS or raw.count(b",") > _MAX_COMMAS:
        raise PathError("has more entries than this release reads", where=str(path))
    try:
        return json.loads(
            raw.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant
        )
    except (ValueError, RecursionError) as error:
        what = "nested too deep" if isinstance(error, RecursionError) else str(error)[:120]
        raise DamagedError(
            f"is no JSON that everybit wrote: {what}", rule="FIL107", where=str(path),
            todo="convert the checkpoint again",
        ) from None  # fmt: skip


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"key {twice[:80]!r} stands twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _read_entries(path: Path, names: list[Any]) -> dict[str, tuple[Path, FileTensor]]:
    found: dict[str, tuple[Path, FileTensor]] = {}
    for name in names:
        if not isinstance(name, str) or not _is_plain(name):
            raise DamagedError(
                f"names the file {str(name)[:80]!r}, which does not lie beside it",
                rule="FIL107",
                where=str(path),
                todo="convert the checkpoint again",
            )
        place = path.with_name(name)
        if not place.exists():
            raise DamagedError(
                f"is missing; {path.name} lists it",
                rule="FIL103",
                where=str(place),
                todo="fetch it from where the sidecar came from",
            )
        with ByteSource(place) as source:
            try:
                structure = safetensors.read_structure(source)
            except MalformedError as error:
                raise error.damage.error(place) from None
        if structure.damages:
            raise structure.damages[0].error(place)
        found |= {tensor.name: (place, tensor) for tensor in structure.tensors}
    return found


def _is_plain(name: str) -> bool:
    """Return whether a name is one of a file in the same folder."""
    return (
        name.endswith(DATA_SUFFIX)
        and Path(name).name == name
        and not set(name) & set("/\\\0:")
        and len(name.encode("utf-8", "surrogatepass")) <= 255
    )
