"""Three gloo ranks: copies that part are told, placed and healed; what looks alike is not told."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import pytest
from tests.forked import run_forked
from tests.guard.replicas.ranks_script import run_scenarios, three_ranks

if TYPE_CHECKING:
    from pathlib import Path

SCENARIOS = """
    def on_one(what, where=1):
        return (lambda *given: what(*given)) if rank == where else None

    def weight(model, optimizer):
        flip(model.module[0].weight)

    def moment(model, optimizer):
        flip(optimizer.state[model.module[0].weight]["exp_avg"])

    def wide(model, optimizer):
        # Rows and columns of several words each: the sums do not determine these.
        for element in range(0, 2000, 7):
            flip(model.module[0].weight, element)

    def gradient(model, optimizer):
        flip(model.module[0].weight.grad)

    @scenario(on=None)
    def bare(): pass

    @scenario()
    def clean(): pass

    @scenario(within=on_one(weight))
    def told(): pass

    @scenario(on="heal", within=on_one(weight))
    def healed(): pass

    @scenario(on="heal", within=on_one(moment, 0))
    def healed_moment(): pass

    @scenario(on="heal", within=on_one(wide))
    def healed_wide(): pass

    @scenario(on="heal", behind=on_one(gradient))
    def reduced(): pass

    @scenario(replay_every=1)
    def summed(): pass

    @scenario(replay_every=3, behind=gradient)
    def collective(): pass

    def always_wrong(model, *_):
        part = model.module[3]
        right = part.forward
        def forward(x):
            out = right(x)
            out.data[0, 0] += 0.5
            return out
        part.forward = forward

    @scenario(replay_every=2)
    def wrong_device():
        def build():
            model, optimizer = ddp()
            if rank == 1:
                always_wrong(model)
            return model, optimizer
        return {"build": build}

    @scenario()
    def batch_norm():
        return {"build": lambda: ddp(norm=nn.BatchNorm1d, broadcast_buffers=False)}

    @scenario()
    def ignored():
        def build():
            model = plain()
            with torch.no_grad():
                model[3].bias.add_(rank)
            DDP._set_params_and_buffers_to_ignore_for_model(model, ["3.bias"])
            model = DDP(model)
            return model, torch.optim.AdamW(model.parameters())
        return {"build": build}

    def alone(seed):
        def build():
            model = plain(seed)
            return model, torch.optim.AdamW(model.parameters())
        return {"build": build}

    @scenario()
    def own_models():
        return alone(rank)

    @scenario()
    def own_data():
        return alone(0)

    @scenario()
    def accumulated():
        def forward(model):
            with model.no_sync():
                model(torch.randn(8, 20)).square().mean().backward()
            model(torch.randn(8, 20)).square().mean().backward()
        return {"forward": forward}

    @scenario()
    def drift():
        def forward(model):
            model(torch.randn(8, 20)).square().mean().backward()
            if rank == 1:  # As clipping by a norm that other threads have summed up.
                for parameter in model.parameters():
                    parameter.grad.mul_(1 + 2**-20)
        return {"forward": forward}

    @scenario()
    def local_sgd():
        def forward(model):
            with model.no_sync():
                model(torch.randn(8, 20)).square().mean().backward()
        return {"forward": forward}

    @scenario()
    def hooked():
        def build():
            model, optimizer = ddp()
            model.register_comm_hook(None, default_hooks.fp16_compress_hook)
            return model, optimizer
        return {"build": build}

    def shard(shape, names):
        def build():
            mesh = dist.device_mesh.init_device_mesh("cpu", shape, mesh_dim_names=names)
            model = plain()
            for part in (model[0], model[3], model):
                fully_shard(part, mesh=mesh)
            return model, torch.optim.AdamW(model.parameters())
        return {"build": build}

    @scenario(within=on_one(lambda model, _: flip(model[0].weight, 55)))
    def sharded():
        return shard((3,), ("shard",))

    @scenario(on="heal", within=on_one(lambda model, _: flip(model[0].weight)))
    def replicated_shards():
        return shard((3, 1), ("replicate", "shard"))

    def whole():
        from torch.distributed.tensor import Shard, distribute_tensor
        from everybit.guard.replicas.whole import whole_words

        sharded, _ = shard((3,), ("shard",))["build"]()
        copied, _ = shard((3, 1), ("replicate", "shard"))["build"]()
        mesh = dist.device_mesh.init_device_mesh("cpu", (3,))
        columns = {
            name: distribute_tensor(tensor, mesh, [Shard(tensor.dim() - 1)])
            for name, tensor in plain().state_dict().items()
        }
        models = [plain().state_dict(), sharded.state_dict(), copied.state_dict(), columns]
        results["whole"] = [whole_words(model) for model in models]

    whole()
    pair = dist.new_group([0, 1])

    @scenario(within=on_one(weight))
    def two():
        def forward(model):
            dist.barrier()
            model(torch.randn(8, 20)).square().mean().backward()
        made = alone(5) if rank == 2 else {"build": lambda: ddp(process_group=pair)}
        return {**made, "forward": forward}

    @scenario(on="heal", within=on_one(lambda *_: time.sleep(3), 2), patience_s=1)
    def late(): pass

    @scenario(on="heal" if rank < 2 else None, patience_s=1)
    def not_watched(): pass
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    place: Path = tmp_path_factory.mktemp("replicas")
    return run_scenarios(place, SCENARIOS)


