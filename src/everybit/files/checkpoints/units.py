"""Which files of a folder are one checkpoint, and which checkpoints are siblings."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from everybit.files.checkpoints.names import series_of, shard_of, step_of
from everybit.files.sniff import looks_like_model_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Files that make the folder around them one checkpoint.
_OF_A_FOLDER: Final = re.compile(
    r"(trainer_state\.json|optimizer\.(pt|bin)|scheduler\.(pt|bin)|\.metadata"
    r"|(pytorch_model|model|adapter_model|diffusion_pytorch_model)"
    r"(-\d+-of-\d+|\.fp16|\.bf16)?\.(safetensors|bin)|.*\.(safetensors|bin)\.index\.json"
    r"|mp_rank_\d+.*\.pt|zero_pp_rank.*\.pt|.*\.distcp|training_args\.bin|random_states_\d+\.pkl)$"
)
_PART_FOLDER: Final = re.compile(
    r"(global_step\d+|pytorch_model_fsdp.*|optimizer_?\d*|pytorch_model|mp_rank_\d+(_\d+)*|model"
    r"|distributed_checkpoint|tp_rank_.*)$"
)
_STEP_FOLDER: Final = re.compile(
    r"(tmp[-_.])?(checkpoint|ckpt|global_?step|step|iter|iteration|epoch)s?[-_=]?\d+", re.I
)
_DATA: Final = (".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".distcp", ".pkl", ".tar")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The files of one save.

    Attributes:
        name: Its path relative to the target: a folder's, a file's, or a pattern of several files.
        folder: The folder above it.
        series: What its siblings share with it: the folder above and the name without its step.
        step: The step that its name tells.
        files: `{part: path relative to the target}`; siblings have the same parts.
        is_folder: It is a folder of its own.
    """

    name: str
    folder: str
    series: str
    step: int | None
    files: Mapping[str, str]
    is_folder: bool = False


def find_checkpoints(names: Iterable[str]) -> list[Checkpoint]:
    """Return the checkpoints among a folder's files.

    Args:
        names: Paths relative to the target.
    """
    below: dict[str, list[str]] = defaultdict(list)
    for name in names:
        below[name.rpartition("/")[0]].append(name)
    tops = {folder: _top(folder, below) for folder in below}
    owned: dict[str, list[str]] = defaultdict(list)
    loose: list[Checkpoint] = []
    for folder, held in below.items():
        top = tops[folder]
        if top is None:
            loose += _loose(folder, held)
        else:
            owned[top] += held
    return [_of_folder(folder, held) for folder, held in sorted(owned.items())] + loose


def group_siblings(checkpoints: Iterable[Checkpoint]) -> list[list[Checkpoint]]:
    """Return series of at least two checkpoints that tell their steps, sorted by step."""
    series: dict[str, list[Checkpoint]] = defaultdict(list)
    for checkpoint in checkpoints:
        if checkpoint.step is not None:
            series[checkpoint.series].append(checkpoint)
    return [
        sorted(found, key=lambda item: (item.step or 0, item.name))
        for found in series.values()
        if len(found) > 1
    ]


def _top(folder: str, below: Mapping[str, list[str]]) -> str | None:
    """Return the folder that is the checkpoint to which a folder's files belong; None for none."""
    parts = folder.split("/") if folder else []
    for depth in range(len(parts), 0, -1):
        if _STEP_FOLDER.match(parts[depth - 1]) and not (
            depth > 1
            and _PART_FOLDER.match(parts[depth - 1])
            and _STEP_FOLDER.match(parts[depth - 2])
        ):
            return "/".join(parts[:depth])
    top = None
    for depth in range(len(parts), -1, -1):
        place = "/".join(parts[:depth])
        if any(_OF_A_FOLDER.match(name.rpartition("/")[2]) for name in below.get(place, ())):
            top = place
        # What lies in a folder belongs to the one above it only under names that savers give.
        if not depth or not _PART_FOLDER.match(parts[depth - 1]):
            break
    return top


def _of_folder(folder: str, held: list[str]) -> Checkpoint:
    above, _, last = folder.rpartition("/")
    cut = len(folder) + 1 if folder else 0
    series = series_of(last) if last else ""
    return Checkpoint(
        name=folder,
        folder=above,
        series=f"{above}/{series}/",
        step=step_of(last) if last else None,
        files={name[cut:]: name for name in held},
        is_folder=True,
    )


def _loose(folder: str, held: list[str]) -> list[Checkpoint]:
    """Group a folder's files by their steps, where files of several patterns share the steps."""
    cut = len(folder) + 1 if folder else 0
    patterns: dict[str, dict[int, str]] = defaultdict(dict)
    alone: list[Checkpoint] = []
    for name in held:
        short = name[cut:]
        if not (looks_like_model_name(short) or short.endswith(_DATA)):
            continue
        step = step_of(short)
        if step is None or shard_of(short) or step in patterns[series_of(short)]:
            alone.append(_single(folder, name, short))
        else:
            patterns[series_of(short)][step] = name
    together: dict[str, list[str]] = {}
    for pattern, found in sorted(patterns.items(), key=lambda item: -len(item[1])):
        partner = next(
            (
                first
                for first in together
                if len(set(patterns[first]) & set(found)) * 2 > len(found)
            ),
            pattern,
        )
        together.setdefault(partner, []).append(pattern)
    for parts in together.values():
        for step in sorted({step for pattern in parts for step in patterns[pattern]}):
            files = {p: patterns[p][step] for p in parts if step in patterns[p]}
            first = next(iter(files.values()))
            alone.append(
                Checkpoint(
                    name=first,
                    folder=folder,
                    series=f"{folder}/{'+'.join(parts)}",
                    step=step,
                    files=files,
                )
            )
    return alone


def _single(folder: str, name: str, short: str) -> Checkpoint:
    return Checkpoint(name=name, folder=folder, series=name, step=None, files={short: name})
