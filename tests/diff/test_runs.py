"""Two runs as values: each link at which they can part, and what looks like it and is harmless."""

from __future__ import annotations

import json
import math
import zlib
from dataclasses import replace

import pytest

from everybit.core.finding import Finding, Location
from everybit.core.link import Link
from everybit.core.observation import StepRecord, TensorTable
from everybit.core.rule import rule
from everybit.diff.runs import diff_runs
from everybit.diff.side import Gap, RankSide, RunSide

TABLES = {
    Link.BATCH: ("0", "labels"),
    Link.RNG: ("python", "torch"),
    Link.LOSS: ("0",),
    Link.GRAD: ("w", "b"),
    Link.UPDATE: ("w", "b", "AdamW::exp_avg::w"),
}


def table(link: Link, names, step: int, **changed: int) -> TensorTable:
    words = tuple(changed.get(name, zlib.crc32(f"{link} {name} {step}".encode())) for name in names)
    return TensorTable(link=link, names=tuple(names), digests=words)


def record(step: int, changes=None, *, time_s: float = 0.0, **fields) -> StepRecord:
    """One step; `changes` is `{link: {name: digest}}`."""
    changes = changes or {}
    return StepRecord(
        **{
            "step": step,
            "time_s": time_s,
            "duration_s": math.nan,
            "guard_s": 0.0,
            "optimizer": "AdamW",
            "losses": (2.0 - step / 100,),
            "tables": tuple(
                table(link, names, step, **changes.get(link, {})) for link, names in TABLES.items()
            ),
            **fields,
        }
    )


def rank_side(records, *, rank: int = 0, init=None, starts=None, **fields) -> RankSide:
    records = list(records)
    first = table(Link.INIT, ("w", "b"), 0, **(init or {}))
    steps = [each.step for each in records]
    return RankSide(
        **{
            "rank": rank,
            "starts": iter(starts if starts is not None else [(0, (first,))]),
            "steps": iter(records),
            "step_range": range(min(steps), max(steps) + 1) if steps else range(0),
            **fields,
        }
    )


def run(*ranks: RankSide, name: str = "A", **fields) -> RunSide:
    return RunSide(
        **{
            "name": name,
            "path": f"runs/{name}",
            "ranks": {side.rank: side for side in ranks},
            "environment": {"torch": {"version": "2"}, "argv": {"options": []}},
            **fields,
        }
    )


def plain(num_steps: int = 6, changes=None, **fields) -> RankSide:
    """A rank of `num_steps`; `changes` is `{step: {link: {name: digest}}}`."""
    changes = changes or {}
    return rank_side([record(k, changes.get(k)) for k in range(num_steps)], **fields)


def at_rest(rule_id: str = "MEM601", step: int = 3, **evidence) -> Finding:
    return rule(rule_id).finding(
        "w changed",
        where=Location(step=step, rank=0, link=Link.STATE, parameter="w", elements=(5,)),
        evidence=evidence,
    )


def test_equal_runs_are_clean_whatever_their_clocks_say() -> None:
    a = rank_side([record(k, time_s=k) for k in range(6)])
    b = rank_side([record(k, time_s=900 + k, duration_s=3.0, guard_s=1.0) for k in range(6)])
    found = diff_runs(run(a), run(b, name="B"))
    assert found.findings == ()
    assert found.first is None
    assert found.coverage.skipped == ()
    assert found.stats["last_agreed_step"] == 5
    assert found.stats["steps"] == 6
    assert found.stats["values"] == 2 + 6 * (10 + 1)


@pytest.mark.parametrize(
    ("link", "name", "kind", "place"),
    [
        (Link.BATCH, "labels", "data", {}),
        (Link.RNG, "torch", "rng", {}),
        (Link.LOSS, "0", "unknown", {}),
        (Link.GRAD, "b", "unknown", {"parameter": "b"}),
        (
            Link.UPDATE,
            "AdamW::exp_avg::w",
            "unknown",
            {"parameter": "w", "tensor": "exp_avg", "optimizer": "AdamW"},
        ),
    ],
)
def test_the_first_value_that_parts_is_named_at_each_link(link, name, kind, place) -> None:
    later = {4: {Link.UPDATE: {"w": 1}}, 5: {Link.BATCH: {"0": 1}}}
    found = diff_runs(
        run(plain()), run(plain(changes={3: {link: {name: 0x5EED}}, **later}), name="B")
    )
    assert found.first is not None
    where = found.first.where.to_json()
    assert where == {"step": 3, "rank": 0, "link": str(link), **place}
    assert found.first.kind == kind
    (finding,) = found.findings
    assert (finding.rule, finding.severity) == ("DIF181", "error")
    assert finding.evidence["name"] == name
    assert finding.evidence["digest_b"] == f"{0x5EED:016x}"
    assert finding.evidence["digest_a"] != finding.evidence["digest_b"]
    assert finding.evidence["num_differing"] == 1
    assert finding.evidence["num_compared"] == len(TABLES[link])
    assert finding.evidence["last_agreed_step"] == found.stats["last_agreed_step"] == 2
    json.dumps(finding.to_json(), allow_nan=False)


