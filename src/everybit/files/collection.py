"""A pause of the garbage collector while many small objects are built that all stay."""

from __future__ import annotations

import gc


class PausedCollection:
    """Keeps the collector from walking a growing heap over and over, then leaves it as it was."""

    __slots__ = ("_was_on",)

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_on:
            gc.enable()


def paused_collection() -> PausedCollection:
    """Return a context in which no garbage is collected."""
    return PausedCollection()
