"""The random generators of the process as a value; nothing is drawn."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from typing import Any, Self

import torch
import xxhash


@dataclass(frozen=True, slots=True, eq=False)
class RngState:
    """States of Python's, NumPy's, torch's and the CUDA devices' global generators.

    Quick enough for every checked call: some tens of microseconds on the CPU.

    Attributes:
        python: What `random.getstate` returned.
        numpy: What `numpy.random.get_state` returned; None where NumPy's is not in use.
        cpu: torch's generator on the CPU, uint8.
        devices: Those of CUDA devices, in order; empty where CUDA is not in use.
    """

    python: tuple[Any, ...]
    numpy: dict[str, Any] | None
    cpu: torch.Tensor
    devices: tuple[torch.Tensor, ...]

    @classmethod
    def capture(cls) -> Self:
        """Take the states as they are."""
        numpy_random = sys.modules.get("numpy.random")
        devices: tuple[torch.Tensor, ...] = ()
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            count = torch.cuda.device_count()
            devices = tuple(torch.cuda.get_rng_state(index) for index in range(count))
        return cls(
            random.getstate(),
            None if numpy_random is None else numpy_random.get_state(legacy=False),
            torch.get_rng_state(),
            devices,
        )

    def restore(self) -> None:
        """Put every generator back to where it was."""
        random.setstate(self.python)
        if self.numpy is not None:
            sys.modules["numpy.random"].set_state(self.numpy)
        # torch ignores the storage offset of what it is given: these are no views.
        torch.set_rng_state(self.cpu)
        for index, state in enumerate(self.devices):
            torch.cuda.set_rng_state(state, index)

    def words(self) -> dict[str, str]:
        """Return a digest (XXH3-128, hexadecimal) of each generator's state, by its name."""
        found = {
            "python": xxhash.xxh3_128_hexdigest(repr(self.python).encode()),
            "torch": _of(self.cpu),
        }
        if self.numpy is not None:
            found["numpy"] = _of_numpy(self.numpy)
        return found | {f"cuda:{index}": _of(each) for index, each in enumerate(self.devices)}


def _of(state: torch.Tensor) -> str:
    return xxhash.xxh3_128_hexdigest(state.numpy().tobytes())


def _of_numpy(state: dict[str, Any]) -> str:
    inner = dict(state["state"])
    key = inner.pop("key", None)
    rest = {name: value for name, value in state.items() if name != "state"}
    text = repr((sorted(inner.items()), sorted(rest.items()))).encode()
    return xxhash.xxh3_128_hexdigest(text + (b"" if key is None else key.tobytes()))
