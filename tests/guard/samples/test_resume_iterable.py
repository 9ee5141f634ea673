"""A stream is gone on with by passing over its samples: augmentation is no other place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.guard.samples.loops import Training, guarded, seed
from tests.guard.samples.test_resume import first_half, second_half, straight
from torch.utils.data import DataLoader, IterableDataset

from everybit.core.contents import SampleWords
from everybit.core.verdict import Status
from everybit.detect.place_reached import Passed, Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Stream(IterableDataset[Any]):
    """Draws, in the process itself, from the stream that dropout draws from."""

    def __init__(self, how: str) -> None:
        self.how = how
        self.begun = 0

    def order(self) -> Iterator[int]:
        if self.how != "shuffled":
            yield from range(24)
            return
        waiting = list(range(24))
        while waiting:  # One after the other: training draws in between.
            yield waiting.pop(int(torch.randint(len(waiting), ())))

    def __iter__(self) -> Iterator[Any]:
        for index in self.order():
            label: Any = index + 24 * self.begun * (self.how == "counts on")
            inputs = torch.full((3,), float(label))
            if self.how != "counts on":
                inputs = inputs + torch.rand(3)
            if self.how == "all drawn":
                label = torch.rand(())
            yield inputs, label
        self.begun += 1


def make(how: str) -> Any:
    return lambda: DataLoader(Stream(how), batch_size=4)


@pytest.mark.parametrize("stop", [3, 9])
@pytest.mark.parametrize("how", ["augmented", "all drawn"])
def test_augmented_samples_lead_to_the_place(how: str, stop: int, tmp_path: Path) -> None:
    log, weights = straight(make(how))
    saved = first_half(make(how), tmp_path / "half", stop)
    rest, resumed, guard = second_half(make(how), tmp_path / "rest", saved)
    assert (rest, resumed) == (log[stop:], weights)
    assert guard.findings == ()
    told = [each for each in guard.verdict.coverage.skipped if each.what.startswith("place")]
    # Where all of a sample is drawn there is nothing to know the place by.
    assert [each.promised for each in told] == [True] * (how == "all drawn")
    assert guard.verdict.status is (Status.INCONCLUSIVE if told else Status.CLEAN)


@pytest.mark.parametrize("how", ["shuffled", "counts on"])
def test_another_place_is_told(how: str, tmp_path: Path) -> None:
    saved = first_half(make(how), tmp_path / "half", 9)
    *_, guard = second_half(make(how), tmp_path / "rest", saved)
    (finding,) = guard.findings
    assert finding.rule == "DAT407"
    assert "gives other samples" in finding.message


def test_a_state_of_before_is_judged_as_before(tmp_path: Path) -> None:
    saved = first_half(make("augmented"), tmp_path / "half", 3)
    seed()
    training = Training(make("augmented")())
    with guarded(training, tmp_path / "rest") as guard:
        training.load(saved, guard)
        for position in guard._data._positions._pending.values():
            del position["passed"]
        training.run(1)
    assert [each.rule for each in guard.findings] == ["DAT407"]


def passed(*parts: list[int], drew: bool = True) -> Passed:
    found = Passed()
    for at in range(0, len(parts[0]), 8):
        words = tuple(tuple(part[at : at + 8]) for part in parts)
        samples = SampleWords.of(tuple(map(str, range(len(parts)))), words)
        found.take(samples, len(words[0]), drew=drew)
    return found


def against(here: Passed, there: Passed) -> Place:
    return here.against(Passed.from_state(there.to_state()))


def test_what_leads_to_a_place() -> None:
    ids, labels = [*range(100, 140)], [1 + each % 3 for each in range(40)]
    drawn, other = [*range(1000, 1040)], [*range(2000, 2040)]
    later = [*labels[:8], *reversed(labels[8:])]
    swapped = [*ids[:30], ids[31], ids[30], *ids[32:]]
    assert against(passed(drawn, labels), passed(other, labels)) is Place.SAME
    assert against(passed(drawn, later), passed(other, labels)) is Place.OTHER
    assert against(passed(swapped), passed(ids)) is Place.OTHER
    assert against(passed(drawn), passed(other)) is Place.UNKNOWN
    assert against(passed(drawn, drew=False), passed(other, drew=False)) is Place.OTHER
    # Augmented now and then: what was not lies where it lay.
    assert against(passed([*ids[:20], *drawn[20:]]), passed(ids)) is Place.UNKNOWN
    # One label for all tells no order from another.
    assert against(passed(drawn, [7] * 40), passed(other, [7] * 40)) is Place.UNKNOWN
    # Of many samples the smallest words are kept: exchanged ones are among them.
    many = [(each * 2654435761) % 2**32 for each in range(1, 2001)]
    assert against(passed(many[:1000] + many[1000:][::-1]), passed(many)) is Place.OTHER
