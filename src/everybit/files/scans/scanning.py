"""`scan`: what would loading this do. One file, and all that lies in it, by content.

recognise -> look into (pickle, archive, stream, header) -> findings, and what was looked into

Nothing that is read is executed, imported or unpacked to a place where a loader would find it.
"""

from __future__ import annotations

import importlib
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Severity
from everybit.core.verdict import Skipped
from everybit.files.collection import paused_collection
from everybit.files.outcome import Outcome
from everybit.files.scans.content import Content, Kind
from everybit.files.scans.held import SMALL_BYTES, Small
from everybit.files.scans.kinds import recognise
from everybit.files.scans.names import (
    TEMPLATES,
    YAML,
    is_model,
    is_pickled,
    is_surely_pickled,
)
from everybit.files.scans.plainly import scan_plainly
from everybit.files.scans.walk import Walk
from everybit.files.weights_only.seen import Seen

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.files.source import ByteSource

#: Where each kind is looked into; imported only where a file of that kind is met.
_LOOKS: Final = {
    Kind.PICKLE: ("streams", "look_into_pickle"),
    Kind.TORCH_LEGACY: ("streams", "look_into_pickle"),
    Kind.ZIP: ("zipped", "look_into_zip"),
    Kind.TAR: ("tarred", "look_into_tar"),
    Kind.SEVEN_ZIP: ("packed", "refuse"),
    Kind.RAR: ("packed", "refuse"),
    Kind.NPY: ("arrays", "look_into_array"),
    Kind.SAFETENSORS: ("headers", "look_into_safetensors"),
    Kind.GGUF: ("gguf", "look_into_gguf"),
    Kind.HDF5: ("hdf5", "look_into_hdf5"),
    Kind.ONNX: ("onnx", "look_into_onnx"),
    Kind.JSON: ("configs", "look_into_json"),
    Kind.TEXT: ("texts", "look_into_text"),
    Kind.NATIVE: ("texts", "look_into_native"),
}
_PICKLE: Final = Kind.PICKLE
_TEXT: Final = Kind.TEXT
_PICKLES: Final = (Kind.PICKLE, Kind.TORCH_LEGACY)
_OF_TORCH: Final = (Kind.ZIP, Kind.TORCH_LEGACY, Kind.TAR, Kind.PICKLE)
#: All other texts are only text.
_READ_TEXTS: Final = (*TEMPLATES, *YAML)
_NOTHING: Final = {
    Kind.EMPTY: "it is empty",
    Kind.HTML: "it is a web page",
    Kind.LFS_POINTER: "it is a git-LFS pointer: `git lfs pull` fetches the file itself",
    Kind.OTHER: "it is of no format that is known here",
}
_NO_MODEL: Final[dict[Kind, str]] = {
    **{kind: why for kind, why in _NOTHING.items() if kind is not Kind.OTHER},
    Kind.TEXT: "it is text",
    Kind.JSON: "it is JSON",
}


def scan_file(source: ByteSource, name: str, *, depth: int = 0, named: bool = True) -> Outcome:
    """Look into a file, and all that lies in it.

    Args:
        source: The file.
        name: What findings call it.
        depth: How many containers it lies in already.
        named: Somebody asked about this very file, so that one that is of no known format is a
            check that did not run; of a folder's files, only those that models are kept in.

    Returns:
        The findings, and what was and was not looked into.
    """
    if source.size <= SMALL_BYTES:
        source = small = source if isinstance(source, Small) else Small.of(source)
        plain = scan_plainly(small.data, name) if depth == 0 else None
        if plain is not None:
            counts = {"pickles": 1, "files": 1}
            outcome = Outcome(findings=plain.findings, checked=counts, skipped=plain.skipped)
            if not _runs_code(outcome):
                seen = Seen()
                seen.add(plain.pickles, 0)
                _add_refused(source, name, outcome, seen, bare=True)
            return outcome
    walk = Walk(_look)
    content = Content(source=source, path=name, depth=depth)
    with paused_collection():
        kinds = recognise(content)
        _look_as(content, walk, kinds, promised=named or is_pickled(name) or is_model(name))
        if kinds[0] in _OF_TORCH and not _runs_code(walk.outcome):
            _add_refused(source, name, walk.outcome, walk.seen, bare=kinds[0] is _PICKLE)
    walk.outcome.count("files")
    return walk.outcome


