"""What one operation reads and gives, kept so that it can be computed again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch.utils._pytree import tree_flatten, tree_map_only


@dataclass(slots=True, kw_only=True, eq=False)
class Held:
    """An operation's inputs, and what came out.

    Attributes:
        func: The operation; None for a value that is none's.
        args: Its inputs, copied before it ran.
        kwargs: Its inputs by name.
        given: What it returned, then what it wrote into, as far as these are tensors.
        random: State of torch's CPU generator before it.
    """

    func: Any = None
    args: Any = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    given: list[torch.Tensor] = field(default_factory=list)
    random: torch.Tensor | None = None

    @classmethod
    def before(cls, func: Any, args: Any, kwargs: Any) -> Self:
        """Copy what an operation is about to read."""
        return cls(
            func=func,
            args=tree_map_only(torch.Tensor, _copy, args),
            kwargs=tree_map_only(torch.Tensor, _copy, kwargs),
            random=torch.get_rng_state().clone(),
        )

    @classmethod
    def of(cls, tensors: list[torch.Tensor]) -> Self:
        """Keep values that no operation of ours gave."""
        return cls(given=[_copy(tensor) for tensor in tensors])

    @property
    def read(self) -> list[torch.Tensor]:
        """The tensors that it read, in order."""
        leaves = tree_flatten((self.args, self.kwargs))[0]
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def take(self, given: list[torch.Tensor]) -> None:
        """Keep what came out."""
        self.given = [_copy(tensor) for tensor in given]


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone(memory_format=torch.preserve_format)
