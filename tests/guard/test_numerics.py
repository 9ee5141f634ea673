"""The check on values in real loops: each fault, its harmless look-alike."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

import everybit
from everybit.core.config import Config
from everybit.core.errors import StoppedError


class Loop:
    """A small regression under a Guard."""

    def __init__(self, folder, model=None, optimizer=None, **settings):
        torch.manual_seed(0)
        self.model = model or nn.Sequential(
            nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 1)
        )
        make = optimizer or (lambda parameters: torch.optim.AdamW(parameters, lr=1e-2))
        self.optimizer = make(self.model.parameters())
        settings.setdefault("on_finding", "record")
        self.guard = everybit.Guard(self.model, self.optimizer, run=folder, **settings)
        self.before_batch = self.before_backward = self.before_step = self.after_step = None

    def run(self, steps):
        with self.guard:
            for number in range(steps):
                self.step(number)
        return self.guard.verdict

    def step(self, number):
        x = torch.randn(16, 8)
        if self.before_batch:
            self.before_batch(number, x)
        self.optimizer.zero_grad()
        loss = (self.model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        if self.before_backward:
            loss = self.before_backward(number, loss)
        loss.backward()
        if self.before_step:
            self.before_step(number)
        self.optimizer.step()
        if self.after_step:
            self.after_step(number)


@pytest.fixture
def loop(tmp_path):
    return Loop(tmp_path / "run")


def told(verdict):
    return [(each.rule, each.where.step, each.where.parameter) for each in verdict.findings]


def at(wanted, act):
    return lambda number, *rest: act(*rest) if number == wanted else (rest or (None,))[0]


def test_a_clean_run_has_numbers_and_no_finding(loop):
    verdict = loop.run(12)
    assert verdict.ok, verdict.to_json()
    record = everybit.open_run(loop.guard.path).log(0).step(11)
    assert record.scalars["lr"] == 1e-2
    total = torch.cat([p.detach().flatten() for p in loop.model.parameters()]).norm()
    assert record.scalars["weight_norm"] == pytest.approx(float(total), rel=1e-5)
    gradient = torch.cat([p.grad.flatten() for p in loop.model.parameters()]).norm()
    assert record.scalars["grad_norm"] == pytest.approx(float(gradient), rel=1e-5)
    assert 0 < record.scalars["update_norm"] < 1


def test_it_can_be_switched_off(tmp_path):
    loop = Loop(tmp_path / "run", config=Config(numerics=False))
    loop.before_backward = at(3, lambda loss: loss * math.nan)
    assert loop.run(5).findings == ()


def test_an_input_that_is_not_finite(loop):
    loop.before_batch = at(4, lambda x: x[2, 3].fill_(math.nan))
    verdict = loop.run(8)
    (finding,) = verdict.findings
    assert (finding.rule, finding.where.step) == ("DAT408", 4)
    assert (finding.evidence["num_nan"], finding.evidence["rows"]) == (1, [2])


def test_weights_that_were_not_finite_before_the_step_are_named_first(loop):
    def act(_x):
        with torch.no_grad():
            loop.model[3].weight[0, 5] = math.inf

    loop.before_batch = at(4, act)
    assert told(loop.run(8)) == [("NUM501", 4, "3.weight")]


def test_a_loss_that_recovers_is_told_twice_and_counted_between(loop):
    bad = (3, 9)
    loop.before_backward = lambda k, loss: loss + math.nan if k in bad else loss
    before = copy.deepcopy(loop.model.state_dict())

    def heal(number):
        if number in bad:
            with torch.no_grad():
                for name, value in loop.model.state_dict().items():
                    value.copy_(before[name])
                for state in loop.optimizer.state.values():
                    state["exp_avg"].zero_()
                    state["exp_avg_sq"].zero_()

    loop.after_step = heal
    assert [each[:2] for each in told(loop.run(12))] == [("NUM501", 3), ("NUM501", 9)]


def test_gradients_that_are_not_finite_stop_the_loop_before_the_update(tmp_path):
    loop = Loop(tmp_path / "run", on_finding="stop")

    def act():
        loop.model[0].weight.grad[1, 1] = math.inf
        loop.weights = copy.deepcopy(loop.model.state_dict())

    loop.before_step = at(4, act)
    with pytest.raises(StoppedError, match="NUM502"):
        loop.run(8)
    (finding,) = loop.guard.findings
    assert finding.where.parameter == "0.weight"
    assert finding.evidence["origin"]["finite_neighbour"] == "0.bias"
    now = loop.model.state_dict()
    assert all(torch.equal(now[key], loop.weights[key]) for key in now)


def scaled_run(folder, *, steps=40, bad_from=None, bad_loss=None, fused=False):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24, growth_interval=10)
    with everybit.Guard(model, optimizer, run=folder, on_finding="record") as guard:
        for number in range(steps):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                x = torch.randn(16, 8)
                loss = (model(x).float() - x.sum(1, keepdim=True)).pow(2).mean()
            if number == bad_loss:
                loss = loss * math.nan
            scaler.scale(loss).backward()
            if bad_from is not None and number >= bad_from:
                model[2].weight.grad[0, 0] = math.inf
            scaler.step(optimizer)
            scaler.update()
    skips = [record.skipped for record in everybit.open_run(folder).log(0).steps()]
    return guard.verdict, sum(skips)


def test_skipped_steps_of_a_healthy_scaler_are_normal(tmp_path):
    verdict, num_skips = scaled_run(tmp_path / "run")
    assert num_skips >= 10
    assert verdict.ok, verdict.to_json()


def test_a_fused_optimizer_that_unscales_by_itself(tmp_path):
    scaled_run(tmp_path / "plain")
    fused, num_skips = scaled_run(tmp_path / "fused", fused=True)
    assert num_skips >= 10
    assert fused.ok, fused.to_json()
    norms, scales = {}, {}
    for name in ("plain", "fused"):
        steps = [s for s in everybit.open_run(tmp_path / name).log(0).steps() if not s.skipped]
        norms[name] = [record.scalars["grad_norm"] for record in steps]
        scales[name] = [record.scalars["scale"] for record in steps]
    assert norms["fused"] == pytest.approx(norms["plain"], rel=0.05)
    assert scales["fused"] == scales["plain"]


def test_a_scaler_that_only_skips_and_its_origin(tmp_path):
    verdict, _ = scaled_run(tmp_path / "run", bad_from=25)
    assert told(verdict) == [("NUM510", 25, "2.weight")]
    assert verdict.findings[0].evidence["scale"] < verdict.findings[0].evidence["scale_at_first"]


def test_a_loss_that_is_bad_before_scaling(tmp_path):
    verdict, _ = scaled_run(tmp_path / "run", bad_loss=25)
    assert [(rule, step) for rule, step, _ in told(verdict)] == [("NUM501", 25)]


def test_batch_norm_poisoned_and_told_before_evaluation(loop):
    loop.before_step = at(15, lambda: loop.model[1].running_var.mul_(1e14))
    assert told(loop.run(18)) == [("NUM506", 15, "1.running_var")]


def test_masks_with_infinities_and_buffers_that_count_are_legal(tmp_path):
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(8, 1)
            self.register_buffer("mask", torch.full((4, 4), -math.inf).triu(1))
            self.register_buffer("lowest", torch.tensor(math.inf))
            self.register_buffer("seen", torch.tensor(0))

        def forward(self, x):
            self.lowest = torch.minimum(self.lowest, x.min())
            self.seen += 1
            return self.inner(x)

    assert Loop(tmp_path / "run", Masked()).run(12).ok


def test_adam_state_that_cannot_be_is_told_before_the_update(loop):
    def act():
        loop.optimizer.state[loop.model[0].weight]["exp_avg_sq"][3, 2] *= -1

    loop.before_step = at(6, act)
    verdict = loop.run(9)
    assert told(verdict) == [("NUM507", 6, "0.weight")]
    assert verdict.findings[0].where.elements == (3 * 8 + 2,)


def test_one_damage_is_one_finding(loop):
    def act():
        loop.optimizer.state[loop.model[0].weight]["exp_avg_sq"].numpy().view("uint32")[3, 2] ^= (
            1 << 31
        )

    loop.before_step = at(6, act)
    assert [rule for rule, _, _ in told(loop.run(9))] == ["MEM602"]


def test_state_that_only_looks_like_that_of_adam(tmp_path):
    class Odd(torch.optim.Optimizer):
        def __init__(self, parameters):
            super().__init__(parameters, {"lr": 1e-2, "betas": (0.9, 0.999)})

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    state = self.state[p]
                    state["exp_avg"] = 100 * p.grad
                    state["exp_avg_sq"] = p.grad.square()
                    p -= group["lr"] * p.grad.sign()

    assert Loop(tmp_path / "run", optimizer=Odd).run(12).ok


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.Adam(p, amsgrad=True, maximize=False),
        lambda p: torch.optim.Adam(p, foreach=True),
        lambda p: torch.optim.AdamW(p, fused=True),
        lambda p: torch.optim.Adam(p, lr=torch.tensor(1e-3), foreach=False),
        lambda p: torch.optim.NAdam(p),
        lambda p: torch.optim.RAdam(p),
        lambda p: torch.optim.Adamax(p),
        lambda p: torch.optim.Adagrad(p),
        lambda p: torch.optim.RMSprop(p, centered=True, momentum=0.9),
        lambda p: torch.optim.Rprop(p),
        lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, nesterov=True, weight_decay=0.01),
        lambda p: torch.optim.ASGD(p),
        lambda p: torch.optim.Adafactor(p),
    ],
)
def test_optimizers_of_torch_are_quiet(tmp_path, make):
    verdict = Loop(tmp_path / "run", optimizer=make).run(14)
    assert verdict.ok, verdict.to_json()


def test_a_closure(tmp_path):
    torch.manual_seed(0)
    model = nn.Linear(8, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1)
    x = torch.randn(32, 8)
    with everybit.Guard(model, optimizer, run=tmp_path / "run", on_finding="record") as guard:
        for _ in range(12):

            def closure():
                optimizer.zero_grad()
                loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
                loss.backward()
                return loss

            optimizer.step(closure)
    assert guard.verdict.ok, guard.verdict.to_json()


def test_a_parameter_that_was_exchanged_behind_the_optimizer(loop):
    def act(_x):
        loop.model[3].weight = nn.Parameter(loop.model[3].weight.detach().clone())

    loop.before_batch = at(4, act)
    assert told(loop.run(9)) == [("NUM505", 4, "3.weight")]


def test_a_parameter_that_something_holds_in_place(loop):
    held = {}

    def put_back(*_):
        if held:
            with torch.no_grad():
                loop.model[3].weight.copy_(held["weight"])

    loop.optimizer.register_step_post_hook(put_back)
    loop.before_step = at(5, lambda: held.update(weight=loop.model[3].weight.detach().clone()))
    assert told(loop.run(9)) == [("NUM505", 5, "3.weight")]


def test_parts_that_are_not_trained_are_none_of_it(tmp_path):
    torch.manual_seed(0)

    class Parts(nn.Module):
        def __init__(self):
            super().__init__()
            self.back = nn.Linear(8, 32)  # Gets gradients, and is not given to the optimizer.
            self.head = nn.Linear(32, 1)
            self.unused = nn.Linear(3, 3)
            self.frozen = nn.Linear(8, 8).requires_grad_(False)

        def forward(self, x):
            return self.head(self.back(self.frozen(x)).relu())

    model = Parts()
    optimizer = torch.optim.AdamW([*model.head.parameters(), *model.unused.parameters()])
    with everybit.Guard(model, optimizer, run=tmp_path / "run", on_finding="record") as guard:
        for _ in range(12):
            optimizer.zero_grad()
            model(torch.randn(4, 8)).pow(2).mean().backward()
            optimizer.step()
    assert guard.verdict.ok, guard.verdict.to_json()


def test_updates_that_rounding_eats_are_counted_and_no_finding(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32), nn.Linear(32, 1)).bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.0)
    with everybit.Guard(model, optimizer, run=tmp_path / "run", on_finding="record") as guard:
        for _ in range(12):
            optimizer.zero_grad()
            model(torch.randn(4, 8, dtype=torch.bfloat16)).pow(2).mean().backward()
            optimizer.step()
    assert guard.verdict.ok, guard.verdict.to_json()
    assert any("too small to show" in each.what for each in guard.verdict.coverage.skipped)


def groups_run(folder, rates):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW([{"params": part.parameters()} for part in (model[0], model[2])])
    with everybit.Guard(model, optimizer, run=folder, on_finding="record") as guard:
        for number in range(12):
            for group, rate in zip(optimizer.param_groups, rates(number), strict=True):
                group["lr"] = rate
            optimizer.zero_grad()
            model(torch.randn(4, 8)).pow(2).mean().backward()
            optimizer.step()
    return guard.verdict


def test_a_group_whose_rate_falls_to_zero(tmp_path):
    verdict = groups_run(tmp_path / "run", lambda k: (1e-3, 1e-3 if k < 6 else 0.0))
    assert told(verdict) == [("NUM505", 6, "2.weight")]


@pytest.mark.parametrize(
    "rates",
    [
        lambda k: (1e-3, 0.0),
        lambda k: (1e-4 * k, 1e-4 * k),
        lambda k: (1e-3 * (1 - k / 11), 1e-3 * (1 - k / 11)),
        lambda k: (1e-3, 1e-3 * max(0.0, 1 - k / 10) ** 3),
    ],
    ids=["frozen by its rate", "warm-up", "decay to zero", "one group decays sooner"],
)
def test_rates_that_are_zero_on_purpose(tmp_path, rates):
    verdict = groups_run(tmp_path / "run", rates)
    assert verdict.ok, verdict.to_json()


def test_an_earlier_checkpoint_may_be_loaded_another_run_may_not(tmp_path):
    def load(loop, state):
        loop.before_batch = at(20, lambda _x: loop.model.load_state_dict(state()) and None)
        return loop.run(24)

    loop = Loop(tmp_path / "same")
    kept = {}
    loop.after_step = at(9, lambda: kept.update(copy.deepcopy(loop.model.state_dict())))
    assert load(loop, lambda: kept).ok
    loop = Loop(tmp_path / "other")
    torch.manual_seed(99)
    other = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 1))
    (finding,) = load(loop, other.state_dict).findings
    assert (finding.rule, finding.where.step) == ("NUM508", 20)
    assert abs(finding.evidence["cosine"]) < 0.2


def test_weights_that_are_clamped_after_each_step(loop):
    def clamp(_number):
        for parameter in loop.model.parameters():
            parameter.data.clamp_(-0.2, 0.2)

    loop.after_step = clamp
    assert loop.run(40).ok


@pytest.mark.parametrize("every", [3, 10])
def test_steps_between_are_not_seen(tmp_path, every):
    verdict = Loop(tmp_path / "run", every=every).run(60)
    assert verdict.ok, verdict.to_json()


def test_a_step_counter_that_was_set(loop):
    def act():
        loop.optimizer.state[loop.model[3].weight]["step"].fill_(2)

    loop.before_step = at(8, act)
    assert told(loop.run(10)) == [("NUM507", 8, "3.weight")]


def test_state_that_is_made_anew_for_one_parameter(loop):
    def act():
        state = loop.optimizer.state[loop.model[3].weight]
        for name in ("step", "exp_avg", "exp_avg_sq"):
            state[name].zero_()

    loop.before_step = at(8, act)
    assert loop.run(10).ok


@pytest.mark.parametrize("named", [True, False])
def test_state_of_other_parameters_by_the_names_that_came_with_it(tmp_path, named):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    given = list(model.named_parameters()) if named else list(model.parameters())
    optimizer = torch.optim.AdamW(given)
    names = list(reversed(list(model.named_parameters())))
    other = torch.optim.AdamW(names)
    model(torch.randn(4, 8)).sum().backward()
    other.step()
    with everybit.Guard(model, optimizer, run=tmp_path / "run", on_finding="record") as guard:
        for number in range(6):
            if number == 3:
                state = other.state_dict()
                for index in range(4):  # Loads, as the shapes are those of weights and biases.
                    state["state"][index] = {
                        key: value if value.dim() == 0 else torch.zeros_like(target)
                        for (key, value), target in zip(
                            state["state"][index].items(),
                            [torch.tensor(0.0)] + 2 * [list(model.parameters())[index]],
                            strict=True,
                        )
                    }
                optimizer.load_state_dict(state)
            optimizer.zero_grad()
            model(torch.randn(4, 8)).sum().backward()
            optimizer.step()
    if named:
        assert [finding.rule for finding in guard.verdict.findings] == ["FIL115"]
    else:
        assert told(guard.verdict)[0][:2] == ("NUM507", 3)
        assert "says that this state is that of" in guard.verdict.findings[0].message


def test_a_weight_that_turns_bad_in_the_update_itself(loop):
    def act():
        loop.optimizer.param_groups[0]["eps"] = 0.0
        state = loop.optimizer.state[loop.model[0].weight]
        loop.model[0].weight.grad[0, 0] = 0
        state["exp_avg"][0, 0] = state["exp_avg_sq"][0, 0] = 0

    loop.before_step = at(6, act)
    assert told(loop.run(8)) == [("NUM508", 6, "0.weight")]
    assert loop.guard.findings[0].severity == "error"


def test_a_phase_is_on_record(loop):
    loop.before_batch = at(4, lambda _x: loop.guard.phase("second half"))
    assert loop.run(6).ok
    seen = everybit.open_run(loop.guard.path).log(0).observations
    (phase,) = [each for each in seen if each.kind == "phase"]
    assert phase.data["name"] == "second half"
