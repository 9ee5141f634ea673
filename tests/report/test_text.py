from __future__ import annotations

import re

import pytest

from everybit.core.divergence import Divergence, DivergenceKind
from everybit.core.finding import Finding, Location, Severity
from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.core.verdict import Checked, Coverage, Skipped, Verdict
from everybit.report.text import MAX_FINDINGS, render_verdict

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def flip(step: int = 12, element: int = 17, **place: object) -> Finding:
    where = {"step": step, "link": Link.STATE, "parameter": "h.0.weight", "elements": (element,)}
    return rule("MEM601").finding(
        "`h.0.weight` changed between two steps.",
        where=Location(**{**where, **place}),
        evidence={
            "num_elements": 1,
            "num_bits": 1,
            "dtype": "float32",
            "changes": [{"element": element, "before": 0.0123, "after": -4.2e36, "bits": [30]}],
        },
    )


def plain(verdict: Verdict, **options: object) -> str:
    return render_verdict(
        verdict, **{"color": False, "verbose": False, "width": 100, "encoding": "utf-8", **options}
    )


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_the_answer_comes_first_and_names_the_gravest_finding():
    note = rule("RUN151").finding(
        "exit code 3", where=Location(run="a", rank=0), severity=Severity.NOTE
    )
    text = plain(Verdict(command="run", target=("runs/a",), findings=(note, flip())))
    answer = one_line(text.split("\n\n")[0])
    assert answer.startswith("everybit run runs/a FINDINGS 1 error and 1 note")
    assert "MEM601 weights-changed-at-rest at step 12" in answer


def test_a_finding_shows_place_evidence_and_remedy():
    text = plain(Verdict(command="run", target=("a",), findings=(flip(),)))
    assert "step 12, h.0.weight, element 17" in text
    assert "element 17: 0.0123 → -4.2e+36, bit 30" in text
    assert one_line(rule("MEM601").remedy) in one_line(text)
    assert "proof" in text
    assert "dtype: float32" in text


def test_clean_says_what_it_stands_on():
    coverage = Coverage(checked=(Checked(what="tensors", count=1200),))
    text = plain(Verdict(command="verify", target=("m.pt",), coverage=coverage))
    assert "CLEAN nothing was found in what was checked: 1,200 tensors" in one_line(text)


def test_clean_with_nothing_checked_admits_it():
    assert "no check is on record" in plain(Verdict(command="verify", target=("m.pt",)))


def test_inconclusive_names_the_missed_check_and_never_says_clean():
    coverage = Coverage(
        skipped=(
            Skipped(what="parity", why="none asked for", promised=False),
            Skipped(what="digests", why="no manifest"),
        )
    )
    text = plain(Verdict(command="verify", target=("m.pt",), coverage=coverage))
    assert "INCONCLUSIVE" in text
    assert "clean" not in text.lower()
    assert text.index("digests: no manifest") < text.index("parity: none asked for (not promised)")


def test_findings_beside_a_missed_check_tell_both():
    coverage = Coverage(skipped=(Skipped(what="digests", why="no manifest"),))
    text = one_line(
        plain(Verdict(command="run", target=("a",), findings=(flip(),), coverage=coverage))
    )
    assert "1 promised check did not run" in text


def test_checks_missed_for_one_reason_are_told_once_unless_verbose():
    why = "no checksum"
    skipped = [Skipped(what=f"shard {n}", why=why) for n in range(40)]
    skipped += [Skipped(what="notes", why=why, promised=False)]
    verdict = Verdict(command="verify", target=("m",), coverage=Coverage(skipped=tuple(skipped)))
    told = one_line(plain(verdict)).partition("Not checked")[2]
    assert "shard 0 (and 39 more): no checksum notes: no checksum (not promised)" in told
    assert "all with -v" not in told
    told = one_line(plain(verdict, verbose=True)).partition("Not checked")[2]
    assert all(f"shard {n}: no checksum" in told for n in range(40))


def test_many_findings_are_folded_unless_verbose():
    verdict = Verdict(
        command="run", target=("a",), findings=tuple(flip(step=k) for k in range(MAX_FINDINGS + 7))
    )
    folded = plain(verdict)
    assert folded.count("Do: ") == MAX_FINDINGS
    assert "7 more findings (all with -v):" in folded
    assert "7 error MEM601" in folded
    whole = plain(verdict, verbose=True)
    assert whole.count("Do: ") == MAX_FINDINGS + 7
    assert "more findings" not in whole


