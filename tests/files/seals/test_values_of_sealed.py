"""A file that was wrong before it was sealed: its digests hold, its values tell."""

from __future__ import annotations

import pytest

import everybit
from everybit.core.verdict import Status

torch = pytest.importorskip("torch")


@pytest.fixture
def sealed(tmp_path):
    def make(spoil):
        weights = {"a": torch.randn(64, 64, generator=torch.Generator().manual_seed(0)) * 0.02}
        spoil(weights["a"])
        torch.save(weights, tmp_path / "m.pt")
        everybit.seal(tmp_path)
        return tmp_path

    return make


def test_a_value_that_was_wrong_when_sealed_is_told_on_request(sealed):
    def flip(weight):
        weight.view(torch.int32)[3, 5] ^= 1 << 30

    place = sealed(flip)
    assert everybit.verify(place).status is Status.CLEAN
    (finding,) = everybit.verify(place, values=True).findings
    assert (finding.rule, finding.where.tensor, finding.where.elements) == ("FIL113", "a", (197,))


def test_a_right_one_is_clean_with_values_too(sealed):
    verdict = everybit.verify(sealed(lambda weight: None), values=True)
    assert verdict.status is Status.CLEAN
    told = {item.what for item in verdict.coverage.checked}
    assert {"files against their seal", "tensors tested for holes and impossible values"} <= told


def test_damage_since_the_seal_is_told_once(sealed):
    place = sealed(lambda weight: None)
    data = bytearray((place / "m.pt").read_bytes())
    at = data.index(b"data/0") + 2000
    data[at | 3] ^= 0x40
    (place / "m.pt").write_bytes(data)
    assert [found.rule for found in everybit.verify(place, values=True).findings] == ["FIL102"]
