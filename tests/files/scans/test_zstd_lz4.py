"""Streams of zstd and lz4, where the libraries are installed that read them."""

from __future__ import annotations

import io
import os
import pickle
import random
import struct
import tarfile

import pytest

import everybit
from everybit.core.finding import Severity

zstandard = pytest.importorskip("zstandard")
frame = pytest.importorskip("lz4.frame")


class Runs:
    """A payload that is harmless even if it ran."""

    def __reduce__(self):
        return os.getcwd, ()


BAD, GOOD = pickle.dumps(Runs()), pickle.dumps([1, 2, 3])


def of_zstd(data, *, checksum=False):
    return zstandard.ZstdCompressor(write_checksum=checksum).compress(data)


def of_lz4(data, *, checksum=False):
    return frame.compress(data, content_checksum=checksum)


both = pytest.mark.parametrize("compress", [of_zstd, of_lz4], ids=["zstd", "lz4"])


def skipped(size):
    return b"\x57\x2a\x4d\x18" + struct.pack("<I", size) + random.Random(0).randbytes(size)


def scan(tmp_path, data, name="a.pkl.packed"):
    place = tmp_path / name
    place.write_bytes(data)
    return everybit.scan(place)


def rules(verdict):
    return {f.rule for f in verdict.findings if f.severity is not Severity.NOTE}


@both
def test_what_a_stream_holds_is_judged(tmp_path, compress):
    assert scan(tmp_path, compress(GOOD)).status == "clean"
    assert rules(scan(tmp_path, compress(BAD))) == {"PKL201"}
    assert rules(scan(tmp_path, compress(compress(compress(BAD))))) == {"PKL201"}


@both
def test_an_archive_inside(tmp_path, compress):
    for data, expected in ((GOOD, set()), (BAD, {"PKL201"})):
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            member = tarfile.TarInfo("folder/model.pkl")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        assert rules(scan(tmp_path, compress(archive.getvalue()), "a.tar.packed")) == expected


@both
@pytest.mark.parametrize("size", [1, 3000, 4096, 200_000, 300_000])
def test_a_second_frame_behind_the_first(tmp_path, compress, size):
    first = compress(pickle.dumps(random.Random(0).randbytes(size)))
    assert scan(tmp_path, first + compress(GOOD)).status == "clean"
    assert rules(scan(tmp_path, first + compress(BAD))) == {"PKL201"}


@both
def test_a_first_frame_that_ends_where_a_sip_does(tmp_path, compress):
    data = random.Random(0).randbytes(20_000)
    first = next(
        packed
        for size in range(9_000, 20_000)
        if len(packed := compress(pickle.dumps(data[:size]))) % 4096 == 0
    )
    assert rules(scan(tmp_path, first + compress(BAD))) == {"PKL201"}


@both
@pytest.mark.parametrize("size", [0, 5_000, 300_000])
def test_frames_that_are_passed_over_hide_nothing(tmp_path, compress, size):
    assert rules(scan(tmp_path, skipped(size) + compress(BAD))) == {"PKL201"}
    assert rules(scan(tmp_path, compress(GOOD) + skipped(size) + compress(BAD))) == {"PKL201"}
    assert scan(tmp_path, skipped(size) + compress(GOOD)).status == "clean"


@both
def test_a_cut_stream_is_never_clean(tmp_path, compress):
    packed = compress(BAD + random.Random(0).randbytes(9_000))
    for end in (5, 9, len(packed) // 2, len(packed) - 1):
        assert "PKL203" in rules(scan(tmp_path, packed[:end]))


@both
def test_a_wrong_checksum_comes_after_what_has_run_by_then(tmp_path, compress):
    packed = bytearray(compress(BAD, checksum=True))
    packed[-1] ^= 1
    assert rules(scan(tmp_path, bytes(packed))) == {"PKL201", "PKL203"}


@both
def test_a_bomb_is_a_finding(tmp_path, compress):
    for packed in (compress(bytes(60 << 20)), compress(compress(bytes(60 << 20)))):
        verdict = scan(tmp_path, packed)
        assert rules(verdict) == {"PKL203"}
        assert any("grows more than" in f.message for f in verdict.findings)


def test_the_old_format_of_lz4_is_no_clean_file(tmp_path):
    assert "PKL203" in rules(scan(tmp_path, b"\x02\x21\x4c\x18" + bytes(40), "a.lz4"))
