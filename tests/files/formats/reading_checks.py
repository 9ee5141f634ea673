"""What is read by everybit, held against what the real library loads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.files import makers

import everybit
from everybit.files import read_tensor_bytes, read_tensors

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.core.finding import Finding


def pick(value: Any, name: str) -> Any:
    """Follow a dotted key path into a loaded object."""
    for key in name.split("."):
        if isinstance(value, list | tuple) or (isinstance(value, dict) and key not in value):
            value = value[int(key)]
        else:
            value = value[key]
    return value


def same_as_loaded(path: Path, loaded: Any) -> int:
    """Compare every tensor of a file with the loaded object; return how many there were."""
    found = read_tensors(path, digests=False)
    for tensor in found.tensors:
        other = pick(loaded, tensor.name)
        assert tensor.shape == tuple(other.shape), tensor.name
        assert str(other.dtype) == f"torch.{tensor.dtype}", tensor.name
        assert read_tensor_bytes(path, tensor) == makers.canonical(other), tensor.name
    return len(found.tensors)


def findings(path: Path, **options: Any) -> list[tuple[str, str]]:
    """Return rule and message of every finding of `verify`."""
    return [(each.rule, each.message) for each in everybit.verify(path, **options).findings]


def only(path: Path, **options: Any) -> Finding:
    """Return the one finding of `verify`."""
    found = everybit.verify(path, **options).findings
    assert len(found) == 1, [(each.rule, each.message) for each in found]
    return found[0]
