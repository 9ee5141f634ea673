"""The peers' own test files: what they tell there, and what `lint` tells of the same files.

The files are not part of this repository: a folder for each peer, `semgrep` and `trailofbits`
both for Semgrep. Examples in Python 2 are read with their `print` written as a function.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from bench.lint_peers import ANY, Peer

if TYPE_CHECKING:
    from pathlib import Path

#: Whose files: the folder, and the peer that is asked about them.
FOLDERS: Final = {
    "torchfix": "torchfix", "bandit": "bandit", "ruff": "ruff", "semgrep": "semgrep",
    "trailofbits": "semgrep",
}  # fmt: skip
_RULES: Final = ANY | {"pickles-in-pytorch-distributed", "pickles-in-keras"}
#: Why `lint` says nothing of a line, by the peer's rule or the text of the line; read by hand.
_WHY: Final = (
    ("rule", r"^B615$", "taken from a hub without a pinned revision, and no code of it runs"),
    ("rule", r"datasets$", "NumPy's generator in a Dataset: torch seeds it since 1.9"),
    ("rule", r"distributed$", "objects exchanged by the ranks of one job"),
    ("rule", r"keras$", "Keras"),
    ("text", r"\b(?:dumps?|save|packb)\(", "writing, which runs nothing"),
    ("text", r"=weights_only\)", "True unless a caller changes it, and none does"),
    (
        "text",
        r"torch\.load\((?!.*weights_only=(?:False|flag))",
        "torch.load by default, or told True",
    ),
    ("text", r"= pickle\.load$", "a name that is not called"),
    ("text", r"", "what the same function has written before"),
)


def compare_own(peers: dict[str, Peer], folder: Path) -> list[dict[str, Any]]:
    """Return the lines of the peers' own files that a peer or `lint` tells.

    Returns:
        For each line: `of`, `file`, `line`, `rule` of the peer or None, `lint`'s rule or None,
        and `why` lint says nothing.
    """
    from everybit.api.lint import lint

    rows = []
    for of, name in FOLDERS.items():
        if name not in peers or not (folder / of).is_dir():
            continue
        told = [each for each in peers[name].ask(folder / of) if each.rule in _RULES]
        for path in sorted((folder / of).glob("*.py")):
            lines = path.read_text(encoding="utf-8").splitlines()
            own = {finding.where.line or 0: finding.rule for finding in lint(path).findings}
            theirs = {each.start: each.rule for each in reversed(told) if each.file == path.name}
            for line in sorted({*own, *theirs}):
                rule = theirs.get(line)
                why = None if line in own else _why(str(rule), lines[line - 1].strip())
                rows.append(
                    {"of": of, "file": path.name, "line": line, "rule": rule,
                     "lint": own.get(line), "why": why}
                )  # fmt: skip
    return rows


def _why(rule: str, text: str) -> str:
    of = {"rule": rule, "text": text}
    return next(why for what, pattern, why in _WHY if re.search(pattern, of[what]))


def own_table(rows: list[dict[str, Any]]) -> list[str]:
    """The part of the section about the peers' own files."""
    lines = [
        "### The peers' own test files", "",
        ("The same the other way round: the files that the peers test their rules about loading "
        "with, which `lint` was not written for. Each line that a peer tells there, and that "
        "`lint` does not, was read by hand."), "",
        "| test files of | files | lines told by the peer | by both | by `lint` alone |",
        "|---|---|---|---|---|",
    ]  # fmt: skip
    for of in FOLDERS:
        here = [row for row in rows if row["of"] == of]
        theirs = [row for row in here if row["rule"]]
        both = sum(row["lint"] is not None for row in theirs)
        files = len({row["file"] for row in here})
        lines.append(f"| {of} | {files} | {len(theirs)} | {both} | {len(here) - len(theirs)} |")
    reasons = Counter(row["why"] for row in rows if row["why"])
    lines += ["", "Told by a peer and not by `lint`: "
              + "; ".join(f"{why} ({number})" for why, number in reasons.most_common())
              + "."]  # fmt: skip
    return lines
