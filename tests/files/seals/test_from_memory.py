"""Entries whose tensor digests were taken in memory, before the file was written."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.files import makers

import everybit
from everybit.core.tree import LEAF_BYTES, TreeHasher
from everybit.core.verdict import Status
from everybit.files.seals.manifest import TakenFrom, load_manifest, write_manifest


@pytest.fixture
def live(tmp_path):
    """A file sealed as if its tensors had been digested in memory first."""
    torch.manual_seed(0)
    values = {"w": torch.randn(300, 200), "b": torch.randn(9)}
    path = makers.save(values, tmp_path / "m.pt")
    everybit.seal(path)

    def seal_as(memory):
        manifest = load_manifest(tmp_path)
        entry = manifest.files[path.name]
        tensors, leaves = [], {}
        for tensor in entry.tensors:
            hasher = TreeHasher()
            hasher.update(makers.canonical(memory[tensor.name]))
            leaves[tensor.name] = hasher.leaves()
            tensors.append(replace(tensor, tree=hasher.digest(tensor.dtype, tensor.shape)))
        entry = replace(
            entry, tensors=tuple(tensors), tensor_leaves=leaves, taken_from=TakenFrom.MEMORY
        )
        write_manifest(tmp_path, replace(manifest, files={path.name: entry}, save_id="mine"))
        return load_manifest(tmp_path)

    return path, values, seal_as


def test_what_was_written_right_is_clean(live):
    path, values, seal_as = live
    manifest = seal_as(values)
    assert manifest.save_id == "mine"
    assert manifest.files[path.name].taken_from is TakenFrom.MEMORY
    assert everybit.verify(path).status is Status.CLEAN
    assert everybit.verify(path, strong=True).status is Status.CLEAN


def test_what_was_damaged_before_the_save_is_told_with_its_leaves(live):
    path, values, seal_as = live
    right = {name: value.clone() for name, value in values.items()}
    right["w"].view(-1)[40_000] += 1
    seal_as(right)
    for strong in (False, True):
        (finding,) = everybit.verify(path, strong=strong).findings
        assert (finding.rule, finding.where.tensor) == ("FIL102", "w")
        assert "memory" in finding.message
        leaf = 40_000 * 4 // LEAF_BYTES
        size = LEAF_BYTES // 4
        assert finding.where.element_ranges == ((leaf * size, (leaf + 1) * size),)
    # Later damage to the file is a finding of its own.
    start = load_manifest(path.parent).files[path.name].tensors
    offset = next(t.start for t in start if t.name == "b")
    makers.flip(path, offset)
    assert {f.where.tensor for f in everybit.verify(path).findings} == {"w", "b"}


def test_what_was_proved_when_it_was_sealed_is_not_hashed_twice(live, monkeypatch):
    from everybit.files.seals import sealed as module

    path, values, seal_as = live
    manifest = seal_as(values)
    entry = replace(manifest.files[path.name], taken_from=TakenFrom.PROVED)
    write_manifest(path.parent, replace(manifest, files={path.name: entry}))
    assert load_manifest(path.parent).files[path.name].taken_from is TakenFrom.PROVED
    monkeypatch.setattr(module, "written_damaged", lambda *_: pytest.fail("hashed twice"))
    assert everybit.verify(path).status is Status.CLEAN
