"""Known issues: the file is well formed, each fires where it applies, and nowhere else."""

from __future__ import annotations

import re

import pytest

from everybit.core.finding import Severity
from everybit.host import known_issues as module
from everybit.host.known_issues import Issue, issues_of, known_issues
from everybit.host.versions import in_range, libraries, release, version_of


def _record(**sections):
    """A machine with two H100s, and current versions of everything."""
    device = {"name": "NVIDIA H100", "capability": "9.0"}
    return {
        "host": {"system": "Linux"},
        "cpu": {"machine": "x86_64", "kernel_flags": ["avx2", "avx512f"]},
        "gpu": {"driver": "580.1", "num_devices": 2, "devices": {"0": device, "1": device}},
        "torch": {"version": "2.99.0+cu130", "onednn": "v3.99"},
        "cuda": {"build": "13.0", "cudnn": 99900, "nccl": "2.99.1"},
        "blas": {"mkl": "2026.0-Product Build 1"},
        "threads": {"intra_op": 8},
        "determinism": {"sdp_cudnn": True, "mkldnn_enabled": True},
        "precision": {"cudnn_tf32": True},
        "variables": {"recorded": {}},
        "packages": {"numpy": {"version": "9.0"}},
    } | sections


def _ids(record):
    return {match.issue.id for match in issues_of(record)}


CPU = {
    "gpu": {"absent": "no NVIDIA driver library"},
    "cuda": {"absent": "torch is built without CUDA"},
}


def test_the_file_has_its_form_and_each_entry_its_source():
    issues = known_issues()
    assert len(issues) >= 25
    assert len({issue.id for issue in issues}) == len(issues)
    for issue in issues:
        assert re.fullmatch(r"[a-z0-9][a-z0-9.-]+", issue.id)
        assert all((issue.wrong, issue.remedy, issue.ops)), issue.id
        assert issue.wrong[-1] != "."
        assert issue.library in libraries()
        if issue.fixed:
            assert not any(in_range(release(issue.fixed), each) for each in issue.affected), (
                issue.id
            )
    # One entry a place at which it was read; a page of release notes tells several.
    assert len({issue.source for issue in issues}) >= 25


@pytest.mark.parametrize(
    "change",
    [
        {"affected": ["about 2.1"]},
        {"library": "tensorflow"},
        {"device": "tpu"},
        {"source": "somebody said so"},
        {"since": "2.1"},
        {"wrong": None},
    ],
)
def test_an_entry_of_another_form_is_refused(change):
    data = {
        "id": "x", "library": "torch", "affected": ["<2"], "wrong": "w", "remedy": "r",
        "source": "https://example.org",
    }  # fmt: skip
    assert module._issue(data).id == "x"
    changed = {key: value for key, value in {**data, **change}.items() if value is not None}
    with pytest.raises(ValueError, match="x"):
        module._issue(changed)


def test_current_versions_are_clean_but_for_what_is_open():
    assert {match.issue.fixed for match in issues_of(_record())} <= {""}
    assert _ids(_record(**CPU)) == set()


@pytest.mark.parametrize(
    ("issue", "sections"),
    [
        ("cudnn-conv3d-bfloat16", {"cuda": {"build": "12.8", "cudnn": 91002}}),
        ("cudnn-conv3d-tf32", {"cuda": {"build": "12.8", "cudnn": 91500}}),
        ("cudnn-sdpa-loss-explodes", {"torch": {"version": "2.5.0+cu124"}}),
        ("nccl-symmetric-windows", {"cuda": {"build": "13", "nccl": "2.30.3"}}),
        ("driver-390-gpudirect", {"gpu": {"driver": "390.46", "num_devices": 2, "devices": {}}}),
        ("cublas-nvfp4-scale-ignored", {"packages": {"nvidia-cublas": {"version": "13.4.0.1"}}}),
        ("mkl-first-call-low-accuracy", {"blas": {"mkl": "2024.2-Product Build 20240605"}}),
        ("numpy-einsum-float16", {"packages": {"numpy": {"version": "1.21.2"}}}),
        ("openblas-least-squares-avx512", {"blas": {"pools": ["openblas 0.3.6 SkylakeX"]}}),
    ],
)
def test_each_library_is_read_where_it_stands(issue, sections):
    record = _record(**sections)
    assert issue in _ids(record)
    match = next(match for match in issues_of(record) if match.issue.id == issue)
    finding = match.finding()
    assert (finding.rule, finding.severity) == ("ENV903", Severity.WARNING)
    assert match.issue.source in finding.remedy
    assert finding.where.entry == match.entry
    assert finding.evidence["version"] == match.version


def test_a_version_outside_the_range_is_silent():
    for number, affected in ((90799, False), (90800, True), (91202, True), (91300, False)):
        record = _record(cuda={"build": "12", "cudnn": number})
        assert ("cudnn-conv3d-bfloat16" in _ids(record)) == affected, number


def test_an_issue_of_gpus_is_silent_on_a_machine_without_one():
    gpu = _record(cuda={"build": "12.8", "cudnn": 91002, "nccl": "2.18.1"})
    assert {"cudnn-conv3d-bfloat16", "nccl-ll128-through-cpu"} <= _ids(gpu)
    assert _ids({**gpu, "gpu": {"absent": "no driver"}}) == set()
    none = {"driver": "580", "num_devices": 0, "devices": {}}
    assert _ids({**gpu, "gpu": none}) == set()


