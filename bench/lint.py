"""Linters side by side: what each finds in the snippets of `tests/source/snippets`.

    python -m bench.lint --peers PEERS --semgrep-rules RULES

PEERS is a folder with a virtual environment for each peer, under its name: torchfix, bandit, ruff,
semgrep. One that is not there is left out. RULES is a folder of Semgrep's public rules, which are
not part of this repository; the first line of each file says where it is from
(`# source: REPOSITORY PATH COMMIT`). With `--own FOLDER` the tools are asked about the peers' own
test files as well (`lint_own`). With `--times RESULT` no command is timed, and the times are those
of an earlier result, which the page then says.

A peer finds what is expected where one of its rules about the same thing (`lint_peers.COUNTED`)
tells a line of the same statement. A false alarm is a finding of any of those rules in a snippet
where nothing is expected.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.kept import commit
from bench.lint_own import compare_own
from bench.lint_peers import ANY, COUNTED, IMPORTS, Peer, Told, find_peers, list_rules
from bench.lint_snippets import SNIPPETS, Place, Snippet, read_snippets
from bench.scan import version
from bench.table import write_section

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT: Final = Path(__file__).resolve().parent.parent
_ROUNDS: Final = 3


def span(source: str, line: int) -> tuple[int, int]:
    """Return the lines of the innermost statement around a line, of a compound one its header."""
    best = (line, line)
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return best
    size = len(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.excepthandler):
            start, stop = node.lineno, node.end_lineno or node.lineno
            body = getattr(node, "body", None)
            if body:
                stop = max(start, body[0].lineno - 1)
            if start <= line <= stop and stop - start < size:
                best, size = (start, stop), stop - start
    return best


def matches(told: Told, place: str, lines: tuple[int, int]) -> bool:
    """Whether a finding of a peer is on a place (`LINE` or `CELL.LINE`) or its statement."""
    cell, _, line = place.rpartition(".")
    if cell:
        return told.cell == int(cell) and told.start <= int(line) <= told.stop
    return told.start <= lines[1] and lines[0] <= told.stop


def by_everybit(snippet: Snippet) -> dict[str, set[Place]]:
    """Return what `lint` tells of each file of a snippet."""
    from everybit.api.lint import lint

    found: dict[str, set[Place]] = {file: set() for file in snippet.expected}
    for finding in lint(snippet.path).findings:
        where = finding.where
        file = (where.path or "") if snippet.path.is_dir() else snippet.path.name
        cell = f"{where.member.removeprefix('cell ')}." if where.member else ""
        found[file].add((finding.rule, f"{cell}{where.line}"))
    return found


def expected_items(snippets: Iterable[Snippet]) -> list[dict[str, Any]]:
    """Return every expected finding with the lines of its statement."""
    items = []
    for snippet in snippets:
        for file, places in snippet.expected.items():
            path = snippet.path / file if snippet.path.is_dir() else snippet.path
            source = path.read_text(encoding="utf-8") if path.suffix == ".py" else ""
            for rule, place in sorted(places or ()):
                lines = span(source, int(place)) if source else (0, 0)
                items.append({
                    "snippet": snippet.name, "rule": rule, "place": place, "lines": lines,
                    "file": path.relative_to(SNIPPETS).as_posix(), "suffix": path.suffix,
                })  # fmt: skip
    return items


def judge(
    told: list[Told], items: list[dict[str, Any]], snippets: list[Snippet]
) -> dict[str, list[Any]]:
    """Compare a peer's findings with what is expected.

    Returns:
        `found` and `by_import`: the numbers of the expected findings; `false_alarms`:
        `[snippet, rule, line]` in snippets where nothing is expected; `elsewhere`: the same on
        lines of other snippets where nothing is expected; `other`: on a line where something is
        expected, of a rule that is about something else.
    """
    found, by_import, other = [], [], []
    by_file: dict[str, list[Told]] = {}
    for each in told:
        by_file.setdefault(each.file, []).append(each)
    met: set[Told] = set()
    for number, item in enumerate(items):
        here = by_file.get(item["file"], [])
        on = [each for each in here if matches(each, item["place"], item["lines"])]
        met.update(on)
        if any(each.rule in COUNTED.get(item["rule"], ()) for each in on):
            found.append(number)
        elif any(each.rule in IMPORTS.get(item["rule"], ()) for each in here):
            by_import.append(number)
        other += [
            [item["snippet"], item["rule"], each.rule]
            for each in on if each.rule not in COUNTED.get(item["rule"], ())
        ]  # fmt: skip
    false_alarms: list[Any] = []
    elsewhere: list[Any] = []
    for each in told:
        if each.rule in ANY and each not in met:
            snippet = next(s for s in snippets if _inside(each.file, s))
            row = [snippet.name, each.rule, each.start]
            (false_alarms if snippet.harmless else elsewhere).append(row)
    return {
        "found": found, "by_import": by_import, "false_alarms": false_alarms,
        "elsewhere": elsewhere, "other": other,
    }  # fmt: skip


def _inside(file: str, snippet: Snippet) -> bool:
    return file == snippet.name or file.startswith(f"{snippet.name}/")


def by_itself(snippets: list[Snippet], items: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Compare `lint` with what is expected, in the form of `judge`; each snippet is a project."""
    told = {snippet.name: by_everybit(snippet) for snippet in snippets}
    found = []
    for number, item in enumerate(items):
        by_file = told[item["snippet"]]
        file = item["file"].removeprefix(f"{item['snippet']}/")
        own = by_file[file] if file in by_file else by_file[Path(file).name]
        if (item["rule"], item["place"]) in own:
            found.append(number)
    wrong: dict[bool, list[Any]] = {True: [], False: []}
    for snippet in snippets:
        for file, places in told[snippet.name].items():
            for rule, place in sorted(places - (snippet.expected[file] or frozenset())):
                wrong[snippet.harmless].append([snippet.name, rule, place])
    return {
        "found": found, "by_import": [], "false_alarms": wrong[True], "elsewhere": wrong[False],
        "other": [],
    }  # fmt: skip


