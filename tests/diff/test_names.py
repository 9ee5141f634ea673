from __future__ import annotations

import pytest

from everybit.diff.names import align


def paired(names_a: list[str], names_b: list[str]) -> list[tuple[str, str]]:
    return [(names_a[at], names_b[there]) for at, there in align(names_a, names_b).pairs]


@pytest.mark.parametrize("prefix", ["model.", "module.", "_orig_mod.", "state_dict.", "a.b.c."])
@pytest.mark.parametrize("carrier", ["A", "B"])
def test_one_constant_prefix_is_seen_through_and_told(prefix: str, carrier: str) -> None:
    bare = ["head.weight", "head.bias", "AdamW::exp_avg::head.weight"]
    long = [prefix + "head.weight", prefix + "head.bias", f"AdamW::exp_avg::{prefix}head.weight"]
    a, b = (long, bare) if carrier == "A" else (bare, long)
    found = align(a, b)
    assert paired(a, b) == list(zip(a, b, strict=True))
    assert (found.prefix_a, found.prefix_b) == ((prefix, "") if carrier == "A" else ("", prefix))
    assert repr(prefix) in found.note
    assert not found.only_a
    assert not found.only_b


def test_equal_names_in_another_order_pair_without_a_note() -> None:
    found = align(["w", "b"], ["b", "w"])
    assert found.pairs == ((0, 1), (1, 0))
    assert found.note == ""


def test_a_prefix_that_does_not_map_all_is_no_prefix() -> None:
    found = align(["model.w", "model.b", "extra"], ["w", "c"])
    assert found.pairs == ()
    assert found.only_a == ("model.w", "model.b", "extra")
    assert found.only_b == ("w", "c")


def test_what_lies_beside_the_prefix_is_set_aside_and_what_lies_under_it_is_missed() -> None:
    found = align(["model.w", "model.head", "optimizer.m", "epoch"], ["w"])
    assert found.pairs == ((0, 0),)
    assert found.only_a == ("model.head",)
    assert found.outside == ("optimizer.m", "epoch")


def test_of_several_fitting_prefixes_the_usual_one_is_taken() -> None:
    assert align(["ema.w", "model.w"], ["w"]).prefix_a == "model."
    assert align(["zeta.w", "ema.w"], ["w"]).prefix_a == "ema."


@pytest.mark.parametrize(("a", "b"), [([], []), ([], ["w"]), (["w"], [])])
def test_empty_sides(a: list[str], b: list[str]) -> None:
    found = align(a, b)
    assert found.pairs == ()
    assert (found.only_a, found.only_b) == (tuple(a), tuple(b))


def test_a_name_that_only_ends_alike_is_another_name() -> None:
    assert align(["xw"], ["w"]).pairs == ()