def test_an_issue_of_several_gpus_is_silent_on_one():
    one = {"num_devices": 1, "devices": {"0": {"name": "H100", "capability": "9.0"}}}
    record = _record(cuda={"build": "12", "nccl": "2.18.1"}, gpu=one)
    assert "nccl-ll128-through-cpu" not in _ids(record)
    record["variables"] = {"recorded": {"WORLD_SIZE": "16"}}
    assert "nccl-ll128-through-cpu" in _ids(record)


def test_an_issue_of_one_generation_is_silent_on_another():
    record = _record(torch={"version": "2.13.0+cu130"})
    assert "cudnn-sdpa-few-key-heads-b200" not in _ids(record)
    device = {"name": "NVIDIA B200", "capability": "10.0"}
    record["gpu"] = {"num_devices": 1, "devices": {"0": device}}
    assert "cudnn-sdpa-few-key-heads-b200" in _ids(record)


def test_what_avoids_an_issue_silences_it():
    record = _record(cuda={"build": "12.8", "cudnn": 91002})
    assert "cudnn-conv3d-tf32" in _ids(record)
    assert "cudnn-conv3d-tf32" not in _ids({**record, "precision": {"cudnn_tf32": False}})
    nccl = _record(cuda={"build": "12", "nccl": "2.18.1"})
    nccl["variables"] = {"NCCL_PROTO": "^LL128", "recorded": {}}
    assert "nccl-ll128-through-cpu" not in _ids(nccl)
    mkl = _record(blas={"mkl": "2024.2"}, threads={"intra_op": 1})
    assert "mkl-first-call-low-accuracy" not in _ids(mkl)


def test_what_an_issue_needs_has_to_be_on_record():
    record = _record(cuda={"build": "12", "nccl": "2.10.3"})
    assert "nccl-ll128-over-sockets" not in _ids(record)
    record["variables"] = {"NCCL_PROTO": "LL128", "recorded": {}}
    assert "nccl-ll128-over-sockets" in _ids(record)


def test_processors_and_systems_are_told_apart():
    old = {"numpy": {"version": "1.23.5"}}
    assert "numpy-matmul-sapphire-rapids" not in _ids(_record(packages=old))
    cpu = {"machine": "x86_64", "kernel_flags": ["avx512f", "avx512_fp16"]}
    assert "numpy-matmul-sapphire-rapids" in _ids(_record(packages=old, cpu=cpu))
    new = _record(packages={"numpy": {"version": "2.5.0"}}, **CPU)
    assert "numpy-matmul-macos-arm64" not in _ids(new)
    mac = {"host": {"system": "Darwin"}, "cpu": {"machine": "arm64"}}
    assert "numpy-matmul-macos-arm64" in _ids({**new, **mac})


def test_apple_and_amd_gpus():
    mac = {"host": {"system": "Darwin"}, "cpu": {"machine": "arm64"}, **CPU}
    assert _ids(_record(torch={"version": "2.7.0"}, **mac)) == {"mps-scalar-operand"}
    assert "mps-scalar-operand" not in _ids(_record(torch={"version": "2.7.1"}, **mac))
    assert "mps-scalar-operand" not in _ids(_record(torch={"version": "2.7.0"}))
    rocm = _record(cuda={"build": None, "hip": "7.2.26015"}, gpu={"absent": "no driver"})
    assert _ids(rocm) == {"rocm-gemm-many-rows"}


def test_a_condition_that_could_not_be_read_makes_it_a_note():
    record = _record(
        cuda={"build": "12.8", "cudnn": 91002}, gpu={"unknown": "nvidia-ml-py is not installed"}
    )
    match = next(m for m in issues_of(record) if m.issue.id == "cudnn-conv3d-bfloat16")
    assert "not on record" in match.unsure
    assert match.finding("A").severity is Severity.NOTE
    assert " of A: " in match.finding("A").message


def test_records_that_hold_nothing_or_oddities_are_no_matter():
    assert issues_of({}) == []
    odd = {
        "gpu": {"unknown": "x"},
        "torch": {"absent": "x"},
        "cuda": {"cudnn": None},
        "blas": {"pools": "x"},
        "packages": {"numpy": {}, "nvidia-cublas-cu12": None},
    }
    assert issues_of(odd) == []


def test_versions_of_cudnn_before_and_after_nine():
    for number, wanted in ((8907, (8, 9, 7)), (7603, (7, 6, 3)), (90100, (9, 1, 0))):
        assert version_of({"cuda": {"cudnn": number}}, "cudnn")[1] == wanted


@pytest.mark.parametrize(
    ("text", "wanted", "holds"),
    [
        ("2.13.0+cpu", ">=2.13,<2.14", True),
        ("2.5.1", "==2.5", True),
        ("2.5", "==2.5.0", True),
        ("2.50.0", "==2.5", False),
        ("9.15.1", "<=9.15", True),
        ("9.16", "<=9.15", False),
        ("2.14.1", "<=2.14.0", False),
        ("3", ">3.0.0", False),
    ],
)
def test_ranges(text, wanted, holds):
    assert in_range(release(text), wanted) is holds


def test_an_issue_without_conditions_is_one_everywhere():
    issue = Issue(
        id="x", library="numpy", affected=("<99",), wrong="w", source="https://x", remedy="r"
    )
    assert module._device({}, issue) is True
