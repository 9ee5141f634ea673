"""What sealing leaves behind when it cannot finish."""

from __future__ import annotations

import errno
import os

import pytest
from tests.files import makers

import everybit
from everybit.core.errors import PathError
from everybit.files.seals.manifest import MANIFEST_NAME, OWN_NAMES, SIGNATURE_NAME


@pytest.mark.parametrize("name", [MANIFEST_NAME, SIGNATURE_NAME, "SHA256SUMS"])
def test_a_folder_in_the_place_of_what_is_written(checkpoint, name):
    (checkpoint.parent / name).mkdir()
    with pytest.raises(PathError, match="is a folder"):
        everybit.seal(checkpoint, sha256=True)
    assert [n for n in OWN_NAMES if (checkpoint.parent / n).is_file()] == []


def test_a_full_disk_leaves_what_was_there(checkpoint, monkeypatch):
    everybit.seal(checkpoint, sha256=True)
    before = {n: (checkpoint.parent / n).read_bytes() for n in (MANIFEST_NAME, "SHA256SUMS")}
    makers.save(makers.weights(seed=1), checkpoint)

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PathError, match="no space left"):
        everybit.seal(checkpoint)
    monkeypatch.undo()
    after = {n: (checkpoint.parent / n).read_bytes() for n in before}
    assert after == before
    assert sorted(p.name for p in checkpoint.parent.iterdir()) == sorted(
        [MANIFEST_NAME, "SHA256SUMS", checkpoint.name]
    )
    assert everybit.verify(checkpoint).exit_code() == 1  # it differs from what was sealed


@pytest.mark.parametrize("name", sorted(OWN_NAMES))
def test_what_sealing_writes_is_not_sealed(checkpoint, name):
    everybit.seal(checkpoint, sha256=True)
    (checkpoint.parent / SIGNATURE_NAME).write_text("{}")
    with pytest.raises(PathError, match="everybit itself"):
        everybit.seal(checkpoint.parent / name)


def test_parity_is_recorded_and_its_guarantee_told(checkpoint):
    from everybit.api.seal import seal_verdict
    from everybit.files.seals.manifest import load_manifest

    verdict, _ = seal_verdict(checkpoint.parent, parity="10%", sha256=True)
    assert "parity" in verdict.stats["parity"]["guarantee"]
    manifest = load_manifest(checkpoint.parent)
    assert manifest.parity is not None
    assert set(manifest.files) == {checkpoint.name}
    assert everybit.verify(checkpoint.parent).ok
    with pytest.raises(everybit.UsageError):
        everybit.seal(checkpoint.parent, parity="much")
    everybit.seal(checkpoint)  # the same bytes, so the parity still holds
    assert load_manifest(checkpoint.parent).parity == manifest.parity
    assert everybit.verify(checkpoint.parent).ok
