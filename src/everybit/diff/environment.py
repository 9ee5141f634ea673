"""Put two environment records (`everybit.host.capture_environment`) side by side.

Entries that do not bear on numbers (process ids, paths, host names, times) are recorded and not
compared. A section that one side could not read is no difference: `uncompared` names it. What
differs is sorted by how far it can change numbers: `environment_ranks` is the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from everybit.core.finding import Finding, Location, Severity
from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.core.verdict import Skipped
from everybit.diff.environment_ranks import weight_of

#: A section that holds this key could not be read; its value says why.
UNKNOWN: Final = "unknown"
#: One that holds this key is of something that is not there; its value says what.
ABSENT: Final = "absent"

#: Entries by dotted path, or sections by name, that are recorded and not compared.
NOT_COMPARED: Final = frozenset(
    {
        "schema",
        "captured_at",
        "container.id",
        "host",
        "process",
        "argv.script",
        "argv.arguments",
        "cpu.num_cpus",
        "cpu.num_usable",
        "cuda.initialized",
        "git.branch",
        "git.diff",
        "git.root",
        "gpu.now",
        "mounts.points",
        "python.executable",
        "python.prefix",
        "variables.recorded",
    }
)
#: Of one job and not of the place it runs in, so `everybit env` records none.
OF_A_JOB: Final = frozenset({"argv", "code", "seeds"})
# Until a script seeds it, torch's seed is a random number of 64 bits: nobody's choice, and so no
# difference. Chosen seeds are smaller.
_CHOSEN_SEED_BITS: Final = 53
_CODE_SECTIONS: Final = frozenset({"code", "git"})
_CONFIGURATION_SECTIONS: Final = frozenset({"argv", "files", "seeds"})
# Sections that records of earlier releases lack: not recorded is then no missed promise.
_LATER: Final = frozenset({"container", "libraries", "lock", "mounts", "nccl", "system"})
_ABSENT: Final = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One entry that has different values.

    Attributes:
        entry: Dotted path in the record (`packages.numpy.version`).
        before: The value in A; None where A has no such entry.
        after: The value in B; None where B has no such entry.
        kind: `environment`, `code` or `configuration`.
    """

    entry: str
    before: Any
    after: Any
    kind: str

    @property
    def severity(self) -> Severity:
        """A note where numbers are the same by design (another GPU of a model), else a warning."""
        return Severity.NOTE if weight_of(self.entry).note else Severity.WARNING

    @property
    def rank(self) -> int:
        """How far it can change numbers: 1 (other results altogether) to 9 (nothing known)."""
        return weight_of(self.entry).rank

    @property
    def why(self) -> str:
        """How it changes numbers, in a few words."""
        return weight_of(self.entry).why

    def to_json(self) -> dict[str, Any]:
        """Return the form used in `explained_by`."""
        return {
            "entry": self.entry,
            "before": self.before,
            "after": self.after,
            "kind": self.kind,
            "rank": self.rank,
            "why": self.why,
        }

    def finding(self) -> Finding:
        """Return the finding: of ENV904 to ENV906 where one of them is about it, else ENV901."""
        link = Link.CODE if self.kind == "code" else Link.ENVIRONMENT
        return rule(weight_of(self.entry).rule).finding(
            f"{self.entry}: {_shown(self.before)} in A, {_shown(self.after)} in B ({self.why})",
            where=Location(link=link, entry=self.entry),
            evidence={key: value for key, value in self.to_json().items() if key != "why"},
            severity=self.severity,
        )


