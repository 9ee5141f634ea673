"""Restored checkpoints go on training bit-identically; hostile sidecars give one clear error."""

from __future__ import annotations

import copy
import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from tests.files import makers
from tests.files.converting import shapes
from tests.files.converting.sameness import assert_same

import everybit
from everybit.checkpoint.restored_objects import MAKERS
from everybit.core.errors import DamagedError, EverybitError, PathError
from everybit.files.converting.known import KNOWN

pytestmark = pytest.mark.filterwarnings("ignore")


class Net(torch.nn.Module):
    """A model with dropout, BatchNorm and tied weights."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(20, 8)
        self.norm = torch.nn.BatchNorm1d(8)
        self.drop = torch.nn.Dropout(0.3)
        self.head = torch.nn.Linear(8, 20, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x):
        return self.head(self.drop(self.norm(self.embed(x).mean(1))))


def start(seed=0):
    torch.manual_seed(seed)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, amsgrad=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
    return model, optimizer, scheduler


def train(model, optimizer, scheduler, steps):
    losses = []
    for _ in range(steps):
        x = torch.randint(0, 20, (16, 5))
        loss = torch.nn.functional.cross_entropy(model(x), x[:, 0])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("new", [True, False])
def test_a_run_goes_on_bit_identically(tmp_path, new):
    parts = start()
    train(*parts, 5)
    checkpoint = {
        "model": parts[0].state_dict(),
        "optimizer": parts[1].state_dict(),
        "scheduler": parts[2].state_dict(),
        "rng": torch.get_rng_state(),
        "step": 5,
    }
    path = makers.save(checkpoint, tmp_path / "c.pt", _use_new_zipfile_serialization=new)
    wanted = train(*parts, 7)
    wanted_state = copy.deepcopy(parts[0].state_dict())

    everybit.convert(path, tmp_path / "converted")
    found = everybit.restore(tmp_path / "converted")
    again = start(seed=99)
    again[0].load_state_dict(found["model"])
    again[1].load_state_dict(found["optimizer"])
    again[2].load_state_dict(found["scheduler"])
    torch.set_rng_state(found["rng"])
    assert train(*again, 7) == wanted
    for name, tensor in again[0].state_dict().items():
        assert torch.equal(tensor, wanted_state[name]), name
    for a, b in zip(again[1].state.values(), parts[1].state.values(), strict=True):
        assert all(torch.equal(a[key], b[key]) for key in b)


def test_every_known_name_has_a_maker_and_no_other():
    assert MAKERS.keys() == KNOWN


def test_aliases_are_live(tmp_path):
    base = torch.zeros(4, 4)
    value = {"base": base, "t": base.t(), "row": base[1], "list": [base]}
    makers.save(value, tmp_path / "m.pt")
    everybit.convert(tmp_path / "m.pt", tmp_path / "m.safetensors")
    found = everybit.restore(tmp_path / "m.safetensors")
    found["row"].fill_(1)
    assert found["base"][1].sum() == 4
    assert found["t"][:, 1].sum() == 4
    assert found["list"][0] is found["base"]


def test_all_ways_to_name_it(tmp_path):
    makers.save({"a": torch.ones(2)}, tmp_path / "m.pt")
    everybit.convert(tmp_path / "m.pt", tmp_path / "out")
    for place in ("", "m.safetensors", "m.state.json"):
        assert everybit.restore(tmp_path / "out" / place)["a"].sum() == 2
    with pytest.raises(PathError, match="no sidecar"):
        everybit.restore(tmp_path)
    (tmp_path / "x.safetensors").touch()
    with pytest.raises(PathError, match="no sidecar"):
        everybit.restore(tmp_path / "x.safetensors")
    with pytest.raises(PathError, match="check the spelling"):
        everybit.restore(tmp_path / "gone.state.json")


# -- what somebody changed -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("converted")
    base = torch.randn(6, 6)
    value = {
        "w": base, "t": base.t(), "c": torch.randn(3, dtype=torch.complex64).conj(),
        "p": torch.nn.Parameter(torch.ones(2)), "n": np.arange(3), "o": {1: (2, [3])},
        "q": torch.quantize_per_tensor(torch.randn(4), 0.1, 0, torch.qint8), "f": float("nan"),
        "s": torch.eye(3).to_sparse(), "b": b"abc", "set": {1}, "big": 2**80,
        "last": torch.randn(1, 2, 3, 3).to(memory_format=torch.channels_last),
    }  # fmt: skip
    makers.save(value, folder / "m.pt")
    everybit.convert(folder / "m.pt", folder / "m.safetensors")
    return folder


@pytest.fixture
def sidecar(converted, tmp_path):
    """The sidecar as JSON, and a function that restores a changed one."""
    (tmp_path / "m.safetensors").write_bytes((converted / "m.safetensors").read_bytes())
    state = json.loads((converted / "m.state.json").read_text())

    def restore(changed):
        place = tmp_path / "m.state.json"
        place.write_text(changed if isinstance(changed, str) else json.dumps(changed))
        return everybit.restore(place)

    return state, restore


def test_a_changed_byte_of_the_tensors_is_seen(converted, tmp_path):
    for at in (-1, -40, -200):
        data = bytearray((converted / "m.safetensors").read_bytes())
        data[at] ^= 4
        (tmp_path / "m.safetensors").write_bytes(data)
        (tmp_path / "m.state.json").write_bytes((converted / "m.state.json").read_bytes())
        with pytest.raises(DamagedError, match="FIL102"):
            everybit.restore(tmp_path)
    (tmp_path / "m.safetensors").unlink()
    with pytest.raises(DamagedError, match="FIL103"):
        everybit.restore(tmp_path)


def change(state, path, value):
    """Set one place of a JSON document."""
    *above, last = path
    for key in above:
        state = state[key]
    state[last] = value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["tensors", "w", "shape"], [6, 7]), (["tensors", "w", "shape"], [-1, 6]),
        (["tensors", "w", "shape"], [2**40, 2**40]), (["tensors", "w", "shape"], "x"),
        (["tensors", "w", "shape"], [True, 6]), (["tensors", "w", "shape"], [1.5, 6]),
        (["tensors", "w", "offset"], 1), (["tensors", "w", "offset"], -1),
        (["tensors", "w", "offset"], 2**63), (["tensors", "w", "storage"], 99),
        (["tensors", "w", "storage"], -1), (["tensors", "w", "dtype"], "float1"),
        (["tensors", "w", "dtype"], ["float32"]), (["tensors", "w", "dtype"], "save"),
        (["tensors", "t", "stride"], [1, 7]), (["tensors", "t", "stride"], [1]),
        (["tensors", "t", "stride"], [-1, 6]), (["tensors", "w", "conjugate"], True),
        (["tensors", "n", "stride"], [0]),
        (["storages", 0, "num_bytes"], 2**60), (["storages", 0, "num_bytes"], -1),
        (["storages", 0, "pieces"], []), (["storages", 0, "pieces"], None),
        (["storages", 0, "pieces", 0, "entry"], "nothing"), (["storages", 0, "pieces", 0], 3),
        (["storages", 0, "pieces", 0, "entry"], {"a": []}), (["tree"], {"$storage": [[1]]}),
        (["storages", 0, "pieces", 0, "at"], 4), (["storages", 0, "pieces", 0, "digest"], "x"),
        (["storages", 0, "pieces", 0, "digest"], "tree:" + "0" * 32),
        (["storages", 0, "pieces", 0, "values_of"], "c"), (["storages", 0], None),
        (["tree"], {"$ref": 10**9}), (["tree"], {"$ref": "a"}), (["tree"], {"$what": 1}),
        (["tree"], {"$tensor": "none"}), (["tree"], {"$tensor": ["w"]}), (["tree"], {"$int": "z"}),
        (["tree"], {"$float": "00"}), (["tree"], {"$bytes": "*"}), (["tree"], {"$bytes": 3}),
        (["tree"], {"$dict": [[1]]}), (["tree"], {"$dict": [[[], 1]]}), (["tree"], {"$set": [[]]}),
        (["tree"], {"$set": 1}), (["tree"], {"$tuple": 1}), (["tree"], {"$object": 1}),
        (["tree"], {"$complex": [1.0]}), (["tree"], {"$storage": 99}),
        (["tree"], {"$tensor": "q"}), (["tree"], {"$tensor": "q", "quantizer": 3}),
        (["data", "files"], ["../m.safetensors"]), (["data", "files"], ["/etc/passwd"]),
        (["data", "files"], [3]), (["data", "files"], "m.safetensors"), (["tensors"], []),
        (["data", "files"], ["gone.safetensors"]), (["schema"], "everybit.state/2"),
        (["schema"], None), (["shared"], {}), (["tree"], {"$bytes": {"$tensor": "w"}}),
    ],
)  # fmt: skip
def test_a_sidecar_that_cannot_be_right_is_one_clear_error(sidecar, path, value):
    state, restore = sidecar
    change(state, path, value)
    with pytest.raises(EverybitError) as told:
        restore(state)
    assert "m.s" in str(told.value) or ".safetensors" in str(told.value)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "3", "[" * 100_000, '{"a": 1, "a": 2}', '{"schema": NaN}', "\x80\x04.",
     '{"schema": "everybit.state/1"}', '{"schema": ' + "9" * 5000 + "}"],
)  # fmt: skip
def test_what_is_no_sidecar_is_one_clear_error(sidecar, text):
    with pytest.raises(EverybitError):
        sidecar[1](text)


def test_objects_that_hold_themselves_where_that_cannot_be(sidecar):
    state, restore = sidecar
    for loop in ({"$tuple": [{"$ref": 0}]}, {"$frozenset": [{"$ref": 0}]}):
        state["shared"], state["tree"] = [loop], {"$ref": 0}
        with pytest.raises(DamagedError, match="holds itself"):
            restore(state)


def test_an_entry_stands_in_one_storage_only(sidecar):
    state, restore = sidecar
    state["storages"].append(copy.deepcopy(state["storages"][0]))
    state["tensors"]["more"] = {**state["tensors"]["w"], "storage": len(state["storages"]) - 1}
    state["tree"] = [{"$tensor": "w"}, {"$tensor": "more"}]
    with pytest.raises(DamagedError, match="twice"):
        restore(state)


@pytest.mark.parametrize(
    "node",
    [
        {"$object": "os:system", "args": ["echo loaded"]},
        {"$object": "builtins:eval", "args": ["print('loaded')"]},
        {"$object": "collections:defaultdict", "args": [{"$global": "os:system"}]},
        {"$object": "collections:Counter", "args": [3]},
        {"$object": "fractions:Fraction", "args": ["1e999999999"]},
        {"$object": "decimal:Decimal", "args": ["1" * 20_000]},
        {"$object": "datetime:datetime", "args": [{"$bytes": "AAAA"}]},
        {"$object": "builtins:range", "args": [1, 2, 0]},
        {"$object": "uuid:UUID", "state": {"int": "x"}},
        {"$object": "numpy:dtype", "args": ["O" * 50]},
        {"$object": "numpy:dtype", "args": ["V999999999"]},
        {"$object": "torch:device", "args": ["nowhere"]},
        {"$object": "torch:Size", "args": [["a"]]},
        {"$object": "argparse:Namespace", "args": [1]},
        {"$object": "torch._utils:_rebuild_nested_tensor", "args": [
            {"$tensor": "w"}, {"$tensor": "w"}, {"$tensor": "w"}, {"$tensor": "w"}]},
        {"$object": "torch._utils:_rebuild_sparse_tensor", "args": [
            {"$global": "torch:sparse_coo"}, {"$tuple": [{"$tensor": "w"}, 1, 2]}]},
        {"$object": "torch._utils:_rebuild_parameter", "args": ["x", True, None]},
        {"$object": "torch._utils:_rebuild_meta_tensor_no_storage", "args": [
            {"$global": "torch:float32"}, {"$tuple": [-1]}, {"$tuple": [1]}, False]},
        {"$global": "os:system"}, {"$global": "torch:load"}, {"$call": {"$global": "a:b"}},
    ],
)  # fmt: skip
def test_what_is_not_expected_stays_a_record(sidecar, node, capfd):
    state, restore = sidecar
    state["tree"] = {"x": node}
    found = restore(state)["x"]
    if node.get("$object") == "numpy:dtype" and node["args"] == ["V999999999"]:
        assert found.itemsize == 999999999  # a dtype takes no room of its own
    else:
        assert type(found) is everybit.Record
        assert repr(found).startswith("Record(")
    assert "loaded" not in capfd.readouterr().out


def test_attributes_do_not_reach_a_class(sidecar):
    state, restore = sidecar
    state["tree"] = {"$ordered": {"a": 1}, "attributes": {"__class__": 3, "x": 4}}
    found = restore(state)
    assert (type(found).__name__, found.x) == ("OrderedDict", 4)


def test_many_records_and_shared_objects_take_linear_time(sidecar):
    state, restore = sidecar
    state["shared"] = [[{"$ref": n + 1}, {"$ref": n + 1}] for n in range(5000)] + [[]]
    state["tree"] = {"$ref": 0}
    found = restore(state)
    assert found[0] is found[1]


def test_restore_reads_no_pickle_and_imports_nothing_new(tmp_path):
    makers.save(shapes.foreign_objects(), tmp_path / "m.pt")
    everybit.convert(tmp_path / "m.pt", tmp_path / "m.safetensors")
    code = f"""
import sys, torch, everybit, numpy, argparse
import everybit.checkpoint.restoring
before = set(sys.modules)
everybit.restore({str(tmp_path / "m.safetensors")!r})
print(sorted(m for m in set(sys.modules) - before if "everybit" not in m and "numpy" not in m))
assert "tests.files.converting.shapes" not in sys.modules
"""
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert told.stdout.strip() == "[]"


def test_the_same_twice(tmp_path):
    """Converting is deterministic: the same source gives the same bytes."""
    makers.save(shapes.training(), tmp_path / "m.pt")
    for name in ("a", "b"):
        everybit.convert(tmp_path / "m.pt", tmp_path / name)
    for name in ("m.safetensors", "m.state.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert_same(everybit.restore(tmp_path / "a"), everybit.restore(tmp_path / "b"))
