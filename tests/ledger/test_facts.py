from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everybit.core.link import Link
from everybit.core.observation import StepRecord, TensorTable
from everybit.ledger import RunWriter, open_run
from everybit.ledger.facts import FactsDecoder
from everybit.ledger.payload import PayloadError
from everybit.ledger.step import decode_step, encode_step

if TYPE_CHECKING:
    from pathlib import Path

NUMBERS = st.floats(allow_nan=False)
RECORDS = st.builds(
    StepRecord,
    step=st.integers(0, 2**63),
    time_s=NUMBERS,
    duration_s=NUMBERS,
    guard_s=NUMBERS,
    optimizer=st.sampled_from(["", "Adam", "优化器"]),
    skipped=st.booleans(),
    tainted=st.booleans(),
    losses=st.lists(NUMBERS, max_size=3).map(tuple),
    scalars=st.dictionaries(st.sampled_from(["lr", "grad_norm", "scale", "ü", ""]), NUMBERS),
    tables=st.just((TensorTable(link=Link.LOSS, names=("0",), digests=(7,)),)),
)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.lists(RECORDS, min_size=1, max_size=6))
def test_the_facts_are_those_of_the_whole_record(records):
    decoder = FactsDecoder()
    for record in records:
        payload = memoryview(encode_step(record, [1]))
        facts = decoder.decode(payload)
        whole = decode_step(payload, lambda _: None)
        assert facts._asdict() == {name: getattr(whole, name) for name in facts._fields}


def test_names_of_another_length_or_order_are_read_anew():
    decoder = FactsDecoder()
    for scalars in ({"a": 1.0, "bb": 2.0}, {"bb": 3.0, "a": 4.0}, {"ab": 5.0, "b": 6.0}, {}):
        record = StepRecord(step=1, time_s=0.0, duration_s=0.0, guard_s=0.0, scalars=scalars)
        assert decoder.decode(memoryview(encode_step(record, []))).scalars == scalars


@pytest.mark.parametrize("size", [0, 10, 47])
def test_what_is_cut_short_is_told(size):
    record = StepRecord(step=1, time_s=0.0, duration_s=0.0, guard_s=0.0, losses=(1.0,))
    with pytest.raises(PayloadError):
        FactsDecoder().decode(memoryview(encode_step(record, []))[:size])


def test_a_log_yields_its_facts_and_links(tmp_path: Path):
    writer = RunWriter.open(tmp_path / "run", command=["x"], environment={})
    table = TensorTable(link=Link.GRAD, names=("w",), digests=(3,))
    for step in range(5):
        writer.step(
            StepRecord(
                step=step,
                time_s=1.0,
                duration_s=math.nan,
                guard_s=0.0,
                losses=(step / 2,),
                tables=(table,),
                scalars={"lr": 0.1 * step},
            )
        )
    writer.close()
    log = open_run(tmp_path / "run").log()
    facts = list(log.facts())
    assert [f.step for f in facts] == list(range(5))
    assert facts[3].losses == (1.5,)
    assert facts[3].scalars == {"lr": pytest.approx(0.3)}
    assert log.links == {Link.GRAD}
