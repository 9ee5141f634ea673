"""Wrong results: exact truth, everything else as found, on any dtype and kind of module."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

from everybit.core.errors import UsageError
from everybit.inject import (
    ComputedCampaign,
    ComputedFault,
    ComputedKind,
    Pattern,
    list_computed_targets,
)


class Words(nn.Module):
    """Integer inputs, an LSTM's nested outputs, dropout, a branch by `view` and a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.rnn = nn.LSTM(8, 8, batch_first=True)
        self.act = nn.ReLU(inplace=True)
        self.flat = nn.Identity()
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(8, 3)
        self.fail = False

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        h, (last, _) = self.rnn(x)
        x = self.flat(self.act(self.drop(h) + x))
        if self.fail:
            raise RuntimeError("the user's own")
        return self.head(x.mean(1) + last[0])


def build(dtype=torch.float32, seed=0):
    torch.manual_seed(seed)
    model = Words().to(dtype)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2)


TOKENS = torch.arange(12).reshape(3, 4) % 11


def train(model, optimizer, steps=4):
    """Return the outputs and gradients of each step."""
    seen = []
    for _ in range(steps):
        optimizer.zero_grad()
        out = model(TOKENS)
        out.float().square().mean().backward()
        seen.append([out.detach().clone(), *(p.grad.clone() for p in model.parameters())])
        optimizer.step()
    return seen


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def fault(kind=ComputedKind.ACTIVATION, module="rnn", **more):
    return ComputedFault(kind=kind, module=module, **{"step": 2, "seed": 3, **more})


WHERE = [
    (ComputedKind.ACTIVATION, "embed"),
    (ComputedKind.ACTIVATION, "rnn"),
    (ComputedKind.ACTIVATION, "act"),
    (ComputedKind.ACTIVATION, "drop"),
    (ComputedKind.ACTIVATION, "head"),
    (ComputedKind.INPUT_GRADIENT, "rnn"),
    (ComputedKind.INPUT_GRADIENT, "act"),
    (ComputedKind.INPUT_GRADIENT, "head"),
    (ComputedKind.PARAMETER_GRADIENT, "rnn"),
    (ComputedKind.PARAMETER_GRADIENT, "embed"),
    (ComputedKind.PARAMETER_GRADIENT, "head"),
    (ComputedKind.SAVED, "head"),
    (ComputedKind.SAVED, "act"),
    (ComputedKind.SAVED, "rnn"),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("kind", "module"), WHERE, ids=str)
def test_one_step_is_wrong_and_no_other_until_then(kind, module, dtype) -> None:
    clean = train(*build(dtype))
    model, optimizer = build(dtype)
    wrong_bit = 8 * dtype.itemsize - 2  # the top exponent bit: nobody rounds it away
    chosen = fault(kind, module, tensor=0, bits=(wrong_bit,))  # of the LSTM's three: the outputs
    with ComputedCampaign([chosen], model, optimizer) as campaign:
        seen = train(model, optimizer)
    (one,) = campaign.hits
    assert campaign.refused == []
    assert (one.where.step, one.where.module, one.where.link) == (2, module, one.fault.link)
    assert one.dtype == str(dtype).removeprefix("torch.")
    (change,) = one.changes
    assert change.bits == (wrong_bit,)
    assert one.where.elements == (change.element,)
    assert same(seen[0], clean[0])
    assert same(seen[1], clean[1])
    forward = kind is ComputedKind.ACTIVATION
    assert torch.equal(seen[2][0], clean[2][0]) is not forward
    if kind is not ComputedKind.SAVED:  # a saved value may meet a zero gradient
        assert not same(seen[2], clean[2])


def test_the_truth_is_what_the_model_returns() -> None:
    clean = train(*build())
    model, optimizer = build()
    tile = fault(module="head", pattern=Pattern.TILE, num_elements=4)
    with ComputedCampaign([tile], model, optimizer) as campaign:
        out = train(model, optimizer, steps=3)[2][0]
    (one,) = campaign.hits
    right = clean[2][0].reshape(-1)
    differ = (out.reshape(-1) != right).nonzero().reshape(-1).tolist()
    assert list(one.where.elements) == differ
    assert len(differ) == 4
    for change in one.changes:
        assert change.before == right[change.element].item()
        assert change.after == out.reshape(-1)[change.element].item()


