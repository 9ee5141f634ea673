"""Runs traced by module: the call that parts first, wrappers, other levels, other configuration."""

from __future__ import annotations

import zlib
from dataclasses import replace

import pytest
from tests.diff.test_runs import rank_side, record, run

from everybit.core.link import Link
from everybit.core.observation import SumTable, TensorTable
from everybit.core.samples import SampleRecord
from everybit.diff.configuration import acts_on
from everybit.diff.environment import Difference
from everybit.diff.runs import diff_runs
from everybit.diff.trace_names import align_traced

CALLS = ("fc1()", "drop()", "fc2()", "()")
CONFIGURATION = {
    "optimizers": {"AdamW": {"groups": {"0": {"lr": 0.1, "weight_decay": 0.0}}}},
    "modes": {"": "train"},
    "modules": {"drop": {"class": "Dropout", "p": 0.1}},
    "precision": {"num_threads": 1, "float32_matmul": "highest"},
}
ROW = [float(k % 5) - 1.5 for k in range(64)] + [40.0, 2.5]


def traced(step: int, forward=(), gradient=(), sums=None, prefix="", **more):
    """One step with the outputs of modules and the gradients of these."""
    plain = record(step, more or None)
    names = tuple(f"{prefix}{name}" for name in CALLS)
    if prefix:
        names = ("()", *(name.replace(".()", "()") for name in names))

    def table(link, mark, changed):
        shown = tuple(mark + name for name in names)
        bare = [
            name.removeprefix(mark).replace("module()", "()").removeprefix(prefix) for name in shown
        ]
        words = tuple(
            77 if name in changed else zlib.crc32(f"{link} {name} {step}".encode()) for name in bare
        )
        return TensorTable(link=link, names=shown, digests=words)

    tables = [
        *[t for t in plain.tables if t.link.position < Link.FORWARD.position],
        table(Link.FORWARD, "", forward),
        *[t for t in plain.tables if t.link is Link.LOSS],
        table(Link.GRAD, "grad ", gradient),
        *[t for t in plain.tables if t.link.position > Link.LOSS.position],
    ]
    rows = ()
    if sums is not None:
        name, row = sums
        rows = (SumTable(link=Link.FORWARD, names=(name,), values=[row]),)
    return replace(plain, tables=tuple(tables), sums=rows)


def side(records, configuration=None, samples=None, **fields):
    changes = configuration if configuration is not None else [(0, CONFIGURATION)]
    found = {"configurations": lambda: iter(changes), **fields}
    if samples is not None:
        found["samples"] = lambda: iter(samples)
    return rank_side(records, **found)


def compare(a, b, **fields):
    return diff_runs(run(a), run(b, name="B", **fields))


def whole(n: int = 6, **fields):
    return side([traced(k) for k in range(n)], **fields)


def test_the_call_that_parts_first_is_named() -> None:
    changed = [traced(k, forward=("fc2()", "()") if k == 3 else ()) for k in range(6)]
    found = compare(whole(), side(changed))
    assert (found.first.where.module, found.first.where.link) == ("fc2", "forward")
    assert found.first.where.step == 3
    assert found.first.kind == "corruption"  # three steps agreed, and nothing on record differs
    assert found.first.certainty == "weak"  # how many elements moved is not on record
    before = CALLS[CALLS.index("fc2()") - 1].removesuffix("()")
    assert f"fc2's output ({before}'s output, just before it, agrees)" in found.findings[0].message
    first = [traced(k, forward=CALLS if k == 3 else ()) for k in range(6)]
    assert "just before" not in compare(whole(), side(first)).findings[0].message


def test_sums_make_it_few_elements_of_one_tensor() -> None:
    other = [*ROW]
    other[5] += 9.0
    records = [
        [
            traced(k, forward=("fc2()",) if b and k == 3 else (), sums=("fc2()", row))
            for k in range(6)
        ]
        for b, row in enumerate((ROW, other))
    ]
    found = compare(side(records[0]), side(records[1]))
    assert (found.first.kind, found.first.certainty) == ("corruption", "strong")
    measured = found.findings[0].evidence["measured"]
    assert (measured["num_blocks_moved"], measured["num_blocks"]) == (1, 64)


def test_output_gradients_come_before_those_of_parameters() -> None:
    changed = [
        traced(k, gradient=("grad fc1()",), **{Link.GRAD: {"w": 1}}) if k == 3 else traced(k)
        for k in range(6)
    ]
    changed[3] = traced(3, gradient=("fc1()",))
    found = compare(whole(), side(changed))
    assert (found.first.where.module, found.first.where.link) == ("fc1", "grad")


