"""What a rank's digests are of: one tensor a column, and what makes two ranks' tensors copies."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import xxhash

from everybit.core.damage import Role
from everybit.guard.replicas.declared import mesh_peers
from everybit.guard.shards import shard_of
from everybit.probe.memory import dtype_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import torch

    from everybit.guard.tracked import Tracked

_GRADIENT = "gradient of "


@dataclass(frozen=True)
class Column:
    """One tensor whose digest a rank shows.

    Attributes:
        name: Its unique name in the ledger's tables; of a gradient, its parameter's name with
            words before it.
        role: What it is to the loop.
        key: What has to be the same, beside the name, where two ranks hold copies: dtype, shape,
            the place in the whole, and the ranks where these are known.
        declared: The program keeps its copies equal: a difference is damage.
    """

    name: str
    role: Role
    key: str
    declared: bool


@dataclass(frozen=True)
class Layout:
    """The columns of one rank, in order."""

    columns: tuple[Column, ...]

    @cached_property
    def word(self) -> int:
        """A word that stands for them (63 bits)."""
        return xxhash.xxh3_64_intdigest(self.to_bytes()) >> 1

    def to_bytes(self) -> bytes:
        """Return the form that other ranks read."""
        rows = [[c.name, str(c.role), c.key, c.declared] for c in self.columns]
        return json.dumps(rows).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Layout:
        """Rebuild a layout from `to_bytes`'s form."""
        rows = json.loads(data)
        return cls(tuple(Column(name, Role(role), key, bool(d)) for name, role, key, d in rows))


def gradient_name(parameter: str) -> str:
    """Return the column of a parameter's gradient."""
    return _GRADIENT + parameter


def parameter_name(column: str) -> str:
    """Return the parameter of a gradient's column; of any other column its name.

    >>> parameter_name(gradient_name("head.weight"))
    'head.weight'
    """
    return column.removeprefix(_GRADIENT)


def layout_of(
    names: Sequence[str],
    tracked: Mapping[str, Tracked],
    peers: Mapping[int, tuple[int, ...]],
    reduced: Mapping[int, tuple[int, ...]],
    gradients: Sequence[str] = (),
) -> Layout:
    """Describe the columns of a step.

    Args:
        names: Names of parameters, buffers and optimizer state.
        tracked: The tensors, by name.
        peers: Ranks that DDP keeps equal, by the parameter's id.
        reduced: The same of parameters whose gradients DDP reduces.
        gradients: Names of the parameters whose gradients come after all others.
    """
    by_name = {
        (item.module, item.parameter): ranks
        for item in tracked.values()
        if item.role is Role.PARAMETER and (ranks := _peers(item.tensor, peers))
    }
    columns = []
    for name in names:
        item = tracked[name]
        ranks = by_name.get((item.module, item.parameter), ())
        # A DTensor's own mesh says where its copies are, whatever its parameter's says.
        ranks = mesh_peers(item.tensor) or ranks
        declared = len(ranks) > 1 and item.role is not Role.BUFFER
        columns.append(Column(name, item.role, _key(item, ranks), declared))
    for name in gradients:
        item = tracked[name]
        ranks = reduced[id(item.tensor)]
        key = _key(item, ranks)
        columns.append(Column(gradient_name(name), Role.GRADIENT, key, declared=True))
    return Layout(tuple(columns))


def _peers(tensor: torch.Tensor, peers: Mapping[int, tuple[int, ...]]) -> tuple[int, ...]:
    return peers.get(id(tensor), ()) or mesh_peers(tensor)


def _key(item: Tracked, ranks: tuple[int, ...]) -> str:
    local = item.local
    shard = shard_of(item.tensor)
    place = "" if shard is None else f"{shard.global_shape} at {shard.offset}"
    among = ",".join(map(str, ranks))
    return f"{dtype_name(local.dtype)} {tuple(local.shape)} {place} {among}"
