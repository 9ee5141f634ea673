"""What looks like corruption and is none; and a real fault in the middle of it, still found."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.guard.watched import bits_of, build, flip, loss_of, places_of, train_step
from torch import nn

import everybit

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
]

#: What is called between two steps, twice: `scenario(model, optimizer, memo)`.
SCENARIOS: dict[str, Any] = {}


def scenario(function: Any) -> Any:
    SCENARIOS[function.__name__] = function
    return function


# --- writes that no version counter shows, or that only it shows


@scenario
def through_data(model, optimizer, memo):
    for p in model.parameters():
        p.data.mul_(0.9)
        p.data[0] = 0.5


@scenario
def through_data_set(model, optimizer, memo):
    for p in model.parameters():
        p.data = p.data * 0.9
    model[1].running_mean.data = model[1].running_mean.data.clone() + 1


@scenario
def through_an_old_alias(model, optimizer, memo):
    if not memo:
        memo["aliases"] = [p.data for p in model.parameters()]
        memo["views"] = [alias.view(-1)[:2] for alias in memo["aliases"]]
        return
    for alias, view in zip(memo["aliases"], memo["views"], strict=True):
        alias.mul_(0.9)
        view.zero_()


@scenario
def through_detach(model, optimizer, memo):
    for p in model.parameters():
        p.detach().mul_(0.9)
        p.detach().view(-1)[0] = 1


@scenario
def under_no_grad(model, optimizer, memo):
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p * 0.5)
        nn.init.xavier_normal_(model[0].weight)
        model[3].bias.uniform_(-1, 1)
        torch._foreach_mul_(list(model.parameters()), 0.99)


@scenario
def other_dtype_and_back(model, optimizer, memo):
    model.half().float()
    model.double().float()


@scenario
def other_dtype_swapped(model, optimizer, memo):
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        model.double().float()
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


@scenario
def swapped_tensors(model, optimizer, memo):
    torch.utils.swap_tensors(model[0].bias, nn.Parameter(torch.ones(64)))


@scenario
def vector_to_parameters(model, optimizer, memo):
    vector = nn.utils.parameters_to_vector(model.parameters())
    nn.utils.vector_to_parameters(vector * 0.9, model.parameters())


@scenario
def set_storage(model, optimizer, memo):
    with torch.no_grad():
        model[3].bias.set_(torch.linspace(-1, 1, 300))


@scenario
def collective_of_one(model, optimizer, memo):
    import torch.distributed as dist

    with one_process_group():
        for p in model.parameters():
            dist.broadcast(p.detach(), 0)
            dist.all_reduce(p.data)
        gathered = [model[1].running_mean]
        dist.all_gather(gathered, torch.full((64,), 0.25))
        dist.all_gather_into_tensor(model[1].running_var, torch.full((64,), 0.5))
        dist.scatter(model[0].bias.detach(), [torch.full((64,), 0.125)], 0)


# --- loading and averaging


@scenario
def load_state_dict(model, optimizer, memo):
    if not memo:
        memo["saved"] = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
        return
    model.load_state_dict(memo["saved"][0])
    optimizer.load_state_dict(memo["saved"][1])


@scenario
def load_state_dict_assign(model, optimizer, memo):
    saved = {k: v.clone() * 2 for k, v in model.state_dict().items()}
    model.load_state_dict(saved, assign=True)
    state = optimizer.state_dict()
    optimizer.param_groups[0]["params"] = list(model.parameters())
    optimizer.state.clear()
    optimizer.load_state_dict(state)


@scenario
def swa(model, optimizer, memo):
    averaged = memo.setdefault("averaged", torch.optim.swa_utils.AveragedModel(model))
    averaged.update_parameters(model)
    torch.optim.swa_utils.update_bn([torch.ones(4, 16), torch.randn(4, 16)], averaged)
    torch.optim.swa_utils.update_bn([torch.randn(4, 16)], model)


@scenario
def state_reset(model, optimizer, memo):
    optimizer.state.clear()
    optimizer.zero_grad(set_to_none=False)


@scenario
def late_group(model, optimizer, memo):
    extra = nn.Parameter(torch.ones(700))
    memo.setdefault("extra", []).append(extra)
    optimizer.add_param_group({"params": [extra], "lr": 0.1})
    (extra.sum() * 2).backward()


@scenario
def layers_come_and_go(model, optimizer, memo):
    if not memo:
        memo["layer"] = nn.Linear(300, 3)
        model.append(memo["layer"])
        optimizer.add_param_group({"params": memo["layer"].parameters()})
    else:
        del model[-1]


@scenario
def frozen_and_thawed(model, optimizer, memo):
    model[0].requires_grad_(bool(memo))
    memo["frozen"] = True


# --- modules that write their own weights and buffers


@scenario
def weight_norm(model, optimizer, memo):
    if not memo:
        memo["norm"] = nn.utils.parametrizations.weight_norm(model[0])
        optimizer.add_param_group({"params": [p for p in model[0].parameters() if p.dim() > 1]})


@scenario
def old_weight_norm(model, optimizer, memo):
    if not memo:
        memo["norm"] = nn.utils.weight_norm(model[0])
    else:
        nn.utils.remove_weight_norm(model[0])


@scenario
def spectral_norm(model, optimizer, memo):
    if not memo:
        memo["norm"] = nn.utils.parametrizations.spectral_norm(model[3])
    model[3].weight  # noqa: B018 - writes buffers past the root


@scenario
def old_spectral_norm(model, optimizer, memo):
    if not memo:
        memo["norm"] = nn.utils.spectral_norm(model[3])


@scenario
def pruned(model, optimizer, memo):
    from torch.nn.utils import prune

    prune.l1_unstructured(model[0], "weight", amount=0.3)
    prune.random_unstructured(model[3], "bias", amount=0.2)
    if memo:
        prune.remove(model[0], "weight")
    memo["pruned"] = True


@scenario
def batch_norm_past_the_root(model, optimizer, memo):
    model[1](torch.randn(8, 64))
    model[:2](torch.randn(8, 16))


@scenario
def batch_norm_reset(model, optimizer, memo):
    model[1].reset_running_stats()
    model[1].momentum = None


@scenario
def checkpointed(model, optimizer, memo):
    """Batch norm runs again in backward, past the root."""
    from torch.utils.checkpoint import checkpoint

    if not memo:
        inner = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64))
        memo["inner"] = inner

        class Checkpointed(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = inner

            def forward(self, x):
                return checkpoint(self.inner, x, use_reentrant=False)

        model.insert(3, Checkpointed())
        optimizer.add_param_group({"params": inner.parameters()})


@scenario
def buffers_replaced_in_forward(model, optimizer, memo):
    if not memo:
        memo["layer"] = Replacing()
        model.append(memo["layer"])
    model[-1].count.data.add_(1)


class Replacing(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(3))
        self.register_buffer("large", torch.zeros(70_000))

    def forward(self, x):
        self.count = self.count + 1
        self.large.data = self.large.data.clone() + 1
        return x


# --- optimizers


@scenario
def optimizer_of_optimizers(model, optimizer, memo):
    sam = memo.setdefault("sam", Sam(model.parameters(), optimizer))
    loss_of(model).backward()
    sam.ascend()
    loss_of(model).backward()
    sam.step()
    sam.zero_grad()


class Sam(torch.optim.Optimizer):
    """Sharpness-aware: climbs, then lets another optimizer descend inside its own step."""

    def __init__(self, params, base):
        super().__init__(params, {"rho": 0.05})
        self.base = base

    @torch.no_grad()
    def ascend(self):
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["climb"] = p.grad * group["rho"]
                p.add_(self.state[p]["climb"])
        self.zero_grad()

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(self.state[p]["climb"])
        self.base.step()


@scenario
def lookahead(model, optimizer, memo):
    """A wrapper that is no Optimizer writes through `.data` after the inner step."""
    slow = memo.setdefault("slow", [p.detach().clone() for p in model.parameters()])
    train_step(model, optimizer)
    for p, s in zip(model.parameters(), slow, strict=True):
        s.add_(p.data - s, alpha=0.5)
        p.data.copy_(s)


@scenario
def two_optimizers_share_parameters(model, optimizer, memo):
    other = memo.setdefault(
        "other", torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    )
    train_step(model, other)


@scenario
def tensor_learning_rate(model, optimizer, memo):
    other = memo.setdefault("other", torch.optim.Adam([model[0].bias], lr=torch.tensor(0.01)))
    schedule = memo.setdefault("schedule", torch.optim.lr_scheduler.ExponentialLR(other, 0.5))
    loss_of(model).backward()
    other.step()
    schedule.step()


@scenario
def nested_state(model, optimizer, memo):
    other = memo.setdefault("other", torch.optim.LBFGS([model[0].weight], max_iter=3))

    def closure():
        model.zero_grad()
        loss = loss_of(model)
        loss.backward()
        return loss

    other.step(closure)


@scenario
def adam_with_a_closure(model, optimizer, memo):
    def closure():
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        return loss

    optimizer.step(closure)


@scenario
def step_raises(model, optimizer, memo):
    """A fused update writes one group, fails in the next, and the loop goes on."""
    other = memo.setdefault(
        "other",
        torch.optim.SGD(
            [{"params": model[0].parameters()}, {"params": model[3].parameters()}],
            lr=0.01, fused=True,
        ),
    )  # fmt: skip
    loss_of(model).backward()
    model[3].weight.grad = model[3].weight.grad.to_sparse()
    with pytest.raises((RuntimeError, NotImplementedError)):
        other.step()
    model.zero_grad()
    loss_of(model)  # a call while the step's end was never seen


@scenario
def scaler_skips(model, optimizer, memo):
    scaler = memo.setdefault("scaler", torch.amp.GradScaler("cpu", init_scale=2.0**10))
    for factor in (1.0, float("inf"), 1.0):
        scaler.scale(loss_of(model) * factor).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


@scenario
def compiled_step(model, optimizer, memo):
    other = memo.setdefault("other", torch.optim.SGD(model.parameters(), lr=0.01))
    step = memo.setdefault("step", torch.compile(lambda: other.step(), backend="eager"))
    loss_of(model).backward()
    step()
    optimizer.zero_grad()


# --- calls


@scenario
def forward_raises(model, optimizer, memo):
    for error in (RuntimeError, KeyboardInterrupt):

        def fail(*_, error=error):
            raise error

        handle = model[2].register_forward_hook(fail)
        with pytest.raises(error):
            loss_of(model)
        handle.remove()
    with pytest.raises(RuntimeError):
        model(torch.ones(3, 5))


@scenario
def recursion(model, optimizer, memo):
    if not memo:
        memo["layer"] = Recursive(model)
        model.append(memo["layer"])
    model[-1].left = 2
    loss_of(model)


class Recursive(nn.Module):
    def __init__(self, root):
        super().__init__()
        self.root = [root]
        self.left = 0

    def forward(self, x):
        if self.left:
            self.left -= 1
            return x + self.root[0](torch.ones(4, 16, dtype=x.dtype)).mean()
        return x


@scenario
def evaluation(model, optimizer, memo):
    model.eval()
    with torch.inference_mode():
        loss_of(model)
        model.state_dict()
    with torch.no_grad():
        loss_of(model)
    model.train()
    with torch.no_grad():
        loss_of(model)
    with torch.inference_mode():
        loss_of(model)


@scenario
def functional(model, optimizer, memo):
    model.eval()
    x = torch.randn(4, 16)
    parameters = {k: v.detach() for k, v in model.named_parameters()}

    def loss(values, x):
        return torch.func.functional_call(model, values, (x,)).square().mean()

    torch.func.grad(loss)(parameters, x)
    torch.func.vmap(lambda row: loss(parameters, row.unsqueeze(0)))(x)
    torch.func.jvp(lambda row: torch.func.functional_call(model, parameters, (row,)), (x,), (x,))
    torch.autograd.grad(loss_of(model), list(model.parameters()))
    model.train()


@scenario
def loops_of_generators(model, optimizer, memo):
    def batches():
        for _ in range(2):
            yield loss_of(model)

    for loss in batches():
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


@scenario
def forked_workers(model, optimizer, memo):
    loader = torch.utils.data.DataLoader(
        Rows(model), batch_size=4, num_workers=2, multiprocessing_context="fork"
    )
    for batch in loader:
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


class Rows(torch.utils.data.Dataset):
    """Calls the model in the worker, and writes to the worker's copy of it."""

    def __init__(self, model):
        self.model = model

    def __len__(self):
        return 8

    def __getitem__(self, index):
        self.model.eval()
        with torch.no_grad():
            self.model(torch.ones(1, 16))
        self.model[0].bias.detach().numpy()[0] += 1
        self.model.state_dict()
        return torch.full((16,), float(index))


