"""A load that runs what its file says, as the checks of loads pass it on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from everybit.source.hit import Fix, Hit

if TYPE_CHECKING:
    import ast
    from collections.abc import Mapping

    from everybit.core.finding import Certainty, Severity
    from everybit.source.module import Module


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Load:
    """One unsafe load.

    Attributes:
        rule: The rule it falls under where it stands by itself.
        node: The place.
        loader: Its dotted name.
        message: One sentence.
        evidence: JSON-ready facts.
        remedy: Advice for this case; None for the rule's own.
        severity: Only where the case departs from the rule's default.
        certainty: Only where the case departs from the rule's default.
        fix: A certain fix.
        falls_through: Whether the argument is true in one turn and false in another.
        inner: Of a call through a wrapper: the call inside of it, and its file.
        by_default: Whether it is unsafe because an argument is left out.
    """

    rule: str
    node: ast.AST
    loader: str
    message: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    remedy: str | None = None
    severity: Severity | None = None
    certainty: Certainty | None = None
    fix: Fix | None = None
    falls_through: bool = False
    inner: tuple[Module, ast.Call] | None = None
    by_default: bool = False

    def hit(self) -> Hit:
        """Return the finding of its own rule."""
        return Hit(
            rule=self.rule,
            node=self.node,
            message=self.message,
            evidence={"loader": self.loader, **self.evidence},
            remedy=self.remedy,
            severity=self.severity,
            certainty=self.certainty,
            fix=self.fix,
        )
