"""Where non-finite values begin."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

from everybit.core.numbers import Source
from everybit.guard.origin import find_gradient_origin, find_loss_origin


def origin_of(model, loss):
    return find_loss_origin(loss, model.named_parameters(), model.named_buffers())


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))


X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


def test_the_operation_that_made_it_and_the_parameter_before_it(model):
    hidden = model[:3](X)
    loss = model[3:]((hidden - hidden.detach() - 1).sqrt()).mean()
    origin = origin_of(model, loss)
    assert origin.source is Source.OPERATION
    assert (origin.operation, origin.value) == ("sqrt", "nan")
    assert (origin.parameter, origin.module) in {("2.weight", "2"), ("2.bias", "2")}
    assert origin.num_bad == origin.num_elements == 24


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_an_input(model, value):
    bad = X.clone()
    bad[1, 2] = value
    origin = origin_of(model, (model(bad) * math.nan).mean())
    assert origin.source is Source.INPUT
    assert (origin.num_bad, origin.num_elements) == (1, 12)


def test_a_parameter_goes_before_all_else(model):
    with torch.no_grad():
        model[2].bias[3] = math.nan
    bad = torch.full_like(X, math.nan)
    origin = origin_of(model, model(bad).mean())
    assert (origin.source, origin.parameter) == (Source.PARAMETER, "2.bias")


def test_statistics_of_batch_norm_in_evaluation(model):
    norm = nn.BatchNorm1d(8)
    model.insert(1, norm)
    norm.running_var[2] = math.nan
    model.eval()
    origin = origin_of(model, model(X).mean())
    assert (origin.source, origin.parameter) == (Source.BUFFER, "1.running_var")


def test_statistics_that_a_step_has_just_written_are_not_its_origin(model):
    model.insert(1, nn.BatchNorm1d(8))
    bad = X.clone()
    bad[0, 0] = math.nan
    assert origin_of(model, model(bad).mean()).source is Source.INPUT


def test_log_of_zero_leaves_nothing_bad_behind(model):
    loss = model(X).mean() + (model[4].bias * 0).log().sum()
    origin = origin_of(model, loss)
    assert origin.operation == "log"
    assert origin.value == "-inf"


def test_masks_of_attention_are_not_to_blame(model):
    scores = model[:3](X).unsqueeze(1).expand(3, 8, 8)
    causal = torch.full((8, 8), -math.inf).triu(1)
    mixed = (scores + causal).softmax(-1) @ scores.transpose(1, 2)
    attended = F.scaled_dot_product_attention(mixed, mixed, mixed, attn_mask=causal)
    loss = (torch.logsumexp(attended + causal, -1) * 0 - 1).sqrt().mean()
    origin = origin_of(model, loss)
    assert origin.operation == "sqrt"


def test_what_is_behind_hooks_is_left_alone(model):
    calls = []

    def part(x):
        calls.append(1)
        return model[2:4](x)

    hidden = checkpoint(part, model[:2](X), use_reentrant=False)
    loss = (model[4](hidden) * 0 - 1).sqrt().mean()
    assert origin_of(model, loss).operation == "sqrt"
    assert len(calls) == 1
    loss.backward()  # Still possible: nothing was unpacked.
    assert len(calls) == 2


def test_a_function_of_the_program_and_a_compiled_graph(model):
    class Root(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            result = (x - x - 1).sqrt()
            ctx.save_for_backward(x, result)
            return result

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    origin = origin_of(model, Root.apply(model[:2](X)).mean())
    assert (origin.source, origin.operation) == (Source.OPERATION, "root")

    @torch.compile(backend="aot_eager")
    def compiled(x):
        return (model(x) * 0 - 1).sqrt().mean()

    origin = origin_of(model, compiled(X))
    assert (origin.source, origin.operation) == (Source.OPERATION, "compiledFunction")


def test_a_loss_without_a_graph(model):
    assert origin_of(model, torch.tensor(math.nan)).source is Source.UNKNOWN


def test_the_gradient_nearest_to_the_loss_is_the_first():
    good, bad = torch.ones(3), torch.tensor([1.0, math.inf, math.nan])
    named = [("a", bad), ("b", None), ("c", bad), ("d", good), ("e", good)]
    norms = [math.nan, -1.0, math.inf, 1.0, 1.0]
    origin = find_gradient_origin(named, norms)
    assert (origin.parameter, origin.neighbour) == ("c", "d")
    assert (origin.num_bad, origin.value) == (2, "inf")


def test_a_norm_that_overflows_is_no_bad_gradient():
    big = torch.full((4,), 1e30)
    assert find_gradient_origin([("a", big)], [float(big.norm())]) is None
