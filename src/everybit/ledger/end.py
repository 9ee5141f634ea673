"""How a log ended, in its own words."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

from everybit.core.errors import StoppedError
from everybit.core.explain import explain_error
from everybit.ledger.payload import PayloadError

if TYPE_CHECKING:
    from collections.abc import Mapping


#: Between an error's own text and what it really means, where both travel as one text.
_EXPLAINED = "\n\n[everybit] "


class EndReason(StrEnum):
    """Why a log ends; `stopped` is the policy's own doing."""

    CLEAN = "clean"
    EXCEPTION = "exception"
    SIGNAL = "signal"
    EXIT = "exit"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The end record of a log.

    Attributes:
        reason: Why it ended.
        code: Exit code, or the number of the signal.
        detail: Type and message of the exception, or the name of the signal.
        explained: What the exception really means, where it is one that a damaged file draws.
    """

    reason: EndReason
    code: int = 0
    detail: str = ""
    explained: str = ""

    def __post_init__(self) -> None:
        detail, mark, explained = self.detail.partition(_EXPLAINED)
        if mark:
            object.__setattr__(self, "detail", detail)
            object.__setattr__(self, "explained", explained)

    @property
    def told(self) -> str:
        """Detail and explanation as one text, which `detail=` takes apart again."""
        return f"{self.detail}{_EXPLAINED}{self.explained}" if self.explained else self.detail

    def to_json(self) -> dict[str, Any]:
        """Return the payload of an end frame."""
        told = {"explained": self.explained} if self.explained else {}
        return {"reason": str(self.reason), "code": self.code, "detail": self.detail, **told}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read it back; raises `PayloadError` where it is none."""
        try:
            reason = EndReason(data["reason"])
            return cls(
                reason=reason,
                code=int(data["code"]),
                detail=str(data["detail"]),
                explained=str(data.get("explained", "")),
            )
        except (KeyError, ValueError, TypeError) as error:
            raise PayloadError(f"no end record ({error})") from error


def exit_code(end: SystemExit) -> int:
    """Return the exit code that a process ends with by this error, 0 to 255.

    >>> exit_code(SystemExit(3)), exit_code(SystemExit()), exit_code(SystemExit("why"))
    (3, 0, 1)
    """
    if end.code is None:
        return 0
    return end.code & 0xFF if isinstance(end.code, int) else 1


def end_after(error: BaseException | None) -> End:
    """Return the end record of a job that ended with `error`, None where it ended by itself."""
    if error is None:
        return End(reason=EndReason.CLEAN)
    if isinstance(error, StoppedError):
        return End(reason=EndReason.STOPPED, code=1, detail=error.what)
    if isinstance(error, SystemExit):
        code = exit_code(error)
        return End(reason=EndReason.EXIT if code else EndReason.CLEAN, code=code)
    explained = ""
    with contextlib.suppress(Exception):  # whatever is odd about the error, its end is recorded
        explained = str(explain_error(error) or "")
    detail = f"{type(error).__name__}: {error}"
    return End(reason=EndReason.EXCEPTION, code=1, detail=detail, explained=explained)