def compare_environments(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Difference]:
    """Return the entries that differ, those that can change numbers most first.

    A section that one side lacks or could not read is left out; `uncompared` tells of it.
    """
    differences: list[Difference] = []
    for section in _compared_sections(a, b):
        before, after = _flat(section, a[section]), _flat(section, b[section])
        lacking = f"{section}.{ABSENT}"
        if (lacking in before) is not (lacking in after):
            # One difference, whatever the other side has in that section.
            before, after = (
                {lacking: side.get(lacking, _held(section, side))} for side in (before, after)
            )
        differences += [
            Difference(
                entry=entry,
                before=before.get(entry, _ABSENT),
                after=after.get(entry, _ABSENT),
                kind=_kind(section),
            )
            for entry in dict.fromkeys((*before, *after))
            if before.get(entry, _ABSENT) != after.get(entry, _ABSENT)
        ]
    return sorted(_folded(differences), key=lambda difference: difference.rank)


def _held(section: str, entries: Mapping[str, Any]) -> str:
    """Say what a section holds that the other side lacks; lock files by their names."""
    if section != "lock":
        return "present"
    return ", ".join(sorted(entry.removeprefix(f"{section}.") for entry in entries))


def num_compared(a: Mapping[str, Any], b: Mapping[str, Any]) -> int:
    """Return how many entries `compare_environments` looks at."""
    return sum(
        len({*_flat(section, a[section]), *_flat(section, b[section])})
        for section in _compared_sections(a, b)
    )


def uncompared(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Skipped]:
    """Return what could not be compared: sections that a side lacks or could not read."""
    skipped = []
    for section in dict.fromkeys((*a, *b)):
        if section in NOT_COMPARED:
            continue
        why = [
            f"{side}: {reason}"
            for side, record in (("A", a), ("B", b))
            if (reason := _unreadable(record, section))
        ]
        if why:
            skipped.append(
                Skipped(
                    what=f"environment: {section}",
                    why="; ".join(why),
                    promised=not (
                        section in OF_A_JOB or (section in _LATER and _lacks(section, a, b))
                    ),
                )
            )
    return skipped


def _lacks(section: str, *records: Mapping[str, Any]) -> bool:
    return any(section not in record for record in records)


def _compared_sections(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    return [
        section
        for section in dict.fromkeys((*a, *b))
        if section not in NOT_COMPARED
        and not _unreadable(a, section)
        and not _unreadable(b, section)
    ]


def _unreadable(record: Mapping[str, Any], section: str) -> str:
    if section not in record:
        return "not recorded"
    value = record[section]
    return str(value[UNKNOWN]) if isinstance(value, Mapping) and UNKNOWN in value else ""


def _flat(prefix: str, value: Any) -> dict[str, Any]:
    if prefix in NOT_COMPARED:
        return {}
    if not isinstance(value, Mapping):
        return {prefix: _chosen(value) if prefix.startswith("seeds.") else value}
    found: dict[str, Any] = {}
    for key, item in value.items():
        found |= _flat(f"{prefix}.{key}", item)
    return found


def _chosen(seed: Any) -> Any:
    drawn = isinstance(seed, int) and seed.bit_length() > _CHOSEN_SEED_BITS
    return "not set" if drawn else seed


def _folded(differences: list[Difference]) -> list[Difference]:
    """Tell a package and a GPU once: by the version or the model, where that differs."""
    entries = {difference.entry for difference in differences}
    return [
        difference
        for difference in differences
        if not any(
            difference.entry.startswith(prefix)
            and difference.entry != (head := _head(difference.entry, prefix, name))
            and head in entries
            for prefix, name in (("packages.", "version"), ("gpu.devices.", "name"))
        )
    ]


def _head(entry: str, prefix: str, name: str) -> str:
    """Return the entry that says most of the package or device that an entry is of."""
    if prefix == "packages.":
        return f"{entry.rpartition('.')[0]}.{name}"
    return f"{prefix}{entry.removeprefix(prefix).partition('.')[0]}.{name}"


def _kind(section: str) -> str:
    if section in _CODE_SECTIONS:
        return "code"
    return "configuration" if section in _CONFIGURATION_SECTIONS else "environment"


def _shown(value: Any) -> str:
    if value is _ABSENT:
        return "absent"
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