def test_initial_weights_come_first() -> None:
    found = diff_runs(
        run(plain()), run(plain(init={"b": 7}, changes={0: {Link.RNG: {"torch": 1}}}))
    )
    assert found.first.kind == "init"
    assert found.first.where.to_json() == {
        "step": 0,
        "rank": 0,
        "link": "init",
        "parameter": "b",
    }
    assert found.stats["last_agreed_step"] is None


def test_streams_that_differ_come_before_the_batch_that_is_drawn_with_them() -> None:
    changes = {2: {Link.BATCH: {"0": 1}, Link.RNG: {"torch": 1}, Link.GRAD: {"w": 1}}}
    found = diff_runs(run(plain()), run(plain(changes=changes)))
    assert (found.first.kind, found.first.where.link) == ("rng", "rng")
    assert found.findings[0].evidence["links_differing"] == {"rng": 1, "batch": 1, "grad": 1}


def test_a_stream_recorded_in_one_run_only_is_no_difference() -> None:
    def without_python(step: int) -> StepRecord:
        full = record(step)
        kept = [t for t in full.tables if t.link is not Link.RNG]
        return replace(full, tables=(*kept, table(Link.RNG, ("torch",), step)))

    found = diff_runs(run(plain()), run(rank_side([without_python(k) for k in range(6)])))
    assert found.first is None


def test_losses_are_told_as_numbers_and_nan_is_equal_to_itself() -> None:
    def losses(value: float) -> RankSide:
        return rank_side([record(k, losses=(value if k == 2 else 1.0,)) for k in range(4)])

    found = diff_runs(run(losses(1.5)), run(losses(1.25)))
    assert "1.5 in A, 1.25 in B" in found.findings[0].message
    assert found.findings[0].evidence["losses_b"] == [1.25]
    assert found.first.where.link == "loss"
    assert diff_runs(run(losses(math.nan)), run(losses(math.nan))).first is None
    assert diff_runs(run(losses(0.0)), run(losses(-0.0))).first is not None


def test_a_skipped_update_in_one_run_is_a_difference_of_that_step() -> None:
    skipped = rank_side([record(k, skipped=k == 2) for k in range(4)])
    found = diff_runs(run(plain(4)), run(skipped))
    assert found.first.where.to_json() == {"step": 2, "rank": 0, "link": "update"}
    assert "skipped in B only" in found.findings[0].message
    assert found.first.kind == "unknown"


def test_another_optimizer_is_the_configuration() -> None:
    other = rank_side([record(k, optimizer="SGD" if k > 1 else "AdamW") for k in range(4)])
    found = diff_runs(run(plain(4)), run(other))
    assert found.first.kind == "config"
    assert "AdamW stepped in A, SGD in B" in found.first.why


def test_environment_code_and_configuration_that_precede_are_told_and_not_believed() -> None:
    changes = {1: {Link.LOSS: {"0": 1}}}
    other = {"torch": {"version": "2"}, "argv": {"options": ["--lr", "2"]}, "git": {"commit": "b"}}
    one = {**other, "argv": {"options": ["--lr", "1"]}, "git": {"commit": "a"}}
    found = diff_runs(run(plain(), environment=one), run(plain(changes=changes), environment=other))
    entries = {each["entry"]: each["kind"] for each in found.explained_by}
    assert entries == {"argv.options": "configuration", "git.commit": "code"}
    assert found.first.kind == "unknown"
    assert "explained_by" in found.first.why
    clean = diff_runs(run(plain(), environment=one), run(plain(), environment=other))
    assert clean.explained_by == ()
    assert clean.stats["preceding_differences"] == 2
    assert clean.first is None


