"""What lists, caches and bundles beside files expect of them: manifests of last resort."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from everybit.core.errors import PathError
from everybit.core.finding import Location
from everybit.core.rule import rule
from everybit.core.verdict import Skipped
from everybit.files.outcome import Outcome
from everybit.files.seals.manifest import OWN_NAMES
from everybit.files.signatures.bundle import (
    BUNDLE_NAME,
    Bundle,
    BundleError,
    Method,
    read_bundle,
)
from everybit.files.signatures.expected_digest import Expected, Witness
from everybit.files.signatures.keys import KeyKind, PublicKey
from everybit.files.signatures.sums import LIST_NAMES, SUFFIX, Sums, read_sums

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.files.source import ByteSource

_BLOB: Final = re.compile(r"(?:sha256-)?([0-9a-f]{64})|([0-9a-f]{40})")
_OFFLINE: Final = {
    Method.CERTIFICATE: "it is signed with a certificate, whose holder cannot be known offline",
    Method.KEYLESS: "it is signed without a key (Sigstore), and who signed cannot be known offline",
}


class ExpectedDigests:
    """Finds the digests that are expected of files under a folder, each list read once.

    Args:
        root: Lists are looked for in a file's folder and above, up to this one.
        key: Demands the signature of bundles that are signed with a key.
        sha256: What was asked for of the one file that is verified.
    """

    def __init__(
        self, root: Path, *, key: PublicKey | None = None, sha256: str | None = None
    ) -> None:
        self._root = root.absolute()
        self._key = key
        self._sha256 = sha256
        self._lists: dict[Path, dict[str, Sums]] = {}
        self._bundles: dict[Path, Bundle | None] = {}
        self._asked: set[Path] = set()
        self._settled: set[tuple[object, ...]] = set()
        #: What reading the lists themselves came to.
        self.outcome = Outcome()
        #: Whether a bundle was found to be signed with the key.
        self.signed = False

    def of(self, path: Path, *, sealed: bool) -> list[Expected]:
        """Return the digests that are expected of a file.

        Args:
            path: The file.
            sealed: A manifest speaks of it, so that lists and caches are not asked.
        """
        path = path.absolute()
        self._asked.add(path)
        found: list[Expected] = []
        if self._sha256 is not None:
            found.append(_sha256(self._sha256, "--expect-sha256", Witness.REQUEST))
        for folder, name in self._above(path):
            bundle = self._bundle(folder)
            if bundle is not None:
                found += bundle.resources.get(name, ())
        if not sealed:
            found += self._listed(path)
            found += _cached(path)
        return found

    def settle(self, source: ByteSource, found: Sequence[Expected]) -> None:
        """Remember that an open file has these digests: a cache reaches it by several names."""
        self._settled |= {(source.identity, item.algorithm, item.hex) for item in found}

    def is_settled(self, source: ByteSource, item: Expected) -> bool:
        """Return whether this very file, unchanged, was found to have a digest before."""
        whole = item.end is None
        return whole and (source.identity, item.algorithm, item.hex) in self._settled

    def left_out_by(self, path: Path) -> str:
        """Return the bundle in whose folder a file lies although it does not list it, or ""."""
        path = path.absolute()
        for folder, name in self._above(path):
            bundle = self._bundle(folder)
            if bundle is None or path.name in OWN_NAMES:
                continue
            ignored = any(
                name == prefix or name.startswith(f"{prefix}/") for prefix in bundle.ignored
            )
            if name not in bundle.resources and not ignored:
                return self._name(folder / BUNDLE_NAME)
        return ""

    def unasked(self, folder: Path) -> dict[str, tuple[Path, str]]:
        """Return what lists and bundles in a folder speak of and nobody asked about.

        Returns:
            `{path relative to the root: (the path, which list)}`.
        """
        found: dict[str, tuple[Path, str]] = {}
        folder = folder.absolute()
        listed: list[tuple[str, str]] = []
        for name, sums in self._sums(folder).items():
            listed += [(path, name) for path in sums.digests]
        bundle = self._bundle(folder)
        if bundle is not None:
            listed += [(path, BUNDLE_NAME) for path in bundle.resources]
        for relative, name in listed:
            path = folder / relative
            if path not in self._asked:
                key = path.relative_to(self._root).as_posix()
                found.setdefault(key, (path, self._name(folder / name)))
        return found

    def _name(self, path: Path) -> str:
        try:
            return path.relative_to(self._root).as_posix()
        except ValueError:
            return str(path)

    def _above(self, path: Path) -> list[tuple[Path, str]]:
        """Return the folders up to the root, with the file's path in each."""
        found = []
        for folder in path.parents:
            found.append((folder, path.relative_to(folder).as_posix()))
            if folder == self._root:
                break
        else:
            return found[:1]
        return found

    def _listed(self, path: Path) -> list[Expected]:
        found = []
        own = path.with_name(path.name + SUFFIX)
        if own.is_file():
            sums = self._read(own)
            digest = sums.digests.get(path.name) or sums.alone
            if not digest and len(sums.digests) == 1:
                # Written where the file had another name or folder.
                ((named, only),) = sums.digests.items()
                digest = only if PurePosixPath(named).name == path.name else ""
            if digest:
                found.append(_sha256(digest, self._name(own), Witness.LIST))
        for folder, name in self._above(path):
            for list_name, sums in self._sums(folder).items():
                if name in sums.digests:
                    listed_by = self._name(folder / list_name)
                    found.append(_sha256(sums.digests[name], listed_by, Witness.LIST))
        return found

    def _sums(self, folder: Path) -> dict[str, Sums]:
        if folder not in self._lists:
            found: dict[str, Sums] = {}
            try:
                names = sorted(
                    entry.name
                    for entry in folder.iterdir()
                    if entry.name.lower() in LIST_NAMES and entry.is_file()
                )
            except OSError:
                names = []
            for name in names:
                found[name] = self._read(folder / name)
            self._lists[folder] = found
        return self._lists[folder]

    def _read(self, path: Path) -> Sums:
        name = self._name(path)
        try:
            sums = read_sums(path)
        except PathError as error:
            why = f"it cannot be read: {error.what}"
            self.outcome.skipped.append(Skipped(what=name, why=why))
            return Sums()
        if sums.unread:
            why = f"{sums.unread} lines are no digest and path"
            skipped = Skipped(what=f"{name}: some lines", why=why, promised=False)
            if skipped not in self.outcome.skipped:
                self.outcome.skipped.append(skipped)
        return sums

    def _bundle(self, folder: Path) -> Bundle | None:
        if folder not in self._bundles:
            path = folder / BUNDLE_NAME
            self._bundles[folder] = self._load(path) if path.is_file() else None
        return self._bundles[folder]

    def _load(self, path: Path) -> Bundle | None:
        name = self._name(path)
        try:
            bundle = read_bundle(path, name)
        except PathError as error:
            why = f"it cannot be read: {error.what}"
            self.outcome.skipped.append(Skipped(what=name, why=why))
            return None
        except BundleError as error:
            self._broken(name, f"the signing bundle does not hold: {error}")
            return None
        if bundle is None:
            why = "it is no signing bundle that this release reads"
            asked = self._key is not None and self._key.kind is KeyKind.ECDSA
            self.outcome.skipped.append(Skipped(what=name, why=why, promised=asked))
            return None
        return bundle if self._signature_holds(bundle, name) else None

    def _signature_holds(self, bundle: Bundle, name: str) -> bool:
        """Tell of a bundle's signature; without one that holds it is not believed either."""
        key = self._key
        if bundle.method is not Method.KEY:
            self.outcome.skipped.append(
                Skipped(
                    what=f"{name}: signature",
                    why=_OFFLINE[bundle.method] + "; model_signing verify does",
                    promised=key is not None and key.kind is KeyKind.ECDSA,
                )
            )
            return True
        if key is None or key.kind is not KeyKind.ECDSA:
            why = "no ECDSA key was given; `--key` demands the signature"
            skipped = Skipped(what=f"{name}: signature", why=why, promised=False)
            self.outcome.skipped.append(skipped)
            return True
        if bundle.signed_by(key):
            self.signed = True
            self.outcome.count("signatures of bundles")
            return True
        self._broken(name, "the signing bundle is not signed with the key that was given", key.id)
        return False

    def _broken(self, name: str, message: str, key_id: str = "") -> None:
        self.outcome.findings.append(
            rule("FIL110").finding(
                f"{name}: {message}",
                where=Location(path=name),
                evidence={"key_id": key_id} if key_id else {},
                remedy="Fetch the bundle again from whoever signed the model.",
            )
        )


def _sha256(digest: str, listed_by: str, witness: Witness) -> Expected:
    return Expected(algorithm="sha256", hex=digest, listed_by=listed_by, witness=witness)


def _cached(path: Path) -> list[Expected]:
    """Return what the name of a blob says of it: caches of hubs name files by their digest."""
    try:
        real = path.resolve()
    except (OSError, RuntimeError):
        return []
    found = _BLOB.fullmatch(real.name)
    if real.parent.name != "blobs" or found is None:
        return []
    algorithm = "sha256" if found[1] else "git-sha1"
    return [
        Expected(
            algorithm=algorithm,
            hex=found[1] or found[2],
            listed_by=f"blobs/{real.name}",
            witness=Witness.CACHE,
        )
    ]
