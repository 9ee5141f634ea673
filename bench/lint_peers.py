"""Linters beside `lint`: how each is asked about a folder, and which of its rules are about what.

Each peer is asked as its own command line asks it, with everything switched on, and its answer
read from its own report.
"""

from __future__ import annotations

import json
import re
import resource
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_LINE: Final = re.compile(r"^(.*?):(\d+):\d+: ([A-Z]+\d+) ", re.MULTILINE)
#: A line of a Semgrep rule that excepts calls with a constant, such as a file name.
_CONSTANT: Final = re.compile(r"^\s*-\s*pattern-not:.*\"\.\.\.\".*$")
_IDS: Final = re.compile(r"^\s*-\s*id:\s*(\S+)", re.MULTILINE)

#: About loads of torch and of pickles: counted for SRC301, SRC302, SRC309 and SRC311 alike.
LOADS: Final = frozenset({
    "TOR102", "B301", "B302", "B614", "S301", "S302", "avoid-torch-load-untrusted",
    "pickles-in-pytorch", "avoid-pickle", "avoid-cPickle", "avoid-dill", "avoid-shelve",
    "avoid-joblib-load", "scikit-joblib-load", "avoid-pandas-read-pickle", "pickles-in-pandas",
    "avoid-numpy-allow-pickle", "pickles-in-numpy", "avoid-jsonpickle", "marshal-usage",
    "msgpack-numpy",
})  # fmt: skip
#: Told at an import, once for the whole file, whatever is done with it.
IMPORTS: Final = {
    "SRC301": frozenset({"pytorch-package"}),
    "SRC302": frozenset({"B403", "S403"}),
}
#: The rules of the peers that are about the same thing, by rule of everybit.
COUNTED: Final = {
    "SRC301": LOADS, "SRC302": LOADS, "SRC309": LOADS, "SRC311": LOADS,
    "SRC304": frozenset({"numpy-in-pytorch-datasets"}),
    "SRC308": frozenset({"pickles-in-pytorch"}),
    "SRC310": frozenset({"hf-trust-remote-code", "B615"}),
}  # fmt: skip
ANY: Final = frozenset().union(*COUNTED.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One finding of a peer.

    Attributes:
        file: The file, below the folder that was asked about.
        rule: The peer's own name of the rule.
        cell: The code cell of a notebook, counted from 1; 0 for other files.
        start: The first line, counted from 1.
        stop: The last line.
    """

    file: str
    rule: str
    cell: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A linter: the command that asks it about a folder, and how its report is read."""

    command: list[str]
    read: Callable[[str], list[tuple[str, str, int, int, int]]]

    def ask(self, folder: Path) -> list[Told]:
        """Ask about all files below a folder.

        Raises:
            RuntimeError: It did not run.
        """
        done = subprocess.run(
            [*self.command, str(folder)], capture_output=True, text=True, check=False
        )
        if done.returncode not in (0, 1):
            raise RuntimeError(f"{self.command[0]} does not run: {done.stderr[-500:]}")
        found = []
        for file, rule, cell, start, stop in self.read(done.stdout):
            name = Path(file).relative_to(folder).as_posix()
            found.append(Told(file=name, rule=rule, cell=cell, start=start, stop=stop))
        return sorted(found, key=lambda told: (told.file, told.cell, told.start, told.rule))

    def take_time(self, folder: Path) -> dict[str, float]:
        """Take the time of the command, start-up included.

        Returns:
            `wall_s`, and `cpu_s`: the CPU time of all its processes.
        """
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([*self.command, str(folder)], capture_output=True, check=False)
        wall = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return {"wall_s": wall, "cpu_s": cpu}


def _torchfix(text: str) -> list[tuple[str, str, int, int, int]]:
    return [
        (file, rule, 0, int(line), int(line)) for file, line, rule in _LINE.findall(text)
    ]  # fmt: skip


def _bandit(text: str) -> list[tuple[str, str, int, int, int]]:
    return [
        (each["filename"], each["test_id"], 0, min(each["line_range"]), max(each["line_range"]))
        for each in json.loads(text)["results"]
    ]


def _ruff(text: str) -> list[tuple[str, str, int, int, int]]:
    return [
        (each["filename"], str(each["code"] or ""), _code_cell(each), each["location"]["row"],
         each["end_location"]["row"])
        for each in json.loads(text)
    ]  # fmt: skip


def _code_cell(each: dict[str, Any]) -> int:
    """Return the number of a cell among the code cells: ruff counts cells of text as well."""
    if not each.get("cell"):
        return 0
    cells = json.loads(Path(each["filename"]).read_text(encoding="utf-8"))["cells"]
    return sum(cell["cell_type"] == "code" for cell in cells[: each["cell"]])


def _semgrep(text: str) -> list[tuple[str, str, int, int, int]]:
    return [
        (each["path"], each["check_id"].rpartition(".")[2], 0, each["start"]["line"],
         each["end"]["line"])
        for each in json.loads(text)["results"]
    ]  # fmt: skip


def find_peers(folder: Path, rules: Path | None, place: Path) -> dict[str, Peer]:
    """Return the peers whose virtual environment lies below a folder, under their name.

    Args:
        folder: Where the environments lie: torchfix, bandit, ruff, semgrep.
        rules: Semgrep's rules, as YAML; without them Semgrep is left out.
        place: An empty folder for the rules without their exceptions for constants.
    """
    peers = {
        "torchfix": Peer(
            command=[str(folder / "torchfix/bin/torchfix"), "--select", "ALL"], read=_torchfix
        ),
        "bandit": Peer(
            command=[str(folder / "bandit/bin/bandit"), "-q", "-r", "-f", "json"], read=_bandit
        ),
        "ruff": Peer(
            command=[
                str(folder / "ruff/bin/ruff"), "check", "--isolated", "--no-cache", "--preview",
                "--select", "ALL", "--output-format", "json",
            ],
            read=_ruff,
        ),
    }  # fmt: skip
    if rules is not None:
        strict = place / "rules"
        _write_strict(rules, strict)
        for name, config in (("semgrep", rules), ("semgrep, constants too", strict)):
            command = [
                str(folder / "semgrep/bin/semgrep"), "scan", "--metrics", "off",
                "--disable-version-check", "--no-git-ignore", "--json", "--config", str(config),
            ]  # fmt: skip
            peers[name] = Peer(command=command, read=_semgrep)
    return {name: peer for name, peer in peers.items() if Path(peer.command[0]).exists()}


def _write_strict(rules: Path, place: Path) -> None:
    """Write the rules without the lines that except calls with a constant."""
    for path in sorted(rules.rglob("*.y*ml")):
        kept = [
            line for line in path.read_text(encoding="utf-8").splitlines()
            if not _CONSTANT.match(line)
        ]  # fmt: skip
        target = place / path.relative_to(rules)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("\n".join(kept) + "\n", encoding="utf-8")


def list_rules(rules: Path) -> list[dict[str, Any]]:
    """Return what is recorded of Semgrep's rules: their names, and where each file is from.

    The first line of a file says it: `# source: REPOSITORY PATH COMMIT`.
    """
    found = []
    for path in sorted(rules.rglob("*.y*ml")):
        text = path.read_text(encoding="utf-8")
        _, _, source = text.partition("\n")[0].partition("# source: ")
        repository, file, commit = [*source.split(), "", "", ""][:3]
        found.append(
            {"repository": repository, "path": file, "commit": commit, "rules": _IDS.findall(text)}
        )
    return found
