from __future__ import annotations

import collections
import pickle
import warnings
import zipfile

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.files import makers

from everybit.core.errors import DamagedError, PathError
from everybit.core.tree import tree_digest
from everybit.files import read_tensor_bytes, read_tensors
from everybit.files.elements import WINDOW_BYTES

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16,
    torch.uint32, torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.complex32, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2,
    torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu, torch.float4_e2m1fn_x2,
]  # fmt: skip


def flatten(value, path=""):
    """Named tensors of a loaded object, as the key paths name them."""
    if isinstance(value, torch.Tensor):
        yield path or "tensor", value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from flatten(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from flatten(inner, f"{path}.{index}" if path else str(index))


def assert_reads_as_torch(path, **options):
    loaded = torch.load(path, weights_only=True, **options)
    expected = dict(flatten(loaded))
    found = read_tensors(path).by_name()
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        stored = found[name]
        data = makers.canonical(tensor)
        assert stored.shape == tuple(tensor.shape), name
        assert stored.dtype == str(tensor.dtype).removeprefix("torch.")
        assert stored.tree == tree_digest(stored.dtype, stored.shape, data), name
        assert read_tensor_bytes(path, stored) == data
        middle = len(data) // 3
        assert read_tensor_bytes(path, stored, middle, middle + 5) == data[middle : middle + 5]


def random_tensor(dtype, shape, seed=0):
    rng = np.random.default_rng(seed)
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = rng.integers(0, 2 if dtype is torch.bool else 256, count, dtype=np.uint8)
    return torch.from_numpy(raw).view(dtype).reshape(shape)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_and_stride_reads_as_torch_reads_it(dtype, tmp_path):
    base = random_tensor(dtype, (6, 4, 5))
    value = {
        "plain": base,
        "transposed": base.transpose(0, 2),
        "part": base[1:3, :, 2],
        "step": base.reshape(-1)[3::7],
        "scalar": base[0, 0, 0],
        "empty": base[:0],
        "expanded": base[:1].expand(3, 4, 5),
        "one": base[:, 1:2, :1],
    }
    assert_reads_as_torch(makers.save(value, tmp_path / "m.pt"))


@given(st.data())
@settings(derandomize=True, max_examples=60, deadline=None)
def test_any_view_of_a_storage_reads_as_torch_reads_it(tmp_path_factory, data):
    dims = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    base = torch.arange(2000, dtype=torch.int16)
    strides = [data.draw(st.integers(0, 40)) for _ in dims]
    view = base.as_strided(dims, strides, data.draw(st.integers(0, 50)))
    path = tmp_path_factory.mktemp("view") / "m.pt"
    assert_reads_as_torch(makers.save([view, base], path))


def test_views_conjugates_parameters_and_shared_storages(tmp_path):
    value = makers.weights()
    z = torch.randn(5, 3, dtype=torch.complex64)
    value["conj"] = z.conj()
    value["conj_t"] = z.conj().t()
    value["neg"] = torch.randn(5, 3, dtype=torch.complex64).conj().imag
    value["ordered"] = collections.OrderedDict(w=torch.ones(2), b=torch.zeros(1))
    assert_reads_as_torch(makers.save(value, tmp_path / "m.pt"))
    found = read_tensors(tmp_path / "m.pt").by_name()
    tied, head = found["model.tied"], found["model.head"]
    assert tied.byte_ranges == head.byte_ranges
    assert found["model.view"].byte_ranges[0][0] == found["model.transposed"].start + 10 * 48 * 4


def test_a_bare_tensor_and_every_protocol(tmp_path):
    assert_reads_as_torch(makers.save(torch.arange(9.0), tmp_path / "m.pt"))
    for protocol in (2, 3, 4, 5):
        path = makers.save(makers.weights(), tmp_path / "p.pt", pickle_protocol=protocol)
        assert len(read_tensors(path).tensors) == 11


def test_sparse_quantised_nested_and_subclassed(tmp_path):
    weights = torch.eye(4).to_sparse()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = torch.eye(4).to_sparse_csr()
        per_tensor = torch.quantize_per_tensor(torch.randn(3, 4), 0.1, 3, torch.quint8)
        per_channel = torch.quantize_per_channel(
            torch.randn(3, 4), torch.ones(3), torch.zeros(3), 0, torch.qint8
        )
    value = {"coo": weights, "csr": rows, "q": per_tensor, "qc": per_channel}
    found = read_tensors(makers.save(value, tmp_path / "m.pt")).by_name()
    assert {"coo.indices", "coo.values", "csr.crow_indices", "csr.col_indices"} <= set(found)
    assert found["q"].dtype == "quint8"
    assert found["q"].tree == tree_digest("quint8", (3, 4), makers.canonical(per_tensor))
    assert found["qc.scales"].shape == (3,)


def test_a_whole_module_is_described_without_its_class(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    found = read_tensors(makers.save(model, tmp_path / "m.pt")).by_name()
    data = makers.canonical(model[0].weight)
    assert found["_modules.0._parameters.weight"].tree == tree_digest("float32", (2, 3), data)


@pytest.mark.parametrize("protocol", [2, 5])
def test_numpy_arrays_inside_the_pickle(tmp_path, protocol):
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    value = {"a": array, "f": np.asfortranarray(array), "o": np.array([None]), "t": torch.ones(1)}
    path = makers.save(value, tmp_path / "m.pt", pickle_protocol=protocol)
    found = read_tensors(path).by_name()
    assert set(found) == {"a", "f", "t"}
    for name in ("a", "f"):
        assert found[name].tree == tree_digest("float32", (3, 4), array.tobytes())


def test_names_are_unique_and_bounded(tmp_path):
    value = {"a": {"b": torch.ones(1)}, "a.b": torch.ones(2), "": torch.ones(3), "x" * 9000: 1}
    value["y" * 9000] = torch.ones(4)
    names = [tensor.name for tensor in read_tensors(makers.save(value, tmp_path / "m.pt")).tensors]
    assert len(set(names)) == 4
    assert {"a.b", "a.b#1"} <= set(names)
    assert max(map(len, names)) < 1100


def test_meta_tensors_and_bare_storages(tmp_path):
    value = {"s": torch.ones(3).untyped_storage()}
    found = read_tensors(makers.save(value, tmp_path / "m.pt")).by_name()
    assert found["s"].num_bytes == 12
    with_meta = {"m": torch.empty(3, device="meta"), "t": torch.ones(1)}
    assert "t" in read_tensors(makers.save(with_meta, tmp_path / "n.pt")).by_name()


def big_endian_copy(path, out):
    """Rewrite an archive as a big-endian machine would have saved it."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(out, "w") as new:
        for info in old.infolist():
            data = old.read(info)
            if "/data/" in info.filename:
                data = np.frombuffer(data, ">f4").astype("<f4").tobytes()
            if info.filename.endswith("byteorder"):
                data = b"big"
            new.writestr(info.filename, data)
    return out


def test_big_endian_files_have_the_same_canonical_bytes(tmp_path):
    value = {"w": torch.randn(5, 4), "t": torch.randn(3, 6).t()}
    little = makers.save(value, tmp_path / "m.pt")
    big = big_endian_copy(little, tmp_path / "big.pt")
    assert_reads_as_torch(big)
    assert {t.name: t.tree for t in read_tensors(big).tensors} == {
        t.name: t.tree for t in read_tensors(little).tensors
    }


def test_compressed_members_are_described_without_digest(tmp_path):
    little = makers.save({"w": torch.zeros(5000)}, tmp_path / "m.pt")
    packed = tmp_path / "packed.pt"
    with zipfile.ZipFile(little) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            new.writestr(info.filename, old.read(info))
    (tensor,) = read_tensors(packed).tensors
    assert tensor.tree is None
    assert "compressed" in tensor.unreadable
    with pytest.raises(PathError, match="compressed"):
        read_tensor_bytes(packed, tensor)


def test_large_strided_tensors_are_gathered_in_bounded_pieces(tmp_path, monkeypatch):
    from everybit.files import elements

    monkeypatch.setattr(elements, "WINDOW_BYTES", 4096)
    monkeypatch.setattr(elements, "_BLOCK_ELEMENTS", 700)
    value = {
        "t": torch.randn(50, 120).t(),
        "s": torch.randn(9000)[::3],
        "c": torch.randn(4, 6, 9, 9).to(memory_format=torch.channels_last),
    }
    assert WINDOW_BYTES > 4096
    assert_reads_as_torch(makers.save(value, tmp_path / "m.pt"))


def test_what_is_no_model_names_its_rule(tmp_path):
    for name, content in {
        "e.pt": b"",
        "l.pt": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        "h.pt": b"<!DOCTYPE html><html></html>",
        "t.pt": b"hello\n",
    }.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DamagedError) as caught:
            read_tensors(tmp_path / name)
        assert caught.value.rule == "FIL118"
    (tmp_path / "p.pkl").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(PathError, match="pickle"):
        read_tensors(tmp_path / "p.pkl")
