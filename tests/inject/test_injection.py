from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import nn

from everybit.core.change import changes_between
from everybit.core.dtype import ITEMSIZE
from everybit.core.errors import UsageError
from everybit.core.fault import Fault, Pattern, TargetKind
from everybit.inject import Undone, apply, draw_fault, list_targets, planted

DTYPES = [
    dtype
    for name in ITEMSIZE
    if isinstance(dtype := getattr(torch, name, None), torch.dtype) and not name.startswith("q")
]


@pytest.fixture
def trained() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(4, 8)).square().sum().backward()
    optimizer.step()
    return model, optimizer


def memory(*holders) -> dict[tuple[str, str], bytes]:
    return {
        (target.kind, target.address): target.value.detach()
        .contiguous()
        .reshape(-1)
        .view(torch.uint8)
        .numpy()
        .tobytes()
        for target in list_targets(*holders)
    }


def versions(*holders) -> list[int]:
    return [target.value._version for target in list_targets(*holders)]


@pytest.mark.parametrize("pattern", sorted(set(Pattern) - {Pattern.STALE}))
@pytest.mark.parametrize("kind", sorted(set(TargetKind) - {TargetKind.GRADIENT}))
def test_the_record_is_the_exact_truth_and_undo_the_exact_way_back(
    trained, pattern: Pattern, kind: TargetKind
) -> None:
    before, counters = memory(*trained), versions(*trained)
    for seed in range(20):
        fault = draw_fault(*trained, seed=seed, pattern=pattern, where=kind)
        with planted(fault, *trained) as injection:
            damaged = memory(*trained)
            place = (fault.kind, f"{fault.parameter}:{fault.tensor}".rstrip(":"))
            touched = [key for key in before if before[key] != damaged[key]]
            assert touched == ([place] if injection.changes else [])
            target = next(t for t in list_targets(*trained) if (t.kind, t.address) == place)
            dtype = str(target.value.dtype).removeprefix("torch.")
            truth = changes_between(dtype, before[place], damaged[place])
            assert repr(list(injection.changes)) == repr(truth)  # repr: NaN is equal to itself
            assert {change.element for change in truth} <= set(fault.elements)
            assert injection.where.parameter == fault.parameter
            if pattern not in (Pattern.STUCK, Pattern.ZERO):  # it may hold these bits already
                assert injection.changes
        assert memory(*trained) == before
    assert versions(*trained) == counters


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_bit_of_every_dtype_can_be_flipped_and_put_back(dtype: torch.dtype) -> None:
    raw = np.random.default_rng(1).integers(0, 2, 48, dtype=np.uint8)
    tensor = torch.from_numpy(raw).view(dtype)
    right = memory({"t": tensor})
    for bit in range(8 * tensor.element_size()):
        fault = draw_fault({"t": tensor}, seed=bit, bits=(bit,))
        with planted(fault, {"t": tensor}) as injection:
            assert [change.bits for change in injection.changes] == [(bit,)]
            assert injection.where.elements == fault.elements
        assert memory({"t": tensor}) == right


def test_a_zero_dimensional_tensor_can_be_hit(trained) -> None:
    fault = draw_fault(*trained, seed=3, where="0.weight:step", bits=(23,))
    injection = apply(fault, *trained)
    assert [(c.element, c.before, c.after) for c in injection.changes] == [(0, 1.0, 0.5)]
    assert injection.where.optimizer == "AdamW"
    assert injection.where.tensor == "step"


def test_elements_that_share_memory_are_all_in_the_record() -> None:
    tensor = torch.ones(2, 1).expand(2, 3)
    fault = Fault(kind=TargetKind.WEIGHT, parameter="t", elements=(4,), masks=(1 << 31,))
    injection = apply(fault, {"t": tensor})
    assert tensor.tolist() == [[1.0, 1.0, 1.0], [-1.0, -1.0, -1.0]]
    assert [change.element for change in injection.changes] == [3, 4, 5]
    assert injection.undo() == Undone(restored=3, left=0)
    assert tensor.tolist() == [[1.0] * 3] * 2


