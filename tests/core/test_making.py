"""Frozen dataclasses that are made at once are those that their own `__init__` makes."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, asdict, replace

import pytest

from everybit.core.finding import Finding, Location
from everybit.core.making import made
from everybit.core.rule import rule
from everybit.core.verdict import Coverage, Verdict


def _pairs():
    place = Location(path="a.pt", byte_range=(2, 3))
    finding = rule("PKL201").finding("m", where=place, evidence={"name": "os.system"})
    given = {key: getattr(finding, key) for key in Finding.__dataclass_fields__}
    verdict = {"command": "scan", "target": ("a.pt",), "findings": (finding,)}
    more = {"coverage": Coverage(), "stats": {"files": 1}}
    return [
        (place, made(Location, path="a.pt", byte_range=(2, 3))),
        (Finding(**given), finding),
        (Verdict(**verdict, **more), made(Verdict, **verdict, **more)),
    ]


@pytest.mark.parametrize("number", range(3))
def test_there_is_no_difference(number):
    plain, quick = _pairs()[number]
    assert plain == quick
    assert repr(plain) == repr(quick)
    assert asdict(plain) == asdict(quick)
    assert plain.to_json() == quick.to_json()
    assert replace(quick) == plain
    assert copy.deepcopy(quick) == plain
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(quick, protocol)) == plain


def test_a_place_can_be_a_key():
    place, quick = _pairs()[0]
    assert hash(place) == hash(quick)
    assert {place: 1}[quick] == 1
    assert replace(quick, member="b") == Location(path="a.pt", member="b", byte_range=(2, 3))


@pytest.mark.parametrize("number", range(3))
def test_nothing_of_it_can_be_changed(number):
    _, quick = _pairs()[number]
    name = next(iter(type(quick).__dataclass_fields__))
    with pytest.raises(FrozenInstanceError):
        setattr(quick, name, "b")
    with pytest.raises(FrozenInstanceError):
        quick.typo = 1
    with pytest.raises(FrozenInstanceError):
        delattr(quick, name)


def test_a_finding_without_a_place_cannot_be_made():
    with pytest.raises(ValueError, match="needs a place"):
        rule("PKL201").finding("m", where=Location())
