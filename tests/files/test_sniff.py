"""What a file is by its first bytes."""

from __future__ import annotations

import gzip

import pytest

import everybit
from everybit.files.sniff import sniff_head
from everybit.files.tensor import FileFormat

SKIPPED = b"\x2a\x4d\x18" + b"\x04\0\0\0" + b"note"
COMPRESSED = {
    "gzip": gzip.compress(b"x"),
    "zstd": b"\x28\xb5\x2f\xfd\x20\x01\x09\0\0x",
    "lz4": b"\x04\x22\x4d\x18\x64\x40\xa7",
    "lz4 of old": b"\x02\x21\x4c\x18\x01\0\0\0",
    "a frame to be skipped": b"\x50" + SKIPPED + b"\x28\xb5\x2f\xfd",
    "the last such frame": b"\x5f" + SKIPPED + b"\x04\x22\x4d\x18",
}


@pytest.mark.parametrize("head", COMPRESSED.values(), ids=COMPRESSED.keys())
def test_compressed_streams_are_known_also_behind_a_frame_to_be_skipped(head):
    assert sniff_head(head) is FileFormat.COMPRESSED


@pytest.mark.parametrize("first", [b"\x4f", b"\x60"])
def test_other_bytes_before_those_of_such_a_frame_are_none(first):
    assert sniff_head(first + SKIPPED) is not FileFormat.COMPRESSED


def test_verify_says_that_such_a_file_is_compressed(tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(b"\x50" + SKIPPED + b"\x28\xb5\x2f\xfd" + bytes(64))
    (found,) = everybit.verify(path).findings
    assert "compressed by zstd or lz4" in found.message
