"""States of random streams, so that a resumed run can go on with them. Nothing is drawn.

They are the global ones, and those that a data set keeps. A worker packs them for each batch that
moved them; as plain values they are only made of what is saved.
"""

from __future__ import annotations

import random
import sys
from array import array
from dataclasses import dataclass
from typing import Any, Final

import torch

from everybit.probe.generators import is_generator
from everybit.probe.twister import Twister, of_legacy, of_python

#: Data sets within data sets (a subset, a transform) that are looked into.
_MAX_DEPTH: Final = 4

#: A state a stream: tensors, numbers and text only, so that it can be saved without pickled code.
States = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Packed:
    """States of streams as bytes, which cost little to take and to send.

    Attributes:
        tensors: Those of torch's generators, by name.
        twisters: Those of Python and NumPy, by name.
        others: The rest, as plain values.
    """

    tensors: dict[str, bytes]
    twisters: dict[str, Twister]
    others: States

    def unpacked(self) -> States:
        """Return them as they are saved."""
        states: States = {
            name: torch.frombuffer(bytearray(held), dtype=torch.uint8)
            for name, held in self.tensors.items()
        }
        for name, twister in self.twisters.items():
            states[name] = _of_python(twister) if name == "python" else _of_numpy(twister)
        return states | self.others


def pack_streams(generators: dict[str, Any]) -> Packed:
    """Take the states of the global streams and of these generators."""
    tensors = {"torch": torch.default_generator.get_state().numpy().tobytes()}
    twisters = {"python": of_python(random._inst)}
    others: States = {}
    for name, state in generator_states(generators).items():
        if isinstance(state, torch.Tensor):
            tensors[name] = state.numpy().tobytes()
        else:
            others[name] = state
    numpy_random: Any = sys.modules.get("numpy.random")
    if numpy_random is not None:
        legacy = of_legacy(numpy_random.mtrand._rand)
        if legacy is None:  # Another kind was put in its place.
            others["numpy"] = _plain(numpy_random.get_state(legacy=False))
        else:
            twisters["numpy"] = legacy
    return Packed(tensors=tensors, twisters=twisters, others=others)


def generator_states(generators: dict[str, Any]) -> States:
    """Return the whole state of each generator of a data set."""
    return {name: _state_of(generator) for name, generator in generators.items()}


def stream_states(generators: dict[str, Any]) -> States:
    """Return the whole state of the global streams and of these generators."""
    return pack_streams(generators).unpacked()


def restore_states(states: States, generators: dict[str, Any]) -> None:
    """Put streams to where they were; those that are not there any more are left out."""
    for name, state in states.items():
        if name == "torch":
            torch.default_generator.set_state(state)
        elif name == "python":
            _set_python(random, state)
        elif name == "numpy":
            import numpy.random

            numpy.random.set_state(_arrays(state))
        elif name in generators:
            _set_state(generators[name], state)


def dataset_generators(dataset: Any) -> dict[str, Any]:
    """Return the generators that a data set keeps as attributes, by name.

    Looks at the attributes themselves, and into a `dataset` or `transform` among them; properties
    are not called.
    """
    found: dict[str, Any] = {}
    seen: set[int] = set()

    def look(holder: Any, path: str, depth: int) -> None:
        if depth > _MAX_DEPTH or id(holder) in seen:
            return
        seen.add(id(holder))
        attributes = getattr(holder, "__dict__", None)
        for name, value in list(attributes.items()) if isinstance(attributes, dict) else ():
            if is_generator(value) and not isinstance(value, random.SystemRandom):
                found[f"{path}.{name}"] = value
            elif name in ("dataset", "transform", "transforms", "datasets", "source"):
                parts = value if isinstance(value, (list, tuple)) else [value]
                for part in parts[:16]:
                    look(part, f"{path}.{name}", depth + 1)

    look(dataset, "dataset", 0)
    return found


def _state_of(generator: Any) -> Any:
    if isinstance(generator, torch.Generator):
        return generator.get_state()
    if isinstance(generator, random.Random):
        return _of_python(of_python(generator))
    return _plain(_bits_of(generator).state)


def _set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, torch.Generator):
        generator.set_state(state)
    elif isinstance(generator, random.Random):
        _set_python(generator, state)
    else:
        _bits_of(generator).state = _arrays(state)


def _bits_of(generator: Any) -> Any:
    inner = getattr(generator, "bit_generator", None)
    return generator._bit_generator if inner is None else inner


def _of_python(twister: Twister) -> list[Any]:
    return [random.Random.VERSION, [*array("I", twister.key), twister.position], twister.half]


def _of_numpy(twister: Twister) -> dict[str, Any]:
    return {
        "bit_generator": "MT19937",
        "state": {"key": array("I", twister.key).tolist(), "pos": twister.position},
        "has_gauss": int(twister.half is not None),
        "gauss": twister.half or 0.0,
    }


def _set_python(generator: Any, state: list[Any]) -> None:
    version, words, gauss = state
    generator.setstate((version, tuple(words), gauss))


def _plain(value: Any) -> Any:
    """Return a NumPy state with its arrays as lists of integers."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value.tolist() if hasattr(value, "tolist") else value


def _arrays(value: Any) -> Any:
    """Return it as NumPy takes it."""
    import numpy as np

    if isinstance(value, dict):
        return {key: _arrays(item) for key, item in value.items()}
    return (
        np.array(value, np.uint64 if max(value) >> 32 else np.uint32) if _listed(value) else value
    )


def _listed(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], int)