def test_settings_of_the_recording_explain_nothing() -> None:
    a = run(plain(), config={"every": 1, "run": "runs/a", "on_finding": "warn"})
    b = run(
        plain(changes={1: {Link.LOSS: {"0": 1}}}),
        config={"every": 1, "run": "runs/b", "on_finding": "heal"},
    )
    assert diff_runs(a, b).explained_by == ()


@pytest.mark.parametrize("side", ["A", "B"])
def test_damage_on_record_between_agreement_and_parting_is_corruption(side: str) -> None:
    damaged = {"findings": (at_rest(healed=False),)}
    broken = plain(changes={3: {Link.LOSS: {"0": 1}, Link.GRAD: {"w": 1}}})
    a = run(plain(), **(damaged if side == "A" else {}))
    b = run(broken, name="B", **(damaged if side == "B" else {}))
    found = diff_runs(a, b)
    assert found.first.kind == "corruption"
    assert found.first.where.to_json() == {
        "run": f"runs/{side}",
        "step": 3,
        "rank": 0,
        "link": "state",
        "parameter": "w",
        "elements": [5],
    }
    evidence = found.findings[0].evidence
    assert evidence["explained_by_finding"]["rule"] == "MEM601"
    assert evidence["explained_by_finding"]["run"] == side
    assert evidence["seen_at"] == {"step": 3, "link": "loss"}


@pytest.mark.parametrize(
    ("finding", "link"),
    [
        (at_rest(step=2), Link.LOSS),  # the values of step 2 agree: it had no effect
        (at_rest(step=4), Link.LOSS),  # found later
        (at_rest(healed=True, tainted=False), Link.LOSS),  # healed before its first use
        (at_rest(), Link.BATCH),  # weights do not change batches
        (at_rest("MEM602"), Link.LOSS),  # moments are first used in the update
    ],
    ids=["before", "after", "healed", "batch", "moments"],
)
def test_damage_that_cannot_explain_the_parting_is_not_made_its_cause(finding, link) -> None:
    name = TABLES[link][0]
    b = run(plain(changes={3: {link: {name: 1}}}), findings=(finding,))
    assert diff_runs(run(plain()), b).first.kind in ("unknown", "data")


def test_moments_explain_an_update_and_tainted_heals_explain_all() -> None:
    update = run(plain(changes={3: {Link.UPDATE: {"w": 1}}}), findings=(at_rest("MEM602"),))
    assert diff_runs(run(plain()), update).first.kind == "corruption"
    late = at_rest(healed=True, tainted=True)
    loss = run(plain(changes={3: {Link.LOSS: {"0": 1}}}), findings=(late,))
    assert diff_runs(run(plain()), loss).first.kind == "corruption"


def test_the_same_damage_in_both_runs_explains_no_difference() -> None:
    both = (at_rest(changes=[1]),)
    b = run(plain(changes={3: {Link.LOSS: {"0": 1}}}), findings=both)
    assert diff_runs(run(plain(), findings=both), b).first.kind == "unknown"


def test_a_longer_run_is_no_difference_and_the_rest_is_told() -> None:
    for a, b in ((6, 9), (9, 6)):
        found = diff_runs(run(plain(a)), run(plain(b)))
        assert found.first is None
        (skip,) = found.coverage.skipped
        assert not skip.promised
        assert "those after 5" in skip.why


def test_a_run_that_was_cut_short_leaves_the_verdict_open() -> None:
    killed = plain(4, missed_end="it has no end record")
    found = diff_runs(run(plain(6)), run(killed))
    assert [(s.promised, s.why) for s in found.coverage.skipped] == [
        (True, "B: it has no end record")
    ]
    raised = plain(4, cut_short="ended early (exception)")
    (skip,) = diff_runs(run(plain(6)), run(raised)).coverage.skipped
    assert skip.promised
    both = [plain(4, cut_short="ended early (exception)") for _ in range(2)]
    assert diff_runs(run(both[0]), run(both[1])).coverage.skipped == ()


def test_a_step_missing_in_the_middle_is_missing() -> None:
    gapped = rank_side([record(k) for k in range(6) if k != 3])
    found = diff_runs(run(plain()), run(gapped, name="B"))
    assert found.first.kind == "missing"
    assert found.first.where.to_json() == {"step": 3, "rank": 0}
    assert found.findings[0].evidence["missing_in"] == "B"


