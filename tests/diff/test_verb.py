"""`everybit.diff` on real run folders and real files."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

import everybit
from everybit.api.diff import diff
from everybit.cli.diff import command
from everybit.core.errors import DamagedError, PathError, UsageError
from everybit.core.finding import Location
from everybit.core.link import Link
from everybit.core.observation import StepRecord, TensorTable
from everybit.core.rule import rule
from everybit.ledger import EndReason, RunWriter


def write_run(
    folder, num_steps=6, changed=None, *, end=EndReason.CLEAN, ranks=1, findings=(), **header
):
    """A run folder; `changed` is `{step: link}`."""
    for rank in range(ranks):
        writer = RunWriter.open(
            folder,
            rank=rank,
            world_size=ranks,
            command=["python", "train.py", "--out", str(folder)],
            environment=header.get("environment", {"host": str(folder), "torch": {"version": "2"}}),
            config=header.get("config", {"every": 1, "run": str(folder)}),
        )
        writer.tables(0, (TensorTable(link=Link.INIT, names=("w",), digests=(1,)),))
        for step in range(num_steps):
            link = (changed or {}).get(step)
            writer.step(
                StepRecord(
                    step=step,
                    time_s=float(step),
                    duration_s=1.0,
                    guard_s=0.1,
                    optimizer="SGD",
                    losses=(1.0 / (step + 1),),
                    tables=tuple(
                        TensorTable(
                            link=each, names=("w",), digests=(99 if each is link else step,)
                        )
                        for each in (Link.BATCH, Link.GRAD, Link.UPDATE)
                    ),
                )
            )
        for finding in findings:
            writer.finding(finding)
        if end is not None:
            writer.end(end, 0, "")
        writer.close()
    return folder


def test_equal_runs_in_other_folders_are_clean(tmp_path) -> None:
    verdict = diff(write_run(tmp_path / "a"), write_run(tmp_path / "b"))
    assert verdict.ok
    assert verdict.to_json()["first"] is None
    assert verdict.to_json()["explained_by"] == []
    assert "another run" not in {each.what for each in verdict.coverage.skipped}


def test_one_folder_under_two_names_is_told(tmp_path) -> None:
    write_run(tmp_path / "a")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    verdict = diff(tmp_path / "a", tmp_path / "link")
    assert "another run" in {each.what for each in verdict.coverage.skipped}
    assert verdict.exit_code() == 0
    assert verdict.stats["steps"] == 6


def test_a_parting_is_an_error_with_first(tmp_path) -> None:
    a = write_run(tmp_path / "a", ranks=2)
    b = write_run(tmp_path / "b", changed={3: Link.GRAD}, ranks=2)
    verdict = everybit.diff(a, b)
    first = verdict.to_json()["first"]
    assert first == {
        "step": 3,
        "rank": 0,
        "link": "grad",
        "module": None,
        "parameter": "w",
        "kind": "unknown",
        "why": first["why"],
        "certainty": "weak",
    }
    assert verdict.exit_code() == 1
    assert verdict.target == (str(a), str(b))


def test_recorded_damage_names_the_cause(tmp_path) -> None:
    finding = rule("MEM601").finding(
        "w changed", where=Location(step=3, link=Link.STATE, parameter="w", rank=0)
    )
    a = write_run(tmp_path / "a")
    b = write_run(tmp_path / "b", changed={3: Link.GRAD}, findings=[finding])
    first = diff(a, b).first
    assert (first.kind, first.where.run, first.where.link) == ("corruption", str(b), "state")


def test_a_run_that_goes_on_leaves_the_verdict_open(tmp_path) -> None:
    a = write_run(tmp_path / "a")
    b = write_run(tmp_path / "b", end=None)
    verdict = diff(a, b)  # this process wrote it, so it counts as going on
    assert verdict.exit_code() == 3
    assert "still running" in json.dumps(verdict.to_json())


def test_a_run_whose_process_is_gone_is_told_apart_from_one_that_goes_on(tmp_path) -> None:
    code = (
        "import sys; from everybit.ledger import RunWriter\n"
        "writer = RunWriter.open(sys.argv[1], rank=0, world_size=1, command=[], environment={},"
        " config={})\n"
        "writer.close()\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "b")], check=True, timeout=60)
    verdict = diff(write_run(tmp_path / "a"), tmp_path / "b")
    assert verdict.exit_code() == 3
    assert "no end record" in json.dumps(verdict.to_json())


def test_every_flipped_byte_of_a_log_leaves_the_verdict_open_and_makes_no_parting(tmp_path) -> None:
    a = write_run(tmp_path / "a")
    b = write_run(tmp_path / "b")
    log = next(b.glob("rank-*.log"))
    whole = log.read_bytes()
    for at in range(0, len(whole), max(1, len(whole) // 60)):
        log.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        verdict = diff(a, b)
        assert verdict.first is None, at
        assert verdict.exit_code() == 3, at


def test_attempts_before_the_newest_are_told(tmp_path) -> None:
    a = write_run(tmp_path / "a")
    b = write_run(write_run(tmp_path / "b", changed={1: Link.GRAD}))
    verdict = diff(a, b)
    assert verdict.ok
    assert verdict.coverage.skipped[0].what == "attempts of B"


def test_a_run_against_a_file_is_refused(tmp_path) -> None:
    torch.save({"w": torch.ones(2)}, tmp_path / "m.pt")
    with pytest.raises(UsageError, match="is a run and"):
        diff(write_run(tmp_path / "a"), tmp_path / "m.pt")


def test_paths_that_are_nothing_are_refused(tmp_path) -> None:
    with pytest.raises(PathError, match="no such file"):
        diff(tmp_path / "a", tmp_path / "b")
    (tmp_path / "empty").mkdir()
    with pytest.raises(PathError, match="neither a run nor a model file"):
        diff(tmp_path / "empty", tmp_path / "empty")


@pytest.fixture
def weights() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {
        "head.weight": torch.randn(64, 32),
        "head.bias": torch.randn(64).to(torch.bfloat16),
        "count": torch.tensor(3),
    }


def test_one_model_in_two_formats_is_equal(tmp_path, weights) -> None:
    torch.save({"model": weights, "epoch": 3}, tmp_path / "m.pt")
    save_file(weights, tmp_path / "m.safetensors")
    verdict = diff(tmp_path / "m.pt", tmp_path / "m.safetensors")
    assert verdict.first is None
    assert verdict.exit_code() == 0
    assert verdict.stats["tensors"] == 3
    assert any("'model.'" in skip.why for skip in verdict.coverage.skipped)


def test_transposed_weights_are_compared_by_value(tmp_path, weights) -> None:
    turned = {**weights, "head.weight": weights["head.weight"].T.contiguous().T}
    assert not turned["head.weight"].is_contiguous()
    torch.save(turned, tmp_path / "a.pt")
    turned = {key: value.clone() for key, value in turned.items()}
    turned["head.weight"][3, 5] *= -1
    torch.save(weights, tmp_path / "b.pt")
    assert diff(tmp_path / "a.pt", tmp_path / "b.pt").ok
    torch.save(turned, tmp_path / "c.pt")
    (finding,) = diff(tmp_path / "c.pt", tmp_path / "b.pt").findings
    assert finding.where.elements == (3 * 32 + 5,)
    assert finding.evidence["changes"][0]["bits"] == [31]


def test_shards_are_taken_together_against_one_file(tmp_path, weights) -> None:
    save_file(weights, tmp_path / "whole.safetensors")
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "config.json").write_text("{}")
    for number, name in enumerate(weights):
        save_file({name: weights[name]}, tmp_path / "shards" / f"model-{number}.safetensors")
    verdict = diff(tmp_path / "shards", tmp_path / "whole.safetensors")
    assert verdict.ok
    assert verdict.stats["tensors"] == 3
    weights["count"] += 1
    save_file({"count": weights["count"]}, tmp_path / "shards" / "model-2.safetensors")
    first = diff(tmp_path / "shards", tmp_path / "whole.safetensors").first
    assert (first.where.path, first.where.tensor) == ("model-2.safetensors", "count")


def test_folders_are_compared_file_by_file(tmp_path, weights) -> None:
    for side in "ab":
        (tmp_path / side / "step-1").mkdir(parents=True)
        (tmp_path / side / "step-2").mkdir()
        save_file(weights, tmp_path / side / "step-1" / "model.safetensors")
        save_file(weights, tmp_path / side / "step-2" / "model.safetensors")
    assert diff(tmp_path / "a", tmp_path / "b").ok
    (tmp_path / "b" / "step-2" / "model.safetensors").unlink()
    verdict = diff(tmp_path / "a", tmp_path / "b")
    (finding,) = verdict.findings
    assert (finding.evidence["class"], finding.where.path) == (
        "file missing",
        "step-2/model.safetensors",
    )
    assert verdict.first.kind == "missing"
    with pytest.raises(PathError, match="is in step-1"):
        diff(tmp_path / "a", tmp_path / "b" / "step-1" / "model.safetensors")


def test_plain_values_beside_the_tensors_are_told(tmp_path, weights) -> None:
    state = {"lr": 0.1, "nan": float("nan"), "flag": True, "none": None, "names": ["x", "y"]}
    torch.save({"model": weights, "epoch": 3, "state": state}, tmp_path / "a.pt")
    torch.save({"model": weights, "epoch": 3, "state": state}, tmp_path / "same.pt")
    later = {**state, "names": ["x", "z"], "flag": 1}
    torch.save({"model": weights, "epoch": 4, "state": later}, tmp_path / "b.pt")

    def told(other: str) -> str:
        verdict = diff(tmp_path / "a.pt", tmp_path / other)
        assert verdict.ok
        (item,) = [i for i in verdict.coverage.skipped if i.what == "values beside the tensors"]
        assert not item.promised
        return item.why

    assert "of 7 plain values in both, 0 differ" in told("same.pt")
    why = told("b.pt")
    assert "epoch: 3 in A, 4 in B" in why
    assert "state.names.1: 'y' in A, 'z' in B" in why
    assert "state.flag: True in A, 1 in B" in why
    assert "3 differ" in why


def test_a_cut_file_is_compared_as_far_as_it_goes(tmp_path, weights) -> None:
    save_file(weights, tmp_path / "a.safetensors")
    whole = (tmp_path / "a.safetensors").read_bytes()
    (tmp_path / "b.safetensors").write_bytes(whole[:-100])
    verdict = diff(tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    (finding,) = verdict.findings
    assert finding.evidence["class"] == "damaged file"
    assert (finding.evidence["side"], finding.evidence["damaged_by"]) == ("B", "FIL104")
    assert verdict.exit_code() == 1


def test_a_file_that_lost_a_tensor_to_damage_is_told_with_its_damage(tmp_path, weights) -> None:
    save_file(weights, tmp_path / "a.safetensors")
    whole = (tmp_path / "a.safetensors").read_bytes()
    header = whole.replace(b"BF16", b"BX16")
    (tmp_path / "b.safetensors").write_bytes(header)
    verdict = diff(tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    (finding,) = verdict.findings
    assert finding.evidence["class"] == "damaged file"
    assert finding.evidence["damaged_by"] == "FIL107"
    assert [row["tensor"] for row in verdict.comparison["tensors"]] == ["head.bias"]
    assert verdict.comparison["equal"] == 2


@pytest.mark.parametrize("at", [40, 60, 90, 99])
def test_a_cut_archive_is_placed_by_the_whole_one(tmp_path, weights, at) -> None:
    torch.save(weights, tmp_path / "a.pt")
    whole = (tmp_path / "a.pt").read_bytes()
    (tmp_path / "b.pt").write_bytes(whole[: len(whole) * at // 100])
    verdict = diff(tmp_path / "a.pt", tmp_path / "b.pt")
    (finding,) = verdict.findings
    assert (finding.evidence["class"], finding.evidence["side"]) == ("damaged file", "B")
    assert finding.evidence["damaged_by"] in ("FIL104", "FIL107")
    lost = {row["tensor"] for row in verdict.comparison["tensors"]}
    assert verdict.comparison["equal"] + len(lost) == len(weights)
    assert ("head.weight" in lost) is (at < 90)


def test_the_text_tells_headline_and_table(tmp_path, weights) -> None:
    save_file(weights, tmp_path / "a.safetensors")
    save_file({**weights, "head.weight": -weights["head.weight"]}, tmp_path / "b.safetensors")
    paths = [str(tmp_path / f"{side}.safetensors") for side in "ab"]
    answer = CliRunner().invoke(command, paths, standalone_mode=False)
    assert answer.return_value == 1
    assert "sign: head.weight: every differing element is A's with the other sign" in " ".join(
        answer.output.split()
    )
    (row,) = [line for line in answer.output.splitlines() if line.split()[:1] == ["sign"]]
    assert "all 2,048" in row


def test_a_damaged_file_of_which_nothing_can_be_compared_names_its_rule(tmp_path, weights) -> None:
    save_file(weights, tmp_path / "a.safetensors")
    whole = (tmp_path / "a.safetensors").read_bytes()
    (tmp_path / "b.safetensors").write_bytes(whole[:20])
    with pytest.raises(DamagedError, match="FIL104"):
        diff(tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    (tmp_path / "c.pt").write_text("not a model")
    with pytest.raises(DamagedError, match="FIL118"):
        diff(tmp_path / "a.safetensors", tmp_path / "c.pt")


def test_a_bit_flipped_in_an_archive_is_found_in_its_tensor(tmp_path, weights) -> None:
    torch.save(weights, tmp_path / "a.pt")
    raw = weights["head.weight"].numpy().tobytes()
    whole = bytearray((tmp_path / "a.pt").read_bytes())
    at = bytes(whole).index(raw) + 4 * 77 + 3
    whole[at] ^= 0x80
    (tmp_path / "b.pt").write_bytes(whole)
    with zipfile.ZipFile(tmp_path / "b.pt") as archive:
        assert archive.testzip() is not None
    (finding,) = diff(tmp_path / "a.pt", tmp_path / "b.pt").findings
    assert finding.where.tensor == "head.weight"
    assert finding.where.elements == (77,)
    assert finding.evidence["changes"][0]["bits"] == [31]


def test_the_command_prints_json_and_returns_the_exit_code(tmp_path) -> None:
    a, b = write_run(tmp_path / "a"), write_run(tmp_path / "b", changed={2: Link.BATCH})
    result = CliRunner().invoke(command, [str(a), str(b), "--json"], standalone_mode=False)
    assert result.return_value == 1
    answer = json.loads(result.output)
    assert answer["schema"] == "everybit.verdict/1"
    assert answer["command"] == "diff"
    assert (answer["first"]["link"], answer["first"]["kind"]) == ("batch", "data")
    text = CliRunner().invoke(command, [str(a), str(b)], standalone_mode=False)
    assert "DIF181" in text.output
    assert "batch" in text.output


def test_diff_of_runs_and_files_needs_no_torch(tmp_path, weights) -> None:
    a, b = write_run(tmp_path / "a"), write_run(tmp_path / "b")
    save_file(weights, tmp_path / "m.safetensors")
    code = (
        "import sys; from everybit.api.diff import diff\n"
        "assert diff(*sys.argv[1:3]).ok and diff(sys.argv[3], sys.argv[3]).ok\n"
        "assert 'torch' not in sys.modules\n"
    )
    arguments = [str(a), str(b), str(tmp_path / "m.safetensors")]
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, timeout=60)
