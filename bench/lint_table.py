"""The tables of `lint.py`, from its result file."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from bench.lint_own import own_table
from bench.lint_peers import COUNTED, IMPORTS, LOADS

from everybit.core.rule import rule as rule_of

_OWN: Final = "everybit"
_UNION: Final = "any of the peers"


def table(result: dict[str, Any]) -> str:
    """The section of the page of benchmarks."""
    tools = result["tools"]
    peers = [name for name in tools if name != _OWN]
    columns = [*tools, _UNION]
    expected, harmless = result["expected"], set(result["harmless"])
    found = {name: set(told["found"]) for name, told in tools.items()}
    found[_UNION] = set().union(*(found[name] for name in peers))
    lines = [
        "## Linters side by side", "", *_words(result), "",
        "| expected findings | of | " + " | ".join(columns) + " |",
        "|---|---|" + "---|" * len(columns),
    ]  # fmt: skip
    for rule in sorted({rule for _, rule, _ in expected}):
        numbers = {n for n, item in enumerate(expected) if item[1] == rule}
        cells = [_cell(rule, name, len(found[name] & numbers)) for name in columns]
        title = f"[{rule}](rules/{rule}.md) {rule_of(rule).slug}"
        lines.append(f"| {title} | {len(numbers)} | " + " | ".join(cells) + " |")
    rows = {
        "**all**": set(range(len(expected))),
        "those in Python files": set(range(len(expected))) - set(result["not_python"]),
    }
    for label, numbers in rows.items():
        cells = [str(len(found[name] & numbers)) for name in columns]
        lines.append(f"| {label} | {len(numbers)} | " + " | ".join(cells) + " |")
    imports = {name: set(told["by_import"]) for name, told in tools.items()}
    imports[_UNION] = set().union(*(imports[name] for name in peers))
    cells = [str(len(found[name] | imports[name])) for name in columns]
    lines.append(f"| and those told at an import | {len(expected)} | " + " | ".join(cells) + " |")
    wrong = {name: {row[0] for row in told["false_alarms"]} for name, told in tools.items()}
    wrong[_UNION] = set().union(*(wrong[name] for name in peers))
    lines += [
        "", "| false alarms | of | " + " | ".join(columns) + " |",
        "|---|---|" + "---|" * len(columns),
        f"| harmless snippets with one | {len(harmless)} | "
        + " | ".join(str(len(wrong[name])) for name in columns) + " |", "",
        *_false_alarms(tools, peers), "", *_times(result),
    ]  # fmt: skip
    if result.get("own"):
        lines += ["", *own_table(result["own"])]
    return "\n".join(lines)


def _words(result: dict[str, Any]) -> list[str]:
    expected, harmless = len(result["expected"]), len(result["harmless"])
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    sources = Counter(each["repository"] for each in result["semgrep_rules"])
    rules = sum(len(each["rules"]) for each in result["semgrep_rules"])
    text = [
        (f"`python -m bench.lint`, commit {result['commit']}: {versions}. {result['snippets']} "
        f"snippets (`tests/source/snippets/`), each with the findings that it expects: {expected} "
        f"in all, and {harmless} snippets that expect none, most of them the nearest harmless "
        "relative of one that does."),
        "",
        ("**The snippets are ours**, and `lint`'s tests: its own column is what it is held to, not "
        "a measurement. They were written for what `lint` looks for, so most rules have no "
        "counterpart elsewhere: what the table measures is which of these faults the others see. "
        "How right `lint` is on code that it was not written for is told by its findings on "
        "packages from PyPI, read by hand (`bench/results/lint-loads.json`, "
        "`lint-training-rules.json`)."),
        "",
        "A peer finds what is expected if a rule of its own about the same thing tells any line "
        "of the same statement. A finding there that is about something else does not count "
        f"({_others(result['tools'])}). Counted for "
        "loads (SRC301, SRC302, SRC309 and SRC311 alike): "
        + ", ".join(f"`{rule}`" for rule in sorted(LOADS))
        + "; "
        + "; ".join(
            f"for {rule}: " + ", ".join(f"`{each}`" for each in sorted(counted))
            for rule, counted in sorted(COUNTED.items())
            if counted is not LOADS
        )
        + ". Told at an import and once for the file, so in a row of their own: "
        + ", ".join(f"`{each}`" for each in sorted(frozenset().union(*IMPORTS.values())))
        + ". A dash is a rule without a counterpart. Every tool had all its rules switched on.",
    ]  # fmt: skip
    if rules:
        text += [
            "",
            f"Semgrep ran with {rules} public rules, those about loading, saving and datasets of "
            + " and ".join(f"{name} ({count} files)" for name, count in sorted(sources.items()))
            + "; its registry was out of reach. They take a file with a constant name for trusted; "
            "the second column is the same rules without that exception.",
        ]
    return text


def _others(tools: dict[str, Any]) -> str:
    counts = {name: len(told["other"]) for name, told in tools.items() if told["other"]}
    return ", ".join(f"{name}: {number}" for name, number in counts.items())


def _cell(rule: str, tool: str, number: int) -> str:
    if tool != _OWN and rule not in COUNTED and not number:
        return "-"
    return str(number)


def _false_alarms(tools: dict[str, Any], peers: list[str]) -> list[str]:
    parts = []
    for name in peers:
        counts = Counter(row[1] for row in tools[name]["false_alarms"])
        told = ", ".join(f"`{rule}` {number}" for rule, number in counts.most_common())
        parts.append(f"{name}: {told or 'none'}")
    return [
        "Findings in harmless snippets, by rule: " + "; ".join(parts) + ". `B615` asks for a "
        "pinned revision of everything taken from a hub, which is right where it says so; `TOR102` "
        "asks for `weights_only` wherever it is not written, and `pickles-in-pytorch` not to use "
        "`torch.save` and `torch.load` at all. Counted as false alarms are loads that cannot run "
        "code: the default of torch since 2.6, an argument that is True by another way, bytes "
        "that the same function has written, names of the project's own that only look like "
        "torch's, an Unpickler that lets nothing through but a list.",
    ]


def _times(result: dict[str, Any]) -> list[str]:
    seconds = result["seconds"]
    own = seconds[_OWN]
    return [
        "| one command over all snippets, times `everybit lint` | "
        + " | ".join(name for name in seconds) + " |",
        "|---|" + "---|" * len(seconds),
        "| wall time | " + " | ".join(
            f"{told['wall_s'] / own['wall_s']:.2f}" for told in seconds.values()
        ) + " |",
        "| CPU time | " + " | ".join(
            f"{told['cpu_s'] / own['cpu_s']:.2f}" for told in seconds.values()
        ) + " |",
        "",
        f"Start-up included, the least of three runs each, taken in turn{_when(result)}.",
    ]  # fmt: skip


def _when(result: dict[str, Any]) -> str:
    """Where the times are from, if they are those of an earlier result."""
    at = result.get("seconds_at")
    return f", at commit {at['commit']} over {at['snippets']} snippets" if at else ""
