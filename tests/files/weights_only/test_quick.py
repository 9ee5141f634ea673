"""The short proof: only of what torch accepts, and of every plain save."""

from __future__ import annotations

import io
import pickle
import random
import zipfile

import numpy as np
import pytest
import torch

from everybit.api.scan import scan
from everybit.files.pickles.stream import read_pickles
from everybit.files.weights_only import opcodes
from everybit.files.weights_only.quick import proves
from everybit.files.weights_only.reading import read_as_torch
from everybit.files.weights_only.storages import ZipStorages


def _training():
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(4, 3)).sum().backward()
    optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}


def _saved(value) -> tuple[bytes, dict[str, int]]:
    """Return the pickle of a saved value, and the lengths of its storages by key."""
    file = io.BytesIO()
    torch.save(value, file)
    with zipfile.ZipFile(file) as archive:
        sizes = {info.filename.rpartition("/data/")[2]: info.file_size
                 for info in archive.infolist()}  # fmt: skip
        return archive.read("archive/data.pkl"), sizes


def _proves(data: bytes, sizes: dict[str, int]) -> bool:
    return proves(read_pickles(data).pickles[0], ZipStorages(sizes.get))


_PLAIN = {
    "tensors": [torch.ones(2, 3), torch.ones(2, dtype=torch.bfloat16)[1:], torch.tensor(1)],
    "parameter": torch.nn.Parameter(torch.ones(2)),
    "shared": [torch.arange(6), torch.arange(6).view(2, 3)],
    "training": _training(),
    "values": {"a": None, "b": [True, 1.5, "text"], "c": (1, 2, (3,)), 7: {}},
}
_NOT_SO_PLAIN = {
    "tuple as key": {(1, 2): 3},
    "NumPy": np.float64(1.5),
    "size": torch.Size([1, 2]),
    "float8": torch.ones(2).to(torch.float8_e4m3fn),
    "set": {1, 2},
    "class": pickle.PickleError("x"),
}


@pytest.mark.parametrize("name", _PLAIN)
def test_plain_saves_are_proved_shortly(name):
    data, sizes = _saved(_PLAIN[name])
    assert _proves(data, sizes)
    assert read_as_torch(data, storages=sizes.get).accepted


@pytest.mark.parametrize("name", _NOT_SO_PLAIN)
def test_all_else_is_left_to_the_walk(name):
    data, sizes = _saved(_NOT_SO_PLAIN[name])
    assert not _proves(data, sizes)


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02}(e.",  # appends nothing to a dictionary
        b"\x80\x02](u.",  # sets no item of a list
        b"\x80\x02]K\x00K\x01s.",  # an item of a list by its number
        b"\x80\x02}\x94.",  # an opcode of protocol 4
        b"\x80\x02ccollections\nOrderedDict\n)RK\x01a.",  # appends to a dictionary
        b"\x80\x02cos\nsystem\n.",
        b"\x80\x02ctorch\nfloat32\n)R.",  # calls what is no function
        b"\x80\x02ccollections\nOrderedDict\n)R]b.",  # a list for its state
    ],
)
def test_what_torch_refuses_is_not_proved(data):
    assert not _proves(data, {})
    assert not read_as_torch(data, storages={}.get).accepted


def test_a_storage_of_another_length_is_not_proved():
    data, sizes = _saved(torch.ones(4))
    assert not _proves(data, sizes | {"0": 15})
    assert not _proves(data, {})


def test_nothing_is_proved_that_the_walk_does_not_accept():
    rng = random.Random(5)
    saved = [_saved(value) for value in _PLAIN.values()]
    proved = 0
    for _ in range(3000):
        data, sizes = rng.choice(saved)
        data = bytearray(data)
        for _ in range(rng.randrange(1, 3)):
            at = rng.randrange(len(data))
            if rng.random() < 0.5:
                data[at] = rng.choice(b"(N\x88\x89JKMX]})t\x85\x86\x87aesuqrhjcRbQ.0\x94")
            else:
                del data[at : at + rng.randrange(1, 4)]
        changed = bytes(data)
        if _proves(changed, sizes):
            proved += 1
            assert read_as_torch(changed, storages=sizes.get).accepted
    assert proved > 30


def test_a_scan_follows_a_plain_save_once(tmp_path, monkeypatch):
    def walk(*_, **__):
        raise AssertionError("walked again")

    torch.save(_PLAIN["training"], tmp_path / "training.pt")
    monkeypatch.setattr(opcodes, "run", walk)
    assert scan(tmp_path / "training.pt").ok
    torch.save({(1, 2): 3}, tmp_path / "other.pt")
    with pytest.raises(AssertionError):
        scan(tmp_path / "other.pt")