def of(results: list[dict[str, Any]], name: str, key: str) -> list[Any]:
    return [each[name][key] for each in results]


def test_a_clean_run_is_compared_and_the_same(results: list[dict[str, Any]]) -> None:
    assert of(results, "clean", "digest") == of(results, "bare", "digest")
    assert of(results, "clean", "findings") == [[]] * 3
    assert of(results, "clean", "skipped") == [[]] * 3
    for checked in of(results, "clean", "checked"):
        assert checked["comparisons of a tensor across ranks"] >= 60


def test_a_flip_on_one_rank_is_told_there(results: list[dict[str, Any]]) -> None:
    first, second, third = of(results, "told", "findings")
    assert first == third == []
    (finding,) = second
    assert (finding["rule"], finding["severity"], finding["certainty"]) == (
        "RNK801",
        "error",
        "proof",
    )
    assert finding["where"] == {
        "step": 4,
        "rank": 1,
        "link": "state",
        "parameter": "0.weight",
        "elements": [1100],
        "device": "cpu",
    }
    assert finding["evidence"]["culprits"] == [1]
    assert finding["evidence"]["named_by"] == "majority"
    assert finding["evidence"]["healed"] is False


@pytest.mark.parametrize(
    ("name", "rank", "tensor"),
    [
        ("healed", 1, None),
        ("healed_moment", 0, "exp_avg"),
        ("healed_wide", 1, None),
        ("replicated_shards", 1, None),
    ],
)
def test_a_copy_is_healed_from_another_rank(
    results: list[dict[str, Any]], name: str, rank: int, tensor: str | None
) -> None:
    findings = of(results, name, "findings")
    assert [len(each) for each in findings] == [int(here == rank) for here in range(3)]
    (finding,) = findings[rank]
    assert finding["rule"] == "RNK801"
    assert finding["where"]["rank"] == rank
    assert finding["where"].get("tensor") == tensor
    assert finding["evidence"]["healed"] is True
    if name == "healed_wide":
        assert finding["evidence"]["num_elements"] == 286
    else:
        assert finding["where"]["elements"] == [1100]
    if name == "replicated_shards":
        assert len(set(of(results, name, "digest"))) == 1
    else:
        assert of(results, name, "digest") == of(results, "bare", "digest")


def test_a_gradient_that_parts_behind_the_reduction(results: list[dict[str, Any]]) -> None:
    first, second, third = of(results, "reduced", "findings")
    assert first == third == []
    (finding,) = second
    assert finding["rule"] == "RNK802"
    assert finding["where"]["link"] == "reduce"
    assert (finding["where"]["step"], finding["where"]["rank"]) == (3, 1)
    assert finding["where"]["parameter"] == "0.weight"
    assert "gradient of 0.weight" in finding["evidence"]["tensors"]
    # Weights and moments that took it up are healed with it.
    assert of(results, "reduced", "digest") == of(results, "bare", "digest")


def test_a_reduction_that_is_wrong_on_all_ranks_alike(results: list[dict[str, Any]]) -> None:
    assert of(results, "summed", "findings") == [[]] * 3
    assert of(results, "summed", "digest") == of(results, "bare", "digest")
    for checked in of(results, "summed", "checked"):
        assert checked["reductions of a gradient"] == 6 * 6
    first, second, third = of(results, "collective", "findings")
    assert second == third == []
    (finding,) = first
    assert (finding["rule"], finding["certainty"]) == ("RNK802", "strong")
    assert finding["where"]["step"] == 3
    assert finding["where"]["parameter"] == "0.weight"
    ((start, end),) = finding["where"]["element_ranges"]
    assert start <= 1100 < end
    assert "rank" not in finding["where"]
    assert (
        abs(finding["evidence"]["found"] - finding["evidence"]["expected"])
        > (finding["evidence"]["bound"])
    )


