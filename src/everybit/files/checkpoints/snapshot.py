"""One checkpoint of a series as it is compared with its siblings: its tensors by what they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from everybit.core.errors import PathError
from everybit.files.checkpoints.contents import is_learned
from everybit.files.checkpoints.names import is_unfinished, without_shard
from everybit.files.checkpoints.state import TrainingState, training_state

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everybit.files.checkpoints.contents import Contents, Shelf
    from everybit.files.checkpoints.units import Checkpoint
    from everybit.files.tensor import FileTensor

#: One name for the model's file, sharded or not, in either format.
WEIGHTS: Final = "weights"
#: One name for all the files that a `.metadata` names: their number follows the ranks.
DISTCP: Final = "distcp"
_WEIGHTS: Final = frozenset({
    "model.safetensors", "pytorch_model.bin", "diffusion_pytorch_model.safetensors",
    "diffusion_pytorch_model.bin", "pytorch_model.safetensors",
})  # fmt: skip
_SUFFIXES: Final = (
    ".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".distcp", ".tar", ".pkl",
)  # fmt: skip
_NOT_TENSORS: Final = frozenset({"training_args.bin"})


class Role(StrEnum):
    """What a tensor is to the training run."""

    MODEL = "model"
    OPTIMIZER = "optimizer"
    AVERAGE = "average"


class Key(NamedTuple):
    """A tensor as all siblings call it."""

    part: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A tensor of one checkpoint, its file and its role."""

    contents: Contents
    tensor: FileTensor
    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A checkpoint with all that its files say.

    Attributes:
        checkpoint: Which.
        state: Its training state.
        files: Whole files that hold tensors or values, by part.
        tensors: What training can move, by name.
        unread: Parts that are damaged or cannot be read.
    """

    checkpoint: Checkpoint
    state: TrainingState
    files: Mapping[str, Contents] = field(default_factory=dict)
    tensors: Mapping[Key, Held] = field(default_factory=dict)
    unread: tuple[str, ...] = ()

    @property
    def step(self) -> int:
        """The step in its name."""
        return self.checkpoint.step or 0


def part_of(part: str) -> str:
    """Return the part without what differs from one sharding or format to another.

    >>> part_of("model-00001-of-00002.safetensors"), part_of("pytorch_model.bin")
    ('weights', 'weights')
    """
    above, slash, name = part.rpartition("/")
    if name.endswith(".distcp"):
        return above + slash + DISTCP
    plain = without_shard(name)
    return above + slash + (WEIGHTS if plain in _WEIGHTS else plain)


def holds_data(name: str) -> bool:
    """Return whether a file's name is one of those that hold tensors or training state."""
    short = name.rpartition("/")[2]
    return short.lower().endswith(_SUFFIXES) and short not in _NOT_TENSORS


def take_snapshot(shelf: Shelf, checkpoint: Checkpoint, damaged: set[str]) -> Snapshot:
    """Read a checkpoint's files, each once.

    Args:
        shelf: The target's files.
        checkpoint: Which.
        damaged: Files with findings of their own; what they hold is not compared.
    """
    files: dict[str, Contents] = {}
    unread: list[str] = []
    for part, name in checkpoint.files.items():
        if not holds_data(name) or is_unfinished(name.rpartition("/")[2]):
            continue
        found = shelf.whole(name) if name not in damaged else None
        if found is None:
            unread.append(part)
        else:
            files[part] = found
    try:
        state = training_state(files)
    except PathError as error:
        state = TrainingState()
        unread.append(error.where)
    roles: dict[tuple[str, str], Role] = {}
    for model in state.models:
        roles |= {(model.file, t.name): Role.MODEL for t in model.tensors.values()}
    for average in state.averages:
        roles |= {(average.file, t.name): Role.AVERAGE for t in average.tensors.values()}
    for optimizer in state.optimizers:
        for entry in optimizer.entries:
            roles |= {(optimizer.file, m.tensor): Role.OPTIMIZER for m in entry.moments}
    tensors: dict[Key, Held] = {}
    for part, contents in files.items():
        # Chunks of one tensor have one name in several files.
        own = part if part_of(part).endswith(DISTCP) else part_of(part)
        for tensor in contents.tensors:
            role = roles.get((contents.name, tensor.name))
            if role is not None and is_learned(tensor) and not tensor.unreadable:
                key = Key(own, tensor.name)
                tensors.setdefault(key, Held(contents=contents, tensor=tensor, role=role))
    return Snapshot(
        checkpoint=checkpoint, state=state, files=files, tensors=tensors, unread=tuple(unread)
    )


def digest_all(shelf: Shelf, snapshot: Snapshot) -> dict[Key, str]:
    """Return the digests of a snapshot's tensors; files that cannot be read are left out."""
    by_file: dict[str, list[Key]] = {}
    for key, held in snapshot.tensors.items():
        by_file.setdefault(held.contents.name, []).append(key)
    found: dict[Key, str] = {}
    for keys in by_file.values():
        contents = snapshot.tensors[keys[0]].contents
        try:
            digests = shelf.digests.of(contents, [snapshot.tensors[key].tensor for key in keys])
        except PathError:
            continue
        found |= {key: digests[key.name] for key in keys if key.name in digests}
    return found
