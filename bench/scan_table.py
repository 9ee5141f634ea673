"""The tables of `scan.py`, from its result file."""

from __future__ import annotations

import statistics
from collections import Counter
from typing import Any, Final

#: Rows, and the classes that each begins with.
_ROWS: Final = (
    ("calls of the standard library", ("standard library",)),
    ("calls of torch, NumPy and other libraries", ("libraries",)),
    ("functions reached without being named", ("indirection",)),
    ("tricks of the pickle machine", ("pickle machine",)),
    ("ZIP tricks", ("ZIP",)),
    ("torch: legacy, tar, DCP, TorchScript, `weights_only`", ("torch formats",)),
    ("NumPy, joblib, compressed, renamed, 7z", ("containers",)),
    ("disguised pickles, harm of known names, odd packings", ("disguises",)),
    ("folders, templates, ONNX, Keras", ("folders", "templates", "ONNX")),
)


def _kept(result: dict[str, Any]) -> list[str]:
    """Say which answers are those of earlier runs."""
    kept = {
        tool: Counter(answer["at"] for answer in answers.values() if "at" in answer)
        for tool, answers in result["tools"].items()
    }
    told = "; ".join(
        f"{tool}: " + ", ".join(f"{count} at {commit}" for commit, count in counts.items())
        for tool, counts in kept.items()
        if counts
    )
    if not told:
        return []
    sentence = f"""\
Answers of slower tools are kept from earlier runs where neither the tool's version nor a file's \
bytes changed ({told}); their times are of those runs, too."""
    return [sentence, ""]


def table(result: dict[str, Any]) -> str:
    """The section of the page of benchmarks."""
    tools = result["tools"]
    files = result["files"]
    hostile = [name for name, file in files.items() if file["hostile"]]
    benign = [name for name, file in files.items() if not file["hostile"]]
    proved = [name for name, ran in result["ran"].items() if ran == "yes"]
    versions = ", ".join(f"{tool} {result['versions'][tool]}" for tool in tools)
    lines = [
        "## Scanners side by side", "",
        (f"`python -m bench.scan`, commit {result['commit']}: {versions}. {len(hostile)} "
        f"adversarial and {len(benign)} benign files and folders, all made by code "
        f"(`bench/scan_corpus/`). {len(proved)} of the adversarial ones were loaded by the "
        "real loader, and their payload ran."), "",
        ("Each cell: called unsafe / flagged at all. *Unsafe* is what a tool calls so itself "
        "(everybit: `error`; picklescan: dangerous; modelscan: an issue; fickling: likely unsafe "
        "or worse; modelaudit: critical). *At all* is everything that its gate stops on: warnings, "
        "suspicious names, errors while reading. A file that a tool could not be run on is not "
        "flagged."), "",
        *_kept(result),
        "| adversarial | files | " + " | ".join(tools) + " |",
        "|---|---|" + "---|" * len(tools),
    ]  # fmt: skip
    for label, starts in _ROWS:
        names = [name for name in hostile if files[name]["kind"].startswith(starts)]
        lines.append(_row(label, names, tools))
    lines += [
        _row("**all**", hostile, tools),
        _row("those whose payload was seen to run", proved, tools), "",
        "| benign | files | " + " | ".join(tools) + " |", "|---|---|" + "---|" * len(tools),
        _row("checkpoints and values of torch",
             [name for name in benign if files[name]["kind"].startswith("torch")], tools),
        _row("other libraries' files",
             [name for name in benign if files[name]["kind"].startswith("other")], tools),
        _row("**all**", benign, tools), "",
        "| all files, in one process | " + " | ".join(tools) + " |",
        "|---|" + "---|" * len(tools),
        "| median time of a file | " + " | ".join(_median(tools[tool]) for tool in tools) + " |",
        "| could not be run on | " + " | ".join(
            str(sum("error" in answer for answer in tools[tool].values())) for tool in tools
        ) + " |",
    ]  # fmt: skip
    lines += _speed(result)
    return "\n".join(lines)


def _row(label: str, names: list[str], tools: dict[str, Any]) -> str:
    cells = []
    for told in tools.values():
        unsafe = sum(told[name]["unsafe"] for name in names)
        flagged = sum(told[name]["flagged"] for name in names)
        cells.append(f"{unsafe} / {flagged}")
    return f"| {label} | {len(names)} | " + " | ".join(cells) + " |"


def _median(told: dict[str, Any]) -> str:
    return _seconds(statistics.median(answer["seconds"] for answer in told.values()))


def _seconds(value: float) -> str:
    return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.2f} s"


def _at(part: dict[str, Any]) -> str:
    return f" at commit {part['commit']}" if "commit" in part else ""


def _ratio(part: dict[str, Any]) -> str:
    """Tell the median of each file's own ratio."""
    ratio = part.get("median_ratio")
    return f" ({ratio:.1f} times as long on the median file)" if ratio else ""


def _speed(result: dict[str, Any]) -> list[str]:
    lines = []
    if "speed" in result:
        part = result["speed"]
        mine, theirs = part["total_s"]["everybit"], part["total_s"]["picklescan"]
        lines += [
            "", (f"everybit and picklescan on the same {part['files']} files, in turn, best of "
            f"{part['rounds']} rounds each, CPU time{_at(part)}: {_seconds(mine)} against "
            f"{_seconds(theirs)} for all, "
            f"{_seconds(part['median_s']['everybit'])} against "
            f"{_seconds(part['median_s']['picklescan'])} in the median{_ratio(part)}; everybit is "
            "the faster on "
            f"{part['faster']} of them, those with larger pickles, which make the sum. On a small "
            "one it does more for each name: where it is reached and with which arguments, what "
            "it does, and what `weights_only=True` says of the file."),
        ]  # fmt: skip
    if "picklescan" in result.get("typical", {}):
        mine, theirs = result["typical"]["everybit"], result["typical"]["picklescan"]
        told = " and ".join(
            f"{_seconds(mine[name])} against {_seconds(theirs[name])}" for name in mine
        )
        lines += [
            "", ("On a training state of 1,152 tensors, as `torch.save` writes it and in its old "
            f"form: {told}. everybit's time holds PKL204, which picklescan has not: that "
            "`weights_only=True` accepts the file is proved from the same walk."),
        ]  # fmt: skip
    large = result["large"]
    for tool in ("everybit", "picklescan"):
        if tool in large:
            told = large[tool]
            lines += [
                "", (f"{tool}, a `torch.save` checkpoint of {large['bytes'] / 2**30:.2f} GiB in "
                f"memory: {_seconds(statistics.median(told['first_s']))} in a fresh process, "
                f"{_seconds(statistics.median(told['seconds']))} the second time, and "
                f"{told['more_than_small_mib']:.1f} MiB more than for one of 1 KiB (peak "
                f"{told['peak_mib']:.0f} MiB). The command on a small file, installed and compiled "
                f"as `pip` does it, start-up included: {_seconds(told['command_s'])}."),
            ]  # fmt: skip
    return lines
