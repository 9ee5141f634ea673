"""The same judgement in every format that holds tensors."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from tests.files.values import corpus

import everybit
from everybit.core.finding import Severity


def weights():
    rng = torch.Generator().manual_seed(0)
    return {
        "a.weight": torch.randn(300, 210, generator=rng) * 0.02,
        "b.weight": torch.randn(150, 210, generator=rng) * 0.02,
        "b.bias": torch.zeros(3000),
    }


def write(tensors, folder, kind):
    """Save in a format; return the file that holds `a.weight`."""
    if kind == "dcp":
        dcp.save(tensors, checkpoint_id=folder / "dcp", no_dist=True)
        (path,) = (folder / "dcp").glob("*.distcp")
        return path
    path = folder / kind
    if kind.endswith(".npy"):
        np.save(path, tensors["a.weight"].numpy())
    elif kind.endswith(".npz"):
        np.savez(path, **{name: tensor.numpy() for name, tensor in tensors.items()})
    elif kind == "legacy.pth":
        torch.save(tensors, path, _use_new_zipfile_serialization=False)
    else:
        corpus.save(tensors, path)
    return path


KINDS = ["m.safetensors", "m.pt", "legacy.pth", "m.npy", "m.npz", "dcp"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_hole_is_found(tmp_path, kind):
    tensors = weights()
    path = write(tensors, tmp_path, kind)
    assert everybit.verify(path).findings == ()
    start = path.read_bytes().index(tensors["a.weight"].numpy().tobytes())
    at = start + 5000 + -(start + 5000) % corpus.PAGE
    corpus.zero(path, at, at + corpus.PAGE)
    (finding,) = everybit.verify(path).findings
    assert finding.rule == "FIL105"
    assert finding.where.byte_range == (at, at + corpus.PAGE)


@pytest.mark.parametrize("kind", KINDS)
def test_a_nan_that_was_saved_is_found(tmp_path, kind):
    tensors = weights()
    tensors["a.weight"][17, 3] = math.nan
    (finding,) = everybit.verify(write(tensors, tmp_path, kind)).findings
    assert finding.rule == "FIL112"
    assert finding.where.elements == (17 * 210 + 3,)


@pytest.mark.parametrize("kind", KINDS)
def test_a_wild_value_that_was_saved_is_found(tmp_path, kind):
    tensors = weights()
    tensors["a.weight"][17, 3] = 4.1e35
    (finding,) = everybit.verify(write(tensors, tmp_path, kind)).findings
    assert finding.rule == "FIL113"
    assert finding.where.elements == (17 * 210 + 3,)


def token_file(folder, ids):
    (folder / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": 50_257}))
    path = folder / "train.bin"
    ids.astype("<u2").tofile(path)
    return path


def test_a_lost_page_of_tokens_is_a_weak_warning(tmp_path):
    rng = np.random.default_rng(0)
    path = token_file(tmp_path, rng.zipf(1.3, 400_000) % 50_257)
    assert everybit.verify(path).findings == ()
    corpus.zero(path, 10 * corpus.PAGE, 12 * corpus.PAGE)
    (finding,) = everybit.verify(path).findings
    assert (finding.rule, finding.severity) == ("FIL105", Severity.WARNING)
    assert finding.where.byte_range == (10 * corpus.PAGE, 12 * corpus.PAGE)


@pytest.mark.parametrize("length", [512, 1024, 2048])
def test_documents_padded_with_zeros_are_no_finding(tmp_path, length):
    rng = np.random.default_rng(0)
    rows = np.zeros((300, length))
    for row in rows:
        count = rng.integers(1, length)
        row[:count] = rng.integers(1, 50_257, count)
    assert everybit.verify(token_file(tmp_path, rows)).findings == ()
