"""What the names of checkpoint files and folders say: the step, the shard, the part they play."""

from __future__ import annotations

import re
from typing import Final

_SHARD: Final = re.compile(r"^(?P<stem>.+?)[-_](?P<index>\d{1,6})-of-(?P<count>\d{1,6})(?=\.|$)")
_NUMBER: Final = re.compile(r"(?<!\d)(?<!\d\.)\d{1,18}(?!\d*\.\d)(?!\d)(?![a-zA-Z])")
_ANY_NUMBER: Final = re.compile(r"\d+(\.\d+)?(e[+-]?\d+)?")
#: Words before a number that tells the step, the surest first.
_STEP_WORDS: Final = ("global_step", "step", "iter", "iteration", "checkpoint", "ckpt", "epoch")
#: Words before a number that tells a part of one save.
_PART: Final = re.compile(
    r"(?<![a-z])(rank|of|part|shard|consolidated|fold|seed|split|rng_state|random_states|mp|tp|pp|dp|ep|zero|worker|fsdp|model_world_size|world_size)[_=.-]?$",
    re.I,
)
_UNFINISHED: Final = re.compile(
    r"(^|[._-])(tmp|temp|partial|incomplete|unfinished|inprogress)($|[._-])", re.I
)


def shard_of(name: str) -> tuple[str, int, int] | None:
    """Return the stem, number and count of a shard's file name; None where it is none.

    >>> shard_of("model-00002-of-00003.safetensors")
    ('model.safetensors', 2, 3)
    """
    match = _SHARD.match(name)
    if match is None:
        return None
    rest = name[match.end() :]
    return match["stem"] + rest, int(match["index"]), int(match["count"])


def without_shard(name: str) -> str:
    """Return the file name that a sharded save has without sharding."""
    found = shard_of(name)
    return found[0] if found else name


def step_of(name: str) -> int | None:
    """Return the step that the name of a file or folder tells; None where it tells none.

    >>> step_of("epoch=3-step=500.ckpt"), step_of("optim_000500_rank0.pt"), step_of("last.ckpt")
    (500, 500, None)
    """
    place = _step_place(name)
    return int(name[place[0] : place[1]]) if place else None


def series_of(name: str) -> str:
    """Return the name with its step, and the numbers that go with it, left out.

    >>> series_of("checkpoint-500"), series_of("optim_000500_rank0.pt")
    ('checkpoint-#', 'optim_#_rank0.pt')
    """
    if _step_place(name) is None:
        return name

    def blank(match: re.Match[str]) -> str:
        return match[0] if _PART.search(name[: match.start()]) else "#"

    stem, dot, suffix = _split(name)
    return _ANY_NUMBER.sub(blank, stem) + dot + suffix


def with_step(name: str, step: int) -> str:
    """Return the name with another step, padded as its own is.

    >>> with_step("optim_000500_rank0.pt", 1000)
    'optim_001000_rank0.pt'
    """
    place = _step_place(name)
    if place is None:
        return name
    return f"{name[: place[0]]}{step:0{place[1] - place[0]}d}{name[place[1] :]}"


def is_unfinished(name: str) -> bool:
    """Return whether a name says that its writer has not finished.

    >>> is_unfinished("tmp-checkpoint-500"), is_unfinished("template.pt")
    (True, False)
    """
    return bool(_UNFINISHED.search(name))


def _split(name: str) -> tuple[str, str, str]:
    stem, dot, suffix = name.rpartition(".")
    if not dot or suffix[:1].isdigit() or len(suffix) > 12:
        return name, "", ""
    return stem, dot, suffix


def _step_place(name: str) -> tuple[int, int] | None:
    if shard_of(name):
        return None
    stem = _split(name)[0]
    found = [match for match in _NUMBER.finditer(stem) if not _PART.search(stem[: match.start()])]
    for word in _STEP_WORDS:
        for match in found:
            if re.search(rf"{word}s?[_=\- ]?$", stem[: match.start()], re.I):
                return match.span()
    # A number stuck to letters (`gpt2`, `v1`) is no step, and of several nothing tells which is.
    free = [match for match in found if not stem[: match.start()][-1:].isalpha()]
    return free[0].span() if len(free) == 1 else None
