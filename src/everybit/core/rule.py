"""The rule registry: every rule is one file in `core/rules`, its docstring is its docs page."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from everybit.core.errors import UsageError
from everybit.core.finding import Certainty, Finding, Location, Severity
from everybit.core.making import made

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The headings of every rule's docstring, in order.
HEADINGS: Final = (
    "What",
    "Why it matters",
    "Evidence",
    "What to do",
    "Known false alarms",
)

_FILE_NAME: Final = r"^[a-z]{3}\d{3}_[a-z0-9_]+$"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a finding can be: an id that is never reused, a slug, severity and certainty.

    Attributes:
        id: Three letters for the surface and three digits.
        slug: Lower-case words joined by hyphens.
        severity: Default severity.
        certainty: Default certainty.
        remedy: Default advice, one sentence.
        doc: The docstring of the rule's file, with the five `HEADINGS`.
    """

    id: str
    slug: str
    severity: Severity
    certainty: Certainty
    remedy: str
    doc: str

    @property
    def title(self) -> str:
        """The first line of the docs page."""
        return self.doc.strip().splitlines()[0]

    @property
    def page(self) -> str:
        """The docs page in Markdown: title, facts, and the docstring's sections."""
        facts = f"Severity: {self.severity}. Certainty: {self.certainty}."
        sections = "\n".join(f"## {name}\n\n{text}\n" for name, text in self.sections.items())
        return f"# {self.id} `{self.slug}`\n\n{self.title}\n\n{facts}\n\n{sections}"

    @property
    def sections(self) -> dict[str, str]:
        """The docstring's sections: `{heading: text}`, in order."""
        import inspect

        found: dict[str, list[str]] = {}
        lines: list[str] = []
        for line in inspect.cleandoc(self.doc).splitlines()[1:]:
            if line.endswith(":") and line[:-1] in HEADINGS:
                lines = found.setdefault(line[:-1], [])
            else:
                lines.append(line)
        return {name: inspect.cleandoc("\n".join(text)) for name, text in found.items()}

    def finding(
        self,
        message: str,
        *,
        where: Location,
        evidence: Mapping[str, Any] | None = None,
        remedy: str = "",
        severity: Severity | None = None,
        certainty: Certainty | None = None,
    ) -> Finding:
        """Build a finding of this rule.

        Args:
            message: One sentence for people: what is wrong, with the names that matter.
            where: The place, with at least one key set.
            evidence: JSON-ready facts.
            remedy: Advice for this case; the rule's own where empty.
            severity: Only where the case departs from the rule's default.
            certainty: Only where the case departs from the rule's default.
        """
        told = made(
            Finding,
            rule=self.id,
            slug=self.slug,
            severity=severity or self.severity,
            certainty=certainty or self.certainty,
            message=message,
            where=where,
            evidence=evidence or {},
            remedy=remedy or self.remedy,
        )
        told.__post_init__()
        return told


@cache
def _files() -> dict[str, str]:
    folder = Path(__file__).parent / "rules"
    stems = sorted(path.stem for path in folder.glob("*.py") if re.match(_FILE_NAME, path.stem))
    return {stem[:6].upper(): stem for stem in stems}


def rule_ids() -> list[str]:
    """Return the ids of all rules, sorted."""
    return sorted(_files())


@cache
def rule(key: str) -> Rule:
    """Return the rule with this id or slug.

    Raises:
        UsageError: There is none; names the nearest ones.

    >>> rule("MEM601").slug
    'weights-changed-at-rest'
    """
    stem = _files().get(key.upper())
    if stem is None:
        wanted = key.lower().replace("-", "_")
        stem = next((name for name in _files().values() if name[7:] == wanted), None)
    if stem is None:
        import difflib

        names = [*_files(), *(stem[7:].replace("_", "-") for stem in _files().values())]
        near = difflib.get_close_matches(key.upper(), names, n=1, cutoff=0.6)
        near = near or difflib.get_close_matches(key.lower(), names, n=1, cutoff=0.6)
        advice = f"did you mean {near[0]!r}? " if near else ""
        raise UsageError(f"no rule {key!r}", todo=f"{advice}`everybit rule --all` lists them")
    module = importlib.import_module(f"everybit.core.rules.{stem}")
    found: Rule = module.RULE
    return found


def all_rules() -> list[Rule]:
    """Return every rule, by id."""
    return [rule(key) for key in rule_ids()]
