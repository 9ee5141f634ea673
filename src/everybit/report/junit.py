"""A verdict as JUnit XML, which CI systems show among the tests.

A check that ran is a test that passed, a finding at or above the severity that fails is a failure,
and a promised check that could not run is an error: it is not clean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

from everybit.report.place import describe_place
from everybit.report.safe_text import printable, printable_message
from everybit.report.strict_json import strict

if TYPE_CHECKING:
    from everybit.core.finding import Finding, Severity
    from everybit.core.verdict import Skipped, Verdict


def verdict_junit(verdict: Verdict, *, fail_on: Severity) -> str:
    """Return the verdict as one test suite.

    Args:
        verdict: The verdict.
        fail_on: From this severity on a finding is a failure; below it, a test that passed with
            something to say.
    """
    suite = f"everybit {verdict.command}"
    cases = [_checked(suite, item.what, item.count) for item in verdict.coverage.checked]
    cases += [_finding(suite, finding, fail_on) for finding in verdict.findings]
    cases += [_skipped(suite, item) for item in verdict.coverage.skipped]
    root = ElementTree.Element("testsuites")
    attributes = {
        "name": suite,
        "tests": len(cases),
        "failures": sum(case.find("failure") is not None for case in cases),
        "errors": sum(case.find("error") is not None for case in cases),
        "skipped": sum(case.find("skipped") is not None for case in cases),
    }
    seconds = verdict.stats.get("seconds")
    if isinstance(seconds, int | float):
        attributes["time"] = round(seconds, 3)
    node = ElementTree.SubElement(root, "testsuite", {k: str(v) for k, v in attributes.items()})
    node.extend(cases)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _case(suite: str, name: str) -> ElementTree.Element:
    # XML 1.0 holds no control characters, escaped or not.
    return ElementTree.Element(
        "testcase", {"classname": suite, "name": printable_message(name, 400)}
    )


def _checked(suite: str, what: str, count: int) -> ElementTree.Element:
    return _case(suite, f"{what}: {count}")


def _finding(suite: str, finding: Finding, fail_on: Severity) -> ElementTree.Element:
    place = describe_place(finding.where)
    case = _case(suite, f"{finding.rule} {finding.slug}: {place}")
    text = "\n".join(
        [
            printable_message(finding.message),
            f"at: {place}",
            f"certainty: {finding.certainty}",
            *(f"{key}: {printable(strict(value), 500)}" for key, value in finding.evidence.items()),
            f"what to do: {printable_message(finding.remedy)}",
        ]
    )
    if finding.severity.rank >= fail_on.rank:
        failure = ElementTree.SubElement(
            case,
            "failure",
            {"type": str(finding.severity), "message": printable_message(finding.message)},
        )
        failure.text = text
    else:
        ElementTree.SubElement(case, "system-out").text = f"{finding.severity}\n{text}"
    return case


def _skipped(suite: str, item: Skipped) -> ElementTree.Element:
    case = _case(suite, item.what)
    if item.promised:
        attributes = {"type": "could-not-check", "message": printable_message(item.why)}
        ElementTree.SubElement(case, "error", attributes)
    else:
        ElementTree.SubElement(case, "skipped", {"message": printable_message(item.why)})
    return case
