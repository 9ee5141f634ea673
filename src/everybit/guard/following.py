"""What a Guard offers a program about its data: loaders by name, and positions to go on from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from everybit.guard.samples import Data

T = TypeVar("T")


class Following:
    """The part of a Guard that follows loaders. See docs/data.md and docs/resume.md."""

    _data: Data

    def track(self, loader: T, name: str = "") -> T:
        """Follow a loader under a name of the program's own; returns what to iterate.

        A DataLoader is followed by itself as soon as it is iterated, and is returned as it is; of
        anything else that can be iterated each item counts as a batch.

        Args:
            loader: A DataLoader, or anything that a for loop takes.
            name: For records and findings; the class of the data set where it is empty.

        Raises:
            UsageError: It cannot be iterated.
        """
        followed: T = self._data.track(loader, name)
        return followed

    def state_dict(self) -> dict[str, Any]:
        """Return where the loop is: each loader's position, and all random streams.

        Numbers, text, lists, dictionaries and tensors only, so that `torch.load` reads it with
        `weights_only=True`. Each rank has its own.
        """
        return self._data.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there: to be called before the loop, once models and optimizers are loaded.

        The random streams are put back at once. A loader goes on behind the last batch that was
        delivered when it is iterated next, and the streams are put back once more then.

        Raises:
            UsageError: It is no such state.
        """
        self._data.load_state_dict(state)
