"""The half of `diff` that compares model files, and folders of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.api.diff_bytes import first_difference
from everybit.api.diff_reader import Sources
from everybit.api.diff_side import fault_of, place_like, read_file
from everybit.api.diff_state import name_by_parameter
from everybit.core.errors import PathError
from everybit.core.verdict import Skipped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from everybit.api.diff_side import SideFile
    from everybit.diff.faults import Fault
    from everybit.diff.outcome import Outcome

#: Differing plain values that are told in full.
_MAX_SHOWN: Final = 8
_MAX_TEXT: Final = 60


def diff_files(a: Path, b: Path, *, progress: Callable[[int], None] | None = None) -> Outcome:
    """Compare two model files, or all files of two folders.

    Files of two folders belong together by their relative path. Where no model has the same path
    on both sides (another number of shards, another format), or a folder is compared with a file,
    all tensors of a side are taken together.

    Args:
        a: One path.
        b: The other.
        progress: Told the bytes read.

    Raises:
        PathError: A path cannot be read or holds no model file.
        DamagedError: A model file is damaged so that nothing in it can be compared.
    """
    from everybit.api.diff_folders import diff_folders, read_whole_side

    with Sources(progress) as sources:
        if a.is_dir() and b.is_dir():
            outcome = diff_folders(sources, a, b)
        elif a.is_dir() or b.is_dir():
            sides = [read_whole_side(sources, path) for path in (a, b)]
            outcome = diff_sides(*sides)
        else:
            outcome = _diff_two(sources, a, b)
        sources.check_unchanged()
    return outcome


def _diff_two(sources: Sources, a: Path, b: Path) -> Outcome:
    same = first_difference(sources, a, b) is None
    one = read_file(sources, a, a.name)
    if same:
        return _same(one)
    other = read_file(sources, b, b.name)
    return diff_sides([one], [other], sources=sources)


def _same(file: SideFile) -> Outcome:
    """Return the outcome for two files of the same bytes, whole or not."""
    from everybit.diff.tensors import diff_tensors

    skipped = list(file.skipped)
    if file.damages:
        damage = file.damages[0]
        why = f"both are damaged in the same way ({damage.rule}): {damage.message}"
        skipped.append(Skipped(what="what the files should hold", why=why))
    return diff_tensors([(file.tensors, file.tensors)], skipped=skipped, same_bytes=True)


def diff_sides(
    ones: list[SideFile], others: list[SideFile], *, sources: Sources | None = None
) -> Outcome:
    """Compare all tensors of one side with all of the other."""
    from everybit.diff.tensors import diff_tensors

    faults = []
    if len(ones) == len(others) == 1 and sources is not None:
        faults = compare_damaged(sources, ones[0], others[0])
        name_by_parameter(ones[0], others[0])
    else:
        for file in (*ones, *others):
            if file.damages:
                raise file.damages[0].error(file.path)
    values = differing_values(ones, others)
    skipped = [item for file in (*ones, *others) for item in file.skipped]
    skipped += tell_values(ones, others, values)
    pair = (
        [t for file in ones for t in file.tensors],
        [t for file in others for t in file.tensors],
    )
    return diff_tensors([pair], skipped=skipped, values=values, faults=faults, same_bytes=False)


def compare_damaged(sources: Sources, one: SideFile, other: SideFile) -> list[Fault]:
    """Return the damage of two files, and make what is left of them comparable.

    Raises:
        DamagedError: Nothing of one of them can be compared.
    """
    borrowed = [place_like(sources, one, other), place_like(sources, other, one)]
    faults = []
    for side, file, placed in zip("AB", (one, other), borrowed, strict=True):
        if file.damages and not file.tensors:
            raise file.damages[0].error(file.path)
        fault = fault_of(side, file, borrowed=placed)
        if fault is not None:
            faults.append(fault)
    return faults


def differing_values(
    ones: list[SideFile], others: list[SideFile], *, prefix: str = ""
) -> list[tuple[str, object, object]]:
    """Return the plain values that both sides have and that differ, by key."""
    a = {key: value for file in ones for key, value in file.values.items()}
    b = {key: value for file in others for key, value in file.values.items()}
    # Text forms: NaN is equal to itself, and 1 is not True.
    return [
        (f"{prefix}{key}", a[key], b[key]) for key in a if key in b and repr(a[key]) != repr(b[key])
    ]


def tell_values(
    ones: list[SideFile], others: list[SideFile], differing: list[tuple[str, object, object]]
) -> list[Skipped]:
    """Tell that tensors are judged, and which plain values beside them differ."""
    a = {key for file in ones for key in file.values}
    b = {key for file in others for key in file.values}
    whole = all(file.values_whole for file in (*ones, *others))
    if not a and not b and whole:
        return []
    both = a & b
    what = f"only tensors are judged; of {len(both)} plain values in both, {len(differing)} differ"
    if differing:
        shown = [
            f"{key}: {_short(one)} in A, {_short(other)} in B"
            for key, one, other in differing[:_MAX_SHOWN]
        ]
        more = [f"{len(differing) - _MAX_SHOWN} more"] if len(differing) > _MAX_SHOWN else []
        what += f" ({'; '.join([*shown, *more])})"
    parts = [what]
    if alone := len(a ^ b):
        parts.append(f"{alone} are in one only")
    if not whole:
        parts.append("other objects are not looked into")
    return [Skipped(what="values beside the tensors", why="; ".join(parts), promised=False)]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."


def refuse_repeated(side: Path, files: list[SideFile]) -> None:
    """Raise `PathError` where two files of a side hold a tensor of the same name."""
    seen: dict[str, str] = {}
    for file in files:
        for each in file.tensors:
            if seen.setdefault(each.name, file.relative) != file.relative:
                raise PathError(
                    f"tensor {each.name!r} is in {seen[each.name]} and in {file.relative}",
                    where=str(side),
                    todo="name the two files that should be equal",
                )