def test_a_device_that_is_always_wrong_is_seen_by_another(results: list[dict[str, Any]]) -> None:
    first, second, third = of(results, "wrong_device", "findings")
    assert first == second == []
    assert [finding["where"]["step"] for finding in third] == [0, 2, 4]
    for finding in third:
        assert (finding["rule"], finding["severity"]) == ("CMP701", "error")
        assert finding["where"]["rank"] == 1
        assert finding["where"]["module"] == "3"
        assert finding["evidence"]["verdict"] == "persistent"
        assert finding["evidence"]["replayed_at_home"] == "exactly"
    for checked in of(results, "summed", "checked"):  # And right ones agree.
        assert checked["calls of another rank computed here"] == 6


def test_shards_add_up_to_the_digest_of_the_whole(results: list[dict[str, Any]]) -> None:
    for each in results:
        on_one, sharded, copied, columns = each["whole"]
        assert len(on_one) == 6
        assert on_one == sharded == copied == columns == results[0]["whole"][0]


def test_two_copies_name_no_culprit(results: list[dict[str, Any]]) -> None:
    first, second, third = of(results, "two", "findings")
    assert second == third == []
    (finding,) = first
    assert "rank" not in finding["where"]
    assert finding["evidence"]["culprits"] == [0, 1]
    assert "one of ranks 0, 1 is wrong" in finding["message"]


@pytest.mark.parametrize(
    ("name", "what", "why"),
    [
        ("batch_norm", "2 tensors (1.running_mean ...)", "not broadcast"),
        ("ignored", "4 tensors (3.bias ...)", "own weights"),
        ("own_models", "24 tensors", "own weights"),
        ("own_data", "24 tensors", "own weights"),
        ("local_sgd", "24 tensors", "own weights"),
        ("accumulated", "", ""),
        ("hooked", "reduced gradients", "communication hook"),
        ("sharded", "tensors", "no other rank holds a copy"),
    ],
)
def test_what_differs_on_purpose_is_not_told(
    results: list[dict[str, Any]], name: str, what: str, why: str
) -> None:
    assert of(results, name, "findings") == [[]] * 3
    for skipped in of(results, name, "skipped"):
        assert not any(promised for _, _, promised in skipped)
        if why:
            assert any(said.startswith(what) and why in because for said, because, _ in skipped)
        else:
            assert skipped == []


def test_ranks_that_drift_apart_are_one_warning(results: list[dict[str, Any]]) -> None:
    first, second, third = of(results, "drift", "findings")
    assert first == third == []
    (finding,) = second
    assert (finding["rule"], finding["severity"]) == ("RNK801", "warning")
    assert "hardly a fault" in finding["message"]
    assert finding["evidence"]["share_of_parameters"] > 0.5


def test_a_late_rank_is_waited_for_no_longer_than_asked(results: list[dict[str, Any]]) -> None:
    assert of(results, "late", "findings") == [[]] * 3
    assert of(results, "late", "digest") == of(results, "bare", "digest")
    assert max(of(results, "late", "longest")[:2]) < 2.8


def test_a_rank_without_a_guard_hangs_nobody(results: list[dict[str, Any]]) -> None:
    assert of(results, "not_watched", "digest") == of(results, "bare", "digest")
    for each in results[:2]:
        assert each["not_watched"]["findings"] == []
        assert each["not_watched"]["longest"] < 3
        assert each["not_watched"]["skipped"] == [
            ["replicas", "rank 2 not watched, or not within 0.9 s", True]
        ]


CRASH = """
    import sys
    import torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP
    import everybit

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DDP(torch.nn.Linear(8, 8))
    optimizer = torch.optim.AdamW(model.parameters())
    with everybit.Guard(model, optimizer, run="run"):
        for step in range(3):
            model(torch.randn(4, 8)).sum().backward()
            if step == int(sys.argv[1]):
                raise SystemError("of the program's own")
            optimizer.step()
"""


@pytest.mark.parametrize("step", [0, 1])
def test_a_program_that_ends_at_once_ends_as_ever(tmp_path: Path, step: int) -> None:
    """While the ranks are still meeting: the thread that does it must be gone by then."""
    (tmp_path / "train.py").write_text(textwrap.dedent(CRASH))
    ended = run_forked(tmp_path, three_ranks(str(step)))
    for code, _, errors in ended.values():
        assert code == 1, errors
        assert "SystemError: of the program's own" in errors
        assert "terminate" not in errors
