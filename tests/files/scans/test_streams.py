"""Pickles where they lie: bare, in arrays, in streams, between raw elements; and mere texts."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import pickle
import random
import sys
import zlib
from types import ModuleType

import pytest

import everybit
from everybit.core.finding import Severity
from everybit.files.scans.following import follow_pickle
from everybit.files.source import ByteSource

np = pytest.importorskip("numpy")


class Runs:
    """A payload that is harmless even if it ran."""

    def __reduce__(self):
        return os.getcwd, ()


def scan(tmp_path, data, name="file.pkl"):
    place = tmp_path / name
    place.write_bytes(data)
    return everybit.scan(place)


def rules(verdict):
    return {f.rule for f in verdict.findings if f.severity is not Severity.NOTE}


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("name", ["a.pkl", "a.bin", "a.safetensors", "notes.txt", "a.json"])
def test_by_content_and_not_by_name(tmp_path, protocol, name):
    verdict = scan(tmp_path, pickle.dumps({"a": Runs()}, protocol), name)
    lies = not name.endswith((".pkl", ".bin"))
    assert rules(verdict) == ({"PKL201", "PKL203"} if lies else {"PKL201"})
    assert rules(scan(tmp_path, pickle.dumps({"a": [1, "b"]}, protocol), "b.pkl")) == set()


@pytest.mark.parametrize(
    "text",
    [
        "cat\ndog\nVery\n" * 500,
        "import os\nprint(1)\n",
        "# Title\n\nSome words.\n",
        "(see below)\n",
        "Very good.\n",
        "class\nname\n",
        "I am\n",
        "",
        "]",
    ],
)
def test_texts_are_none(tmp_path, text):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "words.txt").write_text(text)
    assert not everybit.scan(tmp_path / "folder").findings


def test_a_text_that_calls_is_one(tmp_path):
    long = b"cos\ngetcwd\n(V" + b"x" * 5000 + b"\ntR"  # breaks off, and has called by then
    assert "PKL201" in rules(scan(tmp_path, long, "words.txt"))


@pytest.mark.parametrize("cut", [1, 2, 5])
def test_what_breaks_off_has_run_before(tmp_path, cut):
    data = pickle.dumps([Runs(), "x" * 10], 2)
    assert "PKL201" in rules(scan(tmp_path, data[:-cut]))


def test_what_follows_the_stop(tmp_path):
    good, bad = pickle.dumps({"a": 1}), pickle.dumps(Runs())
    assert rules(scan(tmp_path, good + good)) == set()  # several dumps into one file
    assert "PKL201" in rules(scan(tmp_path, good + bad))
    verdict = scan(tmp_path, good + b"\xff\xfe not a pickle")
    assert rules(verdict) == {"PKL203"}
    assert verdict.findings[0].where.byte_range[0] == len(good)


@pytest.mark.parametrize(
    "compress",
    [gzip.compress, bz2.compress, lzma.compress, zlib.compress,
     lambda data: lzma.compress(data, lzma.FORMAT_ALONE),
     lambda data: b"ZF" + hex(len(data)).encode().ljust(19) + zlib.compress(data)],
    ids=["gzip", "bzip2", "xz", "zlib", "lzma", "zfile"],
)  # fmt: skip
def test_compressed_streams(tmp_path, compress):
    assert "PKL201" in rules(scan(tmp_path, compress(pickle.dumps(Runs())), "a.bin"))
    assert rules(scan(tmp_path, compress(pickle.dumps([1])), "a.bin")) == set()


@pytest.mark.parametrize("size", [1, 200_000, 262_144 - 23, 262_144])
def test_a_second_stream_behind_the_first(tmp_path, size):
    first = gzip.compress(b"~" * size, 0)  # stored, and no opcode of a pickle
    two = first + bytes(3) + gzip.compress(b"")
    assert scan(tmp_path, two, "a.gz").findings == ()
    data = pickle.dumps(b"x" * size)
    whole = gzip.compress(data[:-1], 0) + gzip.compress(pickle.dumps(Runs())[2:], 0)
    assert "PKL201" in rules(scan(tmp_path, whole, "a.gz"))


def test_a_damaged_stream_is_read_up_to_its_damage(tmp_path):
    data = bytearray(gzip.compress(pickle.dumps(Runs()) + random.Random(0).randbytes(1000)))
    data[-6] ^= 1
    assert rules(scan(tmp_path, bytes(data), "a.gz")) == {"PKL201", "PKL203"}


def test_a_bomb_is_a_finding_and_costs_little(tmp_path):
    verdict = scan(tmp_path, gzip.compress(bytes(60 << 20)), "a.gz")
    assert any("grows more than" in f.message for f in verdict.findings)


def test_arrays(tmp_path):
    def saved(*arrays):
        data = io.BytesIO()
        for array in arrays:
            np.save(data, array, allow_pickle=True)
        return data.getvalue()

    objects = np.array([Runs(), 1], dtype=object)
    record = np.zeros(2, dtype=[("a", "i4"), ("b", object)])
    record["b"] = [Runs(), 2]
    assert scan(tmp_path, saved(np.arange(3)), "a.npy").ok
    assert rules(scan(tmp_path, saved(objects), "a.npy")) == {"PKL201"}
    assert rules(scan(tmp_path, saved(record), "a.npy")) == {"PKL201"}
    assert rules(scan(tmp_path, saved(np.arange(3), np.ones(2), objects), "a.npy")) == {"PKL201"}
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", a=np.arange(3), b=objects)
        (finding,) = [f for f in everybit.scan(tmp_path / "a.npz").findings if f.rule == "PKL201"]
        assert finding.where.member == "b.npy"
        save(tmp_path / "b.npz", a=np.zeros(1 << 22), b=np.array(["x"]))
        assert everybit.scan(tmp_path / "b.npz").ok


class _Wrapper:
    """Stands for joblib's wrapper; the test gives it its name."""

    def __init__(self, array):
        self.shape, self.dtype = array.shape, array.dtype
        self.order, self.subclass, self.allow_mmap = "C", np.ndarray, True
        self.numpy_array_alignment_bytes = None if array.dtype.hasobject else 16


