"""Two environment records side by side, as values."""

from __future__ import annotations

from everybit.core.finding import Severity
from everybit.diff.environment import compare_environments, num_compared, uncompared


def _record(**sections):
    return {
        "schema": "everybit.environment/1",
        "captured_at": 1.0,
        "host": {"name": "a"},
        "packages": {"numpy": {"version": "2.0", "record": "aa"}},
        "threads": {"intra_op": 2},
        **sections,
    }


def _entries(a, b):
    return [(d.entry, d.before, d.after, d.kind) for d in compare_environments(a, b)]


def test_a_changed_entry_is_named_with_both_values():
    assert _entries(_record(), _record(threads={"intra_op": 4})) == [
        ("threads.intra_op", 2, 4, "environment")
    ]


def test_what_does_not_bear_on_numbers_is_not_compared():
    a = _record(process={"pid": 1}, argv={"script": "/a/t.py", "options": ["--lr", "1"]})
    b = _record(
        captured_at=9.0,
        host={"name": "b"},
        process={"pid": 2},
        argv={"script": "/b/t.py", "options": ["--lr", "1"]},
    )
    assert _entries(a, b) == []
    assert uncompared(a, b) == []


def test_a_swapped_build_of_one_version_is_found():
    b = _record(packages={"numpy": {"version": "2.0", "record": "bb"}})
    assert _entries(_record(), b) == [("packages.numpy.record", "aa", "bb", "environment")]


def test_another_version_is_told_once():
    b = _record(packages={"numpy": {"version": "2.1", "record": "bb"}})
    assert _entries(_record(), b) == [("packages.numpy.version", "2.0", "2.1", "environment")]


def test_a_missing_package_is_told_once_as_absent():
    assert _entries(_record(), _record(packages={})) == [
        ("packages.numpy.version", "2.0", None, "environment")
    ]


def test_kinds_follow_the_section():
    a = _record(git={"commit": "1", "branch": "x"}, argv={"options": ["--seed", "1"]})
    b = _record(git={"commit": "2", "branch": "y"}, argv={"options": ["--seed", "2"]})
    assert [(entry, kind) for entry, _, _, kind in _entries(a, b)] == [
        ("git.commit", "code"),
        ("argv.options", "configuration"),
    ]


def test_an_unreadable_section_is_uncompared_and_never_a_difference():
    a = _record(gpu={"unknown": "driver error: x"})
    b = _record(gpu={"driver": "570"})
    assert _entries(a, b) == []
    (skipped,) = uncompared(a, b)
    assert (skipped.what, skipped.why) == ("environment: gpu", "A: driver error: x")
    assert skipped.promised


def test_absence_is_a_fact_and_compared():
    a = _record(gpu={"absent": "no NVIDIA driver library"})
    b = _record(gpu={"driver": "570", "num_devices": 1, "devices": {"0": {"name": "H100"}}})
    assert _entries(a, b) == [
        ("gpu.absent", "no NVIDIA driver library", "present", "environment"),
    ]
    assert _entries(b, a) == [
        ("gpu.absent", "present", "no NVIDIA driver library", "environment"),
    ]
    assert _entries(a, a) == []


def test_another_model_or_number_of_gpus_is_told_once_a_device():
    one = {"name": "H100", "uuid": "1", "vbios": "a", "clocks": {"sm": {"max_mhz": 1}}}
    other = {"name": "H200", "uuid": "2", "vbios": "b", "clocks": {"sm": {"max_mhz": 2}}}
    a = _record(gpu={"devices": {"0": one}})
    b = _record(gpu={"devices": {"0": other, "1": other}})
    assert [entry for entry, *_ in _entries(a, b)] == [
        "gpu.devices.0.name",
        "gpu.devices.1.name",
    ]


def test_a_record_without_a_job_is_comparable_with_a_runs():
    a, b = _record(seeds={"torch": 1}), _record()
    (skipped,) = uncompared(a, b)
    assert skipped.why == "B: not recorded"
    assert not skipped.promised


def test_a_seed_that_nobody_chose_is_no_difference():
    def record(seed):
        return _record(seeds={"torch": seed})

    assert _entries(record(2**63 + 5), record(2**62 + 7)) == []
    assert _entries(record(0), record(1)) == [("seeds.torch", 0, 1, "configuration")]
    assert _entries(record(0), record(2**63)) == [("seeds.torch", 0, "not set", "configuration")]


def test_another_gpu_of_the_same_model_is_a_note():
    device = {"name": "H200", "uuid": "GPU-1"}
    a = _record(gpu={"devices": {"0": device}})
    b = _record(gpu={"devices": {"0": {**device, "uuid": "GPU-2"}}})
    (difference,) = compare_environments(a, b)
    assert difference.finding().severity is Severity.NOTE
    other = _record(gpu={"devices": {"0": {**device, "name": "H100"}}})
    assert compare_environments(a, other)[0].finding().severity is Severity.WARNING


def test_each_finding_has_its_own_place():
    found = compare_environments(_record(), _record(threads={"intra_op": 1, "inter_op": 1}))
    assert len({difference.finding().id for difference in found}) == 2


def test_entries_are_counted_once():
    assert num_compared(_record(), _record(threads={"intra_op": 2, "inter_op": 1})) == 4