# --- copies of the model, and programs made from it


@scenario
def copies(model, optimizer, memo):
    import torch.fx

    twin = copy.deepcopy(model)
    assert twin._compiled_call_impl is None
    assert vars(twin).keys() == vars(nn.Sequential()).keys()
    loss_of(twin).backward()
    copy.deepcopy((model, optimizer))
    shallow = copy.copy(model)
    assert "_compiled_call_impl" not in vars(shallow)
    loss_of(shallow)
    copy.deepcopy(torch.fx.symbolic_trace(model))


@scenario
def pickles(model, optimizer, memo):
    model.eval()
    for data in (pickle.dumps(model), saved(model)):
        assert b"everybit" not in data
    twin = pickle.loads(pickle.dumps(model))
    x = torch.ones(2, 16)
    assert torch.equal(twin(x), model(x))
    pickle.dumps(optimizer)
    model.train()


def saved(model) -> bytes:
    file = io.BytesIO()
    torch.save(model, file)
    return file.getvalue()


@scenario
def scripts(model, optimizer, memo):
    model.eval()
    x = torch.randn(2, 16)
    wanted = model(x)
    assert torch.equal(torch.jit.script(model)(x), wanted)
    assert torch.equal(torch.jit.trace(model, x)(x), wanted)
    assert torch.equal(torch.fx.symbolic_trace(model)(x), wanted)
    exported = torch.export.export(copy.deepcopy(model), (x,))
    assert torch.equal(exported.module()(x), wanted)
    model.train()


