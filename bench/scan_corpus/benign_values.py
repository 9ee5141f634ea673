"""Harmless values beside the weights, and whole objects: what scripts keep in checkpoints."""

from __future__ import annotations

import argparse
import collections
import datetime
import decimal
import fractions
import logging
import pathlib
import random
import re
import types
import uuid
from typing import TYPE_CHECKING, Any, Final

from bench.scan_corpus.benign_torch import UNKNOWN, make_model, pickled, saved, trained
from bench.scan_corpus.sample import Sample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def _numpy() -> dict[str, Any]:
    import numpy as np

    return {
        "scalar": np.float64(1.5), "array": np.arange(4.0), "bool": np.bool_(True),
        "int": np.int64(3), "dtype": np.dtype("float32"), "record": np.zeros(2, "f4,i8"),
        "text": np.array(["a", "b"]), "fortran": np.asfortranarray(np.ones((2, 2))),
    }  # fmt: skip


def _random_states() -> dict[str, Any]:
    import numpy as np
    import torch

    return {
        "python": random.Random(0).getstate(), "numpy": np.random.RandomState(0).get_state(),
        "cpu": torch.get_rng_state(), "cuda": [torch.get_rng_state()],
    }  # fmt: skip


def _generators() -> dict[str, Any]:
    import numpy as np

    return {"generator": np.random.default_rng(0), "state": np.random.RandomState(0)}


def _plain() -> dict[str, Any]:
    return {
        "set": {1, 2}, "frozen": frozenset({"a"}), "bytes": b"x", "array": bytearray(b"y"),
        "complex": 1j, "none": None, "long": 1 << 80, "nan": float("nan"), "deep": [[[[1]]]],
        "slice": slice(1, 2), "range": range(3), "unicode": "权重 ✓",
    }  # fmt: skip


def _library() -> dict[str, Any]:
    return {
        "ordered": collections.OrderedDict(a=1), "counter": collections.Counter("aab"),
        "default": collections.defaultdict(list, a=[1]), "deque": collections.deque([1], maxlen=3),
        "when": datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC), "took": datetime.timedelta(1),
        "decimal": decimal.Decimal("1.5"), "fraction": fractions.Fraction(1, 3),
        "id": uuid.UUID(int=3),
    }  # fmt: skip


def _namespace() -> dict[str, Any]:
    arguments = argparse.Namespace(lr=0.1, layers=[1, 2], data=pathlib.Path("data"))
    return {"args": arguments, "out": pathlib.PurePosixPath("runs/1")}


def _whole_model() -> Any:
    return make_model()


def _whole_layers() -> Any:
    import torch

    return torch.nn.ModuleDict({
        "lstm": torch.nn.LSTM(2, 2), "attention": torch.nn.MultiheadAttention(4, 2),
        "encoder": torch.nn.TransformerEncoderLayer(4, 2, 8), "norm": torch.nn.GroupNorm(1, 2),
        "convolution": torch.nn.Conv2d(1, 1, 3), "embed": torch.nn.Embedding(4, 2),
        "loss": torch.nn.CrossEntropyLoss(), "many": torch.nn.ModuleList([torch.nn.GELU()]),
    })  # fmt: skip


def _whole_optimizer() -> Any:
    return {"optimizer": trained()[1], "scheduler": trained()[2]}


def _functions() -> dict[str, Any]:
    """What whole modules keep: functions of torch, and constructors with arguments."""
    import functools

    import torch

    return {
        "activation": torch.nn.functional.gelu, "relu": torch.relu,
        "norm": functools.partial(torch.nn.LayerNorm, eps=1e-6),
        "initializer": torch.nn.init.xavier_uniform_,
    }  # fmt: skip


def _dataset() -> Any:
    import torch

    return torch.utils.data.TensorDataset(torch.ones(2, 2), torch.zeros(2))


def _patterns() -> dict[str, Any]:
    return {
        "pattern": re.compile("a+"), "space": types.SimpleNamespace(a=1), "zone": datetime.UTC,
        "day": datetime.date(2024, 1, 2), "type": int, "error": ValueError("x"),
        "level": logging.INFO, "random": random.Random(0),
    }  # fmt: skip


class Outer:
    """A class of the user's own, with one inside."""

    class Inner:
        """Protocol 2, which torch uses, names it by `getattr`."""


def _inner() -> Any:
    return {"config": Outer.Inner()}


# name, kind, writer, expected
_ROWS: Final[tuple[tuple[str, str, Callable[[Path], None], tuple[str, ...] | None], ...]] = (
    ("numpy-values.pt", "values", saved(_numpy), ()),
    ("random-states.pth", "values", saved(_random_states), ()),
    ("generators.pt", "values", saved(_generators), ()),
    ("plain-values.pt", "values", saved(_plain), ()),
    ("library-values.pt", "values", saved(_library), ()),
    ("namespace.pt", "values", saved(_namespace), ()),
    ("namespace-legacy.pt", "values",
     saved(_namespace, _use_new_zipfile_serialization=False), ()),
    ("whole-module.pt", "whole modules", saved(_whole_model), ()),
    ("whole-layers.pt", "whole modules", saved(_whole_layers), ()),
    ("whole-optimizer.pt", "whole modules", saved(_whole_optimizer), None),
    ("functions.pt", "whole modules", saved(_functions), None),
    ("dataset.pt", "whole modules", saved(_dataset), None),
    ("patterns.pt", "values", saved(_patterns), None),
    ("inner-class.pt", "values", saved(_inner), UNKNOWN),
    ("whole-module.pkl", "pickles", pickled(_whole_model, 4), ()),
    ("numpy-values.pkl", "pickles", pickled(_numpy, 4), ()),
    ("numpy-values-2.pkl", "pickles", pickled(_numpy, 2), ()),
    ("library-values.pkl", "pickles", pickled(_library, 4), ()),
    ("library-values-0.pkl", "pickles", pickled(_library, 0), ()),
    ("plain-values-5.pkl", "pickles", pickled(_plain, 5), ()),
    ("plain-values-1.pkl", "pickles", pickled(_plain, 1), ()),
)  # fmt: skip


def samples() -> Iterator[Sample]:
    """One file for each row; what may be unknown to a policy is where None stands."""
    for name, kind, write, expect in _ROWS:
        yield Sample(
            name=f"benign-torch-{name}", kind=f"torch: {kind}", source="torch", write=write,
            hostile=False, expect=("PKL202?",) if expect is None else expect,
        )  # fmt: skip
