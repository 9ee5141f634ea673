"""`everybit.check_load`: the same answer after a reload, or why not; the model left as it was."""

from __future__ import annotations

import random
from typing import NamedTuple

import numpy as np
import pytest
import torch
from tests.checkpoint.models import Small, copies, same, seeded, trained
from torch import nn

import everybit

X = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))


class Dropping(Small):
    """With dropout, and a buffer that no state dict has."""

    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.register_buffer("scale", torch.ones(1), persistent=False)

    def forward(self, x):
        return {"logits": super().forward(self.drop(x)) * self.scale, "size": len(x)}


def _saved(tmp_path, model, name="model.pt"):
    path = tmp_path / name
    torch.save(model.state_dict(), path)
    return path


def _everything(model):
    return everybit.digest(
        [
            copies(model),
            dict(model.named_buffers()),
            [p.grad for p in model.parameters()],
            [m.training for m in model.modules()],
            torch.get_rng_state(),
            repr(random.getstate()),
            np.random.get_state()[1],
        ]
    )


@pytest.mark.parametrize("training", [False, True])
def test_a_faithful_file_is_clean_and_nothing_moves(tmp_path, training):
    model = seeded(Dropping)
    trained(nn.Sequential(model.body, model.head))
    model.train(training)
    before = _everything(model)
    verdict = everybit.check_load(model, _saved(tmp_path, model), X)
    assert verdict.ok
    assert _everything(model) == before
    assert (verdict.stats["outputs"], verdict.stats["differing"]) == (2, 0)
    told = {item.what for item in verdict.coverage.skipped}
    by_mode = {"dropout", "BatchNorm statistics", "answers in evaluation mode"}
    assert (told & by_mode) == (by_mode if training else set())


def test_one_bit_in_one_weight_is_named(tmp_path):
    model = seeded(Small).eval()
    path = _saved(tmp_path, model)
    with torch.no_grad():
        model.body[3].weight.view(torch.int32)[2, 3] ^= 1 << 22
    before = _everything(model)
    verdict = everybit.check_load(model, path, (X,))
    (finding,) = verdict.findings
    assert (finding.rule, finding.severity) == ("FIL116", everybit.Severity.ERROR)
    assert finding.evidence == {"tensors": ["body.3.weight"], "outputs": ["output"]}
    assert _everything(model) == before


def test_statistics_that_moved_are_told_as_such(tmp_path):
    model = seeded(Small)
    path = _saved(tmp_path, model)
    model(X)
    (finding,) = everybit.check_load(model.eval(), path, X).findings
    assert finding.severity is everybit.Severity.WARNING
    assert "only BatchNorm statistics differ" in finding.message
    assert "1 outputs differ" in finding.message


def test_a_rounded_file_is_a_note(tmp_path):
    model = seeded(Small).eval()
    path = tmp_path / "half.pt"
    torch.save({k: v.bfloat16() if v.is_floating_point() else v for k, v in copies(model).items()},
               path)  # fmt: skip
    (finding,) = everybit.check_load(model, path, X).findings
    assert finding.severity is everybit.Severity.NOTE
    assert "rounded to a shorter dtype" in finding.message


def test_a_model_that_does_not_repeat_is_inconclusive(tmp_path):
    class Counting(Small):
        calls = 0

        def forward(self, x):
            Counting.calls += 1
            return super().forward(x) + Counting.calls

    model = seeded(Counting).eval()
    verdict = everybit.check_load(model, _saved(tmp_path, model), X)
    assert verdict.status is everybit.Status.INCONCLUSIVE
    assert any("called twice" in item.why for item in verdict.coverage.skipped)


def test_state_outside_the_state_dict_is_found(tmp_path):
    model = seeded(Small).eval()
    path = _saved(tmp_path, model)
    count = {"calls": 0}

    def shift(module, args, output):
        # Only after the reload, as code that runs on loading would do.
        count["calls"] += 1
        return output + (count["calls"] > 2)

    model.register_forward_hook(shift)
    (finding,) = everybit.check_load(model, path, X).findings
    assert finding.certainty is everybit.Certainty.STRONG
    assert "every tensor of the state dict is the same" in finding.message


def test_a_file_of_something_else_or_damaged_is_told_and_nothing_moves(tmp_path):
    model = seeded(Small).eval()
    path = _saved(tmp_path, nn.Conv2d(3, 3, 3))
    before = _everything(model)
    (finding,) = everybit.check_load(model, path, X).findings
    assert "none of the 2 tensors" in finding.message
    path = _saved(tmp_path, model)
    data = bytearray(path.read_bytes())
    data[data.find(model.head.weight.detach().numpy().tobytes())] ^= 1
    path.write_bytes(data)
    assert everybit.check_load(model, path, X).findings[0].rule == "FIL108"
    assert _everything(model) == before


def test_answers_of_every_form(tmp_path):
    class Answer(NamedTuple):
        one: torch.Tensor
        rest: list

    class Many(Small):
        def forward(self, *, x):
            out = super().forward(x)
            return Answer(out, [out + 1, {"z": out * 2}])

    model = seeded(Many).eval()
    verdict = everybit.check_load(model, _saved(tmp_path, model), {"x": X})
    assert verdict.ok
    assert verdict.stats["outputs"] == 3

    class Nothing(Small):
        def forward(self, x):
            return object()

    model = seeded(Nothing)
    before = copies(model)
    with pytest.raises(everybit.UsageError, match="holds nothing to compare"):
        everybit.check_load(model, _saved(tmp_path, model), X)
    assert same(model, before)
