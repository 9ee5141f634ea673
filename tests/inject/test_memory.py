from __future__ import annotations

import numpy as np
import pytest
import torch

from everybit.core.dtype import ITEMSIZE
from everybit.core.errors import UsageError
from everybit.inject.memory import (
    _byte_offsets,
    aliases_itself,
    memory_order,
    read_elements,
    read_storage,
    write_elements,
    write_storage,
)

DTYPES = [
    dtype
    for name in ITEMSIZE
    if isinstance(dtype := getattr(torch, name, None), torch.dtype) and not name.startswith("q")
]


def make(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    size = torch.empty(0, dtype=dtype).element_size()
    count = int(np.prod(shape))
    raw = np.random.default_rng(0).integers(0, 2, count * size, dtype=np.uint8)
    return torch.from_numpy(raw).view(dtype).reshape(shape)


def layouts(dtype: torch.dtype) -> list[torch.Tensor]:
    return [
        make(dtype, 3, 4),
        make(dtype, 3, 4).T,
        make(dtype, 6, 8)[1::2, 2:6],
        make(dtype, 1, 2, 4, 3).permute(0, 3, 1, 2),
        make(dtype, 1).reshape(()),
    ]


def logical_bytes(tensor: torch.Tensor) -> list[bytes]:
    size = tensor.element_size()
    if size == 1:
        tensor = tensor.view(torch.uint8)  # a copy of bools would normalise damaged ones
    raw = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return [raw[start : start + size] for start in range(0, len(raw), size)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", range(5))
def test_reads_and_writes_every_element_of_every_dtype_and_layout(
    dtype: torch.dtype, layout: int
) -> None:
    tensor = layouts(dtype)[layout]
    every = list(range(tensor.numel()))
    right = logical_bytes(tensor)
    assert read_elements(tensor, every) == right
    element = tensor.numel() // 2
    new = bytes(byte ^ 0x81 for byte in right[element])
    version = tensor._version
    write_elements(tensor, [element], [new])
    assert tensor._version == version
    right[element] = new
    assert logical_bytes(tensor) == right


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", range(5))
def test_the_way_through_the_storage_touches_the_same_bytes(
    dtype: torch.dtype, layout: int
) -> None:
    tensor = layouts(dtype)[layout]
    every = list(range(tensor.numel()))
    right = logical_bytes(tensor)
    assert read_storage(tensor, _byte_offsets(tensor, every)) == right
    version = tensor._version
    element = tensor.numel() - 1
    write_storage(tensor, _byte_offsets(tensor, [element]), [b"\xff" * tensor.element_size()])
    assert tensor._version == version
    right[element] = b"\xff" * tensor.element_size()
    assert logical_bytes(tensor) == right


def test_a_parameter_that_requires_grad_can_be_hit_and_keeps_its_graph() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    loss = (weight * weight).sum()
    write_elements(weight, [1], [b"\0\0\0\0"])
    write_storage(weight, [8], [b"\0\0\0\0"])
    assert weight.tolist() == [1.0, 0.0, 0.0]
    loss.backward()  # a counted in-place write would raise here
    assert weight.grad is not None


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 7), (5,), ()])
def test_memory_order_walks_the_addresses(shape: tuple[int, ...]) -> None:
    dense = torch.arange(int(np.prod(shape))).reshape(shape)
    for tensor in [dense, dense.permute(tuple(reversed(range(dense.ndim))))]:
        flat = tensor.reshape(-1)
        values = [int(flat[memory_order(tensor, position)]) for position in range(tensor.numel())]
        assert values == list(range(tensor.numel()))


def test_tells_tensors_that_share_memory_between_elements() -> None:
    assert aliases_itself(torch.ones(1).expand(4))
    assert aliases_itself(torch.ones(6).as_strided((3, 3), (1, 1)))
    assert not aliases_itself(torch.ones(4, 3).T)
    assert not aliases_itself(torch.ones(8)[::2])
    assert not aliases_itself(torch.ones(1, 1).expand(1, 1))


@pytest.mark.parametrize(
    ("tensor", "word"),
    [
        (torch.ones(2, device="meta"), "meta"),
        (torch.eye(2).to_sparse(), "sparse"),
        (torch.ones(2, dtype=torch.complex64).conj(), "conjugate"),
    ],
    ids=["meta", "sparse", "conj"],
)
def test_refuses_what_has_no_plain_memory(tensor: torch.Tensor, word: str) -> None:
    with pytest.raises(UsageError, match=word):
        read_elements(tensor, [0])


def test_refuses_an_element_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="element 4 of a tensor of 4"):
        write_elements(torch.ones(4), [4], [b"\0\0\0\0"])


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_read_only_mappings_are_refused_and_do_not_kill_the_process(tmp_path) -> None:
    np.arange(4096, dtype=np.float32).tofile(tmp_path / "weights.bin")
    mapped = torch.from_numpy(np.memmap(tmp_path / "weights.bin", dtype=np.float32, mode="r"))
    with pytest.raises(UsageError, match="read-only"):
        write_elements(mapped, [17], [b"\0\0\0\0"])
    assert mapped[17] == 17.0


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_cuda_memory_is_written_past_the_version_counter(dtype: torch.dtype) -> None:
    for tensor in layouts(dtype):
        there = torch.empty_strided(tensor.shape, tensor.stride(), dtype=dtype, device="cuda")
        there.copy_(tensor)
        version = there._version
        element = tensor.numel() // 2
        new = bytes(byte ^ 0x55 for byte in read_elements(there, [element])[0])
        write_elements(there, [element], [new])
        right = logical_bytes(tensor)
        right[element] = new
        assert logical_bytes(there.cpu()) == right
        assert there._version == version
