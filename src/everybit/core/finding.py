"""Findings: what is wrong, where, how sure, and what to do."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Self

from everybit.core.link import Link

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Severity(StrEnum):
    """How bad a finding is. The order of definition is the order of severity."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        """The place in the order, from 0 (note)."""
        return _RANKS[self]


_RANKS: Final = {severity: rank for rank, severity in enumerate(Severity)}


class Certainty(StrEnum):
    """What stands behind a finding: an exact test, strong evidence, or a threshold."""

    PROOF = "proof"
    STRONG = "strong"
    WEAK = "weak"


Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True)
class Location:
    """A place in a file, a run or a machine. Only the keys that apply are set; no synonyms.

    Attributes:
        path: Relative to the target of the verb.
        member: Archive member.
        tensor: Dotted key path in a file; in a run, the name of an optimizer state tensor
            (`exp_avg`).
        byte_range: `[start, end)` in the file.
        byte_ranges: Several of them.
        elements: Flat row-major indices.
        element_ranges: `[start, end)` ranges of them, for more than 16.
        line: Source line, from 1.
        column: Source column, from 1.
        run: Run folder.
        step: Finished or skipped updates before the damaged bits are next used, from 0.
        rank: Rank of the process.
        link: Link of the chain.
        module: Qualified module name.
        parameter: state_dict key of a parameter or buffer.
        optimizer: Name of the optimizer (`AdamW`, `AdamW#1` for a second one).
        worker: DataLoader worker.
        sample: Sample id.
        device: `cuda:0` or `cpu`.
        core: CPU core.
        entry: Dotted path in an environment record (`packages.numpy.version`).
    """

    path: str | None = None
    member: str | None = None
    tensor: str | None = None
    byte_range: tuple[int, int] | None = None
    byte_ranges: Ranges | None = None
    elements: tuple[int, ...] | None = None
    element_ranges: Ranges | None = None
    line: int | None = None
    column: int | None = None
    run: str | None = None
    step: int | None = None
    link: Link | None = None
    rank: int | None = None
    module: str | None = None
    parameter: str | None = None
    optimizer: str | None = None
    worker: int | None = None
    sample: str | int | None = None
    device: str | None = None
    core: int | None = None
    entry: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the keys that are set."""
        return {
            f.name: _plain(getattr(self, f.name))
            for f in fields(self)
            if getattr(self, f.name) is not None
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild a location from `to_json`'s form; raises `TypeError` for unknown keys."""
        values: dict[str, Any] = dict(data)
        if "link" in values:
            values["link"] = Link(values["link"])
        for key in ("byte_range", "elements"):
            if key in values:
                values[key] = tuple(values[key])
        for key in ("byte_ranges", "element_ranges"):
            if key in values:
                values[key] = tuple((start, end) for start, end in values[key])
        return cls(**values)


def place_elements(elements: Iterable[int]) -> dict[str, Any]:
    """Return the `Location` keyword for some elements: a list, or ranges for more than 16."""
    from everybit.core.change import MAX_LISTED, as_ranges

    listed = sorted(set(elements))
    if len(listed) <= MAX_LISTED:
        return {"elements": tuple(listed)}
    return {"element_ranges": tuple(as_ranges(listed))}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, StrEnum) else value


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One damage, told once: the most specific rule, the other evidence inside it.

    Build findings with `Rule.finding`, which fills in what the rule fixes. A finding without a
    place cannot be built.
    """

    rule: str
    slug: str
    severity: Severity
    certainty: Certainty
    message: str
    where: Location
    evidence: Mapping[str, Any] = field(default_factory=dict)
    remedy: str

    def __post_init__(self) -> None:
        if self.where.path is None and not self.where.to_json():
            raise ValueError(f"a finding needs a place ({self.rule})")

    @property
    def id(self) -> str:
        """Twelve hex digits, the same for the same rule at the same place."""
        import hashlib
        import json

        key = json.dumps([self.rule, self.where.to_json()], sort_keys=True)
        return hashlib.sha256(key.encode()).hexdigest()[:12]

    def to_json(self) -> dict[str, Any]:
        """Return the form of `everybit.verdict/1`."""
        return {
            "rule": self.rule,
            "slug": self.slug,
            "severity": str(self.severity),
            "certainty": str(self.certainty),
            "message": self.message,
            "where": self.where.to_json(),
            "evidence": dict(self.evidence),
            "remedy": self.remedy,
            "id": self.id,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild a finding from `to_json`'s form."""
        return cls(
            rule=data["rule"],
            slug=data["slug"],
            severity=Severity(data["severity"]),
            certainty=Certainty(data["certainty"]),
            message=data["message"],
            where=Location.from_json(data["where"]),
            evidence=data["evidence"],
            remedy=data["remedy"],
        )
