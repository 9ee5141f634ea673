from __future__ import annotations

import argparse
import collections
import datetime
import io
import pathlib
import pickle
import zipfile

import numpy as np
import pytest
import torch
from tests.files.pickles.assembler import Raw, call, name, pickled, push

from everybit.core.finding import Severity
from everybit.files.scans.pickled import MAX_FINDINGS, judge_pickles


def judged(data: bytes, start: int = 0, member: str | None = None):
    """The findings about a pickle at the start of a file."""
    return judge_pickles(data, path="a.pkl", member=member, start=start)


def rules(data: bytes) -> list[tuple[str, str]]:
    """Rule and severity of each finding."""
    return [(found.rule, str(found.severity)) for found in judged(data).findings]


EVIL = call(name("os", "system"), "ls")


def test_a_call_is_one_finding_with_name_effect_arguments_and_place():
    outcome = judged(pickled([EVIL, EVIL]), start=100)
    (found,) = outcome.findings
    assert found.rule == "PKL201"
    assert found.severity is Severity.ERROR
    assert found.message == (
        "a.pkl: loading it calls os.system('ls'), which starts a process or runs a command"
    )
    evidence = found.evidence
    assert evidence["name"] == "os.system"
    assert evidence["num_calls"] == 2
    assert evidence["arguments"] == [["'ls'"], ["'ls'"]]
    assert found.where.byte_range == (
        100 + evidence["positions"][0],
        101 + evidence["positions"][0],
    )
    assert found.where.module == "os.system"


def test_without_a_place_in_the_file_there_is_no_byte_range():
    (found,) = judged(pickled(EVIL), start=-1, member="data.pkl").findings
    assert found.where.byte_range is None
    assert found.where.member == "data.pkl"
    assert "(data.pkl)" in found.message


def test_an_unknown_name_is_a_warning():
    (found,) = judged(pickled(call(name("my.project", "Model"), 1))).findings
    assert (found.rule, found.severity) == ("PKL202", Severity.WARNING)
    assert found.evidence["library"] == "my"


def test_two_names_are_two_findings_with_two_ids():
    found = judged(pickled([EVIL, name("x", "Y")]), start=-1).findings
    assert [item.rule for item in found] == ["PKL201", "PKL202"]
    assert len({item.id for item in found}) == 2


def test_the_module_on_the_way_is_not_told_beside_the_name():
    module = call(name("importlib", "import_module"), "os")
    found = judged(
        pickled(call(call(name("builtins", "getattr"), module, "system"), "ls"))
    ).findings
    assert [item.evidence["name"] for item in found] == ["os.system"]


def test_what_runs_before_a_fault_is_told_and_the_rest_is_skipped():
    outcome = judged(pickled(EVIL)[:-1] + b"\xff")
    (found,) = outcome.findings
    assert found.rule == "PKL201"
    assert found.evidence["breaks_off_at"] == len(pickled(EVIL)) - 1
    assert outcome.skipped[0].promised


def test_a_broken_pickle_that_reaches_nothing_is_damage():
    assert rules(pickle.dumps([1, "text"])[:-1] + b"\xff") == [("FIL107", "error")]


def test_what_follows_the_last_stop_is_left_to_the_caller():
    outcome = judged(pickle.dumps(1) + b"\xff\xff")
    assert outcome.findings == []
    assert outcome.end == len(pickle.dumps(1))


def test_every_pickle_of_a_stream_is_judged():
    assert rules(pickle.dumps(1) + pickled(EVIL)) == [("PKL201", "error")]


@pytest.mark.parametrize(
    ("data", "severity"),
    [
        (b"\x80\x02I0x10\n.", "error"),
        (b"I1\x00junk\n.", "error"),
        (b"\x80\x04K\x01\x80\x02.", "error"),
        (b"\x80\x04\x95\x03\x00\x00\x00\x00\x00\x00\x00X\x01\x00\x00\x00a.", "error"),
        (b"I+5\n.", "warning"),
        (b"K\x01q\x00K\x02q\x00.", "warning"),
    ],
)
def test_opcode_tricks(data, severity):
    assert rules(data) == [("PKL203", severity)]