def test_a_step_lost_to_damage_is_not_compared_and_not_missing() -> None:
    gapped = rank_side(
        [record(k) for k in range(6) if k != 3],
        gaps=(Gap(after=2, before=4, what="checksum"),),
    )
    found = diff_runs(run(plain()), run(gapped, name="B"))
    assert found.first is None
    (skip,) = found.coverage.skipped
    assert skip.promised
    assert "RUN152" in skip.why


def test_a_table_lost_to_damage_is_not_a_difference() -> None:
    def cut(step: int) -> StepRecord:
        full = record(step)
        return replace(full, tables=full.tables[:-1]) if step == 4 else full

    whole = diff_runs(run(plain()), run(rank_side([cut(k) for k in range(6)])))
    assert (whole.first.kind, whole.first.where.link) == ("missing", "update")
    gaps = (Gap(after=0, before=1, what="checksum"),)
    damaged = diff_runs(run(plain()), run(rank_side([cut(k) for k in range(6)], gaps=gaps)))
    assert damaged.first is None
    assert damaged.coverage.skipped[0].promised


def test_runs_recorded_at_other_cadences_are_compared_where_both_are() -> None:
    thin = rank_side([record(k) for k in range(0, 12, 3)], every=3)
    found = diff_runs(run(plain(12)), run(thin))
    assert found.first is None
    assert found.stats["steps"] == 4
    assert all(not skip.promised for skip in found.coverage.skipped)
    assert "every 3 steps" in found.coverage.skipped[0].why
    parting = rank_side(
        [record(k, {Link.GRAD: {"w": 1}} if k == 6 else None) for k in (0, 3, 6, 9)]
    )
    parting = replace(parting, every=3)
    assert diff_runs(run(plain(12)), run(parting)).first.where.step == 6


def test_other_first_steps_are_compared_from_the_later_one_on() -> None:
    late = rank_side([record(k) for k in range(3, 6)], starts=[])
    found = diff_runs(run(plain()), run(late))
    assert found.first is None
    assert found.stats["steps"] == 3
    assert any("before 3" in skip.why for skip in found.coverage.skipped)
    assert not any(skip.promised for skip in found.coverage.skipped)


def test_no_step_in_common_is_not_clean() -> None:
    late = rank_side([record(k) for k in range(8, 10)], starts=[])
    found = diff_runs(run(plain(4)), run(late))
    assert found.first is None
    assert any(skip.promised for skip in found.coverage.skipped)
    nothing = diff_runs(run(), run())
    assert any(skip.promised for skip in nothing.coverage.skipped)


def test_the_earliest_rank_to_part_is_named() -> None:
    a = run(plain(), plain(rank=1), plain(rank=2))
    b = run(
        plain(changes={4: {Link.GRAD: {"w": 1}}}),
        plain(changes={3: {Link.UPDATE: {"w": 1}}}, rank=1),
        plain(changes={3: {Link.UPDATE: {"w": 1}}}, rank=2),
    )
    found = diff_runs(a, b)
    assert (found.first.where.step, found.first.where.rank) == (3, 1)
    assert found.findings[0].evidence["ranks"] == [1, 2]


def test_a_rank_of_one_run_only_is_not_compared() -> None:
    found = diff_runs(run(plain(), plain(rank=1)), run(plain(), name="B"))
    assert found.first is None
    (skip,) = found.coverage.skipped
    assert (skip.what, skip.promised) == ("rank 1", True)
    assert skip.why == "B has no record of it"


def test_a_wrapped_model_is_compared_under_its_prefix() -> None:
    def wrapped(step: int, **changed: int) -> StepRecord:
        full = record(step)
        tables = []
        for each in full.tables:
            if each.link in (Link.GRAD, Link.UPDATE):
                names = ["module.w", "module.b", "AdamW::exp_avg::module.w"][: len(each.names)]
                words = [changed.get(n, w) for n, w in zip(names, each.words(), strict=True)]
                each = TensorTable(link=each.link, names=tuple(names), digests=tuple(words))
            tables.append(each)
        return replace(full, tables=tuple(tables))

    same = diff_runs(run(plain(4)), run(rank_side([wrapped(k) for k in range(4)])))
    assert same.first is None
    assert [(s.what, s.promised) for s in same.coverage.skipped] == [("names", False)]
    changed = rank_side([wrapped(k, **({"module.w": 1} if k == 2 else {})) for k in range(4)])
    found = diff_runs(run(plain(4)), run(changed))
    assert found.first.where.parameter == "w"
    assert found.first.where.link == "grad"


