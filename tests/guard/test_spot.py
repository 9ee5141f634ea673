"""Products are tested by checksums while they are computed."""

from __future__ import annotations

import copy
import random

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import everybit
from everybit.guard.spot.checksums import LIMIT, product_distance
from everybit.guard.spot.convolutions import sampled_distance

ATEN = torch.ops.aten


class Faulty(TorchDispatchMode):
    """A device that errs: in one call of an operation, or in each."""

    def __init__(self, operation, call: int | None, bit: int = 28, element: int = 5) -> None:
        super().__init__()
        self.operation, self.call, self.bit, self.element = operation, call, bit, element
        self.calls = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func is self.operation:
            if self.call in (None, self.calls):
                whole = result.view(-1)[self.element : self.element + 1].view(torch.int32)
                whole ^= 1 << self.bit
            self.calls += 1
        return result


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(3, 8, 3, padding=1)
        self.mix = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.mix(self.conv(x).transpose(1, 2)))


def train(net: nn.Module, steps: int) -> list[float]:
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    losses = []
    for step in range(steps):
        x = torch.randn(4, 3, 16, generator=torch.Generator().manual_seed(step))
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def watched(tmp_path, net, steps=3, **settings):
    options = {"on_finding": "record", "spot_checks": True, "replay_every": 0, **settings}
    with everybit.Guard(run=tmp_path, **options) as guard:
        losses = train(net, steps)
    return guard, losses


def found_by(guard) -> list[everybit.Finding]:
    return [each for each in guard.findings if each.rule == "CMP701"]


def test_a_clean_run_is_quiet_and_unchanged(tmp_path):
    torch.manual_seed(0)
    plain = train(Net(), 3)
    torch.manual_seed(0)
    guard, losses = watched(tmp_path, Net())
    assert losses == plain
    assert not guard.findings
    counts = {each.what: each.count for each in guard.coverage.checked}
    for name in ("aten.addmm", "aten.mm", "aten.bmm", "aten.convolution"):
        assert counts[f"products by checksum ({name})"] >= 3
    assert any("convolution_backward" in each.what for each in guard.coverage.skipped)


@pytest.mark.parametrize(
    ("operation", "call", "module", "link"),
    [
        (ATEN.addmm.default, 1, "mix.linear1", "forward"),
        (ATEN.bmm.default, 0, "mix.self_attn", "forward"),
        (ATEN.mm.default, 4, "", "grad"),
    ],
)
def test_a_transient_fault_is_placed_and_proven(tmp_path, operation, call, module, link):
    torch.manual_seed(0)
    with Faulty(operation, call):
        guard, _ = watched(tmp_path, Net())
    (found,) = found_by(guard)
    assert found.evidence["verdict"] == "transient"
    assert found.certainty is everybit.Certainty.PROOF
    assert found.where.step == 0
    assert str(found.where.link) == link
    assert (found.where.module or "") == module
    assert found.where.elements == (5,)
    assert found.evidence["changes"][0]["bits"] == [28]
    assert found.evidence["pattern"] == "single"


def test_a_healed_fault_leaves_no_trace(tmp_path):
    torch.manual_seed(0)
    plain = train(net := Net(), 3)
    right = copy.deepcopy(net.state_dict())
    torch.manual_seed(0)
    with Faulty(ATEN.addmm.default, 2):
        guard, losses = watched(tmp_path, net := Net(), on_finding="heal")
    (found,) = found_by(guard)
    assert found.evidence["healed"]
    assert losses == plain
    assert all(torch.equal(right[name], value) for name, value in net.state_dict().items())


def test_a_device_that_always_errs_is_told_from_one_that_did_once(tmp_path):
    torch.manual_seed(0)
    with Faulty(ATEN.addmm.default, None):
        guard, _ = watched(tmp_path, Net(), steps=1)
    found = found_by(guard)
    assert {each.evidence["verdict"] for each in found} == {"persistent"}
    assert all(5 in each.where.elements for each in found)


def test_what_overflows_by_itself_is_no_fault(tmp_path):
    net = nn.Linear(4, 4)
    with torch.no_grad():
        net.weight.fill_(3e38)
    with everybit.Guard(net, run=tmp_path, on_finding="record", spot_checks=True) as guard:
        net(torch.full((2, 4), 3e38))
        net(torch.tensor([[float("nan")] * 4]))
    assert not found_by(guard)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_clean_products_stay_below_the_limit(dtype):
    torch.manual_seed(1)
    draw = random.Random(1)
    for trial in range(150):
        n, k, m = (draw.randint(1, 300) for _ in range(3))
        a = torch.randn(n, k) * 10 ** draw.uniform(-2, 1)
        b = torch.randn(k, m) * 0.05 + 0.05 * (trial % 5 == 0)
        a = (a.abs() if trial % 3 == 0 else a).to(dtype)
        added = (torch.randn(m) * 10 ** draw.uniform(-2, 1)).to(dtype)
        b = b.to(dtype)
        assert product_distance(a, b, a @ b).max() < LIMIT
        whole = torch.addmm(added, a, b, beta=0.5, alpha=-2)
        assert product_distance(a, b, whole, added=added, beta=0.5, alpha=-2).max() < LIMIT


@pytest.mark.parametrize(
    ("dtype", "bits", "share"),
    [
        (torch.float32, range(23, 32), 0.99),
        (torch.float64, range(52, 64), 0.99),
        (torch.bfloat16, range(10, 16), 0.7),
    ],
)
def test_flips_of_exponent_and_sign_are_seen(dtype, bits, share):
    torch.manual_seed(2)
    draw = random.Random(2)
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    seen = 0
    for _ in range(200):
        a, b = torch.randn(32, 64).to(dtype), torch.randn(64, 48).to(dtype)
        c = a @ b
        bit = draw.choice(bits)
        word = 1 << bit
        if bit == 8 * dtype.itemsize - 1:
            word -= 1 << (8 * dtype.itemsize)
        place = draw.randrange(c.numel())
        c.view(-1)[place : place + 1].view(whole).bitwise_xor_(word)
        seen += not product_distance(a, b, c).max() < LIMIT
    assert seen >= share * 200


def test_sampled_outputs_of_convolutions_agree_whatever_the_shape():
    torch.manual_seed(3)
    draw = random.Random(3)
    for trial in range(60):
        dims, groups = draw.randint(1, 3), draw.randint(1, 2)
        how = {
            "stride": [draw.randint(1, 3) for _ in range(dims)],
            "padding": [draw.randint(0, 3) for _ in range(dims)],
            "dilation": [draw.randint(1, 2) for _ in range(dims)],
            "groups": groups,
        }
        x = torch.randn(2, 2 * groups, *(draw.randint(9, 13) for _ in range(dims)))
        w = torch.randn(3 * groups, 2, *(draw.randint(1, 4) for _ in range(dims)))
        bias = torch.randn(3 * groups)
        y = torch.convolution(
            x, w, bias, how["stride"], how["padding"], how["dilation"], False, [0] * dims, groups
        )
        assert sampled_distance(x, w, bias, y, seed=trial, **how).max() < 1
        assert sampled_distance(x, w, bias, y * 1.01, seed=trial, **how).max() > 1


def test_replay_goes_along_with_it(tmp_path):
    torch.manual_seed(0)
    guard, _ = watched(tmp_path, Net(), replay_every=1)
    assert not guard.findings
    counts = {each.what: each.count for each in guard.coverage.checked}
    assert counts["calls of a model computed again"] == 3
    assert counts["gradients of these calls computed again"] >= 3 * len(list(Net().parameters()))
    assert not [each for each in guard.coverage.skipped if "again" in each.what]
