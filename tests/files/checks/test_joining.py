"""One damage over many records of an archive is one finding; two damages are two."""

from __future__ import annotations

import shutil
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp

import everybit

SEED = 4


def torch_file(folder):
    torch.manual_seed(SEED)
    path = folder / "model.pt"
    torch.save({f"layer.{i}.weight": torch.randn(60, 50) for i in range(8)}, path)
    return path


def npz_file(folder):
    rng = np.random.default_rng(SEED)
    path = folder / "arrays.npz"
    np.savez(path, **{f"w{i}": rng.normal(size=(60, 50)).astype("f4") for i in range(8)})
    return path


def dcp_file(folder):
    torch.manual_seed(SEED)
    saved = folder / "step_10"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save({f"w{i}": torch.randn(60, 50) for i in range(8)}, checkpoint_id=str(saved))
    return saved / "__0_0.distcp"


MAKERS = [torch_file, npz_file, dcp_file]


@pytest.fixture(params=MAKERS, ids=lambda maker: maker.__name__)
def made(request, tmp_path):
    path = request.param(tmp_path)
    assert everybit.verify(path).findings == ()
    return path


def noise(num_bytes):
    return np.random.default_rng(SEED).integers(0, 256, num_bytes, dtype=np.uint8).tobytes()


def only(path):
    (finding,) = everybit.verify(path).findings
    return finding


@pytest.mark.parametrize("start", [14_000, 20_001])
@pytest.mark.parametrize("num_bytes", [16_384, 40_001])
def test_a_run_that_was_overwritten(made, start, num_bytes):
    data = bytearray(made.read_bytes())
    data[start : start + num_bytes] = noise(num_bytes)
    made.write_bytes(data)
    finding = only(made)
    assert finding.rule == "FIL107"
    low, high = finding.where.byte_range
    assert low <= start + 4096
    assert high >= start + num_bytes - 13_000
    assert finding.evidence["num_records"] > 1


@pytest.mark.parametrize("num_bytes", [1, 4096, 30_000])
def test_a_run_that_is_missing(made, num_bytes):
    data = made.read_bytes()
    made.write_bytes(data[:20_000] + data[20_000 + num_bytes :])
    finding = only(made)
    assert finding.rule == "FIL107"
    assert finding.evidence["shifted_by"] == -num_bytes
    assert finding.where.byte_range[0] <= 20_000


def test_a_run_too_many(made):
    data = made.read_bytes()
    made.write_bytes(data[:20_000] + noise(4096) + data[20_000:])
    finding = only(made)
    assert finding.evidence["shifted_by"] == 4096
    low, high = finding.where.byte_range
    assert low <= 20_000 < 24_096 <= high


def test_bytes_before_the_archive(tmp_path):
    path = torch_file(tmp_path)
    path.write_bytes(b"HTTP/1.1 200 OK\r\n\r\n" + path.read_bytes())
    assert only(path).evidence["shifted_by"] == 19


def test_what_lies_behind_a_missing_run_can_be_saved(tmp_path):
    path = torch_file(tmp_path)
    whole = torch.load(path)
    data = path.read_bytes()
    path.write_bytes(data[:20_000] + data[24_096:])
    out = tmp_path / "saved.safetensors"
    everybit.extract(path, out)
    from safetensors.torch import load_file

    saved = load_file(out)
    assert set(whole) - set(saved) == {"layer.1.weight"}
    assert all(torch.equal(whole[name], tensor) for name, tensor in saved.items())


@pytest.mark.parametrize("maker", MAKERS)
def test_two_damages_are_two(maker, tmp_path):
    path = maker(tmp_path)
    data = bytearray(path.read_bytes())
    for place in (20_000, 70_000):
        data[place : place + 40] = noise(40)
    path.write_bytes(data)
    assert len(everybit.verify(path).findings) == 2


@pytest.mark.parametrize("maker", MAKERS)
def test_neighbours_that_fail_by_themselves_are_two(maker, tmp_path):
    path = maker(tmp_path)
    data = bytearray(path.read_bytes())
    for place in (20_000, 31_000):
        data[place : place + 40] = noise(40)
    path.write_bytes(data)
    assert [finding.rule for finding in everybit.verify(path).findings] == ["FIL108", "FIL108"]


def test_exchanged_files_of_one_dcp_folder(tmp_path):
    torch.manual_seed(SEED)
    saved = tmp_path / "step_10"
    tensors = {f"w{i}": torch.randn(60, 50 + 8 * (i % 2)) for i in range(6)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        writer = dcp.FileSystemWriter(str(saved), single_file_per_rank=True, thread_count=2)
        dcp.save(tensors, storage_writer=writer)
    one, two = sorted(saved.glob("*.distcp"))
    assert everybit.verify(tmp_path).findings == ()
    aside = Path(tmp_path / "aside")
    shutil.move(one, aside)
    shutil.move(two, one)
    shutil.move(aside, two)
    finding = only(tmp_path)
    assert finding.rule == "FIL106"
    assert "exchanged" in finding.message
    assert finding.where.path == "step_10/__0_0.distcp"
    # Each by itself says the same of itself.
    assert only(two).evidence["holds"] == "__0_0.distcp"


def test_a_missing_run_is_put_back_from_a_copy_and_by_nothing_else(tmp_path):
    path = torch_file(tmp_path)
    whole = path.read_bytes()
    copy = tmp_path / "copy.pt"
    shutil.copy(path, copy)
    cut = whole[:20_000] + whole[24_096:]
    path.write_bytes(cut)
    began = time.perf_counter()
    (finding,) = everybit.repair(path, write=True, accept_weak=True).findings
    assert time.perf_counter() - began < 5  # no search through single bits
    assert (finding.rule, path.read_bytes()) == ("FIL107", cut)
    assert everybit.repair(path, copy=copy, write=True).exit_code() == 0
    assert path.read_bytes() == whole
