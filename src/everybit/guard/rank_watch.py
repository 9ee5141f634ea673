"""A child process of a watched script becomes a rank of the job, and is watched from then on."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from everybit.core.errors import EverybitError
from everybit.guard.guard import Guard
from everybit.guard.meeting import job_ranks
from everybit.guard.patches import Patches
from everybit.guard.policy import LOGGER
from everybit.ledger import open_run
from everybit.ledger.folder import log_name

if TYPE_CHECKING:
    from everybit.core.config import Config


class RankWatch:
    """Begins a Guard when the first optimizer is built, if the process is a rank by then.

    Data loading workers and other children never are.

    Args:
        config: Settings; `run` is the folder of the script's run.
        parent: Process number of the script, whose own record gives way to that of rank 0.

    Attributes:
        guard: The Guard, once there is one.
    """

    def __init__(self, config: Config, parent: int) -> None:
        self.guard: Guard | None = None
        self._config = config
        self._parent = parent
        self._patches = Patches()
        self._tried = False

    def install(self) -> None:
        """Wait for the first optimizer."""
        self._patches.wrap(torch.optim.Optimizer, "__init__", self._init)

    def remove(self) -> None:
        """Wait no longer."""
        self._patches.undo()

    def _init(self, original: Any, optimizer: Any, *args: Any, **kwargs: Any) -> None:
        if self._tried or job_ranks()[1] == 1:
            original(optimizer, *args, **kwargs)
            return
        self._tried = True
        self._begin()
        # By now the Guard is around it, and hears of this optimizer.
        torch.optim.Optimizer.__init__(optimizer, *args, **kwargs)

    def _begin(self) -> None:
        try:
            if job_ranks()[0] == 0:
                _remove_launcher(Path(self._config.run or ""), self._parent)
            guard = Guard(config=self._config)
            guard.__enter__()
            self.guard = guard
        except Exception as error:
            LOGGER.warning("everybit: this rank is not watched, the job goes on; %s", error)


def _remove_launcher(folder: Path, pid: int) -> None:
    """Remove the log of the process that started the ranks, where no step is on record in it.

    It took the place of rank 0, and had nothing to tell.
    """
    with contextlib.suppress(EverybitError, OSError, KeyError, IndexError):
        run = open_run(folder)
        log = run.log(0)
        if log.header.get("pid") == pid and not log.num_steps and log.end is None:
            (folder / log_name(0, log.attempt)).unlink()
