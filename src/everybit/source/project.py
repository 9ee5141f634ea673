"""The files around a file: where its imports of the project's own modules lead."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from everybit.source.canonical import KNOWN_LIBRARIES, top_level
from everybit.source.leading import Leads
from everybit.source.meaning import Package
from everybit.source.module import Module
from everybit.source.reading import Refused, SourceFile, read_source

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from everybit.source.entries import Entries
    from everybit.source.leading import Wanted
    from everybit.source.resolving import Frame

#: A folder with one of these is where a project begins.
_MARKERS: Final = frozenset(
    {"pyproject.toml", "setup.py", "setup.cfg", ".git", ".hg", "requirements.txt", "Pipfile"}
)
#: Folders looked at above a file, where nothing marks the beginning.
_MAX_ABOVE: Final = 8
#: Neighbours read for the sake of the files that were asked about.
_MAX_NEIGHBOURS: Final = 2_000


#: Deeper than any step.
_NOTHING_CUT: Final = 1 << 30


@dataclass(slots=True)
class Following:
    """How deep the resolution is at the moment, over all files.

    Attributes:
        depth: Steps open.
        steps: Steps taken since the outermost one began.
        lowest: How deep the outermost step lies whose answer a circle or a bound cut off.
        within: Dictionaries open: what they hold is being followed.
        entries: What those were found to hold that belong to one question, and how deep each was
            asked for: one that was asked for less deeply is at least as well known.
    """

    depth: int = 0
    steps: int = 0
    lowest: int = _NOTHING_CUT
    within: int = 0
    entries: dict[tuple[ast.AST, ast.AST, Frame | None], tuple[int, Entries]] = field(
        default_factory=dict
    )


class Project:
    """Finds and parses modules of the project, each once.

    Args:
        roots: Folders that were asked about: imports are looked for in them as well.
        texts: What to read in place of some files.
    """

    def __init__(
        self, roots: tuple[Path, ...] = (), texts: Mapping[Path, str] | None = None
    ) -> None:
        self._given = texts or {}
        self.following = Following()
        self._roots = tuple(dict.fromkeys(root.resolve() for root in roots))
        self._modules: dict[Path, Module | None] = {}
        self._files: dict[Module, Path] = {}
        self._sources: dict[Module, SourceFile] = {}
        self._names: dict[Path, frozenset[str]] = {}
        self._folders: dict[Path, tuple[Path, ...]] = {}
        self._found: dict[tuple[Path, str], Package | None] = {}
        self._neighbours = 0
        self._texts: dict[Path, str] = {}
        self._functions: dict[str, tuple[str, ...]] = {}
        self._leads: dict[Wanted, Leads] = {}

    def add(self, file: SourceFile, path: Path, shown: str) -> Module:
        """Take in a file that was read.

        Args:
            file: Its text and tree.
            path: Where it lies.
            shown: Its name in findings.
        """
        where = path.resolve()
        module = Module(
            path=shown,
            text=file.text,
            tree=file.tree,
            project=self,
            name=self._dotted(where),
            magics=file.magics,
        )
        self._modules[where] = module
        self._files[module] = where
        self._sources[module] = file
        return module

    def read(self, path: Path, shown: str) -> tuple[Module, SourceFile] | Refused:
        """Read a file that was asked about, or return what is known of it already."""
        known = self._modules.get(path.resolve())
        if known is not None:
            known.path = shown
            return known, self._sources[known]
        file = read_source(path, self._given.get(path.resolve()))
        if isinstance(file, Refused):
            return file
        return self.add(file, path, shown), file

    def remember(self, path: Path, text: str) -> None:
        """Keep the text of a file that was asked about, whether it is parsed or not."""
        self._texts[path.resolve()] = text

    def functions_named(self, name: str) -> tuple[str, ...]:
        """Return the text of each function of the project's files that has this short name."""
        if name not in self._functions:
            self._functions[name] = tuple(
                found for text in self._texts.values() for found in _functions(text, name)
            )
        return self._functions[name]

    def leads(self, wanted: Wanted) -> Leads:
        """Return what is known of where the functions of the project lead."""
        if wanted not in self._leads:
            self._leads[wanted] = Leads(wanted)
        return self._leads[wanted]

    def find(self, importer: Module, dotted: str) -> Package | None:
        """Return the module of the project that an absolute import means, None for any other."""
        if not dotted or top_level(dotted) in KNOWN_LIBRARIES:
            return None
        start = self._files.get(importer)
        if start is None:
            return None
        key = (start.parent, dotted)
        if key not in self._found:
            self._found[key] = None
            for folder in self._search(start.parent):
                found = self._at(folder, dotted)
                if found is not None:
                    self._found[key] = found
                    break
        return self._found[key]

    def relative(self, importer: Module, level: int, dotted: str) -> Package | None:
        """Return what `from ..dotted import` means in a file."""
        start = self._files.get(importer)
        if start is None or level > len(start.parents):
            return None
        folder = start.parents[level - 1]
        if dotted:
            return self._at(folder, dotted, package=self._dotted(folder / "__init__.py"))
        module = self._load(folder / "__init__.py")
        return Package(self._dotted(folder / "__init__.py"), module, folder)

    def below(self, package: Package, name: str) -> Package | None:
        """Return the module that a package holds under a name."""
        folder = package.folder
        return self._at(folder, name, package=package.name) if folder is not None else None

    def place_of(self, module: Module) -> Path | None:
        """Return where a file lies, None where it is no file."""
        return self._files.get(module)

    def _at(self, folder: Path, dotted: str, package: str = "") -> Package | None:
        """Return the module at a dotted place below a folder."""
        words = dotted.split(".")
        if not all(word.isidentifier() for word in words):
            return None
        place = folder
        for word in words[:-1]:
            if word not in self._listed(place):
                return None
            place = place / word
        last = words[-1]
        names = self._listed(place)
        name = ".".join(filter(None, [package, dotted]))
        if f"{last}.py" in names:
            module = self._load(place / f"{last}.py")
            return Package(module.name if module is not None else name, module)
        if last in names:
            inside = self._listed(place / last)
            if "__init__.py" in inside:
                module = self._load(place / last / "__init__.py")
                return Package(module.name if module is not None else name, module, place / last)
            if any(each.endswith(".py") for each in inside):
                return Package(name, None, place / last)
        return None

    def _load(self, path: Path) -> Module | None:
        where = path.resolve()
        if where in self._modules:
            return self._modules[where]
        self._modules[where] = None
        if self._neighbours >= _MAX_NEIGHBOURS or not where.is_file():
            return None
        self._neighbours += 1
        file = read_source(where, self._given.get(where))
        if isinstance(file, Refused):
            return None
        return self.add(file, where, where.name)

    def _listed(self, folder: Path) -> frozenset[str]:
        if folder not in self._names:
            try:
                self._names[folder] = frozenset(each.name for each in folder.iterdir())
            except OSError:
                self._names[folder] = frozenset()
        return self._names[folder]

    def _search(self, folder: Path) -> tuple[Path, ...]:
        """Return where an import in a folder is looked for: here, and up to the beginning."""
        if folder not in self._folders:
            above = [folder, *folder.parents][:_MAX_ABOVE]
            marked = [n for n, each in enumerate(above) if self._listed(each) & _MARKERS]
            asked = [n for n, each in enumerate(above) if each in self._roots]
            bare = [n for n, each in enumerate(above) if "__init__.py" not in self._listed(each)]
            # Nothing marks the beginning: what was asked about, or where the package lies.
            last = marked[0] if marked else max((asked or [0])[-1], (bare or [0])[0])
            found: list[Path] = []
            for each in above[: last + 1]:
                found.append(each)
                if "src" in self._listed(each):
                    found.append(each / "src")
            self._folders[folder] = tuple(dict.fromkeys([*found, *self._roots]))
        return self._folders[folder]

    def _dotted(self, path: Path) -> str:
        words = [] if path.name == "__init__.py" else [path.stem]
        folder = path.parent
        while "__init__.py" in self._listed(folder) and folder != folder.parent:
            words.append(folder.name)
            folder = folder.parent
        return ".".join(reversed(words)) or path.parent.name


def _functions(text: str, name: str) -> Iterator[str]:
    """Yield each function of a name, from its `def` to where the indentation ends."""
    if name not in text:
        return
    pattern = rf"^([ \t]*)(?:async[ \t]+)?def[ \t]+{re.escape(name)}\b"
    for found in re.finditer(pattern, text, re.MULTILINE):
        indent = len(found[1].expandtabs())
        rest = text[found.end() :].splitlines(keepends=True)
        kept = rest[:1]
        for line in rest[1:]:
            stripped = line.strip()
            depth = len(line.expandtabs()) - len(line.expandtabs().lstrip())
            if stripped and depth <= indent and not stripped.startswith((")", "#")):
                break
            kept.append(line)
        yield found[0].lstrip() + "".join(kept)
