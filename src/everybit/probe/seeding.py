"""Every random stream of a training from one seed, and the flags that make operations repeat."""

from __future__ import annotations

import hashlib
import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import torch

from everybit.core.errors import UsageError
from everybit.core.ranks import rank_and_world
from everybit.probe.determinism import make_deterministic
from everybit.probe.seeded import NotSet, Seeded, Setting

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

_MODES: Final = ("strict", "warn", "off")
_MAX_SEED: Final = 2**63 - 1
_HASH_SEED: Final = "PYTHONHASHSEED"


def seed_everything(
    seed: int,
    *,
    workers: bool = True,
    deterministic: Literal["strict", "warn", "off"] = "warn",
    by_rank: bool = False,
) -> Seeded:
    """Seed every random stream of this process, and choose algorithms that repeat.

    Seeded are Python's `random`, NumPy's global stream, torch on the CPU and on every GPU. NumPy
    generators that a program makes itself are not: make them with `generator_for`. The hash seed
    of Python is fixed when the interpreter starts; here it can be set for child processes only,
    and the answer says so. Call it before the first use of a GPU: cuBLAS reads its setting then.

    Args:
        seed: From 0 to 2^63 - 1. NumPy's global stream and Python's hash take 32 bits of it.
        workers: Also hand out `generator` and `worker_init_fn` for a `DataLoader`, with which
            each worker has its own streams: `DataLoader(dataset, **seeded.loader)`.
        deterministic: `strict`: an operation that does not repeat raises. `warn`: it warns.
            `off`: flags are left as they are. The first two also switch TF32 off, and the search
            for the fastest convolution.
        by_rank: Give the workers of each rank streams of their own: replicas should not all
            augment alike. The order of samples and the streams of the process itself are the same
            on every rank either way, so that models begin equal; see `seed_this_rank` for what
            follows the construction of the model.

    Returns:
        What was set and what could not be.

    Raises:
        UsageError: `seed` or `deterministic` is no such value, or `RANK` and `WORLD_SIZE`
            contradict each other.
    """
    seed = _check(seed, deterministic)
    rank, num_ranks = rank_and_world(os.environ)
    done: list[Setting] = []
    left: list[NotSet] = []
    _seed_process(seed, done)
    _seed_hash(seed, done, left)
    if deterministic != "off":
        flags, refused = make_deterministic(deterministic)
        done += flags
        left += refused
    generator, worker_init_fn = None, None
    if workers:
        of_workers = mixed_seed(seed, rank) if by_rank else seed
        generator = torch.Generator().manual_seed(seed)
        worker_init_fn = WorkerSeed(seed=of_workers)
        done.append(Setting(name="workers", value=of_workers))
    return Seeded(
        seed=seed,
        rank=rank,
        num_ranks=num_ranks,
        deterministic=deterministic,
        set=tuple(done),
        not_set=tuple(left),
        generator=generator,
        worker_init_fn=worker_init_fn,
    )


def seed_this_rank(seed: int) -> int:
    """Give this rank streams of its own, once the model is built; return the seed they have.

    For augmentation in the process itself and for dropout, which should differ between replicas.
    Seed with `seed_everything` first, build the model, then call this.

    Args:
        seed: The seed that all ranks share.

    Raises:
        UsageError: `seed` is no such value.
    """
    seed = _check(seed, "off")
    own = mixed_seed(seed, rank_and_world(os.environ)[0])
    _seed_process(own, [])
    return own


