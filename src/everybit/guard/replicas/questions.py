"""Questions to the next rank: it computes a part of a model that went wrong here.

A rank that has found a mismatch puts the part up, and says so in the row that all ranks show each
other at the end of the step. The next rank sees it there, computes the part on its own device, and
puts up what came out. Nobody waits: the finding is told when the answer has come, or when it does
not come in time.
"""

from __future__ import annotations

import io
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch

from everybit.core.mismatch import Opinion
from everybit.guard.capsule.content import Capsule
from everybit.guard.capsule.elsewhere import ask_here
from everybit.guard.meeting import job_ranks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from everybit.core.finding import Finding
    from everybit.guard.replicas.board import Board

    Settle = Callable[[Opinion | str], Finding]

#: Larger parts are not sent to another rank.
MAX_BYTES: Final = 64 << 20
#: Questions of one rank in one run: a device that always errs has said enough by then.
MAX_ASKED: Final = 16
_PLAIN: Final = ("module", "step", "rank", "spec", "args", "kwargs", "settings", "facts")
_GROUPS: Final = ("seeds", "right", "found")


@dataclass(eq=False)
class _Question:
    number: int
    data: bytes
    settle: Settle
    began: float
    posted: bool = False


class Questions:
    """Questions of this rank to the next one, and of the one before to this.

    Args:
        why_not: Returns why no rank can be asked, "" where one can.
    """

    def __init__(self, why_not: Callable[[], str]) -> None:
        self.num_answered = 0
        self._why_not = why_not
        self._open: list[_Question] = []
        self._num_asked = 0
        self._num_posted = 0
        self._num_seen = 0

    @property
    def last(self) -> int:
        """Number of the last question that is put up; 0 for none."""
        return self._num_posted

    @property
    def is_open(self) -> bool:
        """Whether an answer is waited for."""
        return bool(self._open)

    @property
    def is_there(self) -> bool:
        """Whether there is another rank."""
        return job_ranks()[1] > 1

    def why_not(self) -> str:
        """Return why the next rank cannot be asked, "" where it can."""
        if self._num_asked >= MAX_ASKED:
            return f"it was asked {MAX_ASKED} times in this run"
        return self._why_not()

    def ask(self, capsule: Capsule, settle: Settle) -> str:
        """Ask the next rank, at the end of this step.

        Args:
            capsule: The part.
            settle: Is called with what it says, or with why it says nothing; returns the finding.

        Returns:
            Why it is not asked, "" where it is.
        """
        data = pack(capsule)
        if len(data) > MAX_BYTES:
            return f"the part has more than {MAX_BYTES >> 20} MiB"
        self._num_asked += 1
        self._open.append(_Question(self._num_asked, data, settle, time.monotonic()))
        return ""

    def put_up(self, board: Board | None) -> None:
        """Put up what was asked in this step."""
        for each in self._open if board is not None else ():
            if not each.posted:
                assert board is not None
                board.put(f"question/{each.number}", each.data)
                each.posted, each.data = True, b""
                self._num_posted = each.number

    def answer(self, board: Board, rank: int, number: int) -> None:
        """Answer the rank before, where it has asked something new.

        Args:
            board: Where the ranks put their notes.
            rank: The rank before.
            number: Of its last question.
        """
        while self._num_seen < number:
            self._num_seen += 1
            topic = f"question/{self._num_seen}"
            if board.has(topic, [rank]):
                said = _said(board.get(topic, rank), board.rank)
                board.put(f"answer/{rank}/{self._num_seen}", said)
                self.num_answered += 1

    def advance(self, board: Board | None, rank: int, patience_s: float) -> list[Finding]:
        """Return the findings whose answers have come, or will not.

        Args:
            board: Where the ranks put their notes; None where they have not met.
            rank: The rank that was asked.
            patience_s: Wait so long for it, from when the question was asked.
        """
        found = []
        for each in list(self._open):
            topic = f"answer/{board.rank}/{each.number}" if board is not None else ""
            if board is not None and each.posted and board.has(topic, [rank]):
                self._open.remove(each)
                found.append(each.settle(_read(board.get(topic, rank))))
            elif time.monotonic() - each.began > patience_s:
                self._open.remove(each)
                found.append(each.settle(f"rank {rank} did not answer in time"))
        return found

    def give_up(self, why: str) -> list[Finding]:
        """Return the findings that still wait, without an answer."""
        open_, self._open = self._open, []
        return [each.settle(why) for each in open_]


def pack(capsule: Capsule) -> bytes:
    """Return the form of a capsule that another rank reads."""
    tensors = list(capsule.tensors)
    head: dict[str, Any] = {key: getattr(capsule, key) for key in _PLAIN}
    head["num"] = len(tensors)
    for name in _GROUPS:
        head[name] = list(getattr(capsule, name))
        tensors += getattr(capsule, name).values()
    head["rng"] = capsule.rng is not None
    tensors += [] if capsule.rng is None else [capsule.rng]
    text, buffer = json.dumps(head).encode(), io.BytesIO()
    torch.save([tensor.detach() for tensor in tensors], buffer)
    return len(text).to_bytes(8, "little") + text + buffer.getvalue()


def unpack(data: bytes) -> Capsule:
    """Rebuild a capsule from `pack`'s form."""
    start = 8 + int.from_bytes(data[:8], "little")
    head = json.loads(data[8:start])
    loaded = torch.load(io.BytesIO(data[start:]), weights_only=True)
    num = head.pop("num")
    rest = iter(loaded[num:])
    groups: dict[str, Any] = {name: {key: next(rest) for key in head.pop(name)} for name in _GROUPS}
    rng = next(rest) if head.pop("rng") else None
    return Capsule(finding={}, tensors=loaded[:num], rng=rng, **groups, **head)


def _said(data: bytes, rank: int) -> bytes:
    """Compute the part of another rank here; return what is said of it."""
    try:
        capsule = unpack(data)
        kind = torch.device(str(capsule.facts.get("device", "cpu"))).type
        device = kind if kind == "cpu" else f"{kind}:{getattr(torch, kind).current_device()}"
        said = ask_here(capsule, device=device, name=f"rank {rank} ({device})")
    except Exception as error:
        return json.dumps(f"rank {rank}: {type(error).__name__}: {error}"[:300]).encode()
    told = [said.device, said.first, said.repeats, said.proven, said.how, said.exact]
    return json.dumps(told).encode()


def _read(note: bytes) -> Opinion | str:
    told = json.loads(note)
    if isinstance(told, str):
        return told
    names: Sequence[str] = ("device", "first", "repeats", "proven", "how", "exact")
    return Opinion(**dict(zip(names, told, strict=True)))
