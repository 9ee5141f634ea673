"""What seeding did: which streams and flags were set, and which could not be, with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One stream or flag that was set.

    Attributes:
        name: What: `python`, `torch`, `cudnn.benchmark` ...
        value: To what.
    """

    name: str
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class NotSet:
    """One that could not be set.

    Attributes:
        name: What.
        why: The reason, and what would help.
    """

    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeded:
    """What `seed_everything` did; prints as a table.

    Attributes:
        seed: The seed.
        rank: Rank of this process, 0 where there is one.
        num_ranks: Number of ranks.
        deterministic: `strict`, `warn` or `off`, as asked.
        set: What was set, in order.
        not_set: What could not be set, with the reason.
        generator: For `DataLoader(generator=...)`; None with `workers=False`.
        worker_init_fn: For `DataLoader(worker_init_fn=...)`; None with `workers=False`. Pickles.
    """

    seed: int
    rank: int
    num_ranks: int
    deterministic: str
    set: tuple[Setting, ...]
    not_set: tuple[NotSet, ...]
    generator: torch.Generator | None = None
    worker_init_fn: Callable[[int], None] | None = None

    @property
    def complete(self) -> bool:
        """Whether everything that was asked for was set."""
        return not self.not_set

    @property
    def loader(self) -> dict[str, Any]:
        """Arguments of a `DataLoader`: `DataLoader(dataset, **seeded.loader)`; {} without workers.

        Give each loader its own: loaders that share one generator draw from one stream.
        """
        if self.generator is None:
            return {}
        own = torch.Generator().manual_seed(self.generator.initial_seed())
        return {"generator": own, "worker_init_fn": self.worker_init_fn}

    def __str__(self) -> str:
        rank = f", rank {self.rank} of {self.num_ranks}" if self.num_ranks > 1 else ""
        lines = [f"seeded with {self.seed}{rank}; determinism {self.deterministic}"]
        rows = [(each.name, str(each.value)) for each in self.set]
        lines += [f"  {name:<34}  {value}" for name, value in rows]
        if self.not_set:
            lines.append("not set")
            lines += [f"  {each.name:<34}  {each.why}" for each in self.not_set]
        return "\n".join(lines)
