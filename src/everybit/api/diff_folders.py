"""Two folders of model files: which belong together, and whether one is a copy of the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from posixpath import dirname
from typing import TYPE_CHECKING, Any, Final

from everybit.api.diff_copy import CopyCheck, check_copy
from everybit.api.diff_files import (
    compare_damaged,
    diff_sides,
    differing_values,
    refuse_repeated,
    tell_values,
)
from everybit.api.diff_side import SideFile, read_file, read_folder_model
from everybit.api.diff_state import name_by_parameter
from everybit.api.diff_walk import Tree, walk_tree
from everybit.core.errors import DamagedError, PathError
from everybit.core.verdict import Skipped
from everybit.diff.faults import Fault

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.api.diff_reader import Sources
    from everybit.diff.outcome import Outcome
    from everybit.diff.tensors import Files, Value

_METADATA: Final = ".metadata"
_SUFFIXES: Final = (".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".npy", ".npz", ".distcp")


@dataclass(slots=True, kw_only=True)
class _Folder:
    """A side: all its files, and which of them are models.

    Attributes:
        path: The folder.
        tree: Everything in it.
        models: Relative paths of single model files.
        dcp: Relative paths of folders that are one model each; "" for the folder itself.
    """

    path: Path
    tree: Tree
    models: list[str] = field(default_factory=list)
    dcp: list[str] = field(default_factory=list)

    def of_dcp(self, relative: str) -> bool:
        """Return whether a file belongs to a folder that is one model."""
        return dirname(relative) in self.dcp


@dataclass(slots=True, kw_only=True)
class _Pairing:
    pairs: list[Files] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    compared: set[str] = field(default_factory=set)


def diff_folders(sources: Sources, a: Path, b: Path) -> Outcome:
    """Compare all files of two folders: models tensor by tensor, others byte by byte.

    Raises:
        PathError: A folder cannot be read, or is empty.
        DamagedError: A folder that has to be taken as one model is damaged.
    """
    from everybit.diff.tensors import diff_tensors

    one, other = _look(a), _look(b)
    for side in (one, other):
        if not side.tree.files:
            raise _nothing(side.path)
    shared = {*one.models} & {*other.models} or {*one.dcp} & {*other.dcp}
    if one.models + one.dcp and other.models + other.dcp and not shared:
        return _diff_together(sources, one, other)
    check = check_copy(sources, a, one.tree, b, other.tree)
    found = _Pairing()
    _pair_dcp(sources, one, other, check, found)
    _pair_files(sources, one, other, check, found)
    _pair_moved(sources, one, other, check, found)
    extra = check.groups(found.compared | {fault.path for fault in found.faults})
    return diff_tensors(
        found.pairs,
        skipped=[*check.skipped, *found.skipped],
        values=found.values,
        faults=found.faults,
        extra=extra,
        same_bytes=check.same_bytes,
        copy=check.to_json(),
    )


def read_whole_side(sources: Sources, path: Path) -> list[SideFile]:
    """Read every model file of a path; tensors of one name may stand in one file only.

    Raises:
        PathError: It cannot be read, or holds no model file.
        DamagedError: A model file is damaged.
    """
    if not path.is_dir():
        return [read_file(sources, path, path.name)]
    folder = _look(path)
    if not folder.models and not folder.dcp:
        raise _nothing(path)
    files = [read_folder_model(sources, path / each if each else path, each) for each in folder.dcp]
    files += [read_file(sources, folder.tree.files[each], each) for each in folder.models]
    others = len(folder.tree.files) - len(folder.models)
    others -= sum(folder.of_dcp(each) for each in folder.tree.files)
    if others:
        why = f"{others} in {path} are no model files"
        files[0].skipped.append(Skipped(what="files", why=why, promised=False))
    refuse_repeated(path, files)
    return files


def _nothing(path: Path) -> PathError:
    return PathError(
        "holds neither a run nor a model file",
        where=str(path),
        todo="name a folder that a Guard made, or one with .safetensors or .pt files in it",
    )


def _look(path: Path) -> _Folder:
    out = _Folder(path=path, tree=walk_tree(path))
    out.dcp = sorted(
        dirname(each)
        for each in out.tree.files
        if each.rpartition("/")[2] == _METADATA and _has_distcp(out.tree, dirname(each))
    )
    out.models = [
        each for each, place in out.tree.files.items() if not out.of_dcp(each) and _is_model(place)
    ]
    return out


def _has_distcp(tree: Tree, folder: str) -> bool:
    return any(dirname(each) == folder and each.endswith(".distcp") for each in tree.files)


def _is_model(path: Path) -> bool:
    from everybit.files.folder import holds_model

    if path.name.startswith("."):
        return False
    return path.name.lower().endswith(_SUFFIXES) or holds_model(path)


def _diff_together(sources: Sources, one: _Folder, other: _Folder) -> Outcome:
    """Compare two layouts of what should be one model."""
    sides = [read_whole_side(sources, side.path) for side in (one, other)]
    return diff_sides(*sides)


def _pair_dcp(
    sources: Sources, one: _Folder, other: _Folder, check: CopyCheck, found: _Pairing
) -> None:
    for relative in sorted({*one.dcp} & {*other.dcp}):
        names = {
            each for side in (one, other) for each in side.tree.files if dirname(each) == relative
        }
        found.compared |= names
        sides: list[SideFile] = []
        for name, side in (("A", one), ("B", other)):
            if sides and names <= check.equal:
                sides.append(sides[0])
                continue
            try:
                place = side.path / relative if relative else side.path
                sides.append(read_folder_model(sources, place, relative))
            except DamagedError as error:
                path = _relative_to(error.where, side.path) or relative or _METADATA
                found.faults.append(
                    Fault(
                        side=name,
                        path=path,
                        rule=error.rule,
                        message=error.what.removesuffix(f" ({error.rule})"),
                        hides_tensors=True,
                    )
                )
        if len(sides) == 2:
            _add(found, sides[0], sides[1], relative)


def _relative_to(where: str, folder: Path) -> str:
    return where.removeprefix(str(folder)).lstrip("/") if where.startswith(str(folder)) else ""


def _pair_files(
    sources: Sources, one: _Folder, other: _Folder, check: CopyCheck, found: _Pairing
) -> None:
    for relative in one.models:
        if relative not in other.models:
            continue
        a, b = one.tree.files[relative], other.tree.files[relative]
        same = relative in check.equal
        files: list[SideFile] = []
        for name, place in (("A", a), ("B", b)):
            if files and same:
                files.append(files[0])
                continue
            try:
                files.append(read_file(sources, place, relative))
            except DamagedError as error:
                if not same:
                    found.faults.append(_fault(name, relative, error))
            except PathError as error:
                why = f"compared byte by byte only: {error.what}"
                found.skipped.append(Skipped(what=f"file {relative}", why=why, promised=False))
        if len(files) < 2:
            continue
        if same:
            _tell_damaged_alike(found, files[0])
        else:
            try:
                found.faults += compare_damaged(sources, files[0], files[1])
            except DamagedError as error:
                name = "A" if files[0].damages and not files[0].tensors else "B"
                found.faults.append(_fault(name, relative, error))
                found.compared.add(relative)
                continue
        found.compared.add(relative)
        _add(found, files[0], files[1], relative)


def _fault(side: str, relative: str, error: DamagedError) -> Fault:
    message = error.what.removesuffix(f" ({error.rule})")
    return Fault(side=side, path=relative, rule=error.rule, message=message, hides_tensors=True)


def _tell_damaged_alike(found: _Pairing, file: SideFile) -> None:
    if file.damages:
        damage = file.damages[0]
        why = f"damaged in the same way on both sides ({damage.rule}): {damage.message}"
        found.skipped.append(Skipped(what=f"what {file.relative} should hold", why=why))


def _add(found: _Pairing, one: SideFile, other: SideFile, relative: str) -> None:
    if one is other:
        found.skipped += one.skipped
        found.pairs.append((one.tensors, other.tensors))
        return
    name_by_parameter(one, other)
    found.pairs.append((one.tensors, other.tensors))
    values = differing_values([one], [other], prefix=f"{relative}:" if relative else "")
    found.values += values
    found.skipped += [*one.skipped, *other.skipped]
    found.skipped += tell_values([one], [other], values)


def _pair_moved(
    sources: Sources, one: _Folder, other: _Folder, check: CopyCheck, found: _Pairing
) -> None:
    """Pair model files that are on one side only, where they hold the same tensors' names."""
    left = [
        _read_left(sources, side, [each for each in side.models if each not in there.models])
        for side, there in ((one, other), (other, one))
    ]
    names: list[dict[str, set[str]]] = [{}, {}]
    for number, files in enumerate(left):
        for file in files:
            folder = dirname(file.relative)
            names[number].setdefault(folder, set()).update(each.name for each in file.tensors)
    for folder in sorted(names[0].keys() & names[1].keys()):
        if not names[0][folder] & names[1][folder]:
            continue
        sides = [[file for file in files if dirname(file.relative) == folder] for files in left]
        found.compared.update(file.relative for side in sides for file in side)
        tensors = [[each for file in side for each in file.tensors] for side in sides]
        found.pairs.append((tensors[0], tensors[1]))
    _pair_renamed(left, check, found)


