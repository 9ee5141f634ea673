"""Checkpoints as people have them, made by code: each a name and a maker of the object."""

from __future__ import annotations

import argparse
import collections
import datetime
import decimal
import enum
import fractions
import pathlib
import random
import types
import uuid
import warnings
from dataclasses import dataclass

import numpy as np
import torch

_DTYPES = (
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz",
    "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "int64", "int32", "int16", "int8", "uint8",
    "uint16", "uint32", "uint64", "bool", "complex64", "complex128", "complex32",
    "float4_e2m1fn_x2", "bits8", "bits16",
)  # fmt: skip


class Colour(enum.Enum):
    """An enum of the user's own."""

    RED = 1


@dataclass
class Settings:
    """A dataclass of the user's own."""

    lr: float = 0.1
    layers: tuple = (1, 2)


class Tagged(torch.Tensor):
    """A tensor subclass of the user's own."""


class Bag(list):
    """A list of the user's own class."""


class Table(dict):
    """A dictionary of the user's own class."""


def training():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5), torch.nn.LSTM(5, 4, num_layers=2)
    )
    optimizers = [
        torch.optim.AdamW(model.parameters(), amsgrad=True),
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        torch.optim.LBFGS(model.parameters()),
    ]
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizers[0], 0.1, total_steps=10)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    for optimizer in optimizers[:2]:
        optimizer.step()
    return {
        "model": model.state_dict(),
        "optimizers": [optimizer.state_dict() for optimizer in optimizers],
        "scheduler": {k: v for k, v in scheduler.state_dict().items() if not callable(v)},
        "scaler": torch.amp.GradScaler("cpu").state_dict(),
        "epoch": 3,
        "best": 0.1 + 0.2,
    }


def views():
    base = torch.randn(12, 10)
    lone = torch.randn(100)
    storage = torch.randn(8)
    eights = torch.randint(0, 256, (8,), dtype=torch.uint8).view(torch.float8_e4m3fn)
    return {
        "base": base, "same": base, "t": base.t(), "rows": base[2:5], "columns": base[:, 3:6],
        "every": base[::2, ::3], "again": base[2:5].clone(), "flat": base.view(-1),
        "eights": eights, "sixteens": eights.view(torch.uint16), "thirties": eights.view(
            torch.uint32)[1:2],
        "slice": lone[10:20], "expanded": torch.randn(3, 1).expand(3, 1000),
        "last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "last3": torch.randn(2, 3, 4, 5, 6).to(memory_format=torch.channels_last_3d),
        "overlap": torch.randn(10).as_strided((4, 4), (2, 1)),
        "left": storage[:4], "right": storage[4:], "detached": base.detach(),
        "zero_view": base[0:0], "one": base[3, 4],
    }  # fmt: skip


def dtypes():
    found = {}
    for name in _DTYPES:
        dtype = getattr(torch, name)
        raw = torch.randint(0, 256, (4, 16), dtype=torch.uint8)
        found[name] = raw.view(dtype) if name != "bool" else raw > 128
    return found


def odd_tensors():
    nan = torch.tensor([0x7FC00001, -0x3FFFFF, 0x7F800000, -0x80000000 + 1], dtype=torch.int32)
    cplx = torch.randn(3, 4, dtype=torch.complex64)
    return {
        "nan_payloads": nan.view(torch.float32), "scalar": torch.tensor(2.5),
        "empty": torch.empty(0, 3), "empty2": torch.empty(2, 0, 3), "conj": cplx.conj(),
        "conj_t": cplx.conj().t(), "both": cplx, "neg": torch.randn(4).cfloat().conj().imag,
        "meta": torch.empty(2, 3, device="meta"), "wide": torch.randn(2, dtype=torch.complex128),
        "wide_conj": torch.randn(2, 2, dtype=torch.complex128).conj().t(),
        "rg": torch.randn(2, requires_grad=True), "shared_empty": torch.empty(0),
    }  # fmt: skip


