from __future__ import annotations

import errno
import json
import math
import os
import random
import shutil
import stat
import zipfile
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

import everybit
from everybit.core.errors import PathError
from everybit.core.finding import Location
from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.ledger import IncidentStore, RngStates, RunWriter, SavedTensor, Scene, load_incident
from everybit.ledger.folder import encode_run_file
from everybit.ledger.scene import ARRAYS_FILE, INCIDENT_FILE

if TYPE_CHECKING:
    from pathlib import Path

DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8,
    torch.bool, torch.complex64, torch.float8_e4m3fn, torch.float8_e5m2,
]  # fmt: skip


def bytes_of(tensor: torch.Tensor) -> np.ndarray:
    return tensor.contiguous().view(-1).view(torch.uint8).numpy().copy()


def saved(name: str, tensor: torch.Tensor, **more: object) -> SavedTensor:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return SavedTensor(
        name=name, dtype=dtype, shape=tuple(tensor.shape), found=bytes_of(tensor), **more
    )


def finding(step: int = 7, **more: object):
    where = Location(step=step, link=Link.STATE, parameter="w")
    return rule("MEM601").finding("a bit changed", where=where, evidence=more)


def store(run: Path, **more: object) -> IncidentStore:
    values = {
        "rank": 0, "attempt": 0, "log": "rank-00000.attempt-000.log",
        "max_bytes": 10_000_000, "max_incidents": 32, "clock": lambda: 5.5,
    }  # fmt: skip
    return IncidentStore(run, **{**values, **more})


def states() -> RngStates:
    version, words, gauss = random.getstate()
    numpy_state = np.random.get_state(legacy=False)
    return RngStates(
        arrays={
            "python": np.array(words, np.uint32),
            "numpy": numpy_state["state"]["key"].astype(np.uint32),
            "torch": torch.get_rng_state().numpy().copy(),
        },
        facts={
            "python": {"version": version, "gauss": gauss},
            "numpy": {
                "pos": int(numpy_state["state"]["pos"]),
                "has_gauss": int(numpy_state["has_gauss"]),
                "gauss": float(numpy_state["gauss"]),
            },
        },
        missing={"cuda:0": "not initialised"},
    )


@pytest.fixture
def scene() -> Scene:
    generator = torch.Generator().manual_seed(3)
    tensors = [
        saved(str(dtype), torch.randn(3, 5, generator=generator).to(dtype)) for dtype in DTYPES
    ]
    right = torch.arange(4.0)
    tensors.append(saved("healed", right + 1, right=bytes_of(right)))
    tensors.append(saved("empty", torch.empty(0, 3)))
    tensors.append(
        SavedTensor(
            name="cut", dtype="float32", shape=(1000, 1000), first=500_000,
            found=bytes_of(right), note="4 of 1,000,000 elements",
        )
    )  # fmt: skip
    return Scene(
        step=7,
        findings=(finding(value=math.nan), finding(step=8)),
        tensors=tuple(tensors),
        rng=states(),
        losses=((5, 0.25), (6, math.inf), (6, math.nan)),
        batch=(saved("0", torch.arange(6).reshape(2, 3)),),
        notes=("a note",),
    )


def test_what_was_kept_is_read_back_bit_for_bit(tmp_path, scene):
    place = store(tmp_path).keep(scene)
    assert place == tmp_path / "incidents" / "7-MEM601-r0"
    read = everybit.load_incident(str(place))
    assert isinstance(read, everybit.Incident)
    assert (read.step, read.rank, read.attempt, read.time_s) == (7, 0, 0, 5.5)
    assert read.log == "rank-00000.attempt-000.log"
    assert [f.id for f in read.findings] == [f.id for f in scene.findings]
    assert read.notes == ("a note",)
    assert read.losses[:2] == ((5, 0.25), (6, math.inf))
    assert math.isnan(read.losses[2][1])
    assert list(read.tensors) == [tensor.name for tensor in scene.tensors]
    for tensor in scene.tensors:
        back = read.tensors[tensor.name]
        assert (back.dtype, back.shape, back.first, back.note) == (
            tensor.dtype, tensor.shape, tensor.first, tensor.note,
        )  # fmt: skip
        assert back.found.tobytes() == tensor.found.tobytes()
        assert bytes_of(read.torch(tensor.name)).tobytes() == tensor.found.tobytes()
    assert read.torch("healed", "right").tolist() == [0, 1, 2, 3]
    assert read.torch("torch.bfloat16").shape == (3, 5)
    assert read.torch("torch.bfloat16").dtype is torch.bfloat16
    assert read.torch("0").tolist() == [[0, 1, 2], [3, 4, 5]]
    assert read.tensors["torch.float32"].array().shape == (3, 5)
    assert read.tensors["torch.bfloat16"].array().shape == (3, 5, 2)
    assert read.tensors["torch.float8_e5m2"].array().shape == (3, 5, 1)
    assert not read.tensors["cut"].whole
    assert read.tensors["cut"].array().tolist() == [0, 1, 2, 3]
    with pytest.raises(KeyError, match="right bytes of cut are not known"):
        read.torch("cut", "right")


