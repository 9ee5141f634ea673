"""The snippets of `tests/source/snippets`, and what the first line of each expects of `lint`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SNIPPETS: Final = Path(__file__).resolve().parent.parent / "tests" / "source" / "snippets"
_EXPECT: Final = re.compile(r"(?:#|//)\s*expect:\s*(.*)")
_ITEM: Final = re.compile(r"(SRC\d{3})@(\d+(?:\.\d+)?)")

#: A rule and the place of its finding: a line, or `CELL.LINE` of a notebook.
Place = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """A file, or a folder whose files are one project.

    Attributes:
        name: `RULE/NAME` below the folder of snippets.
        path: Where it lies.
        expected: By each file's name below the snippet (a lone file's own name), what `lint` has
            to tell of it; None for a file that says nothing, such as an `__init__.py`.
    """

    name: str
    path: Path
    expected: dict[str, frozenset[Place] | None]

    @property
    def topic(self) -> str:
        """The rule whose folder it lies in, as `SRC301`."""
        return self.name.partition("/")[0].upper()

    @property
    def harmless(self) -> bool:
        """Whether nothing at all is expected."""
        return not any(self.expected.values())


def read_snippets(folder: Path = SNIPPETS) -> list[Snippet]:
    """Read all snippets below a folder of rules' folders, in the order of their names.

    Raises:
        ValueError: A first line is not of the form `# expect: SRC301@4, SRC301@2.5`.
    """
    found = []
    for rule in sorted(path for path in folder.iterdir() if path.is_dir()):
        for path in sorted(rule.iterdir()):
            if path.name != "__pycache__":
                expected = {_name(each, path): read_expected(each) for each in _files(path)}
                found.append(Snippet(name=f"{rule.name}/{path.name}", path=path, expected=expected))
    return found


def read_expected(path: Path) -> frozenset[Place] | None:
    """Return what the first line of a file expects; None where it says nothing."""
    found = _EXPECT.match(_first_line(path))
    if found is None:
        return None
    what = found[1].strip()
    if what.startswith("none"):
        return frozenset()
    items = [_ITEM.fullmatch(item.strip()) for item in what.partition("(")[0].split(",")]
    if not all(items):
        raise ValueError(f"{path}: {what!r} is no list of findings")
    return frozenset((item[1], item[2]) for item in items if item)


def _name(file: Path, snippet: Path) -> str:
    return file.relative_to(snippet).as_posix() if snippet.is_dir() else file.name


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return sorted(p for p in path.rglob("*") if p.is_file() and "__pycache__" not in p.parts)


def _first_line(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        code = next(cell for cell in cells if cell["cell_type"] == "code")
        text = "".join(code["source"])
    return text.splitlines()[0] if text else ""
