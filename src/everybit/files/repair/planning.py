"""What a path given to `repair` means: which files, held against which evidence."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from everybit.core.errors import PathError
from everybit.core.verdict import Skipped
from everybit.files.checks.placed import Thoroughness, check_file
from everybit.files.damage import MalformedError
from everybit.files.folder import holds_model, list_files, list_manifests
from everybit.files.parity.record import PARITY_NAME
from everybit.files.parity.restoring import Restorer
from everybit.files.passes import no_progress
from everybit.files.repair.checksums import drop_weak, plan_by_checksums
from everybit.files.repair.copies import plan_by_copies
from everybit.files.repair.manifests import find_manifest
from everybit.files.repair.mending import Mending
from everybit.files.repair.parity_file import plan_parity_file
from everybit.files.repair.sealed import SealedFolder, open_parity
from everybit.files.seals.manifest import MANIFEST_NAME
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from everybit.core.finding import Finding
    from everybit.files.outcome import Outcome
    from everybit.files.seals.manifest import Manifest


@dataclass(slots=True, kw_only=True)
class Plan:
    """All that is to be put right under one path; a context manager that holds files open.

    Attributes:
        copies: Other copies of the path, files or folders.
        accept_weak: Put back what no second witness supports, too.
        progress: Is told the bytes read, as they are.
        mendings: One for each file that was looked at.
        outcome: What else was found, checked and left out.
    """

    copies: tuple[Path, ...] = ()
    accept_weak: bool = False
    progress: Callable[[int], None] = no_progress
    mendings: list[Mending] = field(default_factory=list)
    outcome: Outcome
    _open: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Plan:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()

    def add_folder(self, folder: Path) -> None:
        """Plan for all that the manifests in a folder list, and every model in it.

        Raises:
            PathError: The folder cannot be read.
        """
        files = list_files(folder, dangling=True)
        known: set[str] = set()
        for prefix in self._sealed_folders(folder):
            manifest = self._manifest(folder / prefix, prefix)
            if manifest is None:
                continue
            sealed = self._sealed_folder(folder / prefix, prefix, manifest)
            for below in manifest.files:
                if prefix + below not in known:
                    known.add(prefix + below)
                    self._add_sealed(sealed, below, prefix + below)
            parity = plan_parity_file(sealed, prefix, self.outcome)
            if parity is not None:
                self.mendings.append(parity)
        for name, path in files.items():
            if name in known or not path.exists() or not holds_model(path):
                continue
            known.add(name)
            self._add_unsealed(path, name, [copy / name for copy in self.copies if copy.is_dir()])
        if not known:
            why = "it holds no manifest and no model file; name another one"
            self.outcome.skipped.append(Skipped(what="the folder's files", why=why))

    def add_file(self, path: Path) -> None:
        """Plan for one file, by the nearest manifest that lists it or by its own format.

        Raises:
            PathError: It cannot be read, or it is not there and nothing says what it was.
        """
        if path.name in (MANIFEST_NAME, PARITY_NAME):
            self.add_folder(path.parent)
            return
        for folder in (path.parent, *path.absolute().parent.parents):
            if not folder.is_dir():
                continue
            manifest = self._manifest_above(folder, path)
            name = path.absolute().relative_to(folder.absolute()).as_posix()
            if manifest is not None and name in manifest.files:
                sealed = self._sealed_folder(folder, "", manifest, only=path)
                self._add_sealed(sealed, name, path.name)
                return
        if not path.exists():
            raise PathError(
                "does not exist, and no manifest says what it held",
                where=str(path),
                todo="check the spelling of the path",
            )
        self._add_unsealed(path, path.name, self._copies_of(path))

    def _sealed_folders(self, folder: Path) -> list[str]:
        found = list_manifests(folder)
        parts = [""] + [copy for copy in found if copy]
        if "" not in found and ((folder / PARITY_NAME).is_file() or self._copied_manifest(folder)):
            return parts
        return found

    def _copied_manifest(self, folder: Path) -> bool:
        return any((copy / MANIFEST_NAME).is_file() for copy in self.copies if copy.is_dir())

    def _manifest(self, folder: Path, prefix: str) -> Manifest | None:
        """Return a folder's manifest, or as its parity or a copy has it; plans to put it back."""
        beside = [copy / prefix for copy in self.copies if copy.is_dir()]
        manifest, mending = find_manifest(folder, prefix, beside)
        if mending is not None:
            self.mendings.append(mending)
        return manifest

    def _manifest_above(self, folder: Path, path: Path) -> Manifest | None:
        if folder == path.parent:
            beside = [copy if copy.is_dir() else copy.parent for copy in self.copies]
            manifest, mending = find_manifest(folder, "", beside)
            if mending is not None and (folder / MANIFEST_NAME).exists():
                self.mendings.append(mending)
            return manifest
        try:
            return find_manifest(folder, "", [])[0]
        except PathError:
            # Nobody asked about that folder, and whether it seals this file cannot be known.
            why = f"the manifest in {folder} cannot be read"
            self.outcome.skipped.append(Skipped(what=f"{path.name}: its seal", why=why))
            return None

    def _sealed_folder(
        self, folder: Path, prefix: str, manifest: Manifest, only: Path | None = None
    ) -> SealedFolder:
        def copies(below: str) -> list[Path]:
            if only is not None:
                return self._copies_of(only, below)
            return [copy / prefix / below for copy in self.copies if copy.is_dir()]

        sealed = SealedFolder(
            folder=folder, manifest=manifest, copies=copies, progress=self.progress
        )
        parity = open_parity(folder)
        if parity is not None:
            source, index = parity
            self._open.callback(source.close)
            sealed.restorer = Restorer(source, index, sealed.any_leaf)
        return sealed

    def _copies_of(self, path: Path, below: str = "") -> list[Path]:
        if below and below != path.name:
            # Another file of the folder, asked for by parity.
            nested = [copy / below for copy in self.copies if copy.is_dir()]
            if not path.as_posix().endswith(below):
                return nested
        found = []
        for copy in self.copies:
            if copy.is_dir():
                found += [copy / below, copy / path.name] if below else [copy / path.name]
            elif not below or path.as_posix().endswith(below):
                found.append(copy)
        return [place for place in found if place.is_file()]

    def _add_sealed(self, sealed: SealedFolder, below: str, name: str) -> None:
        path = sealed.folder / below
        mending = Mending(path=path, name=name)
        self.mendings.append(mending)
        if path.is_symlink() and not path.exists():
            mending.why_lost = "it is a link that leads nowhere; mend the link, or remove it"
            mending.findings += self._damage(sealed, below, name)
            return
        try:
            sealed.plan(below, mending)
        except PathError as error:
            mending.skipped.append(Skipped(what=name, why=f"it cannot be read: {error.what}"))
            return
        mending.checked["files against their seal"] = 1
        there = path.is_file()
        if mending.mends or mending.lost or not there or path.stat().st_size != mending.size_bytes:
            mending.findings += self._damage(sealed, below, name)

    def _damage(self, sealed: SealedFolder, below: str, name: str) -> list[Finding]:
        outcome = check_file(
            sealed.folder / below, sealed.manifest.files[below], name, Thoroughness()
        )
        self.outcome.skipped += outcome.skipped
        return list(outcome.findings)

    def _add_unsealed(self, path: Path, name: str, copies: list[Path]) -> None:
        mending = Mending(path=path, name=name)
        self.mendings.append(mending)
        with ByteSource(path) as source:
            try:
                structure, failing = plan_by_checksums(source, mending, progress=self.progress)
            except MalformedError as error:
                mending.findings.append(error.damage.finding(name))
                mending.why_lost = "its structure cannot be read"
                return
            there = [copy for copy in copies if copy.is_file()]
            if there:
                plan_by_copies(source, mending, structure, failing, there)
            if not self.accept_weak:
                drop_weak(mending)
            if source.changed():
                why = "it changed while it was read; repair it when nothing writes to it"
                self.mendings[-1] = replace(
                    Mending(path=path, name=name), skipped=[Skipped(what=name, why=why)]
                )