def _pair_renamed(left: list[list[SideFile]], check: CopyCheck, found: _Pairing) -> None:
    """Pair files in other folders that hold the same tensors by name and shape, once each."""
    forms: list[dict[Any, list[SideFile]]] = [{}, {}]
    for number, files in enumerate(left):
        for file in files:
            if file.relative in found.compared or file.relative in check.renamed:
                continue
            form = frozenset((each.name, each.dtype, each.shape) for each in file.tensors)
            if form:
                forms[number].setdefault(form, []).append(file)
    for form, ones in forms[0].items():
        others = forms[1].get(form, [])
        if len(ones) != 1 or len(others) != 1:
            continue
        found.compared |= {ones[0].relative, others[0].relative}
        why = f"{ones[0].relative} in A is compared with {others[0].relative} in B"
        found.skipped.append(Skipped(what="names of files", why=why, promised=False))
        found.pairs.append((ones[0].tensors, others[0].tensors))


def _read_left(sources: Sources, side: _Folder, names: list[str]) -> list[SideFile]:
    files = []
    for relative in names:
        try:
            file = read_file(sources, side.tree.files[relative], relative)
        except (DamagedError, PathError):
            # It is missing on the other side, which is told as it is.
            continue
        if not file.damages:
            files.append(file)
    return files
