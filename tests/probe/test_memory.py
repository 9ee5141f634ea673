"""The memory under a tensor: addresses and elements, against brute force."""

from __future__ import annotations

import ctypes
import itertools

import pytest
import torch
from tests.probe.tensors import DTYPES, addresses, filled, layouts

from everybit.probe.memory import TensorMemory, is_dense, version, why_unreadable


def stored(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of every byte of the storage."""
    storage = tensor.untyped_storage()
    raw = bytearray(ctypes.string_at(storage.data_ptr(), storage.nbytes()))
    return torch.frombuffer(raw, dtype=torch.uint8)


PATTERNS = {name: t for name, t in layouts(torch.int16) if t.numel() <= 1100}


@pytest.mark.parametrize("name", PATTERNS)
def test_elements_are_named_by_their_row_major_index(name: str) -> None:
    tensor = PATTERNS[name]
    memory = TensorMemory.of(tensor)
    places = addresses(tensor)
    assert memory.dense == (
        sorted(places) == list(range(min(places, default=0), min(places, default=0) + len(places)))
    )
    in_memory_order = sorted(range(len(places)), key=places.__getitem__)
    wanted = in_memory_order if memory.dense else list(range(len(places)))
    assert [memory.element(i) for i in range(len(places))] == wanted


@pytest.mark.parametrize("name", PATTERNS)
def test_bytes_lie_as_element_says(name: str) -> None:
    tensor = PATTERNS[name]
    memory = TensorMemory.of(tensor)
    values = tensor.reshape(-1).tolist()
    read = memory.bytes_().copy().view("<i2").tolist()
    assert read == [values[memory.element(i)] for i in range(len(values))]
    assert memory.copy() == memory.bytes_().tobytes()
    assert memory.flat().tolist() == read
    assert memory.num_bytes == 2 * len(values)


@pytest.mark.parametrize("dtype", [torch.int16, torch.float64, torch.bool], ids=str)
def test_writes_land_on_their_element_and_move_no_counter(dtype: torch.dtype) -> None:
    for name, tensor in layouts(dtype):
        if not 0 < tensor.numel() <= 1100:
            continue
        memory = TensorMemory.of(tensor)
        size = tensor.element_size()
        counter = version(tensor)
        at = tensor.numel() * 2 // 3
        length = min(3, tensor.numel() - at)
        whole = tensor.untyped_storage().nbytes()
        before = stored(tensor)
        data = bytes([1]) * (size * length)
        memory.write(at * size, data)
        after = stored(tensor)
        places = addresses(tensor)
        hit = {places[memory.element(i)] for i in range(at, at + length)}
        expected = before.clone()
        for place in hit:
            expected[place * size : (place + 1) * size] = 1
        assert after.equal(expected), name
        assert whole == len(after)
        assert version(tensor) == counter, name


def test_a_write_is_seen_through_a_parameter_that_takes_gradients() -> None:
    parameter = torch.nn.Parameter(torch.zeros(4, 3).t())
    TensorMemory.of(parameter).write(5 * 4, torch.tensor([2.0]).numpy().tobytes())
    assert parameter.grad_fn is None
    assert parameter._version == 0
    assert parameter.detach().t().flatten().tolist() == [0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0]


def test_many_dense_permutations() -> None:
    for order in itertools.permutations(range(4)):
        tensor = torch.arange(2 * 3 * 4 * 5).view(2, 3, 4, 5).permute(order)
        memory = TensorMemory.of(tensor)
        assert memory.dense
        flat = tensor.reshape(-1)
        named = flat[[memory.element(i) for i in range(120)]]
        assert named.tolist() == list(range(120))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_reads(dtype: torch.dtype) -> None:
    assert why_unreadable(filled(dtype, (3, 5))) == ""


def test_what_cannot_be_read_says_why() -> None:
    uninitialised = torch.nn.LazyLinear(3).weight
    emptied = torch.ones(8)
    emptied.untyped_storage().resize_(0)
    cases = {
        "sparse": torch.eye(3).to_sparse(),
        "meta": torch.empty(3, device="meta"),
        "quantised": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
        "not initialised": uninitialised,
        "no memory": emptied,
    }
    for word, tensor in cases.items():
        assert word in why_unreadable(tensor), word
        with pytest.raises(ValueError, match=word):
            TensorMemory.of(tensor)


def test_inference_tensors_have_no_counter() -> None:
    with torch.inference_mode():
        tensor = torch.ones(3)
    assert version(tensor) == 0
    assert is_dense(tensor)
