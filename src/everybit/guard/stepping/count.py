"""The number of a step that is a step's way in too: `guard.step` and `guard.step(fn)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class StepCount(int):
    """Updates finished or skipped so far; called, it computes the next step."""

    _run: Callable[..., Any]

    def __new__(cls, number: int, run: Callable[..., Any]) -> StepCount:  # noqa: D102
        count = super().__new__(cls, number)
        count._run = run
        return count

    def __call__(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Compute one whole step, and test it.

        Args:
            fn: The step: zero_grad, forward, loss, backward, update, scheduler. It is computed
                again where the step is tested, or has gone wrong, with everything as it was; what
                else it does (prints, counts in Python) happens again too. The batch must be an
                argument: a batch that it draws itself would be another one each time.
            *args: For `fn`. Tensors in them are put back too, where `fn` changes them.
            **kwargs: For `fn`.

        Returns:
            What `fn` returned, the time that counts.

        Raises:
            StoppedError: The policy ends the loop.
        """
        result: T = self._run(fn, args, kwargs)
        return result

    def __reduce__(self) -> Any:
        return int, (int(self),)
