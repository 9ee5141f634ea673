"""Files against a trust policy: FIL117 for each whose origin is not what the policy asks for."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from everybit.core.errors import PathError
from everybit.core.finding import Location
from everybit.core.rule import rule
from everybit.core.verdict import Skipped
from everybit.files.aside import hash_file
from everybit.files.damage import MalformedError
from everybit.files.folder import holds_model, list_files, list_manifests
from everybit.files.outcome import Outcome
from everybit.files.passes import no_progress
from everybit.files.seals.manifest import decode_manifest, read_manifest_bytes
from everybit.files.signatures.manifest_signature import signer_of
from everybit.files.source import ByteSource
from everybit.files.trust.origin import NO_ORIGIN

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.core.finding import Finding
    from everybit.files.seals.manifest import Manifest
    from everybit.files.trust.origin import Origin
    from everybit.files.trust.policy import Policy, Publisher


def check_trust(target: Path, policy: Policy) -> Outcome:
    """Hold a file, or every sealed file and every model of a folder, against a policy.

    Whether the files still hold what was sealed is for the rest of `verify` to say.

    Args:
        target: File or folder.
        policy: The policy.
    """
    outcome = Outcome()
    if target.is_dir():
        seals = {
            prefix: _Seal(target / prefix, policy, outcome, prefix)
            for prefix in list_manifests(target)
        }
        files = list_files(target, dangling=True)
        names = sorted({name for name, path in files.items() if _is_model(path)} | _listed(seals))
        for name in names:
            _judge(target / name, name, policy, _nearest(name, seals), outcome)
    else:
        _judge(target, target.name, policy, _above(target, policy, outcome), outcome)
    return outcome


class _Seal:
    """A folder's manifest, and who of the policy's publishers signed it."""

    def __init__(self, folder: Path, policy: Policy, outcome: Outcome, prefix: str) -> None:
        self.folder = folder
        self.manifest: Manifest | None = None
        self.publisher: Publisher | None = None
        try:
            data = read_manifest_bytes(folder)
            if data is None:
                return
            self.manifest = decode_manifest(data)
            by_key = {publisher.key.id: publisher for publisher in policy.publishers}
            signer = signer_of(folder, [p.key for p in policy.publishers], data)
        except (PathError, MalformedError):
            # The rest of `verify` tells what is wrong with it; here it vouches for nothing.
            why = "its manifest cannot be read, so that nothing is known of its origin"
            outcome.skipped.append(Skipped(what=f"{prefix or '.'}: origins", why=why))
            return
        if signer is not None:
            self.publisher = by_key[signer.id]

    def entry(self, name: str) -> Origin | None:
        """Return the origin recorded of a file; None where it is not sealed here."""
        sealed = self.manifest.files.get(name) if self.manifest is not None else None
        return None if sealed is None else sealed.origin


def _listed(seals: dict[str, _Seal]) -> set[str]:
    return {
        prefix + name
        for prefix, seal in seals.items()
        if seal.manifest is not None
        for name in seal.manifest.files
    }


def _nearest(name: str, seals: dict[str, _Seal]) -> _Seal | None:
    """Return the seal in the nearest folder above a file that seals it."""
    fitting = [
        prefix
        for prefix, seal in seals.items()
        if name.startswith(prefix) and seal.entry(name.removeprefix(prefix)) is not None
    ]
    return seals[max(fitting, key=len)] if fitting else None


def _above(path: Path, policy: Policy, outcome: Outcome) -> _Seal | None:
    """Return the nearest seal of a single file."""
    for folder in path.absolute().parents:
        seal = _Seal(folder, policy, outcome, "")
        name = path.absolute().relative_to(folder).as_posix()
        if seal.entry(name) is not None:
            return seal
    return None


def _is_model(path: Path) -> bool:
    try:
        return holds_model(path)
    except PathError:
        return False  # the rest of `verify` says that it cannot be read


def _judge(path: Path, name: str, policy: Policy, seal: _Seal | None, outcome: Outcome) -> None:
    if not path.exists():
        return  # FIL103 is told
    outcome.count("files against the trust policy")
    origin = NO_ORIGIN
    if seal is not None:
        relative = path.absolute().relative_to(seal.folder.absolute()).as_posix()
        origin = seal.entry(relative) or NO_ORIGIN
    reasons = _reasons(policy, seal, origin)
    if not reasons:
        return
    digests: dict[str, str] = {}
    if policy.digests:
        try:
            digests = _digests(path, policy)
        except PathError as error:
            why = f"it cannot be read: {error.what}"
            outcome.skipped.append(Skipped(what=f"{name}: trust", why=why))
            return
        if any(f"{kind}:{text}" in policy.digests for kind, text in digests.items()):
            return
    outcome.findings.append(_untrusted(name, policy, seal, origin, reasons, digests))


def _reasons(policy: Policy, seal: _Seal | None, origin: Origin) -> list[str]:
    """Return all that the policy asks for and the file has not."""
    reasons = []
    if policy.publishers and (seal is None or seal.publisher is None):
        reasons.append(
            "it is not sealed" if seal is None else "its seal is signed by no publisher allowed"
        )
    by_bytes_only = bool(policy.digests) and not policy.publishers
    if policy.sources is not None:
        if not origin.source:
            reasons.append("no source of it is recorded")
        elif not any(fnmatchcase(origin.source, pattern) for pattern in policy.sources):
            reasons.append(f"its source {origin.source[:200]} is not among those allowed")
    elif not policy.publishers and not by_bytes_only and not origin.source:
        reasons.append("no source of it is recorded")
    if policy.licenses is not None:
        if not origin.license:
            reasons.append("no licence of it is recorded")
        elif origin.license.lower() not in {text.lower() for text in policy.licenses}:
            reasons.append(f"its licence {origin.license[:80]} is not among those allowed")
    if by_bytes_only and policy.sources is None and policy.licenses is None:
        reasons.append("its digest is not among those allowed")
    return reasons


def _digests(path: Path, policy: Policy) -> dict[str, str]:
    kinds = sorted({text.partition(":")[0] for text in policy.digests})
    with ByteSource(path) as source:
        return hash_file(source, kinds, no_progress)


def _untrusted(
    name: str,
    policy: Policy,
    seal: _Seal | None,
    origin: Origin,
    reasons: list[str],
    digests: dict[str, str],
) -> Finding:
    signed_by = seal.publisher.name if seal is not None and seal.publisher is not None else None
    return rule("FIL117").finding(
        f"{name} is not what the trust policy asks for: {'; '.join(reasons)}",
        where=Location(path=name),
        evidence={
            "policy": policy.path.name,
            "missing": reasons,
            "source": origin.source or None,
            "license": origin.license or None,
            "sealed": seal is not None,
            "signed_by": signed_by,
            **{kind: f"{kind}:{text}" for kind, text in digests.items()},
        },
    )
