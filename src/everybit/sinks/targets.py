"""The setting `track`: which trackers, and where to."""

from __future__ import annotations

import difflib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from everybit.core.errors import ConfigError, UsageError

#: `{tracker: (module it needs, distribution that brings it)}`
TRACKERS: Final[dict[str, tuple[str, str]]] = {
    "tensorboard": ("tensorboard", "tensorboard"),
    "mlflow": ("mlflow", "mlflow-skinny"),
    "wandb": ("wandb", "wandb"),
    "prometheus": ("", ""),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One tracker.

    Attributes:
        tracker: Its name.
        place: Folder, address, project or file; "" for its default.
    """

    tracker: str
    place: str = ""

    @property
    def is_installed(self) -> bool:
        """Whether the package it needs can be imported."""
        module = TRACKERS[self.tracker][0]
        if not module:
            return True
        try:
            spec = importlib.util.find_spec(module)
        except (ImportError, ValueError):
            return False
        # A folder of that name in the working directory (`wandb/`) is no package.
        return spec is not None and spec.origin is not None


def parse_track(text: str | None, *, where: str = "track") -> tuple[Target, ...]:
    """Read the setting.

    Raises:
        ConfigError: A tracker that is none, or is named twice.

    >>> [(t.tracker, t.place) for t in parse_track("wandb:mine, prometheus:/var/x.prom")]
    [('wandb', 'mine'), ('prometheus', '/var/x.prom')]
    """
    targets: list[Target] = []
    for part in (text or "").split(","):
        name, _, place = part.strip().partition(":")
        name = name.strip().lower()
        if not name:
            continue
        if name not in TRACKERS:
            near = difflib.get_close_matches(name, TRACKERS, n=1, cutoff=0.5)
            known = ", ".join(TRACKERS)
            todo = f"did you mean {near[0]!r}?" if near else f"known trackers: {known}"
            raise ConfigError(f"no tracker {name[:40]!r}", where=where, todo=todo)
        if name in {target.tracker for target in targets}:
            raise ConfigError(f"{name} is named twice", where=where, todo="name it once")
        targets.append(Target(tracker=name, place=place.strip()))
    return tuple(targets)


def check_installed(targets: tuple[Target, ...], *, where: str = "track") -> None:
    """Raise `UsageError` where a tracker's package is not installed."""
    for target in targets:
        if not target.is_installed:
            package = TRACKERS[target.tracker][1]
            raise UsageError(
                f"{target.tracker} is not installed",
                where=where,
                todo=f"`pip install {package}` adds it, or leave it out",
            )


def place_of(target: Target, folder: Path, rank: int) -> str:
    """Return where a tracker writes; ranks beyond the first have places of their own."""
    mark = f"-r{rank}" if rank else ""
    if target.tracker == "tensorboard":
        return str(_absolute(target.place, folder / "tensorboard")) + mark
    if target.tracker == "prometheus":
        path = _absolute(target.place, folder / "everybit.prom")
        return str(path.with_name(f"{path.stem}{mark}{path.suffix}"))
    return target.place


def _absolute(place: str, default: Path) -> Path:
    # The job may change its folder; the places stay.
    return (Path(place).expanduser() if place else default).absolute()
