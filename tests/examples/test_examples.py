"""Each example under a Guard: flips of every kind are caught, placed and undone to the last bit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.examples.harness import Job, differing, perform, problems_healed
from tests.examples.repertoire import EXAMPLES, GUARDED, REPERTOIRE, SHARED

if TYPE_CHECKING:
    from pathlib import Path

    from tests.examples.repertoire import Example

#: Examples that are tried in forks of one process, since importing torch takes longest.
ROUNDS: dict[str, list[Example]] = {}
for _number, _example in enumerate(e for e in REPERTOIRE if e.quick):
    _round = _example.preload[0] if _example.preload else f"torch-{_number % 3}"
    ROUNDS.setdefault(_round, []).append(_example)


@pytest.mark.parametrize("name", ROUNDS)
def test_flips_are_healed_and_nothing_else_is_found(name: str, tmp_path: Path) -> None:
    examples = ROUNDS[name]
    for package in {package for example in examples for package in example.preload}:
        pytest.importorskip(package)
    jobs = []
    for example in examples:
        place, args = tmp_path / example.name, example.arguments()
        # Traced by module, so that every kind of loop is.
        healing = {"on_finding": "heal", "trace": "module", **example.config}
        jobs += [
            Job(folder=place / "bare", script=example.path, args=args),
            Job(
                folder=place / "healed",
                script=example.path,
                args=args,
                config=healing,
                plans=example.plans(),
            ),
        ]
    done = perform(jobs, preload=[package for e in examples for package in e.preload])
    problems = {
        example.name: wrong
        for example, bare, healed in zip(examples, done[::2], done[1::2], strict=True)
        if (wrong := problems_healed(example, bare, healed))
    }
    assert not problems


def test_every_script_is_in_the_repertoire() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        *(e.script for e in REPERTOIRE),
        *GUARDED,
        *SHARED,
    }


def test_the_docs_name_every_script_and_no_other() -> None:
    text = (EXAMPLES.parent / "docs" / "compatibility.md").read_text()
    assert set(re.findall(r"`(\w+\.py)`", text)) == {path.name for path in EXAMPLES.glob("*.py")}


def test_a_script_with_a_guard_of_its_own(tmp_path: Path) -> None:
    script = EXAMPLES / GUARDED[0]
    steps = ["--steps", "8", "--run"]
    clean, flipped = perform(
        [
            Job(
                folder=tmp_path / "clean", script=script, args=[*steps, str(tmp_path / "clean-run")]
            ),
            Job(
                folder=tmp_path / "flipped",
                script=script,
                args=[*steps, str(tmp_path / "flipped-run"), "--flip-at", "3"],
            ),
        ]
    )
    assert clean.code == 0
    assert "verdict clean, 0 findings" in clean.stdout
    assert "told" not in clean.stdout
    assert flipped.code == 1
    assert "told: MEM601 3.weight at step 3\n" in flipped.stdout
    assert differing(clean, flipped) == []
