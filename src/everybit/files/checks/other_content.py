"""FIL118: a file that is no model, or another kind of model than its name says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.core.finding import Finding, Location, Severity
from everybit.core.rule import rule
from everybit.core.verdict import Skipped
from everybit.files.contents import Content, describe, name_of
from everybit.files.sniff import looks_like_model_name
from everybit.files.tensor import FileFormat

if TYPE_CHECKING:
    from everybit.files.outcome import Outcome
    from everybit.files.source import ByteSource
    from everybit.files.structure import Structure

_NOTHING: Final = frozenset(
    {
        FileFormat.EMPTY, FileFormat.LFS_POINTER, FileFormat.HTML, FileFormat.TEXT,
        FileFormat.ZEROS,
    }
)  # fmt: skip
#: Formats that no loader takes under a name that belongs to torch.
_FOREIGN: Final = frozenset(
    {FileFormat.COMPRESSED, FileFormat.TAR, FileFormat.GGUF, FileFormat.HDF5}
)
_OF_TORCH: Final = frozenset({FileFormat.TORCH_ZIP, FileFormat.TORCH_LEGACY, FileFormat.TORCH_TAR})
#: Endings whose loaders take these formats and no others.
_TAKES: Final = {
    ".safetensors": frozenset({FileFormat.SAFETENSORS}),
    ".npz": frozenset({FileFormat.NPZ}),
    ".npy": frozenset({FileFormat.NPY}),
    ".pt": _OF_TORCH,
    ".pth": _OF_TORCH,
    ".ckpt": _OF_TORCH,
}


def tell_unreadable(source: ByteSource, kind: FileFormat, name: str, outcome: Outcome) -> None:
    """Tell of a file whose format is not read: a finding under a model's name, else a skip."""
    content = describe(source, kind)
    named_so = looks_like_model_name(name)
    wrong = kind in _NOTHING or kind in _FOREIGN
    if (content.what and named_so and wrong) or kind is FileFormat.LFS_POINTER:
        outcome.count("file structures")
        outcome.findings.append(_not_a_model(content, source, name))
    elif name.lower().endswith(".safetensors"):
        outcome.count("file structures")
        held = f" but {name_of(kind)}" if kind is not FileFormat.UNKNOWN else ""
        content = Content(what=f"is no safetensors file{held}", todo="fetch the real file")
        outcome.findings.append(_not_a_model(content, source, name))
    else:
        why = f"its format is not read by this release ({kind}) and it is not sealed"
        outcome.skipped.append(Skipped(what=f"{name}: structure and bytes", why=why))


def tell_misnamed(source: ByteSource, structure: Structure, name: str) -> list[Finding]:
    """Return the finding for a readable file under an ending whose loaders do not take it."""
    kind = structure.format
    suffix = "." + name.lower().rpartition(".")[2]
    takes = _TAKES.get(suffix)
    if takes is None or kind in takes:
        return []
    if kind is FileFormat.ZIP:
        content = describe(source, kind)
        return [_not_a_model(content, source, name)] if content.todo else []
    if not kind.holds_tensors:
        return []
    what = f"is {name_of(kind)}"
    todo = f"what loads {suffix} files fails on it; rename it, or fetch the right file"
    # What is whole is only misnamed; what is not may be anything.
    severity = Severity.WARNING if structure.tensors else None
    return [_not_a_model(Content(what=what, todo=todo), source, name, severity=severity)]


def _not_a_model(
    content: Content, source: ByteSource, name: str, *, severity: Severity | None = None
) -> Finding:
    head = source.read(0, 64)
    tail = "under a model's name" if severity is None else "under another format's name"
    todo = content.todo
    return rule("FIL118").finding(
        f"{name} {content.what}, {tail}",
        where=Location(path=name, byte_range=(0, min(64, source.size)) if head else None),
        evidence={
            "size_bytes": source.size,
            "first_bytes": head.decode("ascii", "backslashreplace"),
        },
        remedy=f"{todo[:1].upper()}{todo[1:]}." if todo else "",
        severity=severity,
    )
