"""torch's first format, with a link in the place of one of its three parts."""

from __future__ import annotations

import io
import pickle
import tarfile

import pytest
from tests.files.pickles.assembler import call, name, pickled

from everybit import scan

EVIL = pickled(call(name("posix", "system"), "echo ran"), 2)


def archive(**members: bytes | str) -> bytes:
    """A tar archive of files; text is where a hard link leads."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for member, data in members.items():
            info = tarfile.TarInfo(member)
            if isinstance(data, str):
                info.type, info.linkname = tarfile.LNKTYPE, data
                tar.addfile(info)
            else:
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def storages(behind: bytes) -> bytes:
    """One storage of a float, and what is unpickled behind it."""
    record = pickled((1, "cpu", name("torch", "FloatStorage")), 2)
    return pickle.dumps(1, 2) + record + (1).to_bytes(8, "little") + b"\xff" * 4 + behind


@pytest.mark.parametrize(("data", "evil"), [(EVIL, True), (pickle.dumps([], 2), False)])
def test_a_link_is_looked_into_as_what_torch_takes_it_for(tmp_path, data, evil):
    path = tmp_path / "model.pt"
    first = pickle.dumps(0, 2)
    path.write_bytes(
        archive(x=storages(data), storages="x", tensors=first, pickle=pickle.dumps({}, 2))
    )
    errors = {found.rule for found in scan(path).findings if str(found.severity) == "error"}
    assert errors == ({"PKL201"} if evil else set())