def test_a_level_of_tracing_is_no_difference() -> None:
    for a, b in ((True, False), (False, True)):
        sides = [side([traced(k) if each else record(k) for k in range(4)]) for each in (a, b)]
        found = compare(*sides)
        assert found.first is None
        (skip,) = [s for s in found.coverage.skipped if "modules" in s.what]
        assert not skip.promised


def test_a_wrapped_model_is_traced_under_its_prefix() -> None:
    wrapped = [traced(k, prefix="module.") for k in range(4)]
    found = compare(whole(4), side(wrapped))
    assert found.first is None
    parted = [traced(k, ("fc1()",) if k == 2 else (), prefix="module.") for k in range(4)]
    assert compare(whole(4), side(parted)).first.where.module == "fc1"


def test_operations_of_one_side_are_no_difference() -> None:
    found = align_traced(["fc()", "fc() addmm#0"], ["fc()"])
    assert (found.pairs, found.only_a, found.outside) == (((0, 0),), (), ("fc() addmm#0",))


@pytest.mark.parametrize(
    ("entry", "link", "module", "name", "acts"),
    [
        ("optimizers.AdamW.groups.0.lr", Link.UPDATE, "fc1", "fc1.weight", True),
        ("optimizers.AdamW.groups.0.lr", Link.FORWARD, "fc1", "fc1()", False),
        ("modules.drop.p", Link.FORWARD, "drop", "drop()", True),
        ("modules.drop.p", Link.FORWARD, "fc1", "fc1()", False),
        ("modules.drop.p", Link.LOSS, None, "0", True),
        ("modules.bn.momentum", Link.UPDATE, "bn", "bn.running_mean", True),
        ("modules.bn.momentum", Link.FORWARD, "bn", "bn()", False),
        ("modes.block.drop", Link.FORWARD, "block", "block()", True),
        ("modes.", Link.FORWARD, "fc1", "fc1()", True),
        ("precision.float32_matmul", Link.FORWARD, "fc1", "fc1()", True),
        ("precision.num_threads", Link.FORWARD, "fc1", "fc1()", False),
    ],
)
def test_a_setting_explains_only_what_it_acts_on(entry, link, module, name, acts) -> None:
    assert acts_on(f"configuration.{entry}", link, module, name) is acts


def test_a_setting_that_acts_on_the_first_difference_is_its_kind() -> None:
    other = {**CONFIGURATION, "modules": {"drop": {"class": "Dropout", "p": 0.2}}}
    records = [traced(k, forward=("drop()", "fc2()", "()")) for k in range(4)]
    found = compare(whole(4), side(records, [(0, other)]))
    assert (found.first.kind, found.first.where.module) == ("config", "drop")
    assert [each["entry"] for each in found.explained_by] == ["configuration.modules.drop.p"]
    # The same difference where the value lies before the layer explains nothing.
    early = [traced(k, forward=("fc1()",)) for k in range(4)]
    assert compare(whole(4), side(early, [(0, other)])).first.kind != "config"


def test_a_setting_that_differed_before_without_effect_is_not_blamed() -> None:
    other = {**CONFIGURATION, "optimizers": {"AdamW": {"groups": {"0": {"lr": 0.2}}}}}
    records = [traced(k, **({Link.UPDATE: {"w": 5}} if k == 3 else {})) for k in range(6)]
    found = compare(whole(), side(records, [(0, other)]))
    assert found.first.kind != "config"
    late = [(0, CONFIGURATION), (3, {"optimizers": {"AdamW": {"groups": {"0": {"lr": 0.2}}}}})]
    records = [traced(k, **({Link.UPDATE: {"w": 5}} if k == 3 else {})) for k in range(6)]
    assert compare(whole(), side(records, late)).first.kind == "config"


def test_threads_and_rounding_are_noise() -> None:
    other = {**CONFIGURATION, "precision": {"num_threads": 2, "float32_matmul": "highest"}}
    row = [value + 1e-7 for value in ROW[:64]] + ROW[64:]
    a = side([traced(k, sums=("fc1()", ROW)) for k in range(3)])
    b = side([traced(k, forward=CALLS, sums=("fc1()", row)) for k in range(3)], [(0, other)])
    found = compare(a, b)
    assert (found.first.kind, found.first.certainty) == ("noise", "strong")
    assert found.explained_by[0]["entry"] == "configuration.precision.num_threads"
    one = [*ROW]
    one[3] += 1e-7
    b = side([traced(k, forward=("fc1()",), sums=("fc1()", one)) for k in range(3)], [(0, other)])
    a = side([traced(k, sums=("fc1()", ROW)) for k in range(3)])
    assert compare(a, b).first.kind == "unknown"


