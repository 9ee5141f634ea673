"""Several ranks on this machine for one trial: forked, and met over gloo."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from everybit.drill.executor import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_POLL_S: Final = 0.02


class RanksFailedError(Exception):
    """A rank ended without an answer; the text says how."""


def in_ranks(
    world_size: int, work: Callable[[int], Mapping[str, Any]], *, limit_s: float = LIMIT_S
) -> list[dict[str, Any]]:
    """Carry out a function in forked ranks, with the environment that `torchrun` gives them.

    No backward pass may have run in this process: autograd's threads do not survive a fork.

    Args:
        world_size: How many ranks.
        work: Called with its rank, in each; returns what JSON can hold.
        limit_s: Seconds after which all are ended.

    Returns:
        What each rank's call returned.

    Raises:
        RanksFailedError: One ended without an answer, or not in time.
    """
    port = _free_port()
    with tempfile.TemporaryDirectory(prefix="everybit-ranks-") as folder:
        outs = [Path(folder) / f"{rank}.json" for rank in range(world_size)]
        children = [_fork(rank, world_size, port, work, outs[rank]) for rank in range(world_size)]
        why = _wait(children, limit_s)
        missing = [rank for rank, out in enumerate(outs) if not out.exists()]
        if why or missing:
            raise RanksFailedError(why or f"rank {missing[0]} ended without an answer")
        return [json.loads(out.read_text(encoding="utf-8")) for out in outs]


def _fork(
    rank: int, world_size: int, port: int, work: Callable[[int], Mapping[str, Any]], out: Path
) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        os.environ |= {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(world_size),
            "LOCAL_WORLD_SIZE": str(world_size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        told = json.dumps(work(rank))
        part = out.with_suffix(".part")
        part.write_text(told, encoding="utf-8")
        part.rename(out)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _wait(children: list[int], limit_s: float) -> str:
    """Wait for all; once one has failed, the others are ended soon, which wait for it."""
    deadline, waiting, why = time.monotonic() + limit_s, dict(enumerate(children)), ""
    while waiting:
        for rank, child in list(waiting.items()):
            done, how = os.waitpid(child, os.WNOHANG)
            if not done:
                continue
            del waiting[rank]
            code = os.waitstatus_to_exitcode(how)
            if code and not why:
                why = f"rank {rank} ended with {code}"
                deadline = min(deadline, time.monotonic() + 5)
        if waiting and time.monotonic() > deadline:
            why = why or f"the ranks took more than {limit_s:.0f} s"
            for child in waiting.values():
                os.kill(child, signal.SIGKILL)
        time.sleep(_POLL_S)
    return why


def _free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


class Zygote:
    """A process forked before anything was trained, that forks the ranks of trials.

    Args:
        answer: Called there with a line of text, returns one.
        begin: Called there before the first.
    """

    def __init__(self, answer: Callable[[str], str], *, begin: Callable[[], None]) -> None:
        asked, self._ask = os.pipe()
        self._answered, answers = os.pipe()
        if os.fork() == 0:
            os.close(self._ask)
            os.close(self._answered)
            # What is printed there is no answer of the worker's, and what it is asked not for here.
            os.dup2(2, 1)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            try:
                with os.fdopen(asked) as lines, os.fdopen(answers, "w") as out:
                    for number, line in enumerate(lines):
                        if not number:
                            begin()
                        out.write(answer(line.rstrip("\n")) + "\n")
                        out.flush()
            finally:
                os._exit(0)
        os.close(asked)
        os.close(answers)
        self._out = os.fdopen(self._ask, "w")
        self._in = os.fdopen(self._answered)

    def __call__(self, line: str) -> str:
        """Return the answer to a line.

        Raises:
            RanksFailedError: The process is gone.
        """
        self._out.write(line + "\n")
        self._out.flush()
        answer = self._in.readline()
        if not answer:
            raise RanksFailedError("the process that forks ranks is gone")
        return answer.rstrip("\n")
