"""What a scan of a small file loads: only what it needs, so that it answers at once."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

_ASK = """
import sys
from everybit.cli import main
code = main(["scan", *sys.argv[1:]])
print("\\n".join(sorted(sys.modules)), file=sys.stderr)
raise SystemExit(code)
"""

#: Heavy, and needed for findings, other formats, files of settings or writing at most.
_NOT_FOR_IT = {
    "torch", "numpy", "rich", "xxhash", "hashlib", "json", "tempfile", "shutil", "tomllib",
    "difflib", "traceback", "pickle", "lzma", "bz2", "zipfile",
    "everybit.core.change", "everybit.files.tensor", "everybit.files.tar",
    "everybit.files.formats.torch_zip", "everybit.files.formats.torch_legacy",
    "everybit.files.pickles.torch_values", "everybit.files.weights_only.unpickler",
    "everybit.files.weights_only.keys", "everybit.files.scans.allowing",
    "everybit.files.scans.folders", "everybit.files.scans.configs",
}  # fmt: skip


def _loaded(path, cwd) -> set[str]:
    told = subprocess.run(
        [sys.executable, "-c", _ASK, str(path)], cwd=cwd, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    return set(told.stderr.split())


@pytest.fixture
def weights(tmp_path):
    torch.save({"w": torch.ones(2)}, tmp_path / "model.pt")
    return tmp_path / "model.pt"


def test_a_plain_save_is_scanned_with_few_modules(weights, tmp_path):
    loaded = _loaded(weights, tmp_path)
    assert "everybit.files.weights_only.quick" in loaded
    assert not loaded & _NOT_FOR_IT
    assert len([name for name in loaded if name.startswith("everybit.")]) < 110


def test_a_folder_loads_what_looks_beside_models(weights, tmp_path):
    assert "everybit.files.scans.folders" in _loaded(weights.parent, tmp_path)
