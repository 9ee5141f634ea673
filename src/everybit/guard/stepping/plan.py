"""One step that may be computed several times: what it begins with, and the way back there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.core.errors import DamagedError

if TYPE_CHECKING:
    from collections.abc import Collection

    from everybit.guard.boundaries import Position
    from everybit.guard.checks import Checks
    from everybit.guard.stepping.attempt import Attempt
    from everybit.guard.stepping.carried import Arguments
    from everybit.guard.stepping.trace import Key
    from everybit.guard.watch import Watch
    from everybit.probe.state import State


class Plan:
    """A step that begins.

    Args:
        step: Updates finished or skipped before it.
        replayed: It is computed twice in any case.
        start: The carried state.
        arguments: The tensors among the step's arguments.
        watch: What is watched.
        checks: The checks.

    Attributes:
        attempts: Its computations so far.
        hold: Values of which the next computation keeps a copy.
        position_after_first: How far the loop had come when the first computation was done.
    """

    def __init__(
        self,
        *,
        step: int,
        replayed: bool,
        start: State,
        arguments: Arguments,
        watch: Watch,
        checks: Checks,
    ) -> None:
        self.step = step
        self.replayed = replayed
        self.attempts: list[Attempt] = []
        self.hold: Collection[Key] = ()
        self._start = start
        self._arguments = arguments
        self._watch = watch
        self._checks = checks
        self._position: Position = watch.boundaries.position()
        self.position_after_first = self._position
        checks.hold()

    @property
    def last(self) -> Attempt:
        """The last computation."""
        return self.attempts[-1]

    @property
    def base(self) -> State:
        """The state that the next one is most like."""
        ends = [each.end for each in self.attempts if each.end is not None]
        return ends[-1] if ends else self._start

    @property
    def num_like_last(self) -> int:
        """How many computations came to what the last one came to, itself included."""
        return 1 + sum(each.equals(self.last) for each in self.attempts[:-1])

    def note_position(self) -> None:
        """Take note of how far the loop has come."""
        if len(self.attempts) == 1:
            self.position_after_first = self._watch.boundaries.position()

    def go_back(self) -> str:
        """Put everything back to what the step begins with.

        Returns:
            Why that cannot be, with nothing written; "" where it is done.
        """
        try:
            self._start.restore()
        except DamagedError as error:
            return error.what
        self._arguments.put_back()
        self._resume(self._position)
        self._checks.put_back()
        return ""

    def stay_with_first(self) -> None:
        """Put everything to where the first computation left it."""
        first = self.attempts[0]
        if first.end is not None:
            first.end.restore()
        self._resume(self.position_after_first)
        del self.attempts[1:]

    def _resume(self, position: Position) -> None:
        self._watch.boundaries.go_back(position)
        self._watch.state.mark_all()