def generator_for(seed: int, *keys: int) -> np.random.Generator:
    """Return a NumPy generator for a seed and any whole numbers beside it.

    A dataset that draws from `generator_for(seed, epoch, index)` augments a sample the same way
    whatever the number of workers, and differently in each epoch. One made in `__init__` would be
    the same in every worker.

    Args:
        seed: The seed of the run.
        keys: Index, epoch, worker, rank: whatever the numbers should depend on.

    Raises:
        UsageError: A key is no whole number, or below zero.

    >>> generator_for(42, 0).random() == generator_for(42, 0).random()
    True
    """
    import numpy as np

    for key in (seed, *keys):
        if isinstance(key, bool) or not hasattr(key, "__index__") or key < 0:
            raise UsageError(f"{key!r} is no whole number of 0 or more", where="generator_for")
    # The number of keys belongs to it: SeedSequence takes (1,) and (1, 0) for the same.
    entropy = [len(keys), *(int(key) for key in (seed, *keys))]
    return np.random.default_rng(np.random.SeedSequence(entropy))


def mixed_seed(seed: int, *keys: int) -> int:
    """Return a seed of 62 bits for a seed and whole numbers beside it.

    >>> mixed_seed(42, 0) != mixed_seed(42, 1)
    True
    """
    text = ",".join(str(int(key)) for key in (seed, *keys)).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> 2


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSeed:
    """A `worker_init_fn`: seeds Python, NumPy and torch in a worker, by the loader's epoch too.

    Attributes:
        seed: The seed of the run, mixed with the rank where ranks should differ.
    """

    seed: int

    def __call__(self, worker: int) -> None:
        """Seed worker number `worker`."""
        info = torch.utils.data.get_worker_info()
        # Drawn anew by the loader for each epoch: without it all epochs would augment alike.
        epoch = 0 if info is None else int(info.seed) - worker
        _seed_process(mixed_seed(self.seed, epoch, worker), [])


def _seed_process(seed: int, done: list[Setting]) -> None:
    random.seed(seed)
    done.append(Setting(name="python", value=seed))
    try:
        import numpy as np
    except ImportError:
        pass  # Nothing there to seed.
    else:
        np.random.seed(seed % 2**32)
        done.append(Setting(name="numpy", value=seed % 2**32))
    torch.manual_seed(seed)  # Every device of every kind; where CUDA has not started, when it does.
    done.append(Setting(name="torch", value=seed))
    if torch.version.cuda is not None or torch.version.hip is not None:
        cuda: Any = torch.cuda
        devices = f"{cuda.device_count()} devices" if cuda.is_initialized() else "all devices"
        done.append(Setting(name="cuda", value=f"{seed}, {devices}"))


def _seed_hash(seed: int, done: list[Setting], left: list[NotSet]) -> None:
    began_with = _first_environment().get(_HASH_SEED, "").strip()
    if began_with and began_with != "random":
        done.append(Setting(name=_HASH_SEED, value=f"{began_with}, since the start"))
        return
    value = str(seed % 2**32)
    os.environ[_HASH_SEED] = value
    done.append(Setting(name=f"{_HASH_SEED} of children", value=value))
    left.append(
        NotSet(
            name=f"{_HASH_SEED} of this process",
            why="Python chose it when it started, so sets of strings have another order in every "
            f"run; start with {_HASH_SEED}={value}",
        )
    )


def _first_environment() -> Mapping[str, str]:
    """Return the environment that this process was started with, where the system tells it."""
    try:
        data = Path("/proc/self/environ").read_bytes()
    except OSError:
        return os.environ
    pairs = (os.fsdecode(item).partition("=") for item in data.split(b"\0") if item)
    return {name: value for name, _, value in pairs}


def _check(seed: int, deterministic: str) -> int:
    """Return the seed as Python's own integer: NumPy's is one, too."""
    import numpy as np

    whole = isinstance(seed, (int, np.integer)) and not isinstance(seed, bool)
    if not whole or not 0 <= seed <= _MAX_SEED:
        raise UsageError(
            f"seed {seed!r} is no whole number from 0 to 2^63 - 1", where="seed_everything"
        )
    if deterministic not in _MODES:
        raise UsageError(
            f"deterministic={deterministic!r}",
            where="seed_everything",
            todo=f"choose one of {', '.join(_MODES)}",
        )
    return int(seed)
