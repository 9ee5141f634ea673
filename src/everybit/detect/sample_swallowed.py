"""DAT411: a sample that was asked for was swallowed, and another came in its place, or none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Certainty
from everybit.core.rule import rule
from everybit.detect.batch_place import MAX_NAMED, facts_of_batch, name_samples, place_of_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.contents import BatchFacts
    from everybit.core.finding import Finding
    from everybit.core.samples import SampleRecord

#: Share of samples that are another one's twin from which on the data set itself repeats.
MANY: Final = 0.2
#: Samples read below which nothing is said of twins.
LEAST: Final = 32


class Swallowed:
    """Samples that were swallowed; each way is told once a loader."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def judge(self, record: SampleRecord, facts: BatchFacts) -> list[Finding]:
        """Return what was swallowed in a batch."""
        found = []
        if facts.stand_ins and self._is_new(record, "stand-in"):
            found.append(_stand_in(record, facts.stand_ins))
        if facts.absent and self._is_new(record, "none"):
            found.append(_absent(record, facts.absent))
        if facts.truncated and self._is_new(record, "truncated"):
            found.append(_truncated(record, facts.truncated))
        return found

    def judge_twins(
        self, record: SampleRecord, twins: Sequence[tuple[int, int]], *, num_read: int
    ) -> list[Finding]:
        """Return a finding where few samples are another one's, byte for byte.

        Only to be asked where the code that reads samples handles exceptions: a data set may well
        hold the same sample twice.

        Args:
            record: The last batch of the epoch.
            twins: Pairs of indices that gave the same sample.
            num_read: Samples that were read.
        """
        if not twins or num_read < LEAST or len(twins) > MANY * num_read:
            return []
        if ("stand-in" in {kind for at, kind in self._told if at == record.loader}) or (
            not self._is_new(record, "twins")
        ):
            return []
        places = ", ".join(f"{second} as {first}" for first, second in twins[:4])
        return [
            rule("DAT411").finding(
                f"{len(twins)} of {num_read} samples of {record.loader} came as another one's,"
                f" byte for byte ({places}), and its __getitem__ handles exceptions",
                where=place_of_batch(record, sample=twins[0][1], worker=None),
                evidence={
                    "kind": "twins",
                    **facts_of_batch(record),
                    "pairs": [list(pair) for pair in twins[:MAX_NAMED]],
                    "num_pairs": len(twins),
                    "num_read": num_read,
                },
                certainty=Certainty.WEAK,
            )
        ]

    def _is_new(self, record: SampleRecord, kind: str) -> bool:
        key = (record.loader, kind)
        new = key not in self._told
        self._told.add(key)
        return new


def _stand_in(record: SampleRecord, pairs: Sequence[tuple[int, int]]) -> Finding:
    told = ", ".join(f"{given} for {asked}" for asked, given in pairs[:4])
    return _finding(
        record,
        f"{record.loader} gave other samples than were asked for: {told}",
        pairs[0][0],
        {"kind": "stand-in", "pairs": [list(pair) for pair in pairs[:MAX_NAMED]]},
    )


def _absent(record: SampleRecord, places: Sequence[int]) -> Finding:
    asked = record.indices
    if asked is None or record.hashed or max(places) >= len(asked):
        samples, told = [], f"{len(places)} samples of batch {record.batch}"
    else:
        samples = [asked[place] for place in places]
        told = name_samples(samples)
    return _finding(
        record,
        f"{record.loader} gave nothing (None) for {told}: it never reached the model",
        samples[0] if samples else None,
        {"kind": "none", "samples": samples[:MAX_NAMED], "places": list(places[:MAX_NAMED])},
    )


def _truncated(record: SampleRecord, names: Sequence[str]) -> Finding:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return _finding(
        record,
        f"{names[0]}{more} ends too early and was let through by Pillow"
        " (LOAD_TRUNCATED_IMAGES): its end is filled with grey",
        None,
        {"kind": "truncated", "files": list(names[:MAX_NAMED])},
    )


def _finding(
    record: SampleRecord, message: str, sample: int | None, facts: dict[str, Any]
) -> Finding:
    return rule("DAT411").finding(
        message,
        where=place_of_batch(record, sample=sample),
        evidence={**facts, **facts_of_batch(record)},
    )