def test_a_parameter_without_gradient_in_one_run_is_missing() -> None:
    def frozen(step: int) -> StepRecord:
        full = record(step)
        kept = [t for t in full.tables if t.link is not Link.GRAD]
        return replace(full, tables=(*kept, table(Link.GRAD, ("w",), step)))

    found = diff_runs(run(plain(3)), run(rank_side([frozen(k) for k in range(3)])))
    assert found.first.kind == "missing"
    assert found.first.where.to_json() == {
        "step": 0,
        "rank": 0,
        "link": "grad",
        "parameter": "b",
    }
    assert "recorded in A only" in found.findings[0].message


def test_a_checkpoint_loaded_over_the_initial_weights_is_what_counts() -> None:
    def starts(seed: int, loaded: int):
        init = table(Link.INIT, ("w", "b"), 0, w=seed, b=seed)
        load = table(Link.LOAD, ("w", "b"), 0, w=loaded, b=loaded)
        return [(0, (init,)), (0, (load,))]

    same = diff_runs(run(plain(starts=starts(1, 9))), run(plain(starts=starts(2, 9))))
    assert same.first is None
    assert "loaded over" in same.coverage.skipped[0].why
    other = diff_runs(run(plain(starts=starts(1, 9))), run(plain(starts=starts(1, 8))))
    assert (other.first.kind, other.first.where.link) == ("init", "load")


def test_a_load_in_the_middle_is_not_called_initial() -> None:
    def starts(word: int):
        init = table(Link.INIT, ("w",), 0)
        return [(0, (init,)), (3, (table(Link.LOAD, ("w",), 0, w=word),))]

    found = diff_runs(run(plain(starts=starts(1))), run(plain(starts=starts(2))))
    assert (found.first.kind, found.first.where.step) == ("unknown", 3)
    assert found.stats["last_agreed_step"] == 2


def test_a_record_that_goes_back_in_steps_is_not_trusted_silently() -> None:
    back = rank_side([record(k) for k in (0, 1, 2, 1, 3)])
    found = diff_runs(run(plain(4)), run(back))
    assert found.first is None
    assert any("goes back" in skip.why and skip.promised for skip in found.coverage.skipped)


def test_neither_run_is_held(monkeypatch) -> None:
    most = {"A": 0, "B": 0}
    read = {"A": 0, "B": 0}

    def stream(side: str):
        for k in range(2000):
            read[side] += 1
            most[side] = max(most[side], read[side] - read["B" if side == "A" else "A"])
            yield record(k)

    sides = [RankSide(rank=0, steps=stream(side), step_range=range(2000)) for side in ("A", "B")]
    assert diff_runs(run(sides[0]), run(sides[1])).stats["steps"] == 2000
    assert max(most.values()) <= 2


STATE = ("w", "b", "AdamW::exp_avg::w")


def resumed(after: int, steps: range, changes=None, *, state=None, **fields) -> RankSide:
    """A rank that goes on after step `after` of `plain`, its own steps counted from 0 again."""
    begun = table(Link.UPDATE, STATE, after, **(state or {}))
    begun = replace(begun, link=Link.INIT)
    records = [replace(record(k, (changes or {}).get(k)), step=k - steps.start) for k in steps]
    return rank_side(records, starts=[(0, (begun,))], **{"reread": lambda: iter(records), **fields})


def whole(num_steps: int = 6, **fields) -> RankSide:
    records = [record(k) for k in range(num_steps)]
    return rank_side(records, reread=lambda: iter(records), **fields)


@pytest.mark.parametrize("attempt", [0, 1])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_resumed_run_is_counted_on_from_the_state_that_it_starts_from(attempt, swapped) -> None:
    sides = [whole(), resumed(2, range(3, 6), attempt=attempt)]
    one, other = sides[::-1] if swapped else sides
    found = diff_runs(run(one), run(other, name="B"))
    assert found.findings == ()
    assert found.stats["steps"] == 3
    assert found.stats["last_agreed_step"] == 5
    assert not any(item.promised for item in found.coverage.skipped)
    (note,) = [item.why for item in found.coverage.skipped if "starts from" in item.why]
    assert "after step 2" in note
    assert "0 to 2 are compared as 3 to 5" in note


def test_a_resumed_run_that_parts_is_told_in_the_other_runs_steps() -> None:
    side = resumed(2, range(3, 6), {4: {Link.BATCH: {"0": 7}}}, attempt=1)
    found = diff_runs(run(whole()), run(side, name="B"))
    assert found.first is not None
    assert (found.first.where.step, found.first.kind) == (4, "data")
    assert "after step 2" in found.findings[0].evidence["aligned"]