@pytest.mark.parametrize("protocol", range(6))
def test_usual_values_give_nothing(protocol):
    values = [
        {"a": [1, 2.5, None], "b": (1, {2}), "n": -5, "big": 2**100, "t": "é", "f": 1e-30},
        collections.OrderedDict(x=collections.Counter("ab"), y=collections.deque([1])),
        argparse.Namespace(lr=0.1, path=pathlib.PurePosixPath("x")),
        [datetime.datetime(2026, 1, 1), np.float32(1), np.arange(3), np.dtype("f4")],
        [np.random.RandomState(1).get_state(), np.random.default_rng(1), b"bytes", bytearray(b"x")],
    ]
    for value in values:
        assert rules(pickle.dumps(value, protocol)) == []
        assert rules(pickle._dumps(value, protocol)) == []


def saved(value) -> bytes:
    """The pickle in what `torch.save` writes."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return zipfile.ZipFile(buffer).read("archive/data.pkl")


def test_usual_checkpoints_give_nothing():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)
    for value in (
        model.state_dict(),
        model,
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3},
        {"scheduler": scheduler.state_dict(), "rng": torch.get_rng_state()},
        [torch.float16, torch.device("cpu"), torch.Size([1]), torch.nn.Parameter(torch.ones(1))],
    ):
        assert rules(saved(value)) == []


def test_pickled_tensors_are_judged_by_the_bytes_within():
    outcome = judged(pickle.dumps({"w": torch.ones(2)}))
    assert outcome.findings == []
    ((at, held, loaded),) = outcome.nested
    assert loaded
    assert held[:2] == b"\x80\x02"
    assert pickle.dumps({"w": torch.ones(2)})[at : at + 4] == held[:4]
    computed = call(name("torch.storage", "_load_from_bytes"), call(name("x", "make")))
    assert ("PKL201", "error") in rules(pickled(computed))


def test_bytes_for_another_unpickler_are_handed_back():
    inner = pickled(EVIL)
    outcome = judged(pickled(call(name("pickle", "loads"), inner)))
    assert [(held, loaded) for _, held, loaded in outcome.nested] == [(inner, False)]
    assert outcome.findings[0].rule == "PKL201"
    encoded = call(name("_codecs", "encode"), inner.decode("latin-1"), "latin1")
    outcome = judged(pickled(call(name("dill", "loads"), encoded)))
    assert outcome.nested == [(-1, inner, False)]


def test_code_from_the_file_is_one_finding_of_the_library_that_makes_it():
    code = call(call(name("cloudpickle.cloudpickle", "_builtin_type"), "CodeType"), 1, b"code")
    function = call(name("cloudpickle.cloudpickle", "_make_function"), code, {})
    (found,) = judged(pickled({"schedule": function})).findings
    assert (found.rule, found.severity) == ("PKL202", Severity.WARNING)
    assert "builds functions or classes from code that the file carries" in found.message
    assert found.evidence["library"] == "cloudpickle"
    assert "types.CodeType" in found.evidence["names"]


def test_many_names_are_bounded_and_the_rest_is_said():
    many = [name("m", f"N{number}") for number in range(MAX_FINDINGS + 50)]
    outcome = judged(pickled(many))
    assert len(outcome.findings) == MAX_FINDINGS
    assert "50 more" in outcome.skipped[0].why


def test_names_are_printed_safely():
    hostile = Raw(
        push("os\x1b[2J")
        + push("\u202esystem\ud800".encode("utf-8", "surrogatepass").decode("utf-8", "replace"))
        + b"\x93"
    )
    for found in judged(pickled(hostile)).findings:
        assert found.message.isprintable()
        assert str(found.to_json()).isprintable()


def test_where_memory_ends_the_names_are_judged_and_the_rest_is_said(monkeypatch):
    from everybit.files.pickles import opcodes

    run = opcodes.run

    def until_memory_ends(machine, actions, max_steps):
        run(machine, actions, 40)
        raise MemoryError

    monkeypatch.setattr(opcodes, "run", until_memory_ends)
    outcome = judged(pickled(call(name("os", "system"), "ls"))[:-1] + b"]" * 100 + b".")
    assert [(found.rule, found.evidence["name"]) for found in outcome.findings] == [
        ("PKL201", "os.system")
    ]
    (skipped,) = outcome.skipped
    assert "takes more memory to follow than there is" in skipped.why


DILLS = {
    "_setattr": "reads or sets attributes",
    "_import_module": "imports modules by name",
    "_create_namedtuple": "imports modules by name",
    "_eval_repr": "runs Python code",
}


@pytest.mark.parametrize(("function", "does"), DILLS.items(), ids=DILLS.keys())
def test_what_dill_does_while_loading_is_said_by_what_it_is(function, does):
    found = judged(pickled(call(name("dill._dill", function), "x"))).findings[0]
    assert found.rule == "PKL201"
    assert does in found.message
