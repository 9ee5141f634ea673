"""What a check answers: a place in the code, what is wrong there, and perhaps a certain fix."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ast
    from collections.abc import Mapping

    from everybit.core.finding import Certainty, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class SetArgument:
    """Give a call a keyword argument, in place of the one it has or as its last one.

    Attributes:
        call: The call.
        name: The keyword.
        value: The expression to give, as source text.
    """

    call: ast.Call
    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceExpression:
    """Put another expression in place of one.

    Attributes:
        node: The expression that goes.
        text: The one that comes, as source text.
    """

    node: ast.expr
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertBefore:
    """Put a statement before one, at its indentation.

    Attributes:
        statement: The one that follows.
        text: The new statement, as source text without indentation.
    """

    statement: ast.stmt
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertFirst:
    """Put a statement first into the body of a loop.

    Attributes:
        block: The loop.
        text: The new statement, as source text without indentation.
    """

    block: ast.For | ast.AsyncFor | ast.While
    text: str


Edit = SetArgument | ReplaceExpression | InsertBefore | InsertFirst


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """A change of the source that is certain to be right.

    Attributes:
        what: What it does, as one clause in the imperative ("set weights_only=True").
        edits: Replacements of exact places in the file of the hit.
        imports: Modules that the new text needs (`os`), each imported where it is not yet.
    """

    what: str
    edits: tuple[Edit, ...]
    imports: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One thing that is wrong in a file.

    Attributes:
        rule: The id of the rule.
        message: One sentence for people, with the names that matter.
        node: The place in Python code.
        line: The place in other text, from 1.
        column: With `line`, from 1.
        evidence: JSON-ready facts.
        remedy: Advice for this case; None for the rule's own.
        severity: Only where the case departs from the rule's default.
        certainty: Only where the case departs from the rule's default.
        fix: A certain fix.
    """

    rule: str
    message: str
    node: ast.AST | None = None
    line: int | None = None
    column: int | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    remedy: str | None = None
    severity: Severity | None = None
    certainty: Certainty | None = None
    fix: Fix | None = None
