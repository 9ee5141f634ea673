"""The states of the global random generators, taken and put back; nothing is drawn."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from typing import Any, Self

import torch


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RandomState:
    """States of Python's, NumPy's and torch's global generators, and of devices in use."""

    python: tuple[Any, ...]
    torch_cpu: torch.Tensor
    numpy: tuple[Any, ...] | None = None
    cuda: tuple[torch.Tensor, ...] = ()

    @classmethod
    def capture(cls) -> Self:
        """Take the states as they are."""
        numpy_random: Any = sys.modules.get("numpy.random")
        in_use = torch.cuda.is_available() and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        return cls(
            python=random.getstate(),
            torch_cpu=torch.get_rng_state(),
            numpy=None if numpy_random is None else numpy_random.get_state(),
            cuda=tuple(torch.cuda.get_rng_state_all()) if in_use else (),
        )

    def restore(self) -> None:
        """Put them back."""
        random.setstate(self.python)
        torch.set_rng_state(self.torch_cpu)
        numpy_random: Any = sys.modules.get("numpy.random")
        if self.numpy is not None and numpy_random is not None:
            numpy_random.set_state(self.numpy)
        for index, state in enumerate(self.cuda[: torch.cuda.device_count()]):
            torch.cuda.set_rng_state(state, index)

    def to_plain(self) -> dict[str, Any]:
        """Return it as tensors and plain values, that `weights_only` loads."""
        version, words, gauss = self.python
        plain: dict[str, Any] = {
            "python": {"version": version, "words": torch.tensor(words), "gauss": gauss},
            "torch": self.torch_cpu,
            "cuda": list(self.cuda),
        }
        if self.numpy is not None and self.numpy[0] == "MT19937":
            _, keys, pos, has_gauss, cached = self.numpy
            plain["numpy"] = {
                "keys": torch.tensor([int(key) for key in keys]),
                "pos": int(pos),
                "has_gauss": int(has_gauss),
                "cached": float(cached),
            }
        return plain

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """Rebuild it from `to_plain`'s form."""
        python = plain["python"]
        legacy = plain.get("numpy")
        numpy_state = None
        if legacy is not None:
            import numpy as np

            keys = np.array(legacy["keys"].tolist(), np.uint32)
            numpy_state = (
                "MT19937", keys, legacy["pos"], legacy["has_gauss"], legacy["cached"],
            )  # fmt: skip
        return cls(
            python=(python["version"], tuple(python["words"].tolist()), python["gauss"]),
            torch_cpu=plain["torch"],
            numpy=numpy_state,
            cuda=tuple(plain["cuda"]),
        )
