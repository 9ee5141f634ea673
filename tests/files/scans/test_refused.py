"""PKL204: what is told, of what, and whether the way out works."""

import argparse
import collections
import datetime
import importlib
import pathlib
import pickle
import zipfile

import numpy as np
import pytest
import torch

from everybit.api.scan import scan
from everybit.core.finding import Certainty, Severity
from everybit.files.scans.refused import tell_refused
from everybit.files.source import ByteSource


def _tell(path):
    with ByteSource(path) as source:
        return tell_refused(source, path.name)


def _save(tmp_path, subject, **options):
    path = tmp_path / "model.pt"
    torch.save(subject, path, **options)
    return path


class Net(torch.nn.Module):
    """A class of the script that saved it."""


HARMLESS = {
    "namespace": {"hyper_parameters": {"args": argparse.Namespace(lr=0.1)}},
    "path": {"out": pathlib.PurePosixPath("runs/1")},
    "NumPy number": {"best": np.float64(0.5), "step": np.int64(3)},
    "NumPy array": {"rng": np.arange(4, dtype=np.uint32)},
    "bytes": {"empty": b"", "frozen": frozenset((1, 2))},
    "time": {"when": datetime.datetime(2026, 1, 2)},
}


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("case", HARMLESS)
def test_what_is_known_to_be_harmless_is_a_note_and_the_advice_works(case, legacy, tmp_path):
    path = _save(tmp_path, HARMLESS[case], _use_new_zipfile_serialization=not legacy)
    with pytest.raises(pickle.UnpicklingError):
        torch.load(path, weights_only=True)
    finding = _tell(path)
    assert (finding.rule, finding.severity) == ("PKL204", Severity.NOTE)
    assert finding.certainty == Certainty.PROOF
    assert all(name["known_safe"] for name in finding.evidence["details"])
    scope = {"torch": torch}
    advised = finding.remedy.split("`import ", 1)[1].split("`", 1)[0]
    for module in advised.split(", "):
        importlib.import_module(module)
        scope[module.split(".")[0]] = importlib.import_module(module.split(".")[0])
    allowed = [eval(item, scope) for item in finding.evidence["safe_globals"]]
    with torch.serialization.safe_globals(allowed):
        loaded = torch.load(path, weights_only=True)
    assert loaded.keys() == HARMLESS[case].keys()
    # Exactly the names needed: with any of them left out it is still refused.
    for left_out in range(len(allowed)):
        fewer = allowed[:left_out] + allowed[left_out + 1 :]
        with torch.serialization.safe_globals(fewer), pytest.raises(pickle.UnpicklingError):
            torch.load(path, weights_only=True)


def test_keys_and_libraries_are_told(tmp_path):
    subject = {
        "state_dict": torch.nn.Linear(2, 2).state_dict(),
        "hyper_parameters": {"args": argparse.Namespace(lr=1)},
        "best": [0, np.float32(2)],
    }
    finding = _tell(_save(tmp_path, subject))
    by_name = {name["name"]: name for name in finding.evidence["details"]}
    assert by_name["argparse.Namespace"]["keys"] == ["hyper_parameters.args"]
    assert by_name["numpy._core.multiarray.scalar"]["keys"] == ["best.1"]
    assert by_name["numpy.dtype"]["library"] == "NumPy"
    assert finding.where.tensor == "hyper_parameters.args"
    assert finding.where.member == "model/data.pkl"
    assert "argparse.Namespace" in finding.message
    assert "hyper_parameters.args" in finding.message


def test_the_order_of_the_way_out(tmp_path):
    finding = _tell(_save(tmp_path, argparse.Namespace(lr=1)))
    places = [
        finding.remedy.index(step)
        for step in ("everybit convert", "everybit.load_into", "everybit extract", "safe_globals")
    ]
    assert places == sorted(places)


def test_an_unknown_class_is_a_warning_and_nothing_is_allowed(tmp_path):
    finding = _tell(_save(tmp_path, {"model": Net(), "args": argparse.Namespace()}))
    assert finding.severity == Severity.WARNING
    assert "safe_globals" not in finding.remedy
    assert "safe_globals" not in finding.evidence
    assert "Net" in finding.remedy


def test_allowing_names_is_not_advised_where_it_does_not_help(tmp_path):
    path = _save(tmp_path, collections.defaultdict(list, {"a": [1]}))
    finding = _tell(path)
    assert finding.severity == Severity.NOTE
    assert "safe_globals" not in finding.remedy
    allowed = torch.serialization.safe_globals([collections.defaultdict, list])
    with allowed, pytest.raises(pickle.UnpicklingError):
        torch.load(path, weights_only=True)


def test_every_name_of_a_newer_protocol_is_told(tmp_path):
    subject = {"a": "long enough to be written " * 3, "args": argparse.Namespace()}
    finding = _tell(_save(tmp_path, subject, pickle_protocol=4))
    assert finding.evidence["names"] == ["argparse.Namespace under args"]
    assert "FRAME" in finding.evidence["reasons"][0]
    assert "safe_globals" not in finding.remedy


