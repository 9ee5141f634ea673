"""Python files that loaders run because of where they lie, with no config that names them."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Location, Severity
from everybit.core.rule import rule
from everybit.files.scans.names import is_model

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from everybit.core.finding import Finding

#: What runs the file, and how it is asked to.
_RUN_BY: Final = {
    "custom_generate/generate.py": (
        "Transformers runs it in `generate(custom_generate=...)`, where remote code is allowed",
        Severity.WARNING,
    ),
    "hubconf.py": ("`torch.hub.load` of this folder imports it", Severity.WARNING),
    "handler.py": ("an inference endpoint runs it in place of its own code", Severity.NOTE),
}


def find_code_beside(names: Iterable[str]) -> Iterator[Finding]:
    """Yield the findings about Python files beside a model that its loaders run by their place.

    Args:
        names: Paths of all files, relative to the folder that is scanned.
    """
    there = set(names)
    folders = {str(PurePosixPath(name).parent) for name in there if _is_of_model(name)}
    for folder in sorted(folders):
        for file, (why, severity) in _RUN_BY.items():
            name = file if folder == "." else f"{folder}/{file}"
            if name in there:
                yield rule("PKL205").finding(
                    f"{name} comes with a model: {why}",
                    where=Location(path=name),
                    evidence={"files": [name]},
                    severity=severity,
                )


def _is_of_model(name: str) -> bool:
    last = name.rpartition("/")[2]
    return last == "config.json" or is_model(last)
