"""A verdict as SARIF 2.1.0, which code hosts and editors show beside the file.

The format: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from everybit._version import __version__
from everybit.core.finding import Certainty
from everybit.core.rule import rule
from everybit.report.safe_text import printable_message
from everybit.report.strict_json import strict
from everybit.report.written_place import as_uri, find_file

if TYPE_CHECKING:
    from everybit.core.finding import Finding, Location
    from everybit.core.verdict import Skipped, Verdict

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_PRECISION: Final = {
    Certainty.PROOF: "very-high",
    Certainty.STRONG: "high",
    Certainty.WEAK: "medium",
}


def verdict_sarif(verdict: Verdict, *, exit_code: int) -> str:
    """Return the verdict as a SARIF log of one run.

    Args:
        verdict: The verdict.
        exit_code: What the verb exits with.
    """
    ids = sorted({finding.rule for finding in verdict.findings})
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "everybit",
                "semanticVersion": __version__,
                "rules": [_describe(key) for key in ids],
            }
        },
        "invocations": [
            {
                # The run did what was asked: findings are results, not failures.
                "executionSuccessful": True,
                "exitCode": exit_code,
                "toolExecutionNotifications": [_notify(it) for it in verdict.coverage.skipped],
            }
        ],
        "columnKind": "unicodeCodePoints",
        "results": [_result(verdict, finding, ids) for finding in verdict.findings],
        "properties": {
            "command": verdict.command,
            "status": str(verdict.status),
            "checked": [item.to_json() for item in verdict.coverage.checked],
        },
    }
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(strict(log), indent=2, allow_nan=False)


def _describe(key: str) -> dict[str, Any]:
    found = rule(key)
    sections = found.sections
    text = "\n\n".join(f"{name}: {sections[name]}" for name in sections)
    return {
        "id": found.id,
        "name": found.slug,
        "shortDescription": {"text": found.title},
        "fullDescription": {"text": " ".join(sections.get("What", found.title).split())},
        "help": {"text": text},
        "defaultConfiguration": {"level": str(found.severity)},
        "properties": {"precision": _PRECISION[found.certainty]},
    }


def _result(verdict: Verdict, finding: Finding, ids: list[str]) -> dict[str, Any]:
    location: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": {"uri": as_uri(find_file(verdict, finding))},
            **_region(finding.where),
        }
    }
    logical = _logical(finding.where)
    if logical:
        location["logicalLocations"] = logical
    return {
        "ruleId": finding.rule,
        "ruleIndex": ids.index(finding.rule),
        "level": str(finding.severity),
        "message": {"text": f"{printable_message(finding.message)} {finding.remedy}".strip()},
        "locations": [location],
        "partialFingerprints": {"everybitId/v1": finding.id},
        "properties": {
            "certainty": str(finding.certainty),
            "where": finding.where.to_json(),
            "evidence": dict(finding.evidence),
        },
    }


def _region(where: Location) -> dict[str, Any]:
    """Return the region: lines of a text, or bytes of any other file."""
    if where.line is not None:
        region = {"startLine": max(1, where.line)}
        if where.column is not None:
            region["startColumn"] = max(1, where.column)
        return {"region": region}
    ranges = [where.byte_range] if where.byte_range else list(where.byte_ranges or ())
    if not ranges:
        return {}
    start, end = ranges[0]
    return {"region": {"byteOffset": start, "byteLength": max(0, end - start)}}


def _logical(where: Location) -> list[dict[str, Any]]:
    """Return the places inside a file that have names: members, tensors, modules."""
    kinds = (
        (where.member, "member"),
        (where.tensor, "variable"),
        (where.parameter, "variable"),
        (where.module, "module"),
    )
    return [
        {"name": printable_message(name, 200), "kind": kind}
        for name, kind in kinds
        if name is not None
    ]


def _notify(skipped: Skipped) -> dict[str, Any]:
    return {
        "level": "warning" if skipped.promised else "note",
        "message": {"text": printable_message(f"not checked: {skipped.what}: {skipped.why}")},
    }