def compare(
    peers: dict[str, Peer], copy: Path, rounds: int = _ROUNDS, kept: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Ask everybit and all peers about all snippets, and take their time.

    Args:
        peers: By name.
        copy: An empty folder, to which the snippets are copied: some linters leave out what
            lies below a folder named tests.
        rounds: How often each command is timed.
        kept: An earlier result, whose times are taken over.
    """
    snippets = read_snippets()
    items = expected_items(snippets)
    shutil.copytree(
        SNIPPETS, copy, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True
    )
    tools = {"everybit": by_itself(snippets, items)}
    for name, peer in peers.items():
        tools[name] = judge(peer.ask(copy), items, snippets)
    everybit = Peer(
        command=[sys.executable, "-m", "everybit", "lint", "--format", "json"], read=lambda _: []
    )
    return {
        "snippets": len(snippets),
        "harmless": [snippet.name for snippet in snippets if snippet.harmless],
        "expected": [[item["snippet"], item["rule"], item["place"]] for item in items],
        "not_python": [n for n, item in enumerate(items) if item["suffix"] != ".py"],
        "tools": tools,
        **(
            {
                "seconds": kept["seconds"],
                "seconds_at": {"commit": kept["commit"], "snippets": kept["snippets"]},
            }
            if kept is not None
            else {"seconds": take_times({"everybit": everybit, **peers}, copy, rounds)}
        ),
    }  # fmt: skip


def take_times(tools: dict[str, Peer], folder: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Return the least `wall_s` and `cpu_s` of each tool's command, run in turn."""
    taken = [{name: tool.take_time(folder) for name, tool in tools.items()} for _ in range(rounds)]
    return {
        name: {kind: min(each[name][kind] for each in taken) for kind in ("wall_s", "cpu_s")}
        for name in tools
    }


def main() -> int:
    """Run the comparison from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--semgrep-rules", type=Path)
    parser.add_argument("--own", type=Path, help="a folder with the peers' own test files")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results" / "lint.json")
    parser.add_argument("--times", type=Path, help="an earlier result, to keep its times")
    parser.add_argument("--no-page", action="store_true")
    options = parser.parse_args()
    kept = json.loads(options.times.read_text(encoding="utf-8")) if options.times else None
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / "snippets"
        rules = options.semgrep_rules
        peers = find_peers(options.peers, rules, Path(place)) if options.peers else {}
        result: dict[str, Any] = {"commit": commit(), "versions": {}, "semgrep_rules": []}
        result["versions"]["everybit"] = version(Path(sys.executable), "everybit")
        for name, peer in peers.items():
            if "," not in name:
                result["versions"][name] = version(Path(peer.command[0]).parent / "python", name)
        if rules is not None:
            result["semgrep_rules"] = list_rules(rules)
        result |= compare(peers, copy, kept=kept)
        result["own"] = compare_own(peers, options.own.resolve()) if options.own else []
    options.out.parent.mkdir(parents=True, exist_ok=True)
    # A rule, a slash and a name can look like a folder of this machine, which no file may hold.
    text = re.sub(r'"(src\d{3})/', r'"\1: ', json.dumps(result, indent=0))
    options.out.write_text(text + "\n", encoding="utf-8")
    from bench.lint_table import table

    page = table(result)
    print(page)
    if not options.no_page:
        write_section("lint", page)
    own = result["tools"]["everybit"]
    missed = len(result["expected"]) - len(own["found"])
    wrong = len(own["false_alarms"]) + len(own["elsewhere"])
    if missed or wrong:
        print(f"wrong: lint misses {missed} and tells {wrong} that are not expected")
    return 1 if missed or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