def test_undo_leaves_what_was_rewritten_since() -> None:
    weight = torch.ones(4)
    fault = Fault(kind=TargetKind.WEIGHT, parameter="w", elements=(1, 2), masks=(1, 1 << 31))
    injection = apply(fault, {"w": weight})
    weight[1] = 5.0
    assert injection.undo() == Undone(restored=1, left=1)
    assert weight.tolist() == [1.0, 5.0, 1.0, 1.0]
    assert injection.undo() == Undone(restored=0, left=1)
    assert injection.undo(force=True) == Undone(restored=1, left=0)
    assert weight.tolist() == [1.0] * 4


def test_undo_counts_what_was_healed_as_neither_restored_nor_left() -> None:
    weight = torch.ones(4)
    injection = apply(
        Fault(kind=TargetKind.WEIGHT, parameter="w", elements=(1,), masks=(1,)), {"w": weight}
    )
    weight.fill_(1.0)
    assert injection.undo() == Undone(restored=0, left=0)


def test_undo_never_writes_into_replaced_memory(trained) -> None:
    model, _ = trained
    injection = apply(draw_fault(model, seed=0, where="0.weight"), model)
    replacement = torch.zeros_like(model[0].weight)
    model[0].weight.data = replacement
    assert injection.undo(force=True) == Undone(restored=0, left=1)
    assert not replacement.any()


def test_planted_is_undone_after_an_exception(trained) -> None:
    before = memory(*trained)
    with pytest.raises(RuntimeError), planted(draw_fault(*trained, seed=4), *trained):
        raise RuntimeError
    assert memory(*trained) == before


def test_the_same_seed_draws_the_same_fault_and_no_global_stream_moves(trained) -> None:
    streams = (random.getstate(), torch.get_rng_state().tolist(), np.random.get_state()[1].tolist())
    for pattern in sorted(set(Pattern) - {Pattern.STALE}):
        drawn = [draw_fault(*trained, seed=seed, pattern=pattern) for seed in range(30)]
        assert drawn == [draw_fault(*trained, seed=seed, pattern=pattern) for seed in range(30)]
        assert len(set(drawn)) > 20
        for fault in drawn:
            assert Fault.from_json(fault.to_json()) == fault
            with planted(fault, *trained):
                pass
    after = (random.getstate(), torch.get_rng_state().tolist(), np.random.get_state()[1].tolist())
    assert after == streams


