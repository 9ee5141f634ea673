from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch")

from everybit.files import reading
from everybit.files.kept import keep_structures
from everybit.files.reading import read_structure
from everybit.files.source import ByteSource
from everybit.files.window import Window


@pytest.fixture
def counted(monkeypatch):
    """Return a list that grows by one whenever a file's structure is really read."""
    calls = []
    real = reading._read
    monkeypatch.setattr(reading, "_read", lambda source: calls.append(1) or real(source))
    return calls


def _read(path):
    with ByteSource(path) as source:
        return read_structure(source)


def test_a_file_is_read_once_inside_the_block_and_again_after_it(tmp_path, counted):
    place = tmp_path / "a.pt"
    torch.save({"w": torch.ones(3), "step": 7}, place)
    with keep_structures():
        first = _read(place)
        assert _read(place) is first
        assert first.values == {"step": 7}
    _read(place)
    assert len(counted) == 2


def test_a_file_that_changed_is_read_again(tmp_path, counted):
    place = tmp_path / "a.pt"
    torch.save({"w": torch.ones(3)}, place)
    with keep_structures():
        _read(place)
        torch.save({"w": torch.ones(4)}, place)
        os.utime(place, ns=(1, 1))
        assert _read(place).tensors[0].shape == (4,)
    assert len(counted) == 2


def test_a_window_is_not_taken_for_its_file(tmp_path):
    place = tmp_path / "a.pt"
    torch.save({"w": torch.ones(3)}, place)
    with keep_structures(), ByteSource(place) as source:
        whole = read_structure(source)
        part = read_structure(Window(source, 0, source.size // 2))
        assert whole.tensors
        assert part.damages


def test_memory_is_bounded(tmp_path, counted, monkeypatch):
    monkeypatch.setattr("everybit.files.kept._MAX_TENSORS", 10)
    places = [tmp_path / f"{number}.pt" for number in range(4)]
    for place in places:
        torch.save({f"w{n}": torch.ones(1) for n in range(4)}, place)
    with keep_structures():
        for place in places:
            _read(place)
        _read(places[-1])
        assert len(counted) == 4
        _read(places[0])
        assert len(counted) == 5
