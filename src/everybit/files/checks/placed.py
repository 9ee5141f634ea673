"""One file of a target, with or without its seal: present, readable, whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from everybit.core.finding import Location, Severity
from everybit.core.rule import rule
from everybit.core.verdict import Skipped
from everybit.files.checks.unsealed import check_unsealed
from everybit.files.damage import MalformedError
from everybit.files.outcome import Outcome
from everybit.files.passes import no_progress
from everybit.files.seals.manifest import MANIFEST_NAME, SealedFile
from everybit.files.seals.sealed import check_sealed
from everybit.files.signatures.expected_digest import Expected, Witness, check_expected
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from everybit.core.finding import Finding
    from everybit.files.signatures.expected import ExpectedDigests
    from everybit.files.signatures.keys import PublicKey

#: Findings about values that no digest stands behind.
_LOOKS_ODD = ("FIL113",)
#: Digests that can be forged.
_WEAK = ("git-sha1", "md5", "sha1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Thoroughness:
    """How files are checked.

    Attributes:
        full: Read every byte; else sizes and structure only.
        strong: Compare BLAKE3 as well.
        values: Judge the values of sealed files as well, as those of others are.
        progress: Is told the bytes read, as they are.
        key: Demands signatures of what is believed.
        expected: Finds what lists and bundles beside files expect of them.
    """

    full: bool = True
    strong: bool = False
    values: bool = False
    progress: Callable[[int], None] = no_progress
    key: PublicKey | None = None
    expected: ExpectedDigests | None = None


def check_file(path: Path, entry: SealedFile | None, name: str, how: Thoroughness) -> Outcome:
    """Check one file.

    Args:
        path: Where it should be.
        entry: Its seal; None without.
        name: Its path relative to the target, for findings.
        how: How thoroughly.

    Raises:
        PathError: It cannot be read.
    """
    if entry is not None and not path.is_file():
        gone = missing(name, listed_by=MANIFEST_NAME, expected_bytes=entry.size_bytes)
        return Outcome(findings=[gone], checked={"files against their seal": 1})
    wanted = how.expected.of(path, sealed=entry is not None) if how.expected is not None else []
    if not how.full:
        # Asked for by name, a digest is read for at any level.
        wanted = [item for item in wanted if item.witness is Witness.REQUEST]
    unknown = [item for item in wanted if not item.known]
    wanted = [item for item in wanted if item.known]
    with ByteSource(path) as source:
        if entry is None:
            outcome = _check_unsealed(source, name, how, wanted)
        else:
            outcome = _check_sealed(source, entry, name, how, wanted)
    outcome.skipped += [
        Skipped(what=f"{name}: its {item.algorithm} digest", why="it cannot be computed here")
        for item in unknown
    ]
    bundle = how.expected.left_out_by(path) if how.expected is not None else ""
    if bundle:
        outcome.findings.append(not_listed(path, name, bundle=bundle))
    return outcome


def check_digests_only(path: Path, name: str, how: Thoroughness) -> Outcome:
    """Hold a file that is no model against the lists that speak of it.

    Raises:
        PathError: It cannot be read.
    """
    wanted = how.expected.of(path, sealed=False) if how.expected is not None else []
    with ByteSource(path) as source:
        known = [item for item in wanted if item.known]
        outcome = Outcome(findings=check_expected(source, known, name, how.progress))
        outcome.num_bytes = source.size
        _count(outcome, known)
        return _changed(source, name, outcome) or outcome


def _check_sealed(
    source: ByteSource, entry: SealedFile, name: str, how: Thoroughness, wanted: list[Expected]
) -> Outcome:
    if how.full:
        try:
            outcome = check_sealed(source, entry, name, strong=how.strong, progress=how.progress)
        except MalformedError as error:
            return Outcome(findings=[error.damage.finding(MANIFEST_NAME)])
        damaged = any(found.severity is not Severity.NOTE for found in outcome.findings)
        if how.values and not damaged:
            # As it was sealed; whether it was right then, its values may tell.
            judged = check_unsealed(source, name)
            outcome.add(replace(judged, skipped=[], num_bytes=0))
            damaged = any(found.severity is not Severity.NOTE for found in judged.findings)
        if wanted and not damaged:
            # As it was sealed; whether it is what others expect is a question of its own.
            outcome.findings += check_expected(source, wanted, name, no_progress)
            _count(outcome, wanted)
            return _changed(source, name, outcome) or outcome
        return outcome
    outcome = check_unsealed(source, name, full=False)
    # The bytes can be held against the seal; that this was not asked for is no gap.
    outcome.skipped = [replace(item, promised=False) for item in outcome.skipped]
    if source.size != entry.size_bytes and not outcome.findings:
        whole = bool(outcome.checked)
        outcome.findings.append(_other_size(source.size, entry, name, whole=whole))
    outcome.count("file sizes against their seal")
    if wanted and not outcome.findings:
        outcome.findings += check_expected(source, wanted, name, how.progress)
        _count(outcome, wanted)
    return outcome


def _check_unsealed(
    source: ByteSource, name: str, how: Thoroughness, wanted: list[Expected]
) -> Outcome:
    fresh = [item for item in wanted if not _settled(source, item, how)]
    others = check_expected(source, fresh, name, how.progress) if fresh else []
    if not others and how.expected is not None:
        how.expected.settle(source, fresh)
    progress = no_progress if fresh else how.progress
    outcome = check_unsealed(source, name, full=how.full, progress=progress)
    if others:
        outcome.findings = _as_one(others, outcome.findings)
    if wanted:
        _count(outcome, wanted)
        outcome.num_bytes = max(outcome.num_bytes, source.size)
        # The digest covers every byte, whatever the format itself leaves unchecked.
        outcome.skipped = [replace(item, promised=False) for item in outcome.skipped]
    changed = _changed(source, name, outcome)
    if changed is not None:
        return changed
    if how.strong:
        why = "it is not sealed"
        cryptographic = any(item.algorithm not in _WEAK for item in wanted)
        outcome.skipped.append(
            Skipped(
                what=f"{name}: comparison of BLAKE3 digests", why=why, promised=not cryptographic
            )
        )
    return outcome


def _settled(source: ByteSource, item: Expected, how: Thoroughness) -> bool:
    return how.expected is not None and how.expected.is_settled(source, item)


def _as_one(others: list[Finding], found: list[Finding]) -> list[Finding]:
    """Return the findings of a file that has another digest, each damage told once.

    What its own format places best tells it, with the digest as evidence; what only looks odd in
    it is evidence for where the damage lies.
    """
    place = next((at for at, f in enumerate(found) if f.severity is Severity.ERROR), None)
    if place is not None:
        evidence = {**found[place].evidence, "digest": dict(others[0].evidence)}
        found[place] = replace(found[place], evidence=evidence)
        return found
    odd = [finding for finding in found if finding.rule in _LOOKS_ODD]
    if odd:
        suspects = [finding.message for finding in odd[:16]]
        first = replace(others[0], evidence={**others[0].evidence, "suspects": suspects})
        others = [first, *others[1:]]
    return others + [finding for finding in found if finding.rule not in _LOOKS_ODD]


def _changed(source: ByteSource, name: str, outcome: Outcome) -> Outcome | None:
    if not source.changed():
        return None
    why = "it changed while it was read; verify again when nothing writes to it"
    return Outcome(skipped=[Skipped(what=name, why=why)], num_bytes=outcome.num_bytes)


def _count(outcome: Outcome, wanted: list[Expected]) -> None:
    for witness in {item.witness for item in wanted}:
        outcome.count(f"files against {witness}")


def missing(name: str, *, listed_by: str, **evidence: int) -> Finding:
    """Return the finding for a file that something lists and that is not there."""
    return rule("FIL103").finding(
        f"{name} is listed by {listed_by} and is not there",
        where=Location(path=name),
        evidence={"listed_by": listed_by, **evidence},
    )


def not_listed(path: Path, name: str, *, bundle: str = "") -> Finding:
    """Return the finding for a model beside sealed or signed files that nothing lists.

    Args:
        path: The model.
        name: Its path relative to the target.
        bundle: The signing bundle that does not list it; empty for the manifest.
    """
    where = f"signed files and is not in {bundle}" if bundle else "sealed files and is not in the"
    return rule("FIL109").finding(
        f"{name} lies beside {where}{'' if bundle else ' manifest'}",
        where=Location(path=name),
        evidence={"size_bytes": path.stat().st_size, **({"bundle": bundle} if bundle else {})},
    )


def _other_size(size: int, entry: SealedFile, name: str, *, whole: bool) -> Finding:
    """Tell of a size; a file that is whole by its own format was not cut."""
    low, high = sorted((size, entry.size_bytes))
    return rule("FIL104" if size < entry.size_bytes and not whole else "FIL101").finding(
        f"{name} has {size} bytes, sealed with {entry.size_bytes}",
        where=Location(path=name, byte_range=(low, high)),
        evidence={
            "size_bytes": size,
            "expected_bytes": entry.size_bytes,
            "promised_by": "the manifest",
        },
    )
