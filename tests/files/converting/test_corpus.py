"""The corpus of `scan`: benign checkpoints come back, hostile ones leave nothing behind."""

from __future__ import annotations

import pytest
from bench.scan_corpus import corpus

import everybit
from everybit.core.errors import EverybitError

pytestmark = pytest.mark.filterwarnings("ignore")

#: Benign files that are no checkpoints, or need another step first; the line says which.
_TOLD = {
    ".pkl.gz": "unpack it", ".pkl.bz2": "unpack it", ".pkl.xz": "unpack it", ".gz": "unpack it",
    "array.joblib": "joblib", ".zip": "ZIP archive", ".npy": "NumPy", ".npz": "NumPy",
    ".safetensors": "safetensors already", ".onnx": "not a file", ".gguf": "GGUF", ".json": "text",
    ".txt": "text", "two-pickles.pkl": "after its pickle", "as-bin.bin": "NumPy",
    "tokens.bin": "not a file", "sharded": "holds no torch file", "beside": "holds no torch file",
    "benign-torch-state-dict.pkl": "protocol 2", ".h5": "not a file", ".keras": "ZIP",
    ".tflite": "not a file", ".pb": "not a file", ".msgpack": "not a file", ".html": "page",
}  # fmt: skip


def _left(folder, name):
    return [p.name for p in folder.iterdir() if p.name != name]


@pytest.mark.parametrize("sample", [s for s in corpus() if not s.hostile], ids=lambda s: s.name)
def test_benign(sample, tmp_path):
    place = tmp_path / sample.name
    sample.write(place)
    told = next((text for end, text in _TOLD.items() if sample.name.endswith(end)), None)
    if told is not None:
        with pytest.raises(EverybitError, match=told):
            everybit.convert(place, tmp_path / "out")
        assert not _left(tmp_path, sample.name)
        return
    verdict = everybit.convert(place, tmp_path / "out")
    assert verdict.exit_code() == 0
    everybit.restore(tmp_path / "out")


def test_hostile_files_leave_nothing_behind(tmp_path):
    """What is refused leaves nothing; what is not holds names that stay records, told of."""
    refused = 0
    for number, sample in enumerate(s for s in corpus() if s.hostile):
        folder = tmp_path / str(number)
        folder.mkdir()
        place = folder / sample.name
        sample.write(place)
        try:
            verdict = everybit.convert(place, folder / "out")
        except EverybitError:
            refused += 1
            assert not _left(folder, sample.name), sample.name
            continue
        found = {finding.rule for finding in everybit.scan(place).findings}
        assert "PKL201" not in found, sample.name
        told = {finding.rule for finding in verdict.findings}
        assert "PKL202" not in found or "PKL202" in told, sample.name
        everybit.restore(folder / "out")
    assert refused > 100
