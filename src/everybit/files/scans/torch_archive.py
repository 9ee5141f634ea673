"""What an archive is for, by its members: which of them a loader unpickles, compiles or runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Severity
from everybit.files.scans.content import Kind
from everybit.files.scans.names import is_pickled, is_surely_pickled
from everybit.files.scans.pickle_start import may_go_on_as_pickle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.files.scans.content import Content
    from everybit.files.scans.walk import Walk
    from everybit.files.zips.archive import Member

_HEAD_BYTES: Final = 1024
_NATIVE: Final = (".so", ".dll", ".dylib", ".pyd", ".cubin")
_MAX_CODE_BYTES: Final = 8 * 1024 * 1024
_MAX_LISTED: Final = 16


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Layout:
    """What the names of an archive's members say that it is.

    Attributes:
        root: The folder in it that torch reads, with its slash; "" where it is no torch archive.
        compiled: TorchScript.
        package: A `torch.package` archive, whose sources run when it is loaded.
        sources: Members of Python source that loading it would run.
        libraries: Members of compiled code.
        code: TorchScript sources, by name.
        has_checksums: Its members carry checksums.
    """

    root: str = ""
    compiled: bool = False
    package: bool = False
    sources: list[str] = field(default_factory=list)
    libraries: list[str] = field(default_factory=list)
    code: dict[str, str] = field(default_factory=dict)
    has_checksums: bool = True

    @classmethod
    def of(cls, members: Sequence[Member]) -> Layout:
        """Return the layout of an archive."""
        names = {member.name.casefold() for member in members}
        # torch takes the folder of the directory's first entry, and looks names up without case.
        first = members[0].name.partition("/") if members else ("", "", "")
        root = f"{first[0]}/" if first[1] else ""
        folded = root.casefold()
        package = any(
            f"{folded}{mark}" in names for mark in (".data/version", ".data/extern_modules")
        )
        known = package or any(
            f"{folded}{mark}" in names for mark in ("data.pkl", "constants.pkl", "version")
        )
        return cls(
            root=root if root and known else "",
            compiled=bool(root) and f"{folded}constants.pkl" in names,
            package=bool(root) and package,
        )

    def is_pickle(self, name: str) -> bool:
        """Return whether a loader unpickles a member of this name, whatever it holds."""
        return is_surely_pickled(name) or name.lower().endswith(".debug_pkl")

    def is_raw(self, name: str) -> bool:
        """Return whether torch reads a member as the plain elements of a storage."""
        if not self.root or not name.startswith(self.root):
            return False
        rest = name[len(self.root) :]
        return rest.startswith(("data/", "constants/", "tensors/")) or (
            self.package and rest.startswith(".data/") and rest.endswith(".storage")
        )

    def wants_whole(self, probe: Content, size: int) -> bool:
        """Return whether a compressed member must be expanded to be looked into.

        Args:
            probe: Its first bytes.
            size: How many there are in all, as the archive says.
        """
        from everybit.files.scans.kinds import recognise

        kinds = recognise(probe)
        if kinds == (Kind.NPY,):
            return _may_hold_objects(probe)
        if kinds in ((Kind.SAFETENSORS,), (Kind.OTHER,)):
            # An archive shows itself at its end only where something stands before it.
            return is_pickled(probe.name) or may_go_on_as_pickle(probe.source.read(0, _HEAD_BYTES))
        return True

    def note(self, name: str, child: Content) -> None:
        """Note a member that is code."""
        lowered = name.lower()
        if lowered.endswith(".py"):
            if self.compiled and name.startswith(f"{self.root}code/"):
                data = child.source.read(0, min(child.source.size, _MAX_CODE_BYTES))
                self.code[name] = data.decode("utf-8", "replace")
            else:
                self.sources.append(name)
        elif lowered.removesuffix("\n").endswith(_NATIVE):
            self.libraries.append(name)

    def tell(self, content: Content, walk: Walk) -> None:
        """Tell of code that loading the archive runs."""
        if self.code:
            from everybit.files.scans.torchscript import tell_code

            tell_code(content, walk, self.code)
        if self.package and self.sources:
            walk.tell(
                content,
                f"is a torch.package: loading it runs the {len(self.sources)} Python files in it, "
                f"such as {self.sources[0]}",
                rule_id="PKL205",
                files=self.sources[:_MAX_LISTED],
                remedy="Read the sources in it before you import it, or take its weights only.",
            )
        if self.libraries:
            walk.tell(
                content,
                f"holds compiled code, which its loader runs: {self.libraries[0]}",
                rule_id="PKL205",
                files=self.libraries[:_MAX_LISTED],
                severity=Severity.WARNING,
                remedy="Load it only from a builder that you trust, or build it again yourself.",
            )


def _may_hold_objects(probe: Content) -> bool:
    """Return whether the first bytes of an array do not prove that it holds numbers alone."""
    from everybit.files.damage import MalformedError
    from everybit.files.formats.npy import read_header

    try:
        return read_header(probe.source).num_bytes is None
    except MalformedError:
        return True