def test_random_generators_go_on_as_they_would_have(tmp_path):
    random.seed(1)
    np.random.seed(2)
    torch.manual_seed(3)
    random.gauss(0, 1)
    np.random.normal()
    place = store(tmp_path).keep(Scene(step=0, findings=(finding(),), rng=states()))
    wanted = [random.gauss(0, 1), np.random.normal(), np.random.rand(), torch.rand(2).tolist()]
    read = load_incident(place)
    assert set(read.restore_rng()) == {"python", "numpy", "torch"}
    drawn = [random.gauss(0, 1), np.random.normal(), np.random.rand(), torch.rand(2).tolist()]
    assert drawn == wanted
    assert read.rng.missing == {"cuda:0": "not initialised"}


def test_places_are_private_and_never_taken_twice(tmp_path, scene):
    os.umask(0o022)
    keeper = store(tmp_path, rank=3)
    places = [keeper.keep(scene).name for _ in range(3)]
    assert places == ["7-MEM601-r3", "7-MEM601-r3-2", "7-MEM601-r3-3"]
    folder = tmp_path / "incidents"
    for path in (folder, *folder.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    assert not list(folder.glob(".*"))
    writer = RunWriter.open(tmp_path)
    (folder / "strange").mkdir()
    (folder / "9-MEM601-r0").write_text("a file")
    entries = everybit.open_run(tmp_path).incidents
    assert [(e.step, e.rule, e.rank, e.number) for e in entries] == [
        (7, "MEM601", 3, 1), (7, "MEM601", 3, 2), (7, "MEM601", 3, 3),
    ]  # fmt: skip
    assert load_incident(entries[2].path).rank == 3
    writer.close()


def test_the_budget_is_the_runs_and_what_does_not_fit_is_said(tmp_path):
    big = saved("big", torch.zeros(200_000))  # 800 kB
    small = saved("small", torch.zeros(10))
    scene = Scene(step=1, findings=(finding(1),), tensors=(big, small), batch=(big,))
    first = store(tmp_path, max_bytes=2_000_000)
    read = load_incident(first.keep(scene))
    assert set(read.tensors) == {"big", "small"}
    assert set(read.batch) == {"big"}
    left = load_incident(store(tmp_path, rank=1, max_bytes=2_000_000).keep(scene))
    assert set(left.tensors) == {"small"}
    assert not left.batch
    assert left.notes == ("big: no room is left for it", "batch: no room is left for it")
    assert first.room() < 400_000
    assert store(tmp_path, max_bytes=1_600_000).keep(scene) is None
    assert store(tmp_path, max_bytes=0).keep(scene) is None
    assert store(tmp_path, max_incidents=2).keep(scene) is None
    assert len(list((tmp_path / "incidents").iterdir())) == 2


def test_the_job_keeps_half_of_what_is_free(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1_000_000))
    big = saved("big", torch.zeros(200_000))  # 800 kB
    small = saved("small", torch.zeros(10))
    scene = Scene(step=1, findings=(finding(1),), tensors=(big, small))
    assert store(tmp_path).room() == 500_000
    assert set(load_incident(store(tmp_path).keep(scene)).tensors) == {"small"}