@scenario
def modes(model, optimizer, memo):
    from torch._subclasses import FakeTensorMode
    from torch.utils.flop_counter import FlopCounterMode

    model.eval()
    with FakeTensorMode(allow_non_fake_inputs=True):
        model(torch.randn(2, 16))
    with FlopCounterMode(display=False):
        loss_of(model)
    with torch.device("meta"):
        model(torch.ones(1, 16, device="cpu"))
    with torch.autocast("cpu", torch.bfloat16):
        model(torch.randn(2, 16))
    model.train()


@scenario
def odd_inputs(model, optimizer, memo):
    if not memo:
        memo["layer"] = TakesAll()
        model.insert(0, memo["layer"])
    nest: dict[Any, Any] = {"self": None, 3: [object(), {1, 2}, range(3)]}
    nest["self"] = nest
    model[0](torch.ones(1, 16), nest)
    model.forward(torch.ones(4, 16))


class TakesAll(nn.Module):
    def forward(self, x, *args, **kwargs):
        return x


# --- the loop around them


class one_process_group:  # noqa: N801
    def __enter__(self):
        import torch.distributed as dist

        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)

    def __exit__(self, *_):
        torch.distributed.destroy_process_group()


def bystander() -> tuple[nn.Module, Any]:
    """A second model of the loop, which the scenario does not touch."""
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(5, 300), nn.BatchNorm1d(300))
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def run(name: str, guard: Any = None, *, damage: Any = None) -> list[bytes]:
    """Train two models, with the scenario on the first in the middle; returns the final bits.

    Args:
        damage: Called with the places of the second model right after the scenario, and with
            those of the first some steps later.
    """
    model, optimizer = build(wide=300)
    other, other_optimizer = bystander()
    memo: dict[str, Any] = {}
    with guard(model, optimizer, other, other_optimizer) if guard else nullcontext():
        for step in range(8):
            train_step(model, optimizer)
            other(torch.randn(4, 5)).square().mean().backward()
            other_optimizer.step()
            other_optimizer.zero_grad()
            if step in (2, 4):
                SCENARIOS[name](model, optimizer, memo)
                if damage:
                    damage(list(places_of(other, other_optimizer)))
            if step == 6:
                model.eval()  # a call of the root, so that what was written is marked anew
                loss_of(model)
                model.train()
                if damage:
                    damage(list(places_of(model, optimizer)))
    return bits_of(model, optimizer) + bits_of(other, other_optimizer)


