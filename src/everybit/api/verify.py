"""`verify`: do files still hold what was sealed, or what their own format promises."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from everybit.core.errors import PathError, UsageError
from everybit.core.verdict import Checked, Coverage, Verdict
from everybit.files.checks.listed import check_listed
from everybit.files.checks.other_seal import tell_misplaced
from everybit.files.checks.placed import Thoroughness
from everybit.files.checks.told_once import told_once
from everybit.files.checks.verifying import verify_file, verify_folder
from everybit.files.kept import keep_structures
from everybit.files.outcome import Outcome
from everybit.files.parity.record import PARITY_NAME
from everybit.files.passes import no_progress
from everybit.files.seals.manifest import SIGNATURE_NAME
from everybit.files.signatures.bundle import BUNDLE_NAME
from everybit.files.signatures.expected import ExpectedDigests
from everybit.files.signatures.sums import LIST_NAMES

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from everybit.files.signatures.keys import PublicKey
    from everybit.files.trust.policy import Policy

Level = Literal["structure", "full"]

_SHA256: Final = re.compile(r"(?:sha256:)?([0-9a-f]{64})")


def verify(
    *paths: str | os.PathLike[str],
    level: Level = "full",
    strong: bool = False,
    values: bool = False,
    key: str | os.PathLike[str] | None = None,
    expect_sha256: str | None = None,
    trust: str | os.PathLike[str] | None = None,
    progress: Callable[[int], None] = no_progress,
) -> Verdict:
    """Test whether files still hold the right bytes.

    A sealed file is held against its manifest: one read of all its bytes, and where they differ,
    the tensors, elements and bits. Any other file is held against the digests that lists beside it
    give (`SHA256SUMS`, `FILE.sha256`, a cache's name for it), and tested as far as its format
    allows. A model-signing bundle (`model.sig`) is checked wherever there is one.

    Args:
        paths: Files and folders. A folder means all that its manifests list and every model in it.
        level: `full` reads every byte; `structure` tests sizes and structure only.
        strong: Compare BLAKE3 digests as well.
        values: Judge the values of sealed files as well, as those of others are: a seal says that
            bytes are as they were, not that they were right.
        key: A public key that must have signed what is believed: Ed25519 for manifests, which
            implies `strong`; ECDSA for model-signing bundles.
        expect_sha256: The SHA-256 that the one file named must have, in hexadecimal.
        trust: A trust policy (TOML): which publishers, sources, licences and digests are allowed;
            any other file is a finding. Where it names publishers it implies `strong`.
        progress: Is told the bytes read, as they are.

    Returns:
        The verdict. `inconclusive` where bytes had nothing to be held against.

    Raises:
        UsageError: The key or the policy cannot be used, or the digest is none.
        PathError: A path cannot be opened.
    """
    if not paths:
        raise PathError("nothing to verify", todo="name a file or a folder")
    if level not in ("structure", "full"):
        raise PathError(f"no level {level!r}", todo="choose structure or full")
    sha256 = _digest(expect_sha256, paths)
    public = _key(key)
    policy = _policy(trust)
    began = time.perf_counter()
    total = Outcome()
    for path in dict.fromkeys(_meant(Path(given)) for given in paths):
        root = path if path.is_dir() else path.parent
        expected = ExpectedDigests(root, key=public, sha256=sha256)
        how = Thoroughness(
            full=level == "full",
            # XXH3 digests are no match for malice.
            strong=strong
            or _signs_manifests(public)
            or (policy is not None and bool(policy.publishers)),
            values=values,
            progress=progress,
            key=public,
            expected=expected,
        )
        with keep_structures():
            if path.is_dir():
                outcome = verify_folder(path, how)
                check_listed(path, how, outcome)
            else:
                outcome = verify_file(path, how)
        outcome.add(expected.outcome)
        if public is not None:
            _demand_signature(path, public, expected, outcome)
        if policy is not None:
            from everybit.files.trust.checking import check_trust

            outcome.add(check_trust(path, policy))
        tell_misplaced(root, outcome, below=path.is_dir())
        outcome.findings = told_once(outcome.findings)
        total.add(outcome)
    checked = tuple(Checked(what=what, count=number) for what, number in total.checked.items())
    return Verdict(
        command="verify",
        target=tuple(str(path) for path in paths),
        findings=tuple(total.findings),
        coverage=Coverage(checked=checked, skipped=tuple(total.skipped)),
        stats={"bytes": total.num_bytes, "seconds": time.perf_counter() - began, **total.stats},
    )


def _meant(path: Path) -> Path:
    """Return the folder that a list, a bundle or a signature speaks of; any other path as it is."""
    ours = (BUNDLE_NAME, SIGNATURE_NAME, PARITY_NAME)
    speaks = path.name.lower() in LIST_NAMES or path.name in ours
    return path.parent if speaks and path.is_file() else path


def _digest(text: str | None, paths: tuple[str | os.PathLike[str], ...]) -> str | None:
    if text is None:
        return None
    found = _SHA256.fullmatch(text.strip().lower())
    if found is None:
        raise UsageError(
            f"{text[:80]!r} is no SHA-256 digest", todo="give its 64 hexadecimal digits"
        )
    if len(paths) != 1 or Path(paths[0]).is_dir():
        raise UsageError("a digest is of one file", todo="name the one file that should have it")
    return found[1]


def _key(key: str | os.PathLike[str] | None) -> PublicKey | None:
    if key is None:
        return None
    from everybit.files.signatures.keys import load_public_key

    return load_public_key(Path(key))


def _policy(trust: str | os.PathLike[str] | None) -> Policy | None:
    if trust is None:
        return None
    from everybit.files.trust.policy import load_policy

    return load_policy(Path(trust))


def _signs_manifests(key: PublicKey | None) -> bool:
    """Return whether a key signs manifests."""
    from everybit.files.signatures.keys import KeyKind

    return key is not None and key.kind is KeyKind.ED25519


def _demand_signature(
    path: Path, key: PublicKey, expected: ExpectedDigests, outcome: Outcome
) -> None:
    """Tell where nothing is signed at all although a signature was demanded."""
    from everybit.files.signatures.manifest_signature import no_signature

    held = expected.signed or bool(outcome.checked.get("signatures of manifests"))
    if not held and not any(finding.rule == "FIL110" for finding in outcome.findings):
        outcome.findings.append(no_signature(path.name or str(path), key))