def test_a_parameter_gradient_is_wrong_where_the_truth_says_and_nowhere_else() -> None:
    clean = train(*build(), steps=3)
    model, optimizer = build()
    names = [name for name, _ in model.named_parameters()]
    hit_one = fault(
        ComputedKind.PARAMETER_GRADIENT, "rnn", parameter="rnn.weight_hh_l0", bits=(30,)
    )
    with ComputedCampaign([hit_one], model, optimizer) as campaign:
        seen = train(model, optimizer, steps=3)
    differing = [
        name
        for name, a, b in zip(["out", *names], seen[2], clean[2], strict=True)
        if not torch.equal(a, b)
    ]
    assert differing == ["rnn.weight_hh_l0"]
    (one,) = campaign.hits
    assert one.where.parameter == "rnn.weight_hh_l0"


def test_same_seed_same_bits_and_nothing_else_moves() -> None:
    streams = torch.get_rng_state()
    told = []
    for _ in range(2):
        model, optimizer = build()
        state = torch.get_rng_state()
        with ComputedCampaign([fault(pattern=Pattern.STRIDED)], model, optimizer) as campaign:
            assert torch.equal(torch.get_rng_state(), state)
            train(model, optimizer)
        told.append(campaign.hits[0].to_json())
    assert told[0] == told[1]
    assert ComputedFault.from_json(told[0]["fault"]) == fault(pattern=Pattern.STRIDED)
    torch.set_rng_state(streams)


def test_an_error_of_the_model_passes_through_and_all_is_as_found() -> None:
    model, optimizer = build()
    before = {name: dict(module.__dict__) for name, module in model.named_modules()}
    backward = torch.autograd.backward
    model.fail = True
    faults = [fault(module="", step=0), fault(ComputedKind.LOSS, "", step=0), fault(step=0)]
    with (
        pytest.raises(RuntimeError, match="the user's own"),
        ComputedCampaign(faults, model, optimizer),
    ):
        train(model, optimizer)
    model.fail = False
    after = {name: dict(module.__dict__) for name, module in model.named_modules()}
    assert {name: set(values) for name, values in after.items()} == {
        name: set(values) for name, values in before.items()
    }
    assert torch.autograd.backward is backward
    assert not optimizer._optimizer_step_post_hooks
    assert same(train(*build())[3], train(*build())[3])


def test_a_repeated_call_is_right_unless_the_device_is_always_wrong() -> None:
    for lasts in (False, True):
        model, optimizer = build()
        model.eval()
        right = model(TOKENS)
        one = fault(module="head", step=0, lasts=lasts, bits=(30,))
        with ComputedCampaign([one], model, optimizer) as campaign:
            first, again = model(TOKENS), model(TOKENS)
        assert not torch.equal(first, right)
        assert torch.equal(again, right) is not lasts
        assert [h.call for h in campaign.hits] == ([0, 1] if lasts else [0])


def test_an_intermittent_fault_strikes_some_calls_of_its_steps() -> None:
    model, optimizer = build()
    one = fault(module="head", step=1, lasts=True, last_step=40, probability=0.5)
    with ComputedCampaign([one], model, optimizer) as campaign:
        train(model, optimizer, steps=45)
    steps = [h.where.step for h in campaign.hits]
    assert 8 < len(steps) < 32
    assert min(steps) >= 1
    assert max(steps) <= 40


def test_a_stale_result_holds_what_the_step_before_left() -> None:
    clean = train(*build(), steps=3)
    model, optimizer = build()
    one = fault(module="head", pattern=Pattern.STALE)
    with ComputedCampaign([one], model, optimizer):
        seen = train(model, optimizer, steps=3)
    assert torch.equal(seen[2][0], clean[1][0])
    assert not torch.equal(clean[2][0], clean[1][0])


def test_what_hands_on_its_input_computes_nothing_and_is_left_alone() -> None:
    clean = train(*build())
    model, optimizer = build()
    with ComputedCampaign([fault(module="flat")], model, optimizer) as campaign:
        seen = train(model, optimizer)
    assert campaign.hits == []
    assert "computes nothing" in campaign.refused[0][1]
    assert all(same(a, b) for a, b in zip(seen, clean, strict=True))


