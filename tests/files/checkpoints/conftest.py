from __future__ import annotations

import pytest

import everybit


def found_in(*paths, **options):
    """What `verify` finds, as `(rule, path)`."""
    return {(f.rule, f.where.path) for f in everybit.verify(*paths, **options).findings}


@pytest.fixture
def found():
    return found_in


@pytest.fixture
def only():
    """Return the only finding about a path."""

    def only_finding(*paths, **options):
        findings = everybit.verify(*paths, **options).findings
        assert len(findings) == 1, [f"{f.rule} {f.message}" for f in findings]
        return findings[0]

    return only_finding
