"""Compressed members of which the first bytes do not say that an unpickler would be given them."""

from __future__ import annotations

import io
import struct
import zipfile

import pytest
from tests.files.pickles.assembler import call, name, pickled

from everybit import scan

np = pytest.importorskip("numpy")

EVIL = pickled(call(name("posix", "system"), "echo ran"))
LATE = b"0cposix\nsystem\n(S'echo ran'\ntR."
#: A text of 2,000 letters to an unpickler, the length of a header to a reader of safetensors.
AS_HEADER = b"X" + struct.pack("<I", 2000) + b"\0\0\0{" + b"a" * 1996
AS_NOTHING = b"X" + struct.pack("<I", 2000) + b"\1" * 2000


def errors(tmp_path, member: str, data: bytes) -> set[str]:
    """The rules that are told of an archive with one compressed member."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, data)
    return {found.rule for found in scan(path).findings if str(found.severity) == "error"}


def array(descr: str, elements: bytes) -> bytes:
    """An array's file, its dtype as it stands in the header."""
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': (1,), }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + elements


@pytest.mark.parametrize(
    "descr", ["'O'", "'i4,O'", "'2O'", "'(2,)O'", "[('a', 'i4,O')]", "'\\x4f'", "'|\\117'"]
)
def test_every_spelling_of_an_array_of_objects_is_looked_into(tmp_path, descr):
    assert "PKL201" in errors(tmp_path, "a.npy", array(descr, EVIL))


@pytest.mark.parametrize("member", ["archive/data.pkl", "policy.pth", "weights"])
@pytest.mark.parametrize("start", [AS_HEADER, AS_NOTHING])
def test_a_pickle_that_begins_with_a_long_text_is_looked_into(tmp_path, member, start):
    assert "PKL201" in errors(tmp_path, member, start + LATE)


@pytest.mark.parametrize("kind", ["f4", "U7", "M8[s]", [("a", "f4"), ("b", "i2", (3,))], "V5"])
def test_arrays_of_numbers_are_no_finding(tmp_path, kind):
    out = io.BytesIO()
    np.save(out, np.zeros(3, kind))
    assert errors(tmp_path, "a.npy", out.getvalue()) == set()
