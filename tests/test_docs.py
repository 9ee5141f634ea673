"""The pages: their Python runs, their command lines exist, their lists are the code's."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path

import click
import pytest
from docs import generate

import everybit
from everybit.cli import verbs
from everybit.core.divergence import DivergenceKind
from everybit.core.finding import Location, Severity
from everybit.core.link import Link
from everybit.core.verdict import SCHEMA, Status

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "README.zh-CN.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "rules").glob("*.md")),
]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def _blocks(*languages):
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            if match[1] in languages:
                line = text.count("\n", 0, match.start()) + 2
                yield pytest.param(page, line, match[2], id=f"{page.name}:{line}")


@pytest.mark.parametrize(("page", "line", "code"), list(_blocks("python")))
def test_python_blocks_run(page, line, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # Numbered as in the page, so that a traceback points there.
    program = compile("\n" * (line - 1) + code, str(page), "exec")
    exec(program, {"__name__": "__main__"})


def _command_lines():
    """Yield every `everybit ...` that a page shows, in a block or within a sentence."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        shown = []
        for match in BLOCK.finditer(text):
            if match[1] in ("bash", "console", "sh", "shell"):
                for line in match[2].splitlines():
                    shown += re.split(r"&&|\|\|?|;", line.removeprefix("$ "))
        prose = BLOCK.sub("", text)
        shown += re.findall(r"`((?:python -m )?everybit [^`]+)`", prose)
        for line in dict.fromkeys(part.strip() for part in shown):
            line = re.sub(r"^(\S*/)?(python3? -m )?", "", line, count=1)
            if line.startswith("everybit ") and not line.startswith("everybit VERB"):
                yield pytest.param(line, id=f"{page.name}:{line}")


@pytest.mark.parametrize("line", list(_command_lines()))
def test_shown_command_lines_exist(line):
    words = [word for word in shlex.split(line, comments=True)[1:] if word not in ("...", ">")]
    if not words or words[0].startswith("-"):
        assert set(words) <= {"--help", "-h", "--version"}
        return
    assert words[0] in verbs.VERBS, f"no verb {words[0]}"
    command = importlib.import_module(verbs.VERBS[words[0]][0]).command
    if isinstance(command, click.Group) and len(words) > 1 and not words[1].startswith("-"):
        assert words[1] in command.commands, f"no verb {words[0]} {words[1]}"
        command = command.commands[words.pop(1)]
    # Unknown flags raise; missing files and placeholders do not.
    command.make_context(
        words[0], words[1:], resilient_parsing=True, help_option_names=["-h", "--help"]
    )


def test_generated_pages_are_up_to_date():
    wanted = generate.pages()
    for name, text in wanted.items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == text, (
            f"docs/{name} is old: python docs/generate.py"
        )
    on_disk = {f"rules/{path.name}" for path in (ROOT / "docs" / "rules").iterdir()}
    assert on_disk == {name for name in wanted if name.startswith("rules/")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith("https://"):
            assert (page.parent / target).exists(), target


def test_every_page_is_reached_from_the_index():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name == "index.md" or f"({page.name})" in index, page.name


def _table(text, heading, column=0):
    """Return the code words of a column of the table after `heading`."""
    _, _, rest = text.partition(heading)
    rows = [line for line in rest.split("\n## ")[0].splitlines() if line.startswith("| ")]
    cells = [re.split(r"(?<!\\)\|", row)[column + 1] for row in rows[1:]]
    return [word for cell in cells for word in re.findall(r"`([^`]+)`", cell)]


def test_the_readme_shows_the_verbs():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert _table(text, "## Verbs") == list(verbs.VERBS)
    for verb, (_, told) in verbs.VERBS.items():
        assert f"| `{verb}` | {told} |" in text


def test_the_contract_is_the_code():
    text = (ROOT / "docs" / "contract.md").read_text(encoding="utf-8")
    assert _table(text, "## Verbs") == list(verbs.VERBS)
    assert set(_table(text, "`where` uses these keys")) == set(Location.__dataclass_fields__)
    flat = " ".join(text.split())
    assert f"`{' '.join(Link)}`" in flat
    assert f"`{' '.join(DivergenceKind)}`" in flat
    assert f'"schema": "{SCHEMA}"' in text
    for member in (*Status, *Severity):
        assert f"`{member}`" in text
    named = set(_table(text, "## Python")) - {
        'with everybit.Guard(model, optimizer, run="runs/a"):',
        ".ok", ".status", ".findings", ".coverage", ".raise_for_findings()",
    }  # fmt: skip
    assert named == set(everybit.__all__) - {"__version__"}
