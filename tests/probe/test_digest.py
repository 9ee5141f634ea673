"""One digest by every path: the definition, NumPy over memory, and tensor operations."""

from __future__ import annotations

import copy
from collections import OrderedDict, UserDict, namedtuple

import numpy as np
import pytest
import torch
from tests.probe.tensors import DTYPES, SIZES, canonical_bytes, filled, layouts, random_bytes

from everybit.core.grid import GridSums, grid_digest
from everybit.probe.digest import flatten, grid_of, grid_words, memory_words, plain_word
from everybit.probe.grid_device import DeviceSums, device_digest
from everybit.probe.memory import TensorMemory, dtype_name
from everybit.probe.sums import sum_layout


def defined(tensor: torch.Tensor) -> int:
    digest = grid_digest(dtype_name(tensor.dtype), tuple(tensor.shape), canonical_bytes(tensor))
    return digest.word


def test_all_dtypes_are_here() -> None:
    names = {dtype_name(dtype) for dtype in DTYPES}
    assert {
        "bool", "bfloat16", "float16", "float32", "float64", "complex32", "complex64",
        "complex128", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
        "float8_e8m0fnu", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    } <= names  # fmt: skip


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_path_gives_the_defined_digest(dtype: torch.dtype) -> None:
    tensors = dict(layouts(dtype))
    wanted = {name: defined(tensor) for name, tensor in tensors.items()}
    together = dict(zip(tensors, grid_words(list(tensors.values())).tolist(), strict=True))
    assert together == wanted
    assert {name: grid_of(t).word for name, t in tensors.items()} == wanted
    by_operations = {name: device_digest(t).item() % 2**64 for name, t in tensors.items()}
    assert by_operations == wanted


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_gpu_gives_the_defined_digest(dtype: torch.dtype) -> None:
    for name, tensor in layouts(dtype):
        there = torch.empty_strided(tensor.shape, tensor.stride(), dtype=dtype, device="cuda")
        if name not in ("expanded", "overlapping"):
            there.copy_(tensor)
        else:
            there = tensor.contiguous().cuda()
        assert device_digest(there).item() % 2**64 == defined(tensor), name
        assert grid_of(there).word == defined(tensor), name


def test_dtype_and_shape_enter() -> None:
    tensor = filled(torch.int32, (4, 6))
    others = [tensor.view(torch.float32), tensor.reshape(6, 4), tensor.reshape(24)]
    assert len({grid_of(t).hex for t in [tensor, *others]}) == 4


@pytest.mark.parametrize("view", [torch.conj, lambda t: t.conj().imag], ids=["conj", "neg"])
def test_lazy_views_are_digested_by_value(view) -> None:
    lazy = view(torch.randn(5, 7, dtype=torch.complex64, generator=torch.manual_seed(0)))
    plain = lazy.resolve_conj().resolve_neg().contiguous()
    assert lazy.is_conj() or lazy.is_neg()
    assert grid_of(lazy) == grid_of(plain)
    assert device_digest(lazy).item() == device_digest(plain).item()


@pytest.mark.parametrize("size", SIZES)
def test_device_sums_are_grid_sums(size: int) -> None:
    raw = random_bytes(size, seed=size)
    sums = GridSums.of(raw.numpy())
    assert DeviceSums.of(TensorMemory.of(raw)).to_host().equals(sums)


def test_layout_sums_are_grid_sums() -> None:
    raws = [random_bytes(size, seed=size + 1).numpy() for size in SIZES]
    layout = sum_layout([("uint8", (len(raw),), len(raw)) for raw in raws])
    vector = layout.new_vector()
    vector[:] = 0xDEADBEEF  # what an earlier use left
    layout.fill_small(vector, [raws[index].tobytes() for index in layout.small])
    for index, raw in enumerate(raws):
        if index not in layout.small:
            layout.fill(vector, index, raw)
    for index, raw in enumerate(raws):
        assert layout.sums(vector, index).equals(GridSums.of(raw)), len(raw)
    wanted = [grid_digest("uint8", (len(r),), r).word for r in raws]
    assert layout.digests(vector).tolist() == wanted
    for index, raw in enumerate(raws):  # one alone, over what is there
        layout.fill(vector, index, raw[::-1].copy())
        assert layout.sums(vector, index).equals(GridSums.of(raw[::-1].copy())), len(raw)


