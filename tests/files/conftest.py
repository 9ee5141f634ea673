from __future__ import annotations

import pytest
import torch
from tests.files import makers


@pytest.fixture
def checkpoint(tmp_path):
    """A torch archive in a folder of its own."""
    folder = tmp_path / "run"
    folder.mkdir()
    return makers.save(makers.weights(), folder / "model.pt")


@pytest.fixture
def without_checksums():
    torch.serialization.set_crc32_options(False)
    yield
    torch.serialization.set_crc32_options(True)
