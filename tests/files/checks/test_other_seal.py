"""A sealed file with another one's content is misplaced, which is one finding."""

from __future__ import annotations

import shutil

import pytest
import torch
from tests.files import makers

import everybit


@pytest.fixture
def sealed(tmp_path):
    tmp_path = tmp_path / "set" / "run"
    tmp_path.mkdir(parents=True)
    for number in (1, 2, 3):
        torch.manual_seed(number)
        torch.save(
            {f"layer.{i}": torch.randn(90, 50) for i in range(5)}, tmp_path / f"s{number}.pt"
        )
    everybit.seal(tmp_path)
    return tmp_path


def test_another_files_content(sealed):
    shutil.copy(sealed / "s2.pt", sealed / "s1.pt")
    for target in (sealed, sealed / "s1.pt", sealed.parent):
        (finding,) = everybit.verify(target).findings
        assert finding.rule == "FIL106"
        assert finding.where.path.endswith("s1.pt")
        assert finding.evidence["content_of"].endswith("s2.pt")
        assert finding.evidence["num_tensors_changed"] == 5


def test_two_exchanged_files(sealed):
    one, two = (sealed / f"s{number}.pt" for number in (1, 2))
    first = one.read_bytes()
    shutil.copy(two, one)
    two.write_bytes(first)
    found = everybit.verify(sealed).findings
    assert {(f.rule, f.where.path) for f in found} == {("FIL106", "s1.pt"), ("FIL106", "s2.pt")}
    # Each is there to be put back from.
    copy = sealed.with_name("copy")
    shutil.copytree(sealed, copy)
    copy.joinpath("s1.pt").write_bytes(first)
    assert any(f.where.path == "s1.pt" for f in everybit.repair(sealed, copy=copy).findings)


def test_a_damaged_copy_of_another_file_is_damage(sealed):
    shutil.copy(sealed / "s2.pt", sealed / "s1.pt")
    makers.flip(sealed / "s1.pt", 50_000, 3)
    rules = {finding.rule for finding in everybit.verify(sealed).findings}
    assert "FIL106" not in rules
    assert rules


def test_a_flipped_bit_is_still_placed(sealed):
    makers.flip(sealed / "s1.pt", 50_000, 3)
    (finding,) = everybit.verify(sealed).findings
    assert (finding.rule, finding.where.path) == ("FIL102", "s1.pt")
