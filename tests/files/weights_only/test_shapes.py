"""Checkpoints as torch saves them: the model says of each what torch does."""

import pytest
import torch
from bench.weights_only_shapes import assemble, make_bases

from everybit.files.source import ByteSource
from everybit.files.weights_only.files import load_as_torch

BASES = {base.name: base for base in make_bases()}
#: Accepted by torch, and the model does not follow them.
NOT_FOLLOWED = ("nested-tensor/zip", "nested-tensor/legacy")


def _torch_accepts(path):
    try:
        torch.load(path, weights_only=True, map_location="cpu")
    except Exception:
        return False
    return True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", BASES)
def test_every_shape(name, tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(assemble(BASES[name], BASES[name].pickle))
    with ByteSource(path) as source:
        loaded = load_as_torch(source)
    assert loaded.acceptance.accepted == (_torch_accepts(path) and name not in NOT_FOLLOWED)
    assert loaded.acceptance.accepted != bool(loaded.acceptance.refusals)
    assert loaded.kind == {"pickle": "pickle", "zip": "zip", "legacy": "legacy"}[BASES[name].form]
    if name in NOT_FOLLOWED:
        assert not any(refusal.proved for refusal in loaded.acceptance.refusals)
