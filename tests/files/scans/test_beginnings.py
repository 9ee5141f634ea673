"""Files whose first bytes do not tell what they are, and are looked into all the same."""

from __future__ import annotations

import lzma
import random
import struct
import zlib

import pytest
from tests.files.pickles.assembler import call, name, pickled

from everybit import scan

EVIL = pickled(call(name("posix", "system"), "echo ran"))
LATE = b"0cposix\nsystem\n(S'echo ran'\ntR."


def told(folder) -> tuple[str, set[str]]:
    """Status and errors of a folder."""
    verdict = scan(folder)
    errors = {found.rule for found in verdict.findings if str(found.severity) == "error"}
    return str(verdict.status), errors


def empty_blocks(count: int) -> bytes:
    """A zlib stream that gives nothing at first."""
    packer = zlib.compressobj(wbits=-15)
    packed = packer.compress(EVIL) + packer.flush()
    blocks = b"\0\0\0\xff\xff" * count
    return b"x\x9c" + blocks + packed + struct.pack(">I", zlib.adler32(EVIL))


def small_window() -> bytes:
    """An LZMA stream whose header says that it looks back 256 bytes at most."""
    whole = lzma.compress(EVIL, lzma.FORMAT_ALONE)
    return whole[:1] + struct.pack("<I", 256) + whole[5:]


@pytest.mark.parametrize(
    "data",
    [
        empty_blocks(400),
        small_window(),
        b"X" + struct.pack("<I", 17 << 20) + b"a" * (17 << 20) + LATE,
        b"cposix\nenviron\n}X\x03\0\0\0ABCX\x01\0\0\0asb\0",
    ],
    ids=["zlib", "lzma", "a long text first", "a change, then a fault"],
)
def test_what_a_loader_makes_of_it_is_told(tmp_path, data):
    (tmp_path / "weights.bin").write_bytes(data)
    assert "PKL201" in told(tmp_path)[1]


def test_a_model_of_no_known_format_was_not_checked(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(random.Random(1).randbytes(5000))
    assert told(tmp_path) == ("inconclusive", set())


@pytest.mark.parametrize(
    "data",
    [b"x^2 + y^2\n" * 200, b"x\x9c", b"cat\nsat\n" * 600, b"Some words\n" * 300],
)
def test_other_files_beside_a_model_are_no_finding(tmp_path, data):
    (tmp_path / "notes").write_bytes(data)
    assert told(tmp_path) == ("clean", set())