def test_other_code_accounts_for_the_first_step_and_not_for_a_later_one() -> None:
    code = [{"code": {"train.py": word}, "torch": {"version": "2"}} for word in ("a", "b")]

    def found(step: int):
        records = [traced(k, forward=CALLS if k >= step else ()) for k in range(6)]
        sides = whole(), side(records)
        return diff_runs(
            run(sides[0], environment=code[0]), run(sides[1], name="B", environment=code[1])
        )

    assert found(0).first.kind == "config"
    assert found(4).first.kind == "unknown"


def test_another_commit_with_the_same_files_is_no_other_program() -> None:
    def found(files: dict[str, str]):
        sides = [
            {"code": {"script": "1", **more}, "git": {"commit": commit}, "torch": {"version": "2"}}
            for commit, more in (("a", {}), ("b", files))
        ]
        records = [traced(k, forward=CALLS) for k in range(3)]
        return diff_runs(
            run(whole(3), environment=sides[0]),
            run(side(records), name="B", environment=sides[1]),
        )

    assert found({}).first.kind == "unknown"
    assert found({"model.py": "2"}).first.kind == "config"


def samples(words, indices=(3, 1, 2), *, batch=5, step=2, **fields) -> SampleRecord:
    return SampleRecord(
        loader="train",
        epoch=0,
        batch=step,
        step=step,
        worker=fields.pop("worker", -1),
        rank=0,
        indices=indices,
        hashed=False,
        sample_digests=words,
        batch_digest=batch,
        worker_rng=fields.pop("worker_rng", 0),
    )


@pytest.mark.parametrize(
    ("b", "kind", "word", "sample"),
    [
        ([samples((1, 2, 9), batch=6)], "data", "1 of 3 with other bytes: sample 2", 2),
        ([samples((2, 1, 3), (1, 3, 2), batch=6)], "data", "another order", 3),
        ([samples((1, 2, 4), (3, 1, 7), batch=6)], "data", "one sample", 2),
        ([samples((1, 2), (3, 1), batch=6)], "config", "another batch size", None),
        ([samples((1,), (3,)), samples((2, 3), (1, 2))], "config", "in 1 batches in A", None),
        ([samples((1, 2, 3)), samples((4,), (7,))], "config", "1 batches in A and 2 in B", None),
        ([samples((1, 2, 3))], "data", "between delivery and use", None),
    ],
)
def test_samples_say_what_sets_batches_apart(b, kind, word, sample) -> None:
    changed = [record(k, {Link.BATCH: {"0": 1}} if k == 2 else None) for k in range(4)]
    found = compare(
        side([record(k) for k in range(4)], samples=[samples((1, 2, 3))]),
        side(changed, samples=b),
    )
    assert found.first.kind == kind
    assert word in found.first.why
    assert found.first.where.sample == sample


def test_a_worker_that_drew_otherwise_is_the_random_stream() -> None:
    changed = [record(k, {Link.BATCH: {"0": 1}} if k == 2 else None) for k in range(4)]
    sides = (
        [samples((1, 2, 3), worker=0, worker_rng=5)],
        [samples((1, 2, 9), worker=0, worker_rng=6)],
    )
    a = side([record(k) for k in range(4)], samples=sides[0])
    assert compare(a, side(changed, samples=sides[1])).first.kind == "rng"


def test_targets_that_the_model_does_not_see_are_data() -> None:
    changed = [record(k, {Link.LOSS: {"0": 1}} if k == 2 else None) for k in range(4)]
    a = side([record(k) for k in range(4)], samples=[samples((1, 2, 3))])
    found = compare(a, side(changed, samples=[samples((1, 2, 9), batch=6)]))
    assert (found.first.kind, found.first.where.link) == ("data", "batch")
    # Without any record of samples nothing tells targets from damage.
    a = side([record(k) for k in range(4)])
    changed = [record(k, {Link.LOSS: {"0": 1}} if k == 2 else None) for k in range(4)]
    assert compare(a, side(changed)).first.kind == "unknown"


def test_what_differs_beside_every_sample_explains_nothing() -> None:
    def delivered(word: int):
        return [samples((word, 2, 3), batch=word, step=k) for k in range(4)]

    changed = [record(k, {Link.LOSS: {"0": 1}} if k == 2 else None) for k in range(4)]
    a = side([record(k) for k in range(4)], samples=delivered(1))
    assert compare(a, side(changed, samples=delivered(9))).first.kind != "data"


def test_a_difference_has_the_form_of_explained_by() -> None:
    one = Difference(entry="configuration.x", before=1, after=2, kind="configuration")
    assert one.to_json()["entry"] == "configuration.x"