@pytest.mark.parametrize(("step", "is_told"), [(3, True), (4, False)])
def test_a_resumed_run_that_parts_at_once_left_something_behind(step, is_told) -> None:
    side = resumed(2, range(3, 6), {step: {Link.BATCH: {"0": 7}}}, attempt=1)
    found = diff_runs(run(whole()), run(side, name="B"))
    assert found.first is not None
    assert (found.first.where.step, found.first.kind) == (step, "data")
    assert ("did not bring the position in the data along" in found.findings[0].remedy) is is_told


def test_damage_in_a_resumed_run_is_set_in_order_by_the_other_runs_steps() -> None:
    side = resumed(2, range(3, 6), {4: {Link.LOSS: {"0": 7}}}, attempt=1)
    found = diff_runs(run(whole()), run(side, name="B", findings=(at_rest(step=1),)))
    assert found.first is not None
    assert (found.first.where.step, found.first.kind) == (4, "corruption")


@pytest.mark.parametrize("fields", [{"attempt": 1}, {}])
def test_a_state_that_the_other_record_does_not_hold_is_not_called_initial(fields) -> None:
    side = resumed(2, range(3, 6), state={"w": 99}, **fields)
    found = diff_runs(run(whole()), run(side, name="B"))
    assert found.first is not None
    assert found.first.kind == "unknown"
    assert "run B goes on from a state" in found.first.why
    assert "Seed" not in found.findings[0].remedy


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("prefix", ["", "module."])
def test_weights_loaded_without_the_optimizer_name_its_state(swapped, prefix) -> None:
    begun = replace(table(Link.UPDATE, STATE[:2], 2), link=Link.INIT)
    begun = replace(begun, names=tuple(prefix + name for name in begun.names))
    records = [replace(record(k), step=k - 3) for k in range(3, 6)]
    side = rank_side(records, starts=[(0, (begun,))], reread=lambda: iter(records))
    one, other = (side, whole()) if swapped else (whole(), side)
    found = diff_runs(run(one), run(other, name="B"))
    assert found.first is not None
    assert found.first.kind == "missing"
    assert f"run {'A' if swapped else 'B'} starts from the weights" in found.first.why
    assert "after step 2" in found.first.why
    assert (found.first.where.optimizer, found.first.where.tensor) == ("AdamW", "exp_avg")
    assert "optimizer's state" in found.findings[0].remedy
    assert found.findings[0].evidence["forgotten"] == ["AdamW::exp_avg::w"]


def test_an_evaluation_of_a_checkpoint_forgot_no_optimizer() -> None:
    begun = replace(table(Link.UPDATE, STATE[:2], 2), link=Link.INIT)
    records = [
        replace(record(k), optimizer="", tables=(table(Link.OUTPUT, ("0[0]",), k),))
        for k in range(3)
    ]
    side = rank_side(records, starts=[(0, (begun,))], reread=lambda: iter(records))
    found = diff_runs(run(whole()), run(side, name="B"))
    assert found.first is not None
    assert found.first.kind == "init"


def test_other_initial_weights_are_still_initial() -> None:
    other = whole()
    starts = [(0, (table(Link.INIT, ("w", "b"), 0, w=77),))]
    found = diff_runs(run(other), run(replace(whole(), starts=iter(starts)), name="B"))
    assert found.first is not None
    assert found.first.kind == "init"


def test_a_second_attempt_from_the_start_is_compared_from_the_start() -> None:
    found = diff_runs(run(whole()), run(whole(attempt=1), name="B"))
    assert found.findings == ()
    assert found.stats["steps"] == 6
    assert found.coverage.skipped == ()


def test_a_skipped_update_leaves_the_batch_to_tell_where_a_run_was_resumed() -> None:
    frozen = dict.fromkeys(STATE, 5)
    records = [record(k, {Link.UPDATE: frozen} if k in (2, 3) else None) for k in range(6)]
    for first in (3, 4):
        later = [replace(each, step=each.step - first) for each in records[first:]]
        state = replace(table(Link.UPDATE, STATE, 2, **frozen), link=Link.INIT)
        a = rank_side(records, reread=lambda: iter(records))
        b = rank_side(later, starts=[(0, (state,))], reread=lambda later=later: iter(later))
        found = diff_runs(run(a), run(b, name="B"))
        assert found.findings == ()
        assert found.stats["steps"] == 6 - first
