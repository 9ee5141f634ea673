"""Numbers, texts and the like that a torch archive holds beside its tensors, by key path."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from everybit.files.collection import paused_collection
from everybit.files.damage import MalformedError
from everybit.files.formats import distcp, torch_legacy, torch_tar
from everybit.files.formats.torch_zip import find_root, read_pickle
from everybit.files.identify import identify
from everybit.files.pickles.nodes import Call, DictNode, ListNode, Node, Persistent, Text, TupleNode
from everybit.files.pickles.opcodes import interpret
from everybit.files.source import ByteSource
from everybit.files.tensor import FileFormat
from everybit.files.window import Window
from everybit.files.zips.archive import read_archive

if TYPE_CHECKING:
    from os import PathLike

    from everybit.files.pickles.nodes import Pickle

#: More values, or values nested deeper, are not read.
MAX_VALUES: Final = 20_000
_MAX_DEPTH: Final = 64
_SECOND_VISITS: Final = 2000
_MAX_TEXT: Final = 4096

Plain = None | bool | int | float | str


def read_plain_values(path: str | PathLike[str]) -> tuple[dict[str, Plain], bool]:
    """Return the plain values in dicts, lists and tuples of a file that torch wrote.

    Args:
        path: The file.

    Returns:
        The values by dotted key path, and whether these are all: False where there are too many,
        or objects of other classes, whose insides are not looked into. Empty and True for a file
        that holds no such values.

    Raises:
        PathError: The file cannot be read.
    """
    with ByteSource(Path(path)) as source:
        return plain_values_in(source)


def plain_values_in(source: ByteSource) -> tuple[dict[str, Plain], bool]:
    """Return the plain values of an open file, as `read_plain_values` does."""
    kind = identify(source)
    try:
        with paused_collection():
            if kind is FileFormat.TORCH_LEGACY:
                return _collect(torch_legacy.read_object(source).pickle)
            if kind is FileFormat.TORCH_TAR:
                return _collect(torch_tar.read_object(source).pickle)
            if kind is FileFormat.DISTCP:
                return _of_entries(source)
            return archive_values(source) if kind is FileFormat.ZIP else ({}, True)
    except MalformedError:
        return {}, False


def archive_values(source: ByteSource) -> tuple[dict[str, Plain], bool]:
    """Return the plain values of a torch archive; `MalformedError` where it cannot be read."""
    archive = read_archive(source)
    root = find_root(archive.members)
    if root is None:
        return {}, True
    record = next(m for m in archive.members if m.name == f"{root}data.pkl")
    data, _ = read_pickle(source, record)
    return _collect(interpret(data))


def _of_entries(source: ByteSource) -> tuple[dict[str, Plain], bool]:
    metadata = distcp.metadata_beside(source)
    known = None if isinstance(metadata, str) else metadata
    entries, _, _ = distcp.read_entries(source, known, source.path.name)
    found: dict[str, Plain] = {}
    whole = True
    for each in entries:
        if each.listed is not None and each.listed.offset is not None:
            continue
        values, all_of_it = archive_values(Window(source, each.start, each.end))
        found |= {f"{each.label}.{key}" if key else each.label: v for key, v in values.items()}
        whole = whole and all_of_it
    return found, whole


def _collect(pickle: Pickle) -> tuple[dict[str, Plain], bool]:
    found: dict[str, Plain] = {}
    whole = True
    todo: list[tuple[Node, str, int]] = [(pickle.result, "", 0)]
    # A tree visits each container once; those that share each other would be visited for ever.
    budget = _SECOND_VISITS + 2 * pickle.num_nodes
    while todo:
        node, name, depth = todo.pop()
        if budget < 0 or len(found) >= MAX_VALUES or depth > _MAX_DEPTH:
            return found, False
        if isinstance(node, Text):
            node = node.data.decode("utf-8", "replace")
        if node is None or isinstance(node, bool | int | float | str):
            found[name] = node[:_MAX_TEXT] if isinstance(node, str) else node
            continue
        children = _children(node)
        if children is None:
            # What lies outside a torch pickle is a tensor or its storage.
            is_tensor = isinstance(node, Persistent) or (
                isinstance(node, Call) and _is_tensor(node)
            )
            whole = whole and is_tensor
            continue
        budget -= 1
        above = f"{name}." if name else ""
        todo += [(child, f"{above}{key}", depth + 1) for key, child in reversed(children)]
    return found, whole


def _children(node: Node) -> list[tuple[str, Node]] | None:
    """Return what a plain container holds, by key; None for anything else."""
    if isinstance(node, ListNode | TupleNode):
        return [(str(index), item) for index, item in enumerate(node.items)]
    if isinstance(node, DictNode) or (
        isinstance(node, Call) and node.name == "collections.OrderedDict"
    ):
        return [
            (str(key)[:_MAX_TEXT], value)
            for key, value in node.pairs
            if key is None or isinstance(key, bool | int | float | str)
        ]
    return None


def _is_tensor(call: Call) -> bool:
    return call.name.startswith(("torch._utils._rebuild_", "torch.nn.parameter."))