def parameters():
    plain = torch.nn.Parameter(torch.randn(3))
    frozen = torch.nn.Parameter(torch.randn(3), requires_grad=False)
    marked = torch.nn.Parameter(torch.randn(3))
    marked.tag = {"a": [1, 2]}
    tensor = torch.randn(2)
    tensor.note = "mine"
    buffer = torch.nn.Buffer(torch.randn(2))
    return {"p": plain, "f": frozen, "m": marked, "t": tensor, "list": [plain, marked], "b": buffer}


def quantised():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = torch.randn(4, 6)
        per_row = (torch.rand(4) + 0.1, torch.zeros(4))
        return {
            "q8": torch.quantize_per_tensor(x, 0.1, 3, torch.qint8),
            "qu8": torch.quantize_per_tensor(x, 0.1, 3, torch.quint8).t(),
            "q32": torch.quantize_per_tensor(x, 0.1, 3, torch.qint32),
            "rows": torch.quantize_per_channel(x, *per_row, 0, torch.qint8),
            "floats": torch.quantize_per_channel(x, *per_row, 0, torch.quint8),
        }


def sparse():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = torch.randn(6, 6).relu()
        return {
            "coo": x.to_sparse(), "raw": torch.sparse_coo_tensor([[1, 1], [2, 2]], [1.0, 2.0]),
            "csr": x.to_sparse_csr(), "csc": x.to_sparse_csc(), "bsr": x.to_sparse_bsr((2, 2)),
            "bsc": x.to_sparse_bsc((3, 3)), "hybrid": torch.randn(4, 3, 2).to_sparse(1),
            "nested": torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(4, 3)]),
        }  # fmt: skip


def plain_values():
    return {
        "set": {1, 2, "a"}, "frozen": frozenset({1, (2, 3)}), "bytes": b"\x00\xff", "empty": b"",
        "bytearray": bytearray(b"ab"), "long_bytes": bytes(range(256)) * 40, "c": 1 - 2j,
        "nan": float("nan"), "inf": float("inf"), "-inf": -float("inf"), "-0": -0.0,
        "big": 10**400, "small": -(2**70), "edge": [2**53, 2**53 + 1, -(2**53) - 1], "none": None,
        "true": True, "tuple": (1, (2, [3, {"a": ()}])), "text": "权重 ✓ \ud800 \x00 \u2028",
        "keys": {1: "i", -1: "n", 1.5: "f", None: "N", (1, "a"): "tt", b"b": "b",
                 "$x": "d", "": "e", "a.b": "dot", frozenset({1}): "fs"},
        "$tensor": "a key that looks like a mark", "range": range(1, 9, 2), "slice": slice(1, None),
        "types": [int, float, dict, list], "complex_nan": complex(
            float("nan"), -0.0),
    }  # fmt: skip


def shared_values():
    cyclic = [1]
    cyclic.append(cyclic)
    table = {"x": [1, 2]}
    table["self"] = table
    pair = ([], {"k": 1})
    pair[0].append(pair)
    one = {"a": 1}
    deep = tip = []
    for _ in range(300):
        tip.append([])
        tip = tip[0]
    diamond = [0]
    for _ in range(60):
        diamond = [diamond, diamond]
    return {
        "cyclic": cyclic, "table": table, "pair": pair, "twice": [one, one, {"b": one}],
        "deep": deep, "diamond": diamond,
    }  # fmt: skip


