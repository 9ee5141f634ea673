"""FIL118: what lies under a model's name is said so that one can act on it."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile

import numpy as np
import pytest
import torch
from safetensors.torch import save
from tests.files import makers
from tests.files.formats.reading_checks import findings, only

import everybit
from everybit.core.finding import Severity
from everybit.core.verdict import Status

SAFE = save({"a": torch.ones(64)})
TORCH = makers.saved_bytes({"a": torch.ones(64)})


def tar_of(**files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name.replace("_", "."))
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def zip_of(**files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in files.items():
            archive.writestr(name.replace("_", "."), data)
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "said", "remedy"),
    [
        ("m.pt", b"", "is empty", "fetch"),
        (
            "m.pt",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 548105171\n",
            "git-LFS pointer, not the file itself (548105171 bytes)",
            "git lfs pull",
        ),
        (
            "m.bin",
            b"version https://git-lfs.github.com/spec/v1\nsize 5\n",
            "git-LFS pointer",
            "git lfs pull",
        ),
        (
            "m.safetensors",
            b"<!DOCTYPE html><html><head><title>Sign in</title></head>",
            "web page (Sign in)",
            "login",
        ),
        (
            "m.ckpt",
            b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>',
            "error message of an object store (AccessDenied)",
            "permission",
        ),
        (
            "m.pt",
            b"\xef\xbb\xbf<?xml version='1.0'?><Error><Code>BlobNotFound</Code></Error>",
            "BlobNotFound",
            "",
        ),
        (
            "m.pt",
            json.dumps({"error": "Repository not found"}).encode(),
            "error message, not the file (Repository not found)",
            "login",
        ),
        (
            "m.pt",
            json.dumps({"error": {"code": 403, "message": "quota"}}).encode(),
            "error message, not the file (quota)",
            "",
        ),
        ("m.pt", b"Invalid username or password.", "is text ('Invalid username", ""),
        ("m.pt", bytes(5000), "nothing but zeros (5000 bytes)", "never written"),
        ("m.pt", bytes(600) + TORCH, "zeros where a model starts", ""),
        (
            "m.pt",
            gzip.compress(TORCH, mtime=0),
            "compressed by gzip; in it is a torch file",
            "gunzip",
        ),
        ("m.pt", bz2.compress(SAFE), "bzip2; in it is a safetensors file", "bunzip2"),
        ("m.safetensors", lzma.compress(SAFE), "xz; in it is a safetensors file", "unxz"),
        ("m.pt", b"\x28\xb5\x2f\xfd" + bytes(99), "compressed by zstd", "unzstd"),
        ("m.pt", b"7z\xbc\xaf\x27\x1c" + bytes(99), "compressed by 7-Zip", "7z"),
        (
            "m.pt",
            tar_of(model_safetensors=SAFE, config_json=b"{}"),
            "tar archive of model.safetensors, config.json",
            "tar",
        ),
        ("m.pt", zip_of(model_pt=TORCH), "ZIP archive of model.pt", "unzip"),
        ("m.ckpt", zip_of(weights_safetensors=SAFE), "weights.safetensors", "unzip"),
        ("m.pt", b"GGUF" + bytes(99), "is a GGUF file", ""),
        ("m.pt", b"\x89HDF\r\n\x1a\n" + bytes(99), "is an HDF5 file", ""),
        ("m.safetensors", b"\x93NUMPY" + bytes(range(200)), "a NumPy array", "rename"),
    ],
)
def test_what_lies_there_is_said(tmp_path, name, content, said, remedy):
    path = tmp_path / name
    path.write_bytes(content)
    if content[:600] == bytes(600) and content.endswith(TORCH[-22:]):
        # An archive behind a hole of zeros is told as the archive that it is.
        assert everybit.verify(path).status is Status.FINDINGS
        return
    finding = only(path)
    assert finding.rule == "FIL118"
    assert said in finding.message
    assert remedy in finding.remedy
    assert "weights_only" not in finding.message + finding.remedy
    assert finding.severity is Severity.ERROR
    assert finding.evidence["size_bytes"] == len(content)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("m.pt", SAFE, "is a safetensors file"),
        ("m.ckpt", SAFE, "is a safetensors file"),
        ("m.safetensors", TORCH, "is a torch file"),
    ],
)
def test_a_whole_model_under_a_wrong_ending_is_a_warning(tmp_path, name, content, said):
    path = tmp_path / name
    path.write_bytes(content)
    finding = only(path)
    assert finding.rule == "FIL118"
    assert finding.severity is Severity.WARNING
    assert said in finding.message
    assert "rename" in finding.remedy


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("m.pt", TORCH),
        ("pytorch_model.bin", TORCH),
        ("m.safetensors", SAFE),
        ("m", SAFE),
        ("data.zip", zip_of(a_txt=b"hello")),
        ("m.gguf", b"GGUF" + bytes(99)),
        ("notes.txt", b"hello"),
        ("logs.tar", tar_of(a_txt=b"hello")),
        ("backup.gz", gzip.compress(TORCH, mtime=0)),
    ],
)
def test_the_right_name_is_no_finding(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    assert findings(path) == []


def test_numpy_names(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.ones(3))
    (tmp_path / "a.npz").rename(tmp_path / "a.npy")
    assert only(tmp_path / "a.npy").severity is Severity.WARNING


@pytest.mark.parametrize(
    "packed",
    [gzip.compress(TORCH, mtime=0)[:40], b"\x1f\x8b\x08" + b"\xff" * 80, b"BZh"],
    ids=["cut", "nonsense", "head"],
)
def test_a_compressed_file_that_is_damaged_itself(tmp_path, packed):
    path = tmp_path / "m.pt"
    path.write_bytes(packed)
    assert "compressed" in only(path).message
