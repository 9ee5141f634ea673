"""Open the sinks that a configuration asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.sinks.callback import Callback
from everybit.sinks.fenced import LOGGER, Fenced
from everybit.sinks.targets import check_installed, parse_track, place_of
from everybit.sinks.tracker import Tracker
from everybit.sinks.webhook import Webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from everybit.core.config import Config
    from everybit.core.finding import Finding
    from everybit.core.sink import Sink


def check_sinks(config: Config) -> None:
    """Raise `UsageError` where the sinks of a configuration can clearly not be opened.

    Opens nothing, and imports no tracker.
    """
    check_installed(parse_track(config.track))


def open_sinks(
    config: Config,
    folder: Path,
    rank: int,
    *,
    callbacks: Iterable[Callable[[Finding], object]] = (),
) -> list[Sink]:
    """Open the sinks of a run. None of them raises; one that fails says so once.

    Args:
        config: Its `webhook` and `track`.
        folder: The run folder; exists.
        rank: Rank of this process.
        callbacks: Functions that are called with each finding.

    Raises:
        UsageError: A tracker is none, or is not installed.
    """
    targets = parse_track(config.track)
    check_installed(targets)
    sinks: list[Sink] = []
    for call in callbacks:
        name = getattr(call, "__qualname__", type(call).__name__)
        sinks.append(Fenced(f"the callback {name}", Callback(call)))
    if config.webhook:
        sinks.append(Fenced("the webhook", Webhook(config.webhook, run=folder.name, rank=rank)))
    for target in targets:
        place = place_of(target, folder, rank)
        try:
            tracker = Tracker(target.tracker, place, folder=folder, rank=rank)
        except (OSError, ValueError) as error:
            LOGGER.warning("everybit: %s cannot begin; %s", target.tracker, error)
        else:
            sinks.append(Fenced(target.tracker, tracker))
    return sinks