_Wrapper.__name__ = _Wrapper.__qualname__ = "NumpyArrayWrapper"
_Wrapper.__module__ = "joblib.numpy_pickle"


class _Pickler(pickle._Pickler):
    """Writes arrays as joblib does: a wrapper, and behind its BUILD the elements themselves."""

    def save(self, obj, save_persistent_id=True):
        if not isinstance(obj, np.ndarray):
            return super().save(obj, save_persistent_id)
        super().save(_Wrapper(obj))
        if obj.dtype.hasobject:
            self.write(pickle.dumps(obj, 2))
        else:
            self.write(b"\x03\xff\xff\xff" + obj.tobytes())
        return None


def joblib(*items):
    """Return a list as joblib writes it, without joblib."""
    module = ModuleType("joblib.numpy_pickle")
    module.NumpyArrayWrapper = _Wrapper
    data = io.BytesIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "joblib", ModuleType("joblib"))
        patch.setitem(sys.modules, "joblib.numpy_pickle", module)
        _Pickler(data, 2).dump(list(items))
    return data.getvalue()


def test_joblib_arrays_between_the_opcodes(tmp_path):
    numbers, words = np.arange(2000.0), np.array(["a", "bc"])
    assert rules(scan(tmp_path, joblib(numbers, 1, words, "x"), "a.joblib")) == set()
    verdict = scan(tmp_path, joblib(numbers, words, Runs()), "a.joblib")
    assert rules(verdict) == {"PKL201"}
    start = verdict.findings[0].where.byte_range[0]
    assert (tmp_path / "a.joblib").read_bytes()[start : start + 1] in b"cR"
    objects = np.array([Runs(), 1], dtype=object)
    assert rules(scan(tmp_path, joblib(numbers, objects, 3), "a.joblib")) == {"PKL201"}
    # The length of the padding reads as an opcode, and the padding as more of them.
    shown = b"0cos\ngetcwd\n)R.".ljust(ord("N"), b".")
    plain = joblib(np.arange(3.0)).replace(b"\x03\xff\xff\xff", b"N" + shown)
    assert rules(scan(tmp_path, plain, "a.joblib")) == {"PKL201"}


def test_large_strings_are_left_out(tmp_path):
    large = {"a": b"x" * (3 << 20), "b": "y" * (2 << 20), "c": Runs(), "d": bytearray(2 << 20)}
    for protocol in (2, 4, 5):
        (tmp_path / "a.pkl").write_bytes(pickle.dumps(large, protocol))
        with ByteSource(tmp_path / "a.pkl") as source:
            found = follow_pickle(source)
            assert found.error is None
            assert found.end == source.size
            assert len(found.data) < 1000
            assert b"getcwd" in found.data
            place = found.offset_of(found.data.find(b"getcwd"))
            assert source.read(place, 6) == b"getcwd"


def test_opcodes_at_the_edges_of_a_window(tmp_path):
    # Strings of all lengths around the window's, so that opcodes reach across its end anywhere.
    rng = np.random.default_rng(3)
    items = [b"k" * int(n) for n in rng.integers(1, 300_000, 40)] + [Runs()]
    data = pickle.dumps(items, 2)
    (tmp_path / "a.pkl").write_bytes(data)
    with ByteSource(tmp_path / "a.pkl") as source:
        found = follow_pickle(source)
        assert (found.error, found.end, found.data) == (None, len(data), data)


def test_damaged_bytes_raise_nothing(tmp_path):
    rng = np.random.default_rng(5)
    seeds = [
        joblib(np.arange(50.0), Runs(), np.array([1, None], dtype=object)),
        gzip.compress(pickle.dumps([Runs()] * 3)),
        pickle.dumps({"a": Runs()}, 4),
    ]
    for index in range(240):
        data = bytearray(seeds[index % 3])
        for at in rng.integers(0, len(data), 1 + index % 4):
            data[at] = rng.integers(0, 256)
        scan(tmp_path, bytes(data[: rng.integers(1, len(data) + 1)]))


def test_a_looker_that_runs_out_of_memory_is_a_check_that_did_not_run(tmp_path, monkeypatch):
    from everybit.files.scans import scanning

    path = tmp_path / "a.pkl"
    path.write_bytes(pickle.dumps([1], 0))

    def no_memory(content, walk):
        raise MemoryError

    monkeypatch.setattr(scanning, "_looker", lambda kind: no_memory)
    verdict = everybit.scan(path)
    assert [str(found.severity) for found in verdict.findings if found.rule == "PKL203"] == [
        "warning"
    ]
    assert "memory" in verdict.coverage.skipped[0].why
