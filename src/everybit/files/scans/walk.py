"""One walk through a file and all that lies in it: what was found, and how far it may go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import rule
from everybit.core.verdict import Skipped
from everybit.files.outcome import Outcome
from everybit.files.weights_only.seen import Seen

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.core.finding import Location
    from everybit.files.damage import Damage
    from everybit.files.scans.content import Content

#: Containers in containers.
MAX_DEPTH: Final = 8
#: Members of all archives in one file.
MAX_MEMBERS: Final = 200_000
#: Bytes that may come out of compressed streams, for one file.
MAX_EXPANDED_BYTES: Final = 4 * 1024 * 1024 * 1024
#: A stream that grows more often than this is not followed to its end.
MAX_RATIO: Final = 200
#: What every stream may grow to, whatever its ratio.
FREE_BYTES: Final = 16 * 1024 * 1024
_MAX_FINDINGS: Final = 1000
#: Findings of one file, all rules together; what is beyond is said to be skipped.
MAX_TOLD: Final = 2000
_MAX_TEXT: Final = 600
_MAX_ITEMS: Final = 64


def _shortened(value: Any) -> Any:
    """Return a message or evidence with the texts of hostile files cut to what people read."""
    if isinstance(value, str):
        return value if len(value) <= _MAX_TEXT else value[: _MAX_TEXT - 3] + "..."
    if isinstance(value, dict):
        return {_shortened(k): _shortened(v) for k, v in list(value.items())[:_MAX_ITEMS]}
    if isinstance(value, (list, tuple)):
        return [_shortened(item) for item in value[:_MAX_ITEMS]]
    return value


class Walk:
    """The state of one file's scan.

    Attributes:
        look: Looks into a content: the scan itself, for what lies in containers.
        outcome: What was found and looked into.
        members_left: Members that may still be looked into.
        bytes_left: Bytes that may still be expanded.
        seen: What was read of the file itself.
    """

    __slots__ = ("_is_full", "_told", "bytes_left", "look", "members_left", "outcome", "seen")

    def __init__(self, look: Callable[[Content, Walk], None]) -> None:
        self.look = look
        self.outcome = Outcome()
        self.seen = Seen()
        self.members_left = MAX_MEMBERS
        self.bytes_left = MAX_EXPANDED_BYTES
        self._is_full = False
        self._told: set[tuple[str, str, str]] = set()

    def tell(
        self,
        content: Content,
        message: str,
        *,
        rule_id: str = "PKL203",
        where: Location | None = None,
        severity: Severity | None = None,
        certainty: Certainty | None = None,
        remedy: str = "",
        **evidence: Any,
    ) -> None:
        """Note a finding about a content; one message about one place is told once."""
        key = (rule_id, content.label, message)
        if key in self._told or len(self._told) >= _MAX_FINDINGS:
            return
        self._told.add(key)
        joint = " " if message.split(" ", 1)[0] in ("has", "is", "asks", "holds", "was") else ": "
        self.outcome.findings.append(
            rule(rule_id).finding(
                _shortened(f"{content.label}{joint}{message}"),
                where=where or content.place(),
                evidence=_shortened(evidence),
                remedy=remedy,
                severity=severity,
                certainty=certainty,
            )
        )

    def full(self, content: Content) -> bool:
        """Return whether so much is told of the file that no more names are; said once."""
        if len(self.outcome.findings) < MAX_TOLD:
            return False
        if not self._is_full:
            self._is_full = True
            why = f"more than {MAX_TOLD:,} things are told of it already"
            self.outcome.skipped.append(Skipped(what=f"the rest of {content.path}", why=why))
        return True

    def warn(self, content: Content, message: str, **more: Any) -> None:
        """Note what a sloppy tool may do as well: a finding of PKL203 as a warning."""
        self.tell(content, message, severity=Severity.WARNING, **more)

    def closed(self, content: Content, what: str, **more: Any) -> None:
        """Note something that cannot be looked into: it is never clean, and said to be skipped."""
        self.warn(content, f"cannot be looked into: {what}", **more)
        self.outcome.skipped.append(Skipped(what=content.label, why=what))

    def damaged(self, content: Content, damage: Damage) -> None:
        """Note damage as `verify` tells it; not of what was expanded in part only."""
        if content.partial:
            return
        self.tell(
            content,
            damage.message,
            rule_id=damage.rule,
            where=self._placed(content, damage),
            **dict(damage.evidence),
        )

    def _placed(self, content: Content, damage: Damage) -> Location:
        place = damage.where.byte_range
        if place is None:
            return content.place()
        return content.place(*place)

    def enter(self, content: Content) -> bool:
        """Return whether a content may be looked into; the bound that says no is a finding."""
        if content.depth > MAX_DEPTH:
            self.closed(content, f"it lies in more than {MAX_DEPTH} containers")
            return False
        if content.depth and self.members_left <= 0:
            self.closed(content, f"the file holds more than {MAX_MEMBERS:,} members")
            return False
        if content.depth:
            self.members_left -= 1
        return True