def test_changed_elements_beyond_the_shown_ones_are_counted():
    changes = [{"element": k, "before": 1, "after": 2, "bits": [0, 1]} for k in range(16)]
    finding = rule("MEM601").finding(
        "m",
        where=Location(parameter="w", element_ranges=((0, 400),)),
        evidence={"num_elements": 400, "num_bits": 800, "changes": changes},
    )
    verdict = Verdict(command="run", target=("a",), findings=(finding,))
    assert "and 397 more changed elements" in plain(verdict)
    assert "and 384 more changed elements" in plain(verdict, verbose=True)
    assert "elements 0..399" in plain(verdict)


@pytest.mark.parametrize(
    "name",
    ["w\x1b[31mred", "w\nFAKE clean", "w\u202eevil", "w\x00", "w\x07", "w\udc80", "w\u2028x"],
)
def test_hostile_names_and_messages_reach_the_terminal_spelled_out(name):
    finding = rule("MEM601").finding(
        f"message {name}",
        where=Location(parameter=name, path=name),
        evidence={name: name, "changes": [{"element": name, "before": name, "after": name}]},
        remedy=name,
    )
    coverage = Coverage(
        checked=(Checked(what=name, count=1),), skipped=(Skipped(what=name, why=name),)
    )
    verdict = Verdict(
        command=name, target=(name,), findings=(finding,), coverage=coverage, stats={name: name}
    )
    text = plain(verdict)
    assert not [c for c in text if c != "\n" and not c.isprintable()]
    assert not [line for line in text.splitlines() if line.startswith("FAKE")]
    text.encode("utf-8")
    assert ANSI.sub("", render_verdict(verdict, color=True, verbose=True, width=100)) == plain(
        verdict, verbose=True
    )


def test_a_megabyte_of_name_stays_short():
    finding = rule("MEM601").finding("x" * 10**6, where=Location(parameter="n" * 10**6))
    assert len(plain(Verdict(command="run", target=("a",), findings=(finding,)))) < 5000


@pytest.mark.parametrize(
    "evidence",
    [
        {"changes": "not a list"},
        {"changes": [1, None]},
        {"changes": [{"element": 1, "bits": "high"}]},
        {"changes": [{"element": 1, "bits": [-1, 10**9, "x"]}], "num_elements": "many"},
        {"nested": {"deep": [{"a": float("nan")}]}, "none": None, "long": list(range(10**5))},
    ],
)
def test_malformed_evidence_is_shown_as_far_as_it_goes(evidence):
    finding = rule("MEM601").finding("m", where=Location(parameter="w"), evidence=evidence)
    assert "MEM601" in plain(Verdict(command="run", target=("a",), findings=(finding,)))


def test_an_ascii_terminal_gets_ascii():
    finding = rule("MEM601").finding("naïve", where=Location(parameter="poids_é"))
    verdict = Verdict(command="run", target=("a",), findings=(finding, flip()))
    text = plain(verdict, encoding="ascii")
    assert text.isascii()
    assert "poids_\\xe9" in text
    assert "0.0123 -> -4.2e+36" in text
    assert "poids_é" in plain(verdict)


def test_no_escape_codes_without_colour_and_the_same_text_with_it():
    verdict = Verdict(command="run", target=("a",), findings=(flip(),))
    assert "\x1b" not in plain(verdict)
    coloured = plain(verdict, color=True)
    assert "\x1b[1;31m" in coloured
    assert ANSI.sub("", coloured) == plain(verdict)


@pytest.mark.parametrize("width", [1, 60, 100, 500])
def test_lines_keep_to_the_width(width):
    long_place = flip(parameter="encoder.layers.11.self_attention.output.dense.weight" * 3)
    verdict = Verdict(command="run", target=("runs/" + "a" * 70,), findings=(long_place, flip()))
    lines = plain(verdict, width=width).splitlines()
    assert max(map(len, lines)) <= min(max(width, 60), 110)


def test_a_diff_tells_its_first_value_and_what_explains_it():
    first = Divergence(
        where=Location(step=3, rank=0, link=Link.BATCH, tensor="0"),
        kind=DivergenceKind.DATA,
        why="the inputs of step 3 differ",
    )
    verdict = Verdict(
        command="diff",
        target=("a", "b"),
        first=first,
        has_first=True,
        explained_by=(
            {"entry": "threads.torch", "before": 1, "after": 2},
            {"entry": "argv.options", "before": [], "after": ["--x"], "kind": "configuration"},
            {"what": "something else"},
        ),
    )
    text = plain(verdict)
    assert "step 3, rank 0, link batch, tensor 0" in text
    assert "data: the inputs of step 3 differ" in text
    assert "threads.torch: 1 → 2\n" in text
    assert "argv.options: (empty) → --x; kind: configuration" in text
    assert "what: something else" in text


def test_a_diff_that_finds_nothing_says_so():
    text = plain(Verdict(command="diff", target=("a", "b"), has_first=True))
    assert "no value parts" in text
    assert "First" not in plain(Verdict(command="verify", target=("a",)))