def test_patterns_have_their_shapes() -> None:
    tensors = {"t": torch.ones(32, 64).T}  # transposed: memory order is not logical order
    flat_of = [(element % 32) * 64 + element // 32 for element in range(2048)]

    def addresses(fault: Fault) -> list[int]:
        return sorted(flat_of[element] for element in fault.elements)

    for seed in range(50):
        write = addresses(draw_fault(tensors, seed=seed, pattern="stray-write"))
        assert write == list(range(write[0], write[0] + len(write)))
        assert len(write) >= 2
        strided = addresses(
            draw_fault(tensors, seed=seed, pattern="strided", num_elements=8, stride=32)
        )
        assert strided == list(range(strided[0], strided[0] + 256, 32))
        many = draw_fault(tensors, seed=seed, pattern="multi-bit")
        assert len(many.elements) == 1
        assert many.masks[0].bit_count() >= 2
        single = draw_fault(tensors, seed=seed)
        assert [mask.bit_count() for mask in single.masks] == [1]


def test_stuck_forces_bits_or_a_whole_value() -> None:
    tensors = {"t": torch.full((4,), -3.0, dtype=torch.bfloat16)}
    low = draw_fault(tensors, seed=0, pattern="stuck", bits=(15,), value=0)
    with planted(low, tensors) as injection:
        assert [change.after for change in injection.changes] == [3.0]
    whole = draw_fault(tensors, seed=0, pattern="stuck", value=0.5)
    with planted(whole, tensors) as injection:
        assert [change.after for change in injection.changes] == [0.5]
        assert apply(whole, tensors).changes == ()  # latent: the memory holds these bits already


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"where": "nothing.*"}, "no tensor"),
        ({"where": TargetKind.STATE}, "no tensor"),
        ({"bits": (32,)}, "bits 0 to 31"),
        ({"pattern": "stray-write", "num_elements": 99}, "do not fit"),
        ({"pattern": "flip", "value": 1.0}, "use stuck"),
        ({"pattern": "stuck", "bits": (3,), "value": 7}, "become 0 or 1"),
    ],
)
def test_what_cannot_be_drawn_says_why(arguments: dict, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        draw_fault({"t": torch.ones(4)}, seed=0, **arguments)


def test_a_fault_for_a_tensor_that_is_not_there_changes_nothing(trained) -> None:
    before = memory(*trained)
    fault = Fault(kind=TargetKind.BUFFER, parameter="nope", elements=(0,), masks=(1,))
    with pytest.raises(UsageError, match="no buffer 'nope'"):
        apply(fault, *trained)
    far = Fault(kind=TargetKind.WEIGHT, parameter="2.bias", elements=(0, 4), masks=(1, 1))
    with pytest.raises(UsageError, match="element 4"):
        apply(far, *trained)
    assert memory(*trained) == before


def test_names_of_a_second_module_and_optimizer_are_told_apart() -> None:
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    optimizers = [torch.optim.Adam(module.parameters()) for module in (first, second)]
    for module, optimizer in zip((first, second), optimizers, strict=True):
        module(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    targets = {
        (target.module, target.parameter, target.tensor, target.optimizer): target.value
        for target in list_targets(first, second, *optimizers)
    }
    assert targets["", "weight", "", ""] is first.weight
    assert targets["Linear", "weight", "", ""] is second.weight
    moment = optimizers[1].state[second.weight]["exp_avg"]
    assert targets["Linear", "weight", "exp_avg", "Adam#1"] is moment
    fault = draw_fault(first, second, *optimizers, seed=0, where="Linear/weight:exp_avg")
    with planted(fault, first, second, *optimizers) as injection:
        assert injection.where.module == fault.module == "Linear"


def test_wrappers_do_not_show_in_names() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    names = [target.address for target in list_targets(model)]
    assert [t.address for t in list_targets(nn.DataParallel(model))] == names
    assert [t.address for t in list_targets(torch.compile(model))] == names
    inside = nn.Sequential(torch.compile(model[0]), model[1])
    assert [t.address for t in list_targets(inside)] == names
    assert set(names) == model.state_dict().keys()


def test_names_are_the_guards(trained, tmp_path) -> None:
    from everybit.guard.tracked import track_module, track_optimizer

    model, optimizer = trained
    tracked = list(track_module(model, None))
    parameters = {id(item.tensor): item for item in tracked}
    tracked += track_optimizer(optimizer, "AdamW", parameters)
    theirs = {(t.parameter, t.state or "", t.optimizer or ""): id(t.tensor) for t in tracked}
    ours = {(t.parameter, t.tensor, t.optimizer): id(t.value) for t in list_targets(*trained)}
    assert ours == theirs


def test_tied_weights_are_drawn_once_and_found_under_both_names() -> None:
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    model[1].weight = model[0].weight
    assert [target.parameter for target in list_targets(model)] == ["0.weight"]
    fault = Fault(kind=TargetKind.WEIGHT, parameter="1.weight", elements=(0,), masks=(1,))
    with planted(fault, model) as injection:
        assert len(injection.changes) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"elements": (), "masks": ()},
        {"elements": (1, 0), "masks": (1, 1)},
        {"elements": (1, 1), "masks": (1, 1)},
        {"elements": (0,), "masks": (0,)},
        {"elements": (0,), "masks": (1, 1)},
        {"elements": (-1,), "masks": (1,)},
        {"elements": (0,), "masks": (1,), "values": (1, 2)},
        {"elements": (0,), "masks": (1,), "pattern": Pattern.STUCK},
        {"elements": (0,), "masks": (1,), "kind": TargetKind.STATE},
    ],
)
def test_impossible_faults_cannot_be_built(wrong: dict) -> None:
    with pytest.raises(ValueError, match=r"element|mask|values|tensor"):
        Fault(**{"kind": TargetKind.WEIGHT, "parameter": "w", **wrong})
