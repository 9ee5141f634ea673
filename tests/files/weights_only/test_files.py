"""Whole files: which record torch takes, and which forms it never reads."""

import io
import pickle
import tarfile
import zipfile

import pytest
import torch

from everybit.files.source import ByteSource
from everybit.files.weights_only.files import load_as_torch
from everybit.files.weights_only.legacy import MAGIC


@pytest.fixture(scope="module")
def records():
    buffer = io.BytesIO()
    torch.save({"a": torch.arange(4.0), "b": [torch.ones(2, 2)]}, buffer)
    with zipfile.ZipFile(buffer) as archive:
        return {name.removeprefix("archive/"): archive.read(name) for name in archive.namelist()}


def _write(path, records, *, method=zipfile.ZIP_STORED, root="archive/"):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in records.items():
            archive.writestr(root + name, data)
    return path


def _look(path):
    with ByteSource(path) as source:
        return load_as_torch(source)


def _torch_accepts(path):
    try:
        torch.load(path, weights_only=True, map_location="cpu")
    except Exception:
        return False
    return True


CHANGES = {
    "as it is": ({}, True),
    "no byte order": ({"byteorder": None}, True),
    "big-endian": ({"byteorder": b"big"}, True),
    "odd byte order": ({"byteorder": b"middle"}, False),
    "no version": ({"version": None}, False),
    "version 10": ({"version": b"10\n"}, True),
    "version 11": ({"version": b"11\n"}, False),
    "version 0": ({"version": b"0\n"}, False),
    "version in words": ({"version": b"three"}, False),
    "another version first": ({".data/version": b"11\n"}, False),
    "odd alignment": ({".storage_alignment": b"wide"}, False),
    "identity that is no text": ({".data/serialization_id": b"\xff\xfe"}, False),
    "a member more": ({"extra/notes.txt": b"hello"}, True),
    "TorchScript": ({"constants.pkl": b"\x80\x02)."}, False),
    "a storage missing": ({"data/1": None}, False),
    "a storage short": ({"data/0": b"\0" * 12}, False),
    "a storage long": ({"data/0": b"\0" * 20}, False),
    "no pickle": ({"data.pkl": None, "data.PKL": b"\x80\x02N."}, False),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("case", CHANGES)
def test_records(case, method, records, tmp_path):
    changes, accepted = CHANGES[case]
    held = {name: data for name, data in {**records, **changes}.items() if data is not None}
    path = _write(tmp_path / "model.pt", held, method=method)
    loaded = _look(path)
    assert loaded.acceptance.accepted is accepted
    assert not loaded.acceptance.damaged
    assert loaded.kind == ("torchscript" if case == "TorchScript" else "zip")
    # Torch finds a record whatever the case of its letters, which the model does not promise.
    assert _torch_accepts(path) is (accepted or case == "no pickle")


def test_a_member_outside_the_first_folder(records, tmp_path):
    path = _write(tmp_path / "model.pt", records)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("elsewhere/x", b"1")
    assert not _torch_accepts(path)
    assert not _look(path).acceptance.accepted


def test_a_damaged_archive_is_left_to_other_rules(records, tmp_path):
    path = _write(tmp_path / "model.pt", records)
    data = path.read_bytes()
    path.write_bytes(data[:-30])
    loaded = _look(path)
    assert not loaded.acceptance.accepted
    assert loaded.acceptance.damaged


def test_an_archive_that_is_none_of_torchs(tmp_path):
    path = _write(tmp_path / "x.npz", {"a.npy": b"1"}, root="")
    assert _look(path).kind == ""


def test_a_name_that_sends_torch_elsewhere(records, tmp_path):
    path = _write(tmp_path / "model.safetensors", records)
    assert not _torch_accepts(path)
    assert not _look(path).acceptance.accepted


def test_a_tar(tmp_path):
    path = tmp_path / "model.pt"
    with tarfile.open(path, "w") as archive:
        archive.addfile(tarfile.TarInfo("storages"), io.BytesIO())
    loaded = _look(path)
    assert (loaded.kind, loaded.acceptance.accepted) == ("tar", False)
    assert not _torch_accepts(path)


def _legacy(path, subject):
    torch.save(subject, path, _use_new_zipfile_serialization=False)
    return path.read_bytes()


def test_legacy_files(tmp_path):
    path = tmp_path / "model.pt"
    data = _legacy(path, {"a": torch.arange(4.0), "b": torch.ones(2)})
    assert _look(path).acceptance.accepted
    for end in range(0, len(data), 7):
        path.write_bytes(data[:end])
        assert not _look(path).acceptance.accepted
        assert not _torch_accepts(path)
    path.write_bytes(data + b"whatever follows")
    assert _look(path).acceptance.accepted == _torch_accepts(path) == True  # noqa: E712


def test_a_legacy_file_that_may_be_taken_for_a_tar(tmp_path):
    path = tmp_path / "model.pt"
    whole = _legacy(path, {"a": torch.ones(2)})
    parts = [pickle.dumps(value, 2) for value in (MAGIC, 1001)]
    head = b"".join(parts)
    assert whole.startswith(head)
    stream = io.BytesIO(whole[len(head) :])
    pickle.load(stream)  # what torch says of the machine, in place of which anything may stand
    data = bytearray(head + pickle.dumps("0" * 1000, 2) + stream.read())
    path.write_bytes(data)
    assert _look(path).acceptance.accepted
    assert _torch_accepts(path)
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    path.write_bytes(data)
    assert not _torch_accepts(path)
    loaded = _look(path)
    assert (loaded.kind, loaded.acceptance.accepted) == ("tar", False)


def test_a_legacy_file_with_another_count(tmp_path):
    path = tmp_path / "model.pt"
    data = bytearray(_legacy(path, torch.arange(4.0)))
    data[-24:-16] = (5).to_bytes(8, "little")
    path.write_bytes(data)
    assert not _torch_accepts(path)
    assert not _look(path).acceptance.accepted


def test_a_tensor_that_requires_gradients_and_has_a_new_dtype(tmp_path):
    path = tmp_path / "model.pt"
    torch.save(torch.zeros(2).to(torch.float8_e4m3fn).requires_grad_(), path)
    assert not _torch_accepts(path)
    refusals = _look(path).acceptance.refusals
    assert refusals[0].proved


@pytest.mark.parametrize("content", [b"", b"x", b"<html>", b"\0" * 600, b"PK\x03\x04", b"\x80\x02"])
def test_files_that_are_something_else(content, tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(content)
    assert not _look(path).acceptance.accepted
    assert not _torch_accepts(path)