@pytest.fixture(autouse=True)
def _fresh() -> Any:
    yield
    torch.compiler.reset()


#: Parameters that no optimizer holds, and a loss that is infinite.
NUMERICS = {"old_weight_norm", "scaler_skips"}


@pytest.fixture
def guarded(tmp_path: Path) -> Any:
    """Run a scenario under a Guard that was given what to watch, or finds it by itself."""

    def go(name: str, *, found: bool, damage: Any = None) -> tuple[Any, list[bytes]]:
        guards = []

        def guard(*things: Any) -> everybit.Guard:
            # What NUMERICS names is harmless to bits at rest, and a fault of the program.
            numerics = name not in NUMERICS
            guards.append(
                everybit.Guard(*things, run=tmp_path / "run", on_finding="heal", numerics=numerics)
            )
            return guards[0]

        if found:
            with guard():
                bits = run(name, damage=damage)
        else:
            bits = run(name, guard, damage=damage)
        return guards[0], bits

    return go


@pytest.mark.parametrize(("name", "found"), [(n, i % 2 > 0) for i, n in enumerate(SCENARIOS)])
def test_no_finding_and_the_same_bits(name: str, found: bool, guarded: Any) -> None:
    warnings.simplefilter("ignore")
    wanted = run(name)
    guard, bits = guarded(name, found=found)
    assert guard.findings == ()
    assert bits == wanted
    assert guard.verdict.ok, guard.verdict.coverage


@pytest.mark.parametrize(("name", "found"), [(n, i % 2 < 1) for i, n in enumerate(SCENARIOS)])
def test_real_faults_meanwhile_are_found(name: str, found: bool, guarded: Any, caplog: Any) -> None:
    """In the same moment in other tensors, and later in those that were written."""
    warnings.simplefilter("ignore")
    caplog.set_level("ERROR", "everybit")
    wanted = run(name)
    damaged = []

    def damage(places: Any) -> None:
        for place in places:
            flip(place.tensor, place.tensor.numel() // 2, 3)
            damaged.append((place.parameter, place.state))

    guard, bits = guarded(name, found=found, damage=damage)
    names = [(f.where.parameter, f.where.tensor) for f in guard.findings if f.evidence["healed"]]
    assert sorted(map(str, names)) == sorted(map(str, damaged))
    assert guard._course.journal.num_findings == len(damaged)
    assert bits == wanted