def test_what_is_merely_not_proved_is_a_note_where_torch_writes_it(tmp_path):
    nested = torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])
    for subject in (nested, {torch.zeros(1): 1}):
        finding = _tell(_save(tmp_path, subject))
        assert (finding.severity, finding.certainty) == (Severity.NOTE, Certainty.STRONG)
        assert "not proved" in finding.message
        assert "names" not in finding.evidence


def test_what_torch_writes_and_does_not_read_is_a_note(tmp_path):
    eight = torch.zeros(2).to(torch.float8_e4m3fn)
    for subject, legacy in ((eight, True), (eight.clone().requires_grad_(), False)):
        path = _save(tmp_path, subject, _use_new_zipfile_serialization=not legacy)
        with pytest.raises(Exception, match=r"leaf Variable|UntypedStorage"):
            torch.load(path, weights_only=True)
        finding = _tell(path)
        assert (finding.severity, finding.certainty) == (Severity.NOTE, Certainty.PROOF)
        assert "names" not in finding.evidence


def test_items_set_on_a_tensor_are_a_warning(tmp_path):
    path = tmp_path / "model.pt"
    data = pickle.dumps(torch.Size((2,)), 2)[:-1] + b"K\x01K\x02s."
    torch.save({}, path)
    with zipfile.ZipFile(path) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, held in records.items():
            archive.writestr(name, data if name.endswith("data.pkl") else held)
    assert _tell(path).severity == Severity.WARNING


def test_a_tensor_past_its_storage_is_a_warning(tmp_path):
    data = _save(tmp_path, torch.arange(4.0)).read_bytes()
    path = tmp_path / "grown.pt"
    at = data.index(b"K\x04\x85")
    path.write_bytes(data[: at + 1] + b"\x09" + data[at + 2 :])
    with pytest.raises(RuntimeError):
        torch.load(path, weights_only=True)
    assert _tell(path).severity == Severity.WARNING


def test_many_names_are_shortened_in_the_remedy(tmp_path):
    subject = [np.arange(2), argparse.Namespace(), pathlib.PurePosixPath("x"), b""]
    finding = _tell(_save(tmp_path, subject))
    assert len(finding.evidence["safe_globals"]) > 4
    assert "more (see evidence: safe_globals)" in finding.remedy


def test_a_plain_pickle_is_a_note(tmp_path):
    path = tmp_path / "model.pkl"
    path.write_bytes(pickle.dumps({"a": 1}))
    finding = _tell(path)
    assert finding.severity == Severity.NOTE
    assert "none of torch.save" in finding.message


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_no_protocol_hides_a_plain_pickle(protocol, tmp_path):
    path = tmp_path / "model.pkl"
    path.write_bytes(pickle.dumps([argparse.Namespace()], protocol))
    finding = _tell(path)
    assert finding is not None
    assert finding.evidence["names"]


def test_a_large_pickle_of_a_new_protocol(tmp_path):
    path = tmp_path / "model.pkl"
    path.write_bytes(pickle.dumps([argparse.Namespace(), "x" * 200_000, *range(1000)], 5))
    assert _tell(path).evidence["names"] == ["argparse.Namespace under 0"]


@pytest.mark.parametrize("text", ["epoch,loss\n1,0.5\n", "N", "{}", "import os\n", "(lp0\n"])
def test_text_is_not_told(text, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text(text)
    assert _tell(path) is None


def test_what_torch_loads_is_not_told(tmp_path):
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    subject = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}
    for legacy in (False, True):
        path = _save(tmp_path, subject, _use_new_zipfile_serialization=not legacy)
        assert _tell(path) is None
        assert torch.load(path, weights_only=True)["epoch"] == 3


def test_damage_is_left_to_other_rules(tmp_path):
    path = _save(tmp_path, {"a": torch.ones(3)})
    path.write_bytes(path.read_bytes()[:-10])
    assert _tell(path) is None


def test_damage_of_a_legacy_file_that_nobody_told(tmp_path):
    path = _save(tmp_path, {"a": torch.ones(3)}, _use_new_zipfile_serialization=False)
    data = path.read_bytes()
    at = data.index(b"_rebuild_tensor_v2")
    path.write_bytes(data[: at + 30] + b"\xff" + data[at + 31 :])
    assert _tell(path) is None
    with ByteSource(path) as source:
        assert tell_refused(source, path.name, damage_told=False).rule == "FIL107"
    assert [finding.rule for finding in scan(path).findings] == ["FIL107"]


def test_an_archive_with_an_empty_pickle(tmp_path):
    path = tmp_path / "model.pt"
    torch.save({}, path)
    with zipfile.ZipFile(path) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, held in records.items():
            archive.writestr(name, b"" if name.endswith("data.pkl") else held)
    assert [finding.rule for finding in scan(path).findings] == ["FIL107"]


def test_nothing_advises_to_switch_it_off(tmp_path):
    for subject in (*HARMLESS.values(), {"n": Net()}):
        finding = _tell(_save(tmp_path, subject))
        assert "weights_only=False" not in finding.message + finding.remedy
