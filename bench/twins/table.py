"""The score of a campaign of twins, and its table in the docs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- twins -->", "<!-- /twins -->"


def summary(answers) -> dict[str, Any]:
    """Return the counts that the goals are about."""
    judged = [answer for answer in answers if answer.right_module is not None]
    both = sum(answer.right_kind and answer.right_step for answer in answers)
    harmless = ("threads", "another convolution kernel", "matmul precision")
    return {
        "pairs": len(answers),
        "kinds": len({answer.kind for answer in answers}),
        "kind_right": sum(answer.right_kind for answer in answers),
        "step_right": sum(answer.right_step for answer in answers),
        "kind_and_step_right": both,
        "modules_judged": len(judged),
        "module_right": sum(bool(answer.right_module) for answer in judged),
        "arithmetic_called_corruption": sum(
            answer.said == "corruption" for answer in answers if answer.kind in harmless
        ),
        "flips_called_noise": sum(
            answer.said == "noise"
            for answer in answers
            if "flip" in answer.kind and "within noise" not in answer.kind
        ),
    }


def markdown(result: dict[str, Any]) -> str:
    """Return the table, one line a kind."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for answer in result["answers"]:
        rows.setdefault(answer["kind"], []).append(answer)
    told = result["summary"]
    lines = [
        "## Two runs with one planted difference",
        "",
        "`python -m bench.twins` trains a small GPT or a small CNN twice, the second",
        "time with one difference, and asks `everybit diff` about the records, without computing",
        "anything again. The right answers stand beside the differences; the last column counts",
        "the pairs traced by module whose difference lies in one.",
        "",
        f"Measured at commit {result['commit']}, torch {result['torch']}, with",
        f"{len(result['seeds'])} of 5 seeds a difference and level of tracing.",
        f"Of {told['pairs']} pairs kind and step are right in {told['kind_and_step_right']}, and",
        f"the module in {told['module_right']} of the {told['modules_judged']} that are traced by",
        "module and differ in one. Differences of threads, kernels and precision that were called",
        f"corruption: {told['arithmetic_called_corruption']}. Flips beyond noise that were called",
        f"noise: {told['flips_called_noise']}.",
        "",
        "| planted | told as | kind | step | module |",
        "|---|---|---|---|---|",
    ]
    for kind, answers in rows.items():
        said: dict[str, int] = {}
        for answer in answers:
            said[answer["said"]] = said.get(answer["said"], 0) + 1
        names = ", ".join(f"{name} {count}" for name, count in sorted(said.items()))
        judged = [a["right_module"] for a in answers if a["right_module"] is not None]
        module = f"{sum(judged)}/{len(judged)}" if judged else ""
        right = [sum(a[key] for a in answers) for key in ("right_kind", "right_step")]
        total = len(answers)
        lines.append(f"| {kind} | {names} | {right[0]}/{total} | {right[1]}/{total} | {module} |")
    return "\n".join(lines)


def write_section(text: str) -> None:
    """Put the table between its marks."""
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")