class Eater:
    def __init__(self) -> None:
        self.eaten = bytearray()

    def update(self, piece) -> None:
        self.eaten += memoryview(piece).cast("B")


def test_fill_feeds_every_byte_to_the_hasher_once() -> None:
    for size in SIZES:
        raw = random_bytes(size, seed=3).numpy()
        layout = sum_layout([("uint8", (size,), size)])
        hasher = Eater()
        layout.fill(layout.new_vector(), 0, raw, hasher)
        assert bytes(hasher.eaten) == raw.tobytes(), size


Point = namedtuple("Point", "x y")


def test_flatten_names_every_leaf() -> None:
    nest = {
        "ids": [1, (2, Point(3, "four"))],
        "more": OrderedDict(mask=None),
        "user": UserDict(a=5.0),
        7: b"bytes",
    }
    assert list(flatten(nest)) == [
        ("ids.0", 1),
        ("ids.1.0", 2),
        ("ids.1.1.0", 3),
        ("ids.1.1.1", "four"),
        ("more.mask", None),
        ("user.a", 5.0),
        ("7", b"bytes"),
    ]


def test_flatten_ends_on_a_nest_that_holds_itself() -> None:
    nest: list = [1]
    nest.append(nest)
    leaves = list(flatten(nest))
    assert leaves[0] == ("0", 1)
    assert len(leaves) < 20


def test_flatten_takes_nothing_from_objects_of_the_program() -> None:
    """Reading an item may compute, draw random numbers or fail: only plain nests are opened."""
    from collections.abc import Mapping, Sequence

    class Lazy(Sequence):
        def __len__(self):
            return 3

        def __getitem__(self, index):
            raise AssertionError("read")

    class LazyMap(Mapping):
        def __len__(self):
            return 1

        def __iter__(self):
            return iter(["a"])

        def __getitem__(self, key):
            raise AssertionError("read")

    class Stubborn(dict):
        def __getitem__(self, key):
            raise AssertionError("read")

        def __iter__(self):
            raise AssertionError("read")

    lazy, lazy_map = Lazy(), LazyMap()
    assert list(flatten([lazy, lazy_map, range(2)])) == [
        ("0", lazy), ("1", lazy_map), ("2", range(2)),
    ]  # fmt: skip
    assert list(flatten(Stubborn(a=1))) == [("a", 1)]


def test_plain_words_tell_values_and_types_apart() -> None:
    values = [
        0, 1, True, False, 1.0, -0.0, 0.0, 1j, "1", b"1", None,
        np.float32(1), np.int64(1), np.array([1.0]), np.array([[1.0]]), np.array([1]),
    ]  # fmt: skip
    words = [plain_word(value) for value in values]
    assert None not in words
    assert len(set(words)) == len(words)
    assert words == [plain_word(copy.deepcopy(value)) for value in values]
    assert plain_word(np.arange(12).reshape(3, 4).T) == plain_word(
        np.ascontiguousarray(np.arange(12).reshape(3, 4).T)
    )


def test_what_has_no_value_has_no_word() -> None:
    structured = np.zeros(2, dtype=[("a", object), ("b", "i4")])
    assert [plain_word(v) for v in (object(), [1], np.array([object()]), structured)] == [None] * 4


def test_memory_words_tell_bytes_dtype_and_shape_whatever_the_strides() -> None:
    base = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    others = [base.int(), base.view(torch.int32), base.reshape(6, 4), base + 1, base[:0]]
    (word,) = memory_words([base])
    assert memory_words([base.permute(2, 0, 1).contiguous().permute(1, 2, 0)]) == [word]
    assert len({word, *memory_words(others)}) == 6
    flipped = base.clone()
    flipped.view(torch.int32)[1, 2, 3] ^= 1
    assert memory_words([flipped]) != [word]