def test_a_full_disk_leaves_nothing_behind(tmp_path, scene, monkeypatch):
    write, left = os.write, [1]

    def full(fd, data):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data)

    keeper = store(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", lambda *_a, **_k: full(-1, b"") if left[0] < 1 else full(1, b""))
        left[0] = 0
        with pytest.raises(OSError, match="No space left"):
            keeper.keep(scene)
    left[0] = 0
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            keeper.keep(scene)
    assert list((tmp_path / "incidents").iterdir()) == []
    assert keeper.keep(scene) is not None


def test_many_findings_are_folded(tmp_path):
    scene = Scene(step=1, findings=tuple(finding(step) for step in range(100)))
    read = load_incident(store(tmp_path).keep(scene))
    assert len(read.findings) == 64
    assert read.notes == ("36 more findings: in the log",)


@pytest.mark.parametrize("name", [ARRAYS_FILE, INCIDENT_FILE])
def test_every_changed_byte_is_noticed(tmp_path, name):
    small = Scene(step=1, findings=(finding(1),), tensors=(saved("w", torch.arange(3.0)),))
    place = store(tmp_path).keep(small)
    path = place / name
    data = path.read_bytes()
    for at in range(0, len(data), 7):
        path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        with pytest.raises(PathError):
            load_incident(place)
    for size in (0, 1, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        with pytest.raises(PathError):
            load_incident(place)
    path.unlink()
    with pytest.raises(PathError, match="no such file"):
        load_incident(place)


def test_what_is_no_incident_is_one_clear_error(tmp_path):
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(PathError, match="an incident is a folder below `incidents`"):
            load_incident(path)
    (tmp_path / INCIDENT_FILE).write_text("{}")
    with pytest.raises(PathError, match="damaged incident"):
        load_incident(tmp_path)
    (tmp_path / INCIDENT_FILE).write_bytes(encode_run_file({"schema": "everybit.incident/9"}))
    with pytest.raises(PathError, match="a later one"):
        load_incident(tmp_path)
    (tmp_path / INCIDENT_FILE).unlink()
    os.mkfifo(tmp_path / INCIDENT_FILE)  # would block for ever
    with pytest.raises(PathError, match="not a regular file"):
        load_incident(tmp_path)


def _forge(place: Path, change) -> None:
    """Rewrite an incident with valid digests, as a liar would."""
    import xxhash

    info = json.loads((place / INCIDENT_FILE).read_text())
    info.pop("digest")
    change(info)
    data = (place / ARRAYS_FILE).read_bytes()
    if isinstance(info.get("arrays"), dict):
        info["arrays"] = {"bytes": len(data), "xxh3_128": xxhash.xxh3_128_hexdigest(data)}
    (place / INCIDENT_FILE).write_bytes(encode_run_file(info))


@pytest.mark.parametrize(
    "change",
    [
        lambda info: info.pop("rng"),
        lambda info: info.pop("arrays"),
        lambda info: info.update(arrays=3),
        lambda info: info.update(step=-1),
        lambda info: info.update(step="1" * 10_000),
        lambda info: info.update(findings=[{"rule": "X"}]),
        lambda info: info.update(findings=7),
        lambda info: info.update(losses=[[1, "x"]]),
        lambda info: info["tensors"][0].update(dtype="object"),
        lambda info: info["tensors"][0].update(dtype=["x"]),
        lambda info: info["tensors"][0].update(key="../x"),
        lambda info: info["tensors"][0].update(shape=[10**30] * 3000),
        lambda info: info["tensors"][0].update(shape=[2]),
        lambda info: info["tensors"][0].update(first=2),
        lambda info: info.update(tensors={"a": 1}),
        lambda info: info["rng"].update(kept=["gone"]),
        lambda info: info["rng"].update(facts=3),
    ],
)
def test_a_liars_incident_is_one_clear_error(tmp_path, change):
    small = Scene(step=1, findings=(finding(1),), tensors=(saved("w", torch.arange(3.0)),))
    place = store(tmp_path).keep(small)
    _forge(place, lambda _info: None)
    assert load_incident(place).torch("w").tolist() == [0, 1, 2]
    _forge(place, change)
    with pytest.raises(PathError, match="damaged incident"):
        load_incident(place)


def _npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


@pytest.mark.parametrize(
    ("member", "method"),
    [
        (_npy("{'descr': '|u1', 'fortran_order': False, 'shape': (10**15,)}"), zipfile.ZIP_STORED),
        (_npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1000000000000,)}"), 0),
        (_npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"cos\nsystem\n"), 0),
        (_npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", bytes(8)), 0),
        (_npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2)}", bytes(4)), 0),
        (_npy("__import__('os').getpid()"), 0),
        (b"nonsense", 0),
        (_npy("{'descr': '|u1', 'fortran_order': False, 'shape': (12,)}", bytes(12)),
         zipfile.ZIP_DEFLATED),
    ],
)  # fmt: skip
def test_hostile_arrays_are_neither_run_nor_allocated(tmp_path, member, method):
    small = Scene(step=1, findings=(finding(1),), tensors=(saved("w", torch.arange(3.0)),))
    place = store(tmp_path).keep(small)
    with zipfile.ZipFile(place / ARRAYS_FILE, "w", method) as archive:
        archive.writestr("tensor.0.found.npy", member)
    _forge(place, lambda _info: None)
    with pytest.raises(PathError, match="damaged incident"):
        load_incident(place)


def test_a_state_that_is_none_is_told(tmp_path):
    rng = RngStates(arrays={"python": np.zeros(3, np.uint32)}, facts={"python": {"version": 3}})
    place = store(tmp_path).keep(Scene(step=1, findings=(finding(1),), rng=rng))
    before = random.getstate()
    with pytest.raises(PathError, match="the state of python is none"):
        load_incident(place).restore_rng()
    assert random.getstate() == before


def _paths(value, path=()):
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(entries):
        yield from _paths(item, (*path, key)) if isinstance(item, dict | list) else [(*path, key)]


def test_whatever_a_liar_writes_is_read_or_is_one_clear_error(tmp_path):
    small = Scene(
        step=1,
        findings=(finding(1),),
        tensors=(saved("w", torch.arange(3.0)),),
        rng=states(),
        losses=((0, 0.5),),
    )
    place = store(tmp_path).keep(small)
    original = (place / INCIDENT_FILE).read_text()
    clean = json.loads(original)
    clean.pop("digest")
    num_refused = 0
    for path in list(_paths(clean))[1:]:
        for value in (None, True, -1, 10**30, 1e308, "", "a/../b", [], [[]], {}, {"a": [1]}):
            (place / INCIDENT_FILE).write_text(original)

            def change(info, path=path, value=value):
                for key in path[:-1]:
                    info = info[key]
                info[path[-1]] = value

            _forge(place, change)
            try:
                incident = load_incident(place)
                incident.rng.missing.keys()
                for tensor in incident.tensors.values():
                    tensor.array()
            except PathError:
                num_refused += 1
    assert num_refused > 200
