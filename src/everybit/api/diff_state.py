"""Optimizer state of two files, paired by parameter name where both files say it.

torch numbers parameters in the order in which the optimizer got them. After a change of that order
equal numbers are other parameters.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from everybit.core.verdict import Skipped

if TYPE_CHECKING:
    from everybit.api.diff_side import SideFile

_PARAMETER: Final = re.compile(
    r"^(?P<root>(?:.*\.)?)param_groups\.(?P<group>\d+)\.params\.(?P<at>\d+)$"
)
_NAMES: Final = ("param_names", "params_names", "names")


def name_by_parameter(one: SideFile, other: SideFile) -> None:
    """Rename the optimizer state of both files by parameter, where their orders differ.

    Nothing is changed where a file does not name all parameters of an optimizer, or where both
    number them alike.
    """
    named = [_parameters(file) for file in (one, other)]
    for root in sorted(named[0].keys() & named[1].keys()):
        if named[0][root] == named[1][root]:
            continue
        for file, names in zip((one, other), named, strict=True):
            _rename(file, root, names[root])
        why = "its numbers stand for other parameters in B: paired by parameter name"
        what = f"optimizer state {root.rstrip('.')}".rstrip()
        one.skipped.append(Skipped(what=what, why=why, promised=False))


def _parameters(file: SideFile) -> dict[str, dict[str, str]]:
    """Return `{root: {number in the state: parameter name}}` of optimizers that name them all."""
    found: dict[str, dict[str, str]] = {}
    lost: set[str] = set()
    for key, number in file.values.items():
        place = _PARAMETER.match(key)
        if place is None:
            continue
        root = place["root"]
        group = f"{root}param_groups.{place['group']}"
        name = next(
            (
                value
                for each in _NAMES
                if (value := file.values.get(f"{group}.{each}.{place['at']}"))
            ),
            None,
        )
        if isinstance(name, str):
            found.setdefault(root, {})[str(number)] = name
        else:
            lost.add(root)
    return {
        root: names
        for root, names in found.items()
        if root not in lost and len(set(names.values())) == len(names)
    }


def _rename(file: SideFile, root: str, names: dict[str, str]) -> None:
    lead = f"{root}state."
    for place, tensor in enumerate(file.tensors):
        if not tensor.name.startswith(lead):
            continue
        number, _, slot = tensor.name[len(lead) :].partition(".")
        if number in names:
            file.tensors[place] = replace(tensor, name=f"{lead}{names[number]}.{slot}")