def test_batch_loss_and_random_stream() -> None:
    clean = train(*build())
    model, optimizer = build()
    tokens = TOKENS.clone()
    with ComputedCampaign([fault(ComputedKind.BATCH, "", bits=(0,))], model, optimizer) as campaign:
        seen = train(model, optimizer)
    assert torch.equal(TOKENS, tokens)  # the loader's own is left
    assert campaign.hits[0].changes[0].bits == (0,)
    assert not torch.equal(seen[2][0], clean[2][0])

    model, optimizer = build()
    losses = []
    with ComputedCampaign([fault(ComputedKind.LOSS, "", bits=(30,))], model, optimizer) as campaign:
        for _ in range(4):
            loss = model(TOKENS).square().mean()
            right = loss.item()
            loss.backward()
            losses.append(loss.item() == right)
            optimizer.step()
            optimizer.zero_grad()
    assert losses == [True, True, False, True]

    model, optimizer = build()
    rng = fault(ComputedKind.RNG, "", pattern=Pattern.STRAY_WRITE, num_elements=600)
    with ComputedCampaign([rng], model, optimizer) as campaign:
        seen = train(model, optimizer)
    assert len(campaign.hits) == 1
    assert same(seen[1], clean[1])
    assert not torch.equal(seen[2][0], clean[2][0])  # another dropout mask


def test_copies_of_the_model_are_free_of_it() -> None:
    model, optimizer = build()
    model.eval()
    right = model(TOKENS)
    with ComputedCampaign([fault(module="head", step=0, lasts=True)], model, optimizer):
        twin = copy.deepcopy(model)
        read = pickle.loads(pickle.dumps(model))
        assert not torch.equal(model(TOKENS), right)
    assert torch.equal(twin(TOKENS), right)
    assert torch.equal(read(TOKENS), right)


def test_what_a_model_computes_is_listed_once() -> None:
    model, _ = build()

    def call():
        model(TOKENS).sum().backward()

    targets = list_computed_targets(model, call)
    by_kind = {
        kind: [(t.module, t.parameter) for t in targets if t.kind is kind] for kind in ComputedKind
    }
    modules = [module for module, _ in by_kind[ComputedKind.ACTIVATION]]
    assert modules == ["embed", "rnn", "drop", "act", "head"]  # neither `flat` nor the root
    assert ("head", "head.bias") in by_kind[ComputedKind.PARAMETER_GRADIENT]
    assert {p for _, p in by_kind[ComputedKind.PARAMETER_GRADIENT]} == {
        name for name, _ in model.named_parameters()
    }
    assert ("embed", "") not in by_kind[ComputedKind.INPUT_GRADIENT]
    assert ("rnn", "") in by_kind[ComputedKind.INPUT_GRADIENT]
    assert not model._forward_hooks
    for target in targets:  # each can be hit
        model, optimizer = build()
        one = ComputedFault(
            kind=target.kind, module=target.module, parameter=target.parameter, step=0
        )
        with ComputedCampaign([one], model, optimizer) as campaign:
            train(model, optimizer, steps=1)
        assert len(campaign.hits) == 1, target
        assert campaign.hits[0].dtype == target.dtype


def test_a_module_that_is_not_there_is_told() -> None:
    model, optimizer = build()
    with (
        pytest.raises(UsageError, match="no module 'rnn2'"),
        ComputedCampaign([fault(module="rnn2")], model, optimizer),
    ):
        pass
    assert "forward" not in model.rnn.__dict__


@pytest.mark.parametrize(
    "wrong",
    [
        {"probability": 0.0},
        {"last_step": 3},
        {"pattern": Pattern.STUCK},
        {"pattern": Pattern.STALE, "kind": ComputedKind.SAVED},
        {"step": -1},
    ],
)
def test_faults_that_cannot_be_are_refused(wrong) -> None:
    with pytest.raises(ValueError, match=r"."):
        ComputedFault(**{"kind": ComputedKind.ACTIVATION, **wrong})
