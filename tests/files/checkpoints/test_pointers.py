from __future__ import annotations

import pytest
import torch
from tests.files.checkpoints import runs

import everybit


def deepspeed(folder, tags=("global_step100", "global_step200")):
    for tag in tags:
        place = folder / tag
        place.mkdir(parents=True)
        torch.manual_seed(len(tag) + int(tag[-3:]))
        torch.save({"module": {"w": torch.randn(40, 30)}, "global_steps": int(tag[-3:])},
                   place / "mp_rank_00_model_states.pt")  # fmt: skip
    (folder / "latest").write_text(f"{tags[-1]}\n")
    return folder


def test_a_pointer_to_what_is_there_and_whole(tmp_path, found):
    folder = deepspeed(tmp_path)
    assert found(folder) == set()
    stats = everybit.verify(folder).stats
    assert stats["latest"] == {"latest": {"names": "global_step200", "whole": True}}
    assert stats["newest_whole"] == "global_step200"


def test_a_pointer_to_nothing(tmp_path, only):
    folder = deepspeed(tmp_path)
    (folder / "latest").write_text("global_step300")
    finding = only(folder)
    assert (finding.rule, finding.where.path) == ("FIL103", "global_step300")
    assert finding.evidence["listed_by"] == "latest"
    assert "global_step200" in finding.remedy


def test_a_pointer_to_what_is_damaged(tmp_path, only):
    folder = deepspeed(tmp_path)
    path = folder / "global_step200" / "mp_rank_00_model_states.pt"
    path.write_bytes(path.read_bytes()[:-3000])
    assert only(folder).rule == "FIL104"
    stats = everybit.verify(folder).stats
    assert stats["newest_whole"] == "global_step100"
    told = stats["latest"]["latest"]
    assert (told["whole"], told["names"]) == (False, "global_step200")
    assert "FIL104" in told["why"]


def test_megatron_names_an_iteration(tmp_path, found):
    place = tmp_path / "iter_0000500" / "mp_rank_00"
    place.mkdir(parents=True)
    torch.save({"model": {"w": torch.randn(9)}}, place / "model_optim_rng.pt")
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("500")
    assert found(tmp_path) == set()
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("600")
    assert found(tmp_path) == {("FIL103", "iter_0000600")}


@pytest.mark.parametrize(
    "text",
    ["", "\0", "..", "../..", "/", "a/../../b", "1.2.3", "a note\nof two lines", "x" * 5000],
)
def test_what_is_no_pointer(tmp_path, found, text):
    folder = deepspeed(tmp_path)
    (folder / "latest").write_text(text)
    assert found(folder) == set()


def test_a_path_of_the_machine_that_wrote_it(tmp_path, found):
    paths = runs.save_plain(tmp_path / "c", runs.states(runs.Run(), (1, 2)))
    (tmp_path / "c" / "last_checkpoint").write_text("/home/someone/run/ckpt_2.pt")
    assert found(tmp_path / "c") == set()
    assert everybit.verify(tmp_path / "c").stats["latest"]["last_checkpoint"]["whole"]
    (tmp_path / "c" / "last_checkpoint").write_text("ckpt_3.pt")
    assert found(tmp_path / "c") == {("FIL103", "ckpt_3.pt")}
    assert paths
