from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everybit.core.trace_name import (
    TraceKind,
    TraceName,
    forward_name,
    output_gradient_name,
    parse_trace_name,
)

TEXT = st.text(st.sampled_from("ab.0_%()#~ é\n\u00a0"), max_size=12)
NUMBER = st.integers(0, 10**6)


@given(
    st.builds(
        TraceName,
        kind=st.sampled_from(TraceKind),
        module=TEXT,
        call=NUMBER,
        leaf=TEXT,
        again=NUMBER,
        op=TEXT,
    ),
    NUMBER,
)
@settings(derandomize=True, max_examples=300, deadline=None)
def test_every_name_is_read_back(name: TraceName, number: int) -> None:
    if name.op:
        name = TraceName(
            kind=name.kind, module=name.module, call=name.call, leaf=name.leaf,
            again=name.again, op=name.op, number=number,
        )  # fmt: skip
    assert parse_trace_name(str(name)) == name


@pytest.mark.parametrize(
    "name",
    ["weight", "blocks.0.attn.qkv.weight", "Teacher:head.bias", "AdamW::exp_avg::head.weight", "",
     "torch", "0", "logits[17]", "f()x", "a()#", "grad", "grad a", "a()#1#2", "a() op"],
)  # fmt: skip
def test_other_names_are_none(name: str) -> None:
    assert parse_trace_name(name) is None


def test_names_are_those_on_record() -> None:
    """They are in run folders: another spelling would not be found there."""
    assert forward_name("a.b", 2, "0.h") == "a.b()#2.0.h"
    assert output_gradient_name("a.b", 0, "", 1) == "grad a.b()~1"
    op = TraceName(kind=TraceKind.OUTPUT, module="fc", op="aten.addmm", number=0)
    assert str(op) == "fc() aten.addmm#0"
