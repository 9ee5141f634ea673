"""`everybit.digest`: one digest for any nest, the file's own for a tensor."""

from __future__ import annotations

import dataclasses
import enum

import numpy as np
import pytest
import torch

import everybit
from everybit.checkpoint import live_bytes
from everybit.files import read_tensors

# Frozen: somebody may have written one down.
GOLDEN = {
    "none": "tree:f313f6dd81caca0a842cfc62f5b1c6fe",
    "int": "tree:79497c34889deb70fc1022f437a5edcd",
    "float": "tree:dac6021be8d6f8265ca98ab9702df32f",
    "text": "tree:f150626f22bea8dde8aabc664d600b61",
    "list": "tree:4f46ef95fb871aa6d64010990f5b101f",
    "tuple": "tree:2bcf7f9b4b67fabd97662123f9aa6e95",
    "dict": "tree:ea2a99ad940d6136826e6e50649940a5",
    "set": "tree:8f97a458fb05feb2e46bb28754292f85",
    "dataclass": "tree:97bc7f7b8693fe63b4a6b8b76c099572",
    "enum": "tree:f2ccd18d17e9a64c056d0eed974bcaf3",
    "dtype": "tree:72fc3d236638ef7a5d62b78c069c6b92",
    "tensor": "tree:dbfcf51817f5fe78ad7c2af163e1438c",
    "array": "tree:faa76f8a9c0412217c9e973d4ad8cba4",
    "sparse": "tree:15a06535a1f5df45b95762b9255db163",
}


@dataclasses.dataclass
class Pair:
    left: object
    right: object


class Colour(enum.Enum):
    RED = 1


def _nests():
    return {
        "none": None,
        "int": 12,
        "float": 1.5,
        "text": "Straße",
        "list": [1, 2.0, "x", None, True],
        "tuple": (1, 2.0, "x", None, True),
        "dict": {"b": 1, "a": [torch.arange(4), {"c": np.float32(2)}]},
        "set": {3, 1, 2},
        "dataclass": Pair(left=1, right=b"\x00"),
        "enum": Colour.RED,
        "dtype": torch.bfloat16,
        "tensor": torch.arange(6, dtype=torch.float32).reshape(2, 3),
        "array": np.arange(3, dtype=np.int16),
        "sparse": torch.sparse_coo_tensor([[0, 2]], [1.0, 2.0], (4,)),
    }


@pytest.mark.filterwarnings("ignore:Sparse invariant")
def test_golden_vectors():
    assert {name: str(everybit.digest(nest)) for name, nest in _nests().items()} == GOLDEN


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn,
        torch.float8_e5m2, torch.int8, torch.uint8, torch.int64, torch.bool, torch.complex64,
        torch.uint16, torch.uint32,
    ],
)  # fmt: skip
@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (5, 3, 2)])
def test_a_tensor_has_the_digest_of_its_file(tmp_path, dtype, shape):
    count = int(np.prod(shape))
    raw = torch.randint(0, 2, (count * torch.empty((), dtype=dtype).element_size(),))
    tensor = raw.to(torch.uint8).view(dtype).reshape(shape)
    torch.save({"x": tensor}, tmp_path / "x.pt")
    assert everybit.digest(tensor) == read_tensors(tmp_path / "x.pt").by_name()["x"].tree


def test_views_have_the_digest_of_their_values(tmp_path):
    base = torch.randn(6, 8, dtype=torch.complex64)
    views = {
        "transposed": base.t(),
        "strided": base[::2, 1::3],
        "conjugated": base.conj(),
        "negated": torch.randn(4, 4, dtype=torch.complex64).conj().imag,
        "expanded": base[0].expand(5, 8),
        "channels_last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    }
    torch.save(views, tmp_path / "views.pt")
    stored = read_tensors(tmp_path / "views.pt").by_name()
    for name, view in views.items():
        copy = view.resolve_conj().resolve_neg().contiguous().clone()
        assert everybit.digest(view) == everybit.digest(copy) == stored[name].tree, name


def test_large_tensors_are_read_in_pieces(monkeypatch):
    monkeypatch.setattr(live_bytes, "PIECE_BYTES", 4096)
    for tensor in (torch.randn(5000), torch.randn(90, 70).t(), torch.randn(3, 5000).conj().t()):
        pieces = list(map(bytes, live_bytes.tensor_pieces(tensor)))
        assert max(map(len, pieces)) <= 4096
        assert b"".join(pieces) == tensor.contiguous().numpy().tobytes()


def test_arrays_and_tensors_are_alike():
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert everybit.digest(values) == everybit.digest(torch.from_numpy(values))
    assert everybit.digest(values.T) == everybit.digest(torch.from_numpy(values.T.copy()))
    assert everybit.digest(values.astype(">f4")) == everybit.digest(values)
    assert everybit.digest(np.float32(3)) == everybit.digest(torch.tensor(3.0))


def test_one_bit_anywhere_changes_it():
    def nest(bit):
        value = torch.zeros(40000, dtype=torch.int32)
        value[39999] = bit
        return {"a": [1, (value, "x")]}

    assert everybit.digest(nest(0)) != everybit.digest(nest(1))
    different = [0, 0.0, -0.0, False, None, "", b"", [], (), {}, set(), [0], (0,), [[0]], [None]]
    assert len({str(everybit.digest(value)) for value in different}) == len(different)


def test_the_order_of_keys_does_not_count_and_that_of_lists_does():
    assert everybit.digest({"a": 1, "b": 2}) == everybit.digest({"b": 2, "a": 1})
    assert everybit.digest([1, 2]) != everybit.digest([2, 1])


def test_modules_and_optimizers_are_their_state_dicts():
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    assert everybit.digest(model) == everybit.digest(dict(model.state_dict()))
    assert everybit.digest(optimizer) == everybit.digest(optimizer.state_dict())
    before = everybit.digest(optimizer)
    optimizer.state[model.weight]["exp_avg"][0, 0] += 1
    assert everybit.digest(optimizer) != before


@pytest.mark.filterwarnings("ignore:torch.quantize")
def test_quantised_tensors_count_with_their_scale():
    values = torch.tensor([1.0, 2.0, 3.0])
    one = torch.quantize_per_tensor(values, 0.1, 0, torch.qint8)
    same = torch.quantize_per_tensor(values, 0.1, 0, torch.qint8)
    other = torch.quantize_per_tensor(values * 2, 0.2, 0, torch.qint8)
    assert torch.equal(one.int_repr(), other.int_repr())
    assert everybit.digest(one) == everybit.digest(same) != everybit.digest(other)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"a": [object()]}, "a.0: a object has no digest"),
        ({"w": torch.empty(3, device="meta")}, "w: has no digest: a meta tensor"),
        (np.array([object()]), "elements are no plain values"),
    ],
)
def test_what_has_no_bytes_is_refused_with_its_place(value, words):
    with pytest.raises(everybit.UsageError, match=words):
        everybit.digest(value)


def test_a_nest_that_holds_itself_is_refused():
    ring = []
    ring.append(ring)
    with pytest.raises(everybit.UsageError, match="holds itself"):
        everybit.digest(ring)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_device_gives_the_same():
    tensor = torch.randn(300, 200)
    assert everybit.digest(tensor.cuda()) == everybit.digest(tensor)
    assert everybit.digest(tensor.cuda().t()) == everybit.digest(tensor.t())
