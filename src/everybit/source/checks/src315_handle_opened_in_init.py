"""SRC315: an open file of a dataset that forked workers share, with its one file offset."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Certainty, Severity
from everybit.source.checks.datasets import DatasetClass, Kept, Workers, datasets, workers_of
from everybit.source.checks.flow import inside, last_word, possible, written
from everybit.source.hit import Hit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.source.module import Module

RULE_ID: Final = "SRC315"
WORDS: Final = ("Dataset", "ImageFolder")
NEEDS: Final = (r"(?:\b|\\n)class\b",)
#: `{function: what it opens}`.
_OPENS: Final = {
    "open": "file",
    "io.open": "file",
    "io.FileIO": "file",
    "gzip.open": "file",
    "gzip.GzipFile": "file",
    "bz2.open": "file",
    "bz2.BZ2File": "file",
    "lzma.open": "file",
    "lzma.LZMAFile": "file",
    "h5py.File": "HDF5 file",
    "tables.open_file": "HDF5 file",
    "pandas.HDFStore": "HDF5 file",
    "netCDF4.Dataset": "HDF5 file",
    "lmdb.open": "LMDB environment",
    "lmdb.Environment": "LMDB environment",
    "sqlite3.connect": "SQLite connection",
    "zipfile.ZipFile": "zip archive",
    "tarfile.open": "tar archive",
    "tarfile.TarFile": "tar archive",
}
_OPENERS: Final = tuple(sorted({name.rpartition(".")[2] for name in _OPENS}))
#: Methods whose result still reads through the handle.
_DERIVED: Final = frozenset({"cursor", "begin", "require_group", "get_node"})


def check(module: Module) -> Iterator[Hit]:
    """Yield one hit for each open file that samples are read through in workers."""
    if not any(word in module.text for word in _OPENERS):
        return
    for dataset in datasets(module):
        if dataset.mentions("get_worker_info"):
            continue
        workers = None
        seen: set[ast.Call] = set()
        for kept in dataset.kept(lambda value: _handle(module, value)):
            if kept.made in seen or _closed(dataset, kept):
                continue
            workers = workers or workers_of(dataset)
            if workers.seen and not workers.some:
                continue
            seen.add(kept.made)
            yield _hit(module, dataset, kept, workers)


def _handle(module: Module, value: ast.expr) -> ast.Call | None:
    """Return the call that opens what an expression is, or reads through."""
    for each in possible(module, value):
        node = each
        for _ in range(8):
            match node:
                case ast.Call(func=func) if module.resolve(func) in _OPENS:
                    return node
                case ast.Call(func=ast.Attribute(attr=attr, value=owner)) if attr in _DERIVED:
                    node = owner
                case ast.Subscript(value=owner, slice=ast.Constant(value=str())):
                    node = owner
                case ast.Subscript(value=owner, slice=ast.Name() | ast.Attribute()):
                    node = owner  # a group or dataset by its name
                case ast.Name() | ast.Attribute():
                    found = module.definitions(node)
                    if len(found) != 1 or found[0] is node:
                        break
                    node = found[0]
                case _:
                    break
    return None


def _closed(dataset: DatasetClass, kept: Kept) -> bool:
    """Whether `__init__` closes what it opened, or opens it in a `with` block."""
    module = dataset.module
    if any(isinstance(each, ast.withitem) for each in module.ancestors(kept.made)):
        return True
    statement = module.statement(kept.made)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    names = {written(target) for target in targets} | {f"self.{kept.attribute}"}
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "close"
        and written(node.func.value) in names
        for init in dataset.inits.values()
        for node in inside([init], nested=True)
    )


def _hit(module: Module, dataset: DatasetClass, kept: Kept, workers: Workers) -> Hit:
    opener = module.resolve(kept.made.func) or last_word(kept.made.func)
    kind = _OPENS.get(opener, "file")
    name = f"self.{kept.attribute}"
    harm = {
        "LMDB environment": "which LMDB forbids across a fork",
        "SQLite connection": "which SQLite forbids across a fork",
        "HDF5 file": "which HDF5 does not allow across a fork",
    }.get(kind, "and its one offset: they read each other's bytes, without an error")
    return Hit(
        rule=RULE_ID,
        node=kept.place,
        message=(
            f"`{dataset.name}.__init__` opens the {kind} that `{kept.method}` reads as `{name}`: "
            f"forked DataLoader workers share it, {harm}"
        ),
        evidence={
            "class": dataset.name,
            "attribute": kept.attribute,
            "opened_by": opener,
            "method": kept.method,
            "used_line": kept.used.lineno,
            "workers": workers.text,
        },
        remedy=f"Keep the path, and open `{name}` where it is first read, inside the worker.",
        severity=None if workers.some else Severity.NOTE,
        certainty=None if workers.some else Certainty.WEAK,
    )
