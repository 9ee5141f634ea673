"""The random streams that a batch is made with: the global ones, and those a data set keeps.

Their words are cheap, for every batch. Their whole states are taken where they moved, so that a
resumed run can go on with them. Nothing is drawn.
"""

from __future__ import annotations

import random
import sys
from array import array
from typing import Any, Final

import torch
import xxhash

from everybit.probe.contents.streams import twister_state
from everybit.probe.generators import is_generator

_MASK: Final = (1 << 64) - 1
#: Data sets within data sets (a subset, a transform) that are looked into.
_MAX_DEPTH: Final = 4

#: A state a stream: tensors, numbers and text only, so that it can be saved without pickled code.
States = dict[str, Any]


def stream_words(generators: dict[str, Any]) -> tuple[tuple[str, int], ...]:
    """Return `(stream, word)`: `torch`, `python`, `numpy` where it is in use, and the generators.

    Args:
        generators: Those of the data set, by name, as `dataset_generators` finds them.
    """
    words = [("torch", _torch_word(torch.default_generator)), ("python", _python_word(random))]
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        words.append(("numpy", _global_numpy_word(numpy_random)))
    for name, generator in generators.items():
        words.append((name, _word_of(generator)))
    return tuple(words)


def generator_states(generators: dict[str, Any]) -> States:
    """Return the whole state of each generator of a data set."""
    return {name: _state_of(generator) for name, generator in generators.items()}


def stream_states(generators: dict[str, Any]) -> States:
    """Return the whole state of each of these streams."""
    states: States = {
        "torch": torch.default_generator.get_state(),
        "python": _python_state(random),
    }
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        states["numpy"] = _plain(numpy_random.get_state(legacy=False))
    return states | generator_states(generators)


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
            if is_generator(value):
                found[f"{path}.{name}"] = value
            elif name in ("dataset", "transform", "transforms", "datasets", "source"):
                parts = value if isinstance(value, (list, tuple)) else [value]
                for part in parts[:16]:
                    look(part, f"{path}.{name}", depth + 1)

    look(dataset, "dataset", 0)
    return found


def mixed(words: tuple[tuple[str, int], ...]) -> int:
    """Return one word for the global streams; 0 for none."""
    known = [word for name, word in words if not name.startswith("dataset.")]
    return xxhash.xxh3_64_intdigest(array("Q", known).tobytes()) if known else 0


def _word_of(generator: Any) -> int:
    if isinstance(generator, torch.Generator):
        return _torch_word(generator)
    if isinstance(generator, random.Random):
        return _python_word(generator)
    return _numpy_word(_bits_of(generator).state)


def _state_of(generator: Any) -> Any:
    if isinstance(generator, torch.Generator):
        return generator.get_state()
    if isinstance(generator, random.Random):
        return _python_state(generator)
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


def _torch_word(generator: torch.Generator) -> int:
    return xxhash.xxh3_64_intdigest(generator.get_state().numpy().data)


def _python_word(generator: Any) -> int:
    # The hash of a tuple of integers is the same in every process, and costs least of all.
    _, words, gauss = generator.getstate()
    return (hash(words) ^ hash(gauss)) & _MASK if gauss is not None else hash(words) & _MASK


def _python_state(generator: Any) -> list[Any]:
    version, words, gauss = generator.getstate()
    return [version, list(words), gauss]


def _set_python(generator: Any, state: list[Any]) -> None:
    version, words, gauss = state
    generator.setstate((version, tuple(words), gauss))


def _global_numpy_word(numpy_random: Any) -> int:
    """Return a word of NumPy's global generator, without the half of a pair that it may keep.

    Asking for that takes thirty times as long: see `keeps_half`.
    """
    bits = getattr(numpy_random.mtrand._rand, "_bit_generator", None)
    if type(bits) is numpy_random.MT19937:
        return xxhash.xxh3_64_intdigest(twister_state(bits))
    return _numpy_word(numpy_random.get_state(legacy=False))  # Another was put in its place.


def keeps_half(states: States) -> bool:
    """Whether NumPy's global generator keeps the second number of a pair of normal ones.

    To draw that changes nothing else of its state, so it does not show in its word.
    """
    return bool(states.get("numpy", {}).get("has_gauss"))


def _numpy_word(state: dict[str, Any]) -> int:
    inner = state["state"]
    key = inner.get("key") if isinstance(inner, dict) else None
    if key is None:
        return xxhash.xxh3_64_intdigest(repr(state).encode())
    head = f"{inner['pos']}:{state.get('has_gauss')}:{state.get('gauss')!r}".encode()
    return xxhash.xxh3_64_intdigest(head + key.tobytes())


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
