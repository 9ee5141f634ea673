"""DAT409: a worker ended, and the order after it is not proven."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from everybit.core.finding import Location
from everybit.core.link import Link
from everybit.core.rule import rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everybit.core.finding import Finding


def judge_workers(
    exits: Mapping[int, int],
    *,
    loader: str,
    epoch: int,
    delivered: int,
    waiting: Mapping[int, int],
    step: int,
    rank: int,
    error: str,
) -> Finding | None:
    """Say which worker processes ended while batches were still to come.

    Args:
        exits: Exit code of each worker that has ended otherwise than well, negative for a signal.
        loader: Name of the loader.
        epoch: Number of the pass.
        delivered: Batches delivered in it.
        waiting: Batches that each worker was asked for and has not delivered.
        step: Updates finished.
        rank: Rank of this process.
        error: What torch said.

    Returns:
        A finding; None where no worker ended so.
    """
    if not exits:
        return None
    worker, code = next(iter(exits.items()))
    more = f", and {len(exits) - 1} more" if len(exits) > 1 else ""
    lost = sum(waiting.get(each, 0) for each in exits)
    return rule("DAT409").finding(
        f"worker {worker}{more} of {loader} {_how(code)} after {delivered} batches of epoch "
        f"{epoch}; {lost} batches it was asked for are lost with it",
        where=Location(link=Link.BATCH, step=step, rank=rank, worker=worker),
        evidence={
            "loader": loader,
            "epoch": epoch,
            "delivered": delivered,
            "exit_codes": {str(each): code for each, code in exits.items()},
            "lost_batches": lost,
            "error": error,
        },
    )


def _how(code: int) -> str:
    if code >= 0:
        return f"ended itself with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