def library_values():
    ordered = collections.OrderedDict([("b", 1), ("a", collections.OrderedDict(c=2))])
    ordered.note = {"deep": [1]}
    zone = datetime.timezone(datetime.timedelta(hours=2), "X")
    return {
        "ordered": ordered, "int_keys": collections.OrderedDict([(1, 2), (0, 1)]),
        "counter": collections.Counter("abbccc"),
        "default": collections.defaultdict(list, a=[1]), "nested": collections.defaultdict(dict),
        "deque": collections.deque([1, [2]], maxlen=4), "deque2": collections.deque(),
        "when": datetime.datetime(2024, 2, 3, 4, 5, 6, 7), "zoned": datetime.datetime.now(zone),
        "utc": datetime.datetime.now(datetime.UTC), "date": datetime.date(2024, 2, 3),
        "time": datetime.time(1, 2, 3), "delta": datetime.timedelta(days=-3, microseconds=1),
        "decimal": decimal.Decimal("1.10"), "fraction": fractions.Fraction(-3, 7),
        "uuid": uuid.UUID(int=5), "path": pathlib.Path("a/b"), "pure": pathlib.PurePosixPath("/x"),
        "windows": pathlib.PureWindowsPath("C:\\a"), "namespace": types.SimpleNamespace(a=1, b=[2]),
        "args": argparse.Namespace(lr=0.1, out=pathlib.Path("runs"), net=argparse.Namespace(n=1)),
        "random": random.Random(0).getstate(),
    }  # fmt: skip


def torch_values():
    generator = torch.Generator().manual_seed(9)
    torch.rand(3, generator=generator)
    return {
        "size": torch.Size([1, 2]), "device": torch.device("cuda:1"), "cpu": torch.device("cpu"),
        "dtype": torch.bfloat16, "layout": torch.sparse_csr, "scheme": torch.per_tensor_affine,
        "generator": generator, "rng": torch.get_rng_state(), "list": [torch.float8_e4m3fn],
        "storage": torch.arange(5.0).storage(),
    }  # fmt: skip


def numpy_values():
    record = np.zeros(2, dtype=[("a", "<f4"), ("b", ">i8"), ("c", "U3")])
    record["a"] = 1.5
    return {
        "f64": np.float64(0.1), "bool": np.bool_(True), "i": np.int32(-3), "c": np.complex64(1j),
        "when": np.datetime64("2024-01-02T03:04:05", "ms"), "delta": np.timedelta64(3, "D"),
        "array": np.arange(12.0).reshape(3, 4), "fortran": np.asfortranarray(np.ones((2, 3))),
        "scalar": np.array(3), "empty": np.zeros((0, 2)), "u16": np.arange(4, dtype="u2"),
        "big_endian": np.arange(4, dtype=">i4"), "objects": np.array([1, "a", None], dtype=object),
        "text": np.array(["a", "bcd"]), "bytes": np.array([b"a", b"bc"]), "record": record,
        "times": np.array(["2024-01-02", "NaT"], dtype="M8[D]"), "state": np.random.get_state(),
        "dtype": np.dtype("float32"), "structured": record.dtype, "f16": np.ones(3, "f2"),
        "bools": np.array([True, False]), "void": np.void(b"abc"), "strided": np.arange(10)[::3],
        "nan": np.float32("nan"),
    }  # fmt: skip


def foreign_objects():
    tagged = torch.randn(3).as_subclass(Tagged)
    tagged.note = 1
    return {
        "enum": Colour.RED, "settings": Settings(), "class": Settings, "tagged": tagged,
        "bag": Bag([1, 2]), "table": Table(a=1), "module": torch.nn.Linear(2, 3),
        "function": training, "np_rng": np.random.default_rng(0),
    }  # fmt: skip


#: Objects that come back as what they were.
SAME = {
    each.__name__: each
    for each in (
        training, views, dtypes, odd_tensors, parameters, quantised, sparse, plain_values,
        shared_values, library_values, torch_values, numpy_values,
    )
} | {
    "one_tensor": lambda: torch.randn(3), "empty": dict, "list": lambda: [torch.ones(1), 2],
    "state_dict": lambda: torch.nn.Linear(2, 3).state_dict(), "number": lambda: 7,
    "one_view": lambda: torch.randn(10, 10)[3:5, ::2],
}  # fmt: skip
