"""Checkpoints of many shapes, saved by torch in its formats, as starting points of mutations."""

from __future__ import annotations

import argparse
import collections
import datetime
import enum
import io
import pathlib
import pickle
import pickletools
import struct
import warnings
import zipfile
import zlib
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from everybit.files.pickles.opcodes import interpret
from everybit.files.pickles.torch_values import describe_storage

ROOT: Final = "archive/"
_SEED: Final = 5
_SMALL_BYTES: Final = 1000
_REFUSED: Final = ("trainer", "numpy", "module", "standard", "nested-tensor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A checkpoint to mutate.

    Attributes:
        name: Which shape, in which format.
        form: "zip", "legacy" or "pickle".
        pickle: The pickle of its object.
        before: What stands before it in a legacy file.
        after: What stands behind it in a legacy file.
        records: The other members of an archive, in order, without their folder.
    """

    name: str
    form: str
    pickle: bytes
    before: bytes = b""
    after: bytes = b""
    records: tuple[tuple[str, bytes], ...] = ()

    @property
    def weight(self) -> int:
        """How often to choose it: torch refuses some shapes from the start."""
        if self.form == "pickle" or self.name.partition("/")[0] in _REFUSED:
            return 1
        # Small ones are read faster, and a change of them is more often one that still loads.
        kind = 2 if self.form == "legacy" else 4
        return kind * (3 if len(self.pickle) < _SMALL_BYTES else 1)


class Colour(enum.Enum):
    """An enumeration of the script that saved the file."""

    RED = 1


def _model() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(3, 4, bias=False), torch.nn.BatchNorm1d(4))


def _trained() -> tuple[torch.nn.Module, torch.optim.Optimizer, Any]:
    model = _model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    model(torch.randn(2, 3)).sum().backward()
    optimizer.step()
    scheduler.step()
    return model, optimizer, scheduler


def _tied() -> dict[str, Any]:
    whole = torch.arange(24.0)
    return {
        "whole": whole,
        "part": whole[3:9],
        "steps": whole[::3],
        "turned": whole.view(4, 6).t(),
        "same": whole,
        "scalar": torch.tensor(2.5),
        "none": torch.zeros(0, 3),
        "wide": torch.zeros(2, 1).expand(2, 5),
    }


def _values() -> dict[str, Any]:
    return {
        "epoch": 3, "step": 70_000, "big": 2**70, "negative": -5, "loss": 0.25, "done": True,
        "nothing": None, "text": "näme", "bytes": b"abc\xff", "array": bytearray(b"xyz"),
        "set": {1, 2, (3, 4)}, "complex": 1 + 2j, "size": torch.Size([2, 3]),
        "device": torch.device("cuda:1"), "dtype": torch.bfloat16, "layout": torch.sparse_coo,
        "counter": collections.Counter("abca"), "ordered": collections.OrderedDict(a=1, b=[2]),
        "nested": {"list": [1, [2, [3, {}]]], 1: "int", 2.5: "float", (1, 2): "pair", None: 0},
        "tuple": (1, 2, 3, 4, 5),
    }  # fmt: skip


def _dtypes() -> dict[str, torch.Tensor]:
    names = (
        "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128 "
        "complex32 uint16 uint32 uint64 float8_e4m3fn float8_e5m2 float8_e8m0fnu"
    )
    return {name: torch.zeros(4).to(getattr(torch, name)) for name in names.split()}


def _special() -> dict[str, Any]:
    marked = torch.zeros(3)
    marked.partition_dim = 0  # type: ignore[attr-defined]
    parameter = torch.nn.Parameter(torch.ones(2, 2))
    parameter.tensor_model_parallel = True  # type: ignore[attr-defined]
    turned = torch.randn(3, dtype=torch.cfloat).conj()
    return {
        "marked": marked,
        "parameter": parameter,
        "frozen": torch.nn.Parameter(torch.zeros(2), requires_grad=False),
        "grad": torch.zeros(2, requires_grad=True),
        "conjugate": turned,
        "negative": torch.randn(3, dtype=torch.cfloat).conj().imag,
        "meta": torch.empty(2, 3, device="meta"),
    }


def _sparse() -> dict[str, Any]:
    return {
        "coo": torch.sparse_coo_tensor([[0, 2], [1, 0]], [1.0, 2.0], (3, 4)),
        "hybrid": torch.sparse_coo_tensor([[0, 2]], torch.ones(2, 3), (4, 3)),
        "csr": torch.eye(3).to_sparse_csr(),
        "csc": torch.eye(3).to_sparse_csc(),
    }


def _quantized() -> dict[str, Any]:
    scales, zeros = torch.tensor([0.1, 0.2]), torch.tensor([0, 1])
    return {
        "tensor": torch.quantize_per_tensor(torch.zeros(4), 0.5, 3, torch.qint8),
        "channel": torch.quantize_per_channel(torch.zeros(2, 3), scales, zeros, 0, torch.quint8),
        "wide": torch.quantize_per_tensor(torch.zeros(2, 2), 0.5, 0, torch.qint32),
    }


def _lightning(model: torch.nn.Module, optimizer: Any, scheduler: Any) -> dict[str, Any]:
    return {
        "epoch": 1, "global_step": 10, "pytorch-lightning_version": "2.5.0",
        "state_dict": model.state_dict(), "loops": {"fit_loop": {"state_dict": {}, "n": [0, 1]}},
        "callbacks": {"ModelCheckpoint{'monitor': None}": {"best": torch.tensor(0.5)}},
        "optimizer_states": [optimizer.state_dict()], "lr_schedulers": [scheduler.state_dict()],
        "hparams_name": "kwargs", "hyper_parameters": {"lr": 1e-3, "layers": [2, 4]},
    }  # fmt: skip


def _trainer() -> dict[str, Any]:
    return {
        "python": (3, tuple(range(20)), None),
        "numpy": ("MT19937", np.arange(8, dtype=np.uint32), 624, 0, 0.0),
        "cpu": torch.get_rng_state()[:64].clone(),
        "args": argparse.Namespace(lr=0.1, out=pathlib.PurePosixPath("x")),
        "when": datetime.date(2026, 1, 2),
    }


def _subjects() -> dict[str, Any]:
    model, optimizer, scheduler = _trained()
    return {
        "state-dict": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "lightning": _lightning(model, optimizer, scheduler),
        "views": _tied(),
        "values": _values(),
        "dtypes": _dtypes(),
        "special": _special(),
        "sparse": _sparse(),
        "quantized": _quantized(),
        "one-tensor": torch.ones(2, 3),
        "parameters": list(_model().parameters()),
        "storage": {"typed": torch.zeros(2), "untyped": torch.zeros(3).untyped_storage()},
        "nested-tensor": torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]),
        "trainer": _trainer(),
        "numpy": {"scalar": np.float64(1.5), "array": np.arange(3.0), "int": np.int64(4)},
        "module": _model(),
        "standard": {
            "default": collections.defaultdict(list, {"a": [1]}),
            "frozen": frozenset((1, 2)), "empty": b"", "enum": Colour.RED, "range": range(4),
        },
    }  # fmt: skip


def make_bases() -> list[Base]:
    """Return every shape in every format that holds it, the same in every process."""
    torch.manual_seed(_SEED)
    bases: list[Base] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, subject in _subjects().items():
            bases.append(_zip_base(f"{name}/zip", subject))
            bases.append(_legacy_base(f"{name}/legacy", subject))
        for name, subject in (("values", _values()), ("standard", _subjects()["standard"])):
            for protocol in (2, 4):
                data = pickle.dumps(subject, protocol)
                bases.append(Base(name=f"{name}/pickle{protocol}", form="pickle", pickle=data))
        buffer = io.BytesIO()
        torch.save(_values() | {"t": torch.ones(2)}, buffer, pickle_protocol=4)
        bases.append(_split_zip("values/zip-protocol-4", buffer.getvalue()))
    return bases


def _zip_base(name: str, subject: object) -> Base:
    buffer = io.BytesIO()
    torch.save(subject, buffer)
    return _split_zip(name, buffer.getvalue())


def _split_zip(name: str, data: bytes) -> Base:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        records = {info.filename: archive.read(info) for info in archive.infolist()}
    return Base(
        name=name,
        form="zip",
        pickle=records.pop(f"{ROOT}data.pkl"),
        records=tuple((path.removeprefix(ROOT), held) for path, held in records.items()),
    )


def _legacy_base(name: str, subject: object) -> Base:
    buffer = io.BytesIO()
    torch.save(subject, buffer, _use_new_zipfile_serialization=False)
    data = buffer.getvalue()
    stream = io.BytesIO(data)
    ends = []
    for _ in range(5):
        for _ in pickletools.genops(stream):
            pass
        ends.append(stream.tell())
    start, end, listed = ends[2:]
    # everybit: ignore[SRC302] this script has written it a moment ago
    pickled, keys, stored = data[start:end], pickle.loads(data[end:listed]), data[listed:]
    persistents = [node for node in interpret(pickled).persistents if node.id.items[0] != "module"]
    storages = {held.key: held.num_bytes for held in map(describe_storage, persistents)}
    held = {}
    for key in keys:
        length = 8 + storages[key]
        held[key], stored = stored[:length], stored[length:]
    # The keys are addresses, which no two processes share: they are numbered in order instead.
    order = [key for key in storages if key in held]
    for number, key in enumerate(order):
        pickled = pickled.replace(_text(key), _text(str(number)))
    after = pickle.dumps([str(number) for number in range(len(order))], 2)
    after += b"".join(held[key] for key in order)
    return Base(name=name, form="legacy", pickle=pickled, before=data[:start], after=after)


def _text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def assemble(base: Base, pickled: bytes) -> bytes:
    """Return the file of a base with another pickle in it."""
    if base.form == "pickle":
        return pickled
    if base.form == "legacy":
        return base.before + pickled + base.after
    return write_archive([("data.pkl", pickled), *base.records])


def write_archive(records: list[tuple[str, bytes]]) -> bytes:
    """Return a plain archive of stored records, quickly."""
    out = bytearray()
    central = bytearray()
    for name, data in records:
        path = (ROOT + name).encode()
        crc, size = zlib.crc32(data), len(data)
        shared = struct.pack("<5H3I2H", 20, 0, 0, 0, 33, crc, size, size, len(path), 0)
        central += b"PK\x01\x02" + struct.pack("<H", 20) + shared
        central += struct.pack("<3H2I", 0, 0, 0, 0, len(out)) + path
        out += b"PK\x03\x04" + shared + path + data
    start, count = len(out), len(records)
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, count, count, len(central), start, 0)
    return bytes(out + central + end)
