"""Twin runs with one planted difference each, one seed: `python -m bench.twins` runs five."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from bench.twins.campaign import Runs, ask
from bench.twins.kinds import KINDS
from bench.twins.table import markdown, summary

if TYPE_CHECKING:
    from pathlib import Path

#: Which seed the tests take: none of those of the campaign.
SEED = 7


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield Runs(tmp_path_factory.mktemp("twins"), "module")
    torch.set_num_threads(threads)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_planted_difference_is_told(kind, runs, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = ask(kind, SEED, runs, tmp_path / "pair")
    assert answer.right_kind, answer
    assert answer.right_step, answer
    assert answer.right_module is not False, answer


def test_forty_kinds_are_planted() -> None:
    assert len(KINDS) >= 40
    assert len({kind.name for kind in KINDS}) == len(KINDS)


def test_the_score_counts_what_the_goals_are_about(runs, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    kind = next(kind for kind in KINDS if kind.name == "another epsilon")
    answer = ask(kind, SEED, runs, tmp_path / "pair")
    told = summary([answer])
    assert (told["pairs"], told["kind_and_step_right"]) == (1, 1)
    result = {"commit": "x", "torch": "y", "seeds": [SEED], "summary": told}
    text = markdown({**result, "answers": [answer.to_json()]})
    assert "| another epsilon | config 1 | 1/1 | 1/1 |" in text
