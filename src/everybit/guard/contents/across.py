"""What is compared across loaders, ranks and attempts: label maps, and streams that were drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from everybit.core.contents import Moved
from everybit.detect.label_maps import LabelMap, compare_maps
from everybit.detect.worker_streams import judge_ranks
from everybit.guard.contents.exchange import Exchange

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everybit.core.contents import BatchFacts
    from everybit.core.finding import Finding
    from everybit.core.samples import EpochEnd, SampleRecord

#: Passes of a loader whose streams ranks compare.
MAX_EPOCHS: Final = 3
#: Batches of a pass between two looks at what the other ranks have told.
POLL_EVERY: Final = 8
#: Labels of a map that is put on record.
MAX_RECORDED: Final = 1000


class Across:
    """Compare what this rank has with what other loaders and ranks have.

    Args:
        rank: Rank of this process.

    Attributes:
        observed: Label maps to put on record.
    """

    def __init__(self, *, rank: int) -> None:
        self.observed: list[tuple[str, Mapping[str, Any]]] = []
        self._rank = rank
        self._exchange = Exchange()
        self._maps: dict[str, dict[str, LabelMap]] = {}
        self._starts: dict[tuple[str, int], dict[str, int]] = {}
        self._told: set[str] = set()

    @property
    def failure(self) -> str:
        """Why ranks are not compared, else ""."""
        return self._exchange.failure

    def maps(
        self, loader: str, maps: Mapping[str, Mapping[str, int]], *, step: int
    ) -> list[Finding]:
        """Take the label maps of a loader's data set; compare them with other loaders'."""
        findings: list[Finding | None] = []
        for path, numbers in maps.items():
            attribute = path.rpartition(".")[2]
            mine = LabelMap(owner=loader, attribute=attribute, numbers=numbers)
            known = self._maps.setdefault(attribute, {})
            if loader in known and known[loader].numbers == numbers:
                continue
            findings += [
                compare_maps(other, mine, step=step, rank=self._rank)
                for other in known.values()
                if other.numbers != numbers
            ]
            known[loader] = mine
            self._exchange.put(f"map/{loader}/{attribute}", dict(numbers))
            if len(numbers) <= MAX_RECORDED:
                data = {"loader": loader, "attribute": attribute, "numbers": dict(numbers)}
                self.observed.append(("label-map", data))
        return [finding for finding in findings if finding is not None]

    def streams(self, record: SampleRecord, facts: BatchFacts) -> list[Finding]:
        """Take the streams that were drawn from first in a batch."""
        if record.epoch >= MAX_EPOCHS:
            return []
        starts = self._starts.setdefault((record.loader, record.epoch), {})
        for stream in facts.streams:
            if stream.moved is Moved.DRAWN:
                starts[f"{record.worker} {stream.name}"] = stream.start
        if record.batch % POLL_EVERY == POLL_EVERY - 1:
            self._tell(record.loader, record.epoch)
            return self.poll(step=max(record.step, 0))
        return []

    def ended(self, end: EpochEnd) -> list[Finding]:
        """Take the end of a pass."""
        self._tell(end.loader, end.epoch)
        return self.poll(step=end.step)

    def poll(self, *, step: int) -> list[Finding]:
        """Return what is wrong with what all ranks have told by now."""
        findings: list[Finding] = []
        for key, values in self._exchange.poll():
            kind, _, rest = key.partition("/")
            if kind == "map":
                findings += self._compare_maps(rest, values, step=step)
            else:
                epoch, _, loader = rest.partition("/")
                if loader not in self._told:
                    found = judge_ranks(loader, int(epoch), values, step=step)
                    self._told |= {loader} if found else set()
                    findings += found
        return findings

    def _tell(self, loader: str, epoch: int) -> None:
        starts = self._starts.get((loader, epoch))
        if starts:
            self._exchange.put(f"streams/{epoch}/{loader}", starts)

    def _compare_maps(self, name: str, values: Mapping[int, Any], *, step: int) -> list[Finding]:
        attribute = name.rpartition("/")[2]
        first = LabelMap(owner="rank 0", attribute=attribute, numbers=values[0])
        for rank, numbers in values.items():
            if rank:
                other = LabelMap(owner=f"rank {rank}", attribute=attribute, numbers=numbers)
                found = compare_maps(first, other, step=step, rank=rank)
                if found is not None:
                    return [found]
        return []