def _runs_code(outcome: Outcome) -> bool:
    """Return whether a file is not to be loaded at all, so that how to load it is no question."""
    return "PKL201" in [finding.rule for finding in outcome.findings]


def _add_refused(
    source: ByteSource, name: str, outcome: Outcome, seen: Seen, *, bare: bool
) -> None:
    """Add what `weights_only=True` refuses of a file of torch's."""
    from everybit.files.scans.refused import tell_refused

    told = bool(outcome.findings)
    try:
        refused = tell_refused(source, name, damage_told=told, seen=seen)
    except MemoryError:
        why = "that takes more memory than there is"
        what = f"whether weights_only=True accepts {name}"
        outcome.skipped.append(Skipped(what=what, why=why))
        return
    if refused is None:
        return
    if bare and not told:
        # torch.load reads no such file anyway, and all that its own loader reaches is harmless.
        refused = replace(refused, severity=Severity.NOTE)
    outcome.findings.append(refused)


def _look(content: Content, walk: Walk) -> None:
    """Look into something that lies in a container."""
    if not walk.enter(content):
        return
    walk.outcome.count("members")
    _look_as(content, walk, recognise(content), promised=is_surely_pickled(content.name))


def _look_as(content: Content, walk: Walk, kinds: tuple[Kind, ...], *, promised: bool) -> None:
    # An archive behind a pickle tells of what stands before it by itself.
    if len(kinds) > 1 and (kinds[0] not in _PICKLES or Kind.TAR in kinds[1:]):
        _tell_of_two(content, walk, kinds)
    for kind in kinds:
        if kind in _NO_MODEL and content.depth == 0 and is_model(content.name):
            _tell_no_model(content, walk, kind)
        if kind in _NOTHING:
            if promised and kind not in _NO_MODEL:
                what = f"what loading {content.label} does"
                walk.outcome.skipped.append(Skipped(what=what, why=_NOTHING[kind]))
            continue
        if kind is _TEXT and not content.name.lower().endswith(_READ_TEXTS):
            continue
        content.kind, content.two = kind, len(kinds) > 1
        try:
            _looker(kind)(content, walk)
        except MemoryError:
            walk.closed(content, "that takes more memory than there is")


def _tell_no_model(content: Content, walk: Walk, kind: Kind) -> None:
    """Tell of something else under a model's name, and where it is a link, where that leads."""
    path = content.source.path
    if path.is_symlink():
        walk.warn(
            content,
            f"is a link to {path.resolve()}, which is no model: {_NO_MODEL[kind]}",
            trick="links",
            remedy="Do not load it; see why a model would lead there.",
        )
    elif not content.name.lower().endswith(".pth"):  # Python's own path files are texts
        walk.tell(content, f"is no model: {_NO_MODEL[kind]}", rule_id="FIL118")


def _tell_of_two(content: Content, walk: Walk, kinds: tuple[Kind, ...]) -> None:
    names = " and ".join(kinds)
    walk.tell(
        content,
        f"is {names} at once: each loader takes it for another one",
        severity=Severity.ERROR,
        trick="two formats in one",
        formats=[str(kind) for kind in kinds],
    )


@cache
def _looker(kind: Kind) -> Callable[[Content, Walk], None]:
    module, function = ("packed", "look_into_packed") if kind.packed else _LOOKS[kind]
    found: Callable[[Content, Walk], None] = getattr(
        importlib.import_module(f"everybit.files.scans.{module}"), function
    )
    return found
