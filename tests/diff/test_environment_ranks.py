"""Differences by how far they can change numbers, and the rules that they come under."""

from __future__ import annotations

import pytest
from tests.diff.test_verb import write_run

import everybit
from everybit.core.finding import Severity
from everybit.core.link import Link
from everybit.core.rule import rule_ids
from everybit.diff.determinism import judge_determinism
from everybit.diff.environment import compare_environments, uncompared
from everybit.diff.environment_ranks import WEIGHTS, weight_of


def _of(entry, before=1, after=2):
    """Return the one difference between two records that differ in one entry."""
    section, _, rest = entry.partition(".")

    def record(value):
        for key in reversed(rest.split(".")):
            value = {key: value}
        return {section: value}

    (found,) = compare_environments(record(before), record(after))
    return found


def test_the_table_is_whole():
    for pattern, weight in WEIGHTS:
        assert 1 <= weight.rank <= 9
        assert weight.why
        assert not weight.why.endswith(".")
        assert weight.rule in rule_ids(), pattern


@pytest.mark.parametrize(
    ("entry", "rule", "rank"),
    [
        ("git.commit", "ENV901", 1),
        ("seeds.torch", "ENV901", 1),
        ("precision.float32_matmul", "ENV906", 2),
        ("variables.NVIDIA_TF32_OVERRIDE", "ENV906", 2),
        ("torch.version", "ENV904", 3),
        ("torch.cpu_capability", "ENV904", 3),
        ("cpu.kernel_flags", "ENV904", 3),
        ("gpu.devices.0.name", "ENV904", 3),
        ("cuda.cudnn", "ENV904", 3),
        ("packages.torchvision.version", "ENV901", 3),
        ("threads.intra_op", "ENV905", 4),
        ("variables.OMP_NUM_THREADS", "ENV905", 4),
        ("cuda.nccl", "ENV901", 4),
        ("determinism.cudnn_benchmark", "ENV901", 4),
        ("gpu.driver", "ENV901", 6),
        ("packages.click.version", "ENV901", 7),
    ],
)
def test_each_difference_has_its_rule_and_rank(entry, rule, rank):
    found = _of(entry)
    finding = found.finding()
    assert (finding.rule, found.rank) == (rule, rank)
    assert finding.severity is Severity.WARNING
    assert found.why in finding.message
    assert finding.evidence["rank"] == rank


@pytest.mark.parametrize(
    "entry",
    ["gpu.devices.0.uuid", "gpu.devices.0.clocks.sm.max_mhz", "system.kernel", "container.engine",
     "mounts.type", "git.num_untracked"],
)  # fmt: skip
def test_what_changes_nothing_by_itself_is_a_note(entry):
    assert _of(entry).finding().severity is Severity.NOTE


def test_equal_values_and_what_is_of_the_moment_are_silent():
    a = {"threads": {"intra_op": 2}, "gpu": {"now": {"0": {"sm_mhz": 1}}}, "container": {"id": "a"}}
    b = {"threads": {"intra_op": 2}, "gpu": {"now": {"0": {"sm_mhz": 2}}}, "container": {"id": "b"}}
    assert compare_environments(a, b) == []


def test_the_gravest_comes_first():
    a = {"system": {"kernel": "1"}, "threads": {"n": 1}, "git": {"commit": "1"}}
    b = {"system": {"kernel": "2"}, "threads": {"n": 2}, "git": {"commit": "2"}}
    found = [each.entry for each in compare_environments(a, b)]
    assert found == ["git.commit", "threads.n", "system.kernel"]


def test_a_lock_file_on_one_side_is_named():
    a, b = {"lock": {"uv.lock": "1", "a.txt": "2"}}, {"lock": {"absent": "no lock file"}}
    (found,) = compare_environments(a, b)
    assert (found.before, found.after) == ("a.txt, uv.lock", "no lock file")


def test_a_record_of_an_earlier_release_lacks_sections_and_breaks_no_promise():
    (skipped,) = uncompared({"lock": {"uv.lock": "1"}}, {})
    assert not skipped.promised
    (skipped,) = uncompared({"lock": {"unknown": "x"}}, {"lock": {}})
    assert skipped.promised
    (skipped,) = uncompared({"threads": {}}, {})
    assert skipped.promised


def _run(deterministic, **more):
    return {"argv": {}, "determinism": {"deterministic_algorithms": deterministic}, **more}


GPU = {"gpu": {"driver": "580", "num_devices": 1}, "cuda": {"build": "13"}}


def test_runs_that_part_with_determinism_off_get_a_note():
    note = judge_determinism(_run(False), _run(True), parted=True)
    assert (note.rule, note.severity) == ("ENV902", Severity.NOTE)
    assert "off in A:" in note.message
    assert "off in A and B" in judge_determinism(_run(False), _run(False), parted=True).message


@pytest.mark.parametrize(
    ("a", "b", "parted"),
    [
        (_run(True), _run(True), True),
        (_run(True, **GPU), _run(True, **GPU), False),
        ({"determinism": {"deterministic_algorithms": False}}, _run(False), True),
        (_run(False), _run(False), False),
        (_run(False, gpu={"absent": "x"}, cuda={"build": "13"}), _run(False), False),
        ({"argv": {}, "determinism": {"unknown": "x"}}, {"argv": {}}, True),
    ],
)
def test_no_note_where_it_is_on_or_no_runs_are_compared_or_a_cpu_repeats(a, b, parted):
    assert judge_determinism(a, b, parted=parted) is None


def test_runs_on_a_gpu_get_the_note_before_anything_parts():
    assert judge_determinism(_run(False, **GPU), _run(False, **GPU), parted=False) is not None


@pytest.mark.parametrize(("deterministic", "told"), [(False, True), (True, False)])
def test_a_comparison_of_runs_says_that_they_were_not_asked_to_repeat(
    tmp_path, deterministic, told
):
    environment = _run(deterministic, **GPU)
    a = write_run(tmp_path / "a", environment=environment)
    b = write_run(tmp_path / "b", environment=environment, changed={3: Link.GRAD})
    rules = {finding.rule for finding in everybit.diff(a, b).findings}
    assert rules == ({"DIF181", "ENV902"} if told else {"DIF181"})
    # Runs that do not part get none, whatever their flags.
    c = write_run(tmp_path / "c", environment=environment)
    assert everybit.diff(a, c).findings == ()


def test_an_entry_that_is_not_in_the_table_is_told_all_the_same():
    assert weight_of("weather.rain").rule == "ENV901"
