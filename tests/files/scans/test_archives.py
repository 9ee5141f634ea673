"""Archives: what each reader could take out of them, and what no plain save would write."""

from __future__ import annotations

import io
import os
import pickle
import struct
import tarfile
import zipfile

import pytest

import everybit
from everybit.core.finding import Severity

torch = pytest.importorskip("torch")


class Runs:
    """A payload that is harmless even if it ran."""

    def __reduce__(self):
        return os.getcwd, ()


HOSTILE = pickle.dumps(Runs(), protocol=2)


@pytest.fixture
def members(tmp_path):
    place = tmp_path / "plain.pt"
    torch.save({"weight": torch.arange(6.0)}, place)
    with zipfile.ZipFile(place) as archive:
        return [(info.filename, archive.read(info)) for info in archive.infolist()]


def pack(members, method=zipfile.ZIP_STORED):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return data.getvalue()


def hostile(members):
    return [(name, HOSTILE if name.endswith("data.pkl") else data) for name, data in members]


def scan(tmp_path, data, name="model.pt"):
    place = tmp_path / name
    place.write_bytes(data)
    return everybit.scan(place)


def told(verdict):
    return {(f.rule, f.severity, f.evidence.get("trick")) for f in verdict.findings}


def tricks(verdict):
    return {f.evidence["trick"]: f.severity for f in verdict.findings if f.rule == "PKL203"}


def test_plain_saves_are_clean(tmp_path, members):
    for legacy in (False, True):
        torch.save(
            {"w": torch.ones(2), "n": [1, "a", None]},
            tmp_path / "saved.pt",
            _use_new_zipfile_serialization=not legacy,
        )
        verdict = everybit.scan(tmp_path / "saved.pt")
        assert verdict.ok, verdict
        assert {c.what for c in verdict.coverage.checked} >= {"pickles", "files"}
    assert scan(tmp_path, pack(members)).ok  # a tool that packs a plain archive again
    assert scan(tmp_path, pack(members, zipfile.ZIP_DEFLATED)).ok


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ["plain/data.pkl", "plain/DATA.pkl", "PLAIN/Data.PKL"])
@pytest.mark.parametrize("first", [True, False])
def test_every_duplicate_is_read_whatever_its_case(tmp_path, members, name, first):
    more = [(name, HOSTILE)]
    verdict = scan(tmp_path, pack(more + members if first else members + more))
    assert tricks(verdict)["duplicate members"] is Severity.ERROR
    assert any(f.rule == "PKL201" for f in verdict.findings)


@pytest.mark.parametrize("at", [6, 8])  # in the local header, in the central entry
@pytest.mark.parametrize("bit", [0x01, 0x20, 0x40])
def test_flag_bits_stop_no_reading(tmp_path, members, at, bit):
    data = bytearray(pack(hostile(members)))
    mark = b"PK\x03\x04" if at == 6 else b"PK\x01\x02"
    data[data.find(mark) + at] |= bit
    verdict = scan(tmp_path, bytes(data))
    found = tricks(verdict)
    assert found == {"flag bits": Severity.ERROR} if at == 8 else len(found) == 1
    assert any(f.rule == "PKL201" for f in verdict.findings)


def test_a_checksum_that_does_not_hold_stops_no_reading(tmp_path, members):
    data = bytearray(pack(hostile(members)))
    data[data.find(b"PK\x01\x02") + 16] ^= 0xFF
    verdict = scan(tmp_path, bytes(data))
    assert tricks(verdict) == {"checksum": Severity.WARNING}
    assert any(f.rule == "PKL201" for f in verdict.findings)


def test_another_name_in_the_local_header(tmp_path, members):
    data = bytearray(pack(hostile(members)))
    at = data.find(b"data.pkl")
    data[at : at + 8] = b"note.txt"
    verdict = scan(tmp_path, bytes(data))
    assert tricks(verdict) == {"names that differ": Severity.ERROR}
    assert any(f.rule == "PKL201" for f in verdict.findings)


def test_bytes_before_and_behind(tmp_path, members):
    plain = pack(members)
    assert tricks(scan(tmp_path, plain + b"more")) == {"bytes behind its end": Severity.WARNING}
    assert tricks(scan(tmp_path, b"#!/bin/sh\n" + plain)) == {
        "bytes before its start": Severity.WARNING
    }
    both = scan(tmp_path, HOSTILE + plain)
    assert tricks(both) == {"bytes before its start": Severity.WARNING}
    assert any(f.rule == "PKL201" and f.where.member is None for f in both.findings)
    two = scan(tmp_path, pack(hostile(members)) + plain)
    assert "several archives" in tricks(two)
    assert any(f.rule == "PKL201" for f in two.findings)


def test_a_member_that_the_directory_omits(tmp_path, members):
    plain, extra = pack(members), pack([("extra.pkl", HOSTILE)])
    local = extra[: extra.find(b"PK\x01\x02")]
    directory, end = plain.find(b"PK\x01\x02"), plain.rfind(b"PK\x05\x06")
    moved = struct.pack("<I", directory + len(local))
    data = plain[:directory] + local + plain[directory : end + 16] + moved + plain[end + 20 :]
    verdict = scan(tmp_path, data)
    assert tricks(verdict) == {"bytes between members": Severity.ERROR}
    assert [f.where.member for f in verdict.findings if f.rule == "PKL201"] == [
        "extra.pkl (not in its directory)"
    ]


def test_two_ends_of_directory(tmp_path, members):
    data = io.BytesIO(pack(hostile(members)))
    with zipfile.ZipFile(data, "a") as archive:
        archive.comment = b"PK\x05\x06" + bytes(18)
    verdict = scan(tmp_path, data.getvalue())
    assert "end records that disagree" in tricks(verdict)
    assert any(f.rule == "PKL201" for f in verdict.findings)
    data = io.BytesIO(pack(members))
    with zipfile.ZipFile(data, "a") as archive:
        archive.comment = b"made by a tool"
    assert scan(tmp_path, data.getvalue()).ok


@pytest.mark.parametrize(
    "method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA], ids=str
)
def test_compressed_members_are_read(tmp_path, members, method):
    verdict = scan(tmp_path, pack(hostile(members), method))
    assert any(f.rule == "PKL201" for f in verdict.findings)
    assert ("compression method" in tricks(verdict)) is (method != zipfile.ZIP_DEFLATED)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("../../outside", True),
        ("/etc/passwd", True),
        ("C:\\windows\\x", True),
        ("a\\b", True),
        ("ordner/datei ä.txt", False),
        ("a..b/c", False),
    ],
)
def test_names_that_lead_astray(tmp_path, name, bad):
    found = tricks(scan(tmp_path, pack([(name, b"text")]), "files.zip"))
    assert found == ({"member names": Severity.ERROR} if bad else {})


def test_a_nul_in_a_name(tmp_path):
    data = pack([("config.json.pkl", b"{}")]).replace(b"json.pkl", b"json\0pkl")
    assert tricks(scan(tmp_path, data, "files.zip")) == {"member names": Severity.ERROR}


def test_links(tmp_path):
    info = zipfile.ZipInfo("link")
    info.create_system, info.external_attr = 3, 0o120777 << 16
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(info, "/etc/passwd")
    assert tricks(scan(tmp_path, data.getvalue(), "a.zip")) == {"links": Severity.ERROR}
    for target, severity in (("/etc/passwd", "error"), ("../x", "error"), ("b.txt", "note")):
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as archive:
            entry = tarfile.TarInfo("a.txt")
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            archive.addfile(entry)
        assert tricks(scan(tmp_path, data.getvalue(), "a.tar")) == {"links": Severity(severity)}


def test_a_pickle_in_the_place_of_a_storage(tmp_path, members):
    raw = [(n, HOSTILE if n.endswith("data/0") else d) for n, d in members]
    assert any(f.rule == "PKL201" for f in scan(tmp_path, pack(raw)).findings)
    numbers = [(n, b"\x80\x02c" + bytes(21) if n.endswith("data/0") else d) for n, d in members]
    assert scan(tmp_path, pack(numbers)).ok  # elements that only begin alike


def test_archives_in_archives_and_their_bound(tmp_path):
    data = HOSTILE
    for depth in range(4):
        data = pack([(f"{depth}.bin", data)], zipfile.ZIP_DEFLATED)
    verdict = scan(tmp_path, data, "deep.zip")
    assert [f.where.member for f in verdict.findings] == ["3.bin!2.bin!1.bin!0.bin"]
    for depth in range(8):
        data = pack([(f"{depth}.bin", data)])
    verdict = scan(tmp_path, data, "deep.zip")
    assert "cannot be looked into" in verdict.findings[0].message
    assert verdict.exit_code(Severity.WARNING) == 1


def test_bombs(tmp_path):
    zeros = bytes(64 << 20)
    verdict = scan(tmp_path, pack([("bomb", zeros)], zipfile.ZIP_DEFLATED), "a.zip")
    assert tricks(verdict) == {"bomb": Severity.WARNING}
    bomb = HOSTILE[:-1] + b"0N0" * 3 + zeros
    verdict = scan(tmp_path, pack([("a.pkl", bomb)], zipfile.ZIP_DEFLATED), "a.zip")
    assert any(f.rule == "PKL201" for f in verdict.findings)
    assert any("grows more than" in f.message for f in verdict.findings)
    assert not any(f.rule.startswith("FIL") for f in verdict.findings)


def test_tar_members_are_read(tmp_path, members):
    for mode, name in (("w", "a.tar"), ("w:gz", "a.tgz"), ("w:xz", "a.txz")):
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode=mode) as archive:
            for file, content in (("good.pt", pack(members)), ("bad.pt", pack(hostile(members)))):
                info = tarfile.TarInfo(file)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        (finding,) = scan(tmp_path, data.getvalue(), name).findings[:1]
        assert (finding.rule, "bad.pt!plain/data.pkl" in finding.where.member) == ("PKL201", True)


def test_a_cut_archive_is_damage_and_read_as_far_as_it_goes(tmp_path, members):
    data = pack(hostile(members))
    verdict = scan(tmp_path, data[: data.find(b"PK\x01\x02") + 10])
    assert {f.rule for f in verdict.findings} >= {"FIL104", "PKL201"}


def test_torchscript_is_judged_as_what_it_is(tmp_path):
    class Plain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)

        def forward(self, x):
            return torch.relu(self.layer(x))

    class Writes(torch.nn.Module):
        def forward(self, x: torch.Tensor):
            torch.save(x, "out.pt")
            return x

    torch.jit.script(Plain()).save(str(tmp_path / "plain.pt"))
    torch.jit.script(Writes()).save(str(tmp_path / "writes.pt"))
    plain = everybit.scan(tmp_path / "plain.pt")
    assert {(f.rule, f.severity) for f in plain.findings} <= {("PKL204", Severity.NOTE)}
    (finding,) = everybit.scan(tmp_path / "writes.pt").findings[:1]
    assert (finding.rule, list(finding.evidence["operators"])) == ("PKL201", ["aten::save"])


def test_a_package_runs_its_sources(tmp_path):
    exporter = pytest.importorskip("torch.package").PackageExporter
    place = tmp_path / "package.pt"
    with exporter(str(place)) as archive:
        archive.save_source_string("mine.code", "x = 1\n")
        archive.save_pickle("model", "model.pkl", {"a": 1})
    found = [f for f in everybit.scan(place).findings if f.rule == "PKL205"]
    assert [f.evidence["files"] for f in found] == [["package/mine/code.py"]]


@pytest.mark.parametrize("size", range(4, 22))
def test_an_end_record_that_is_cut(tmp_path, size):
    verdict = scan(tmp_path, b"PK\x05\x06" + bytes(size - 4), "a.zip")
    assert told(verdict) == {("FIL104", Severity.ERROR, None)}


def test_a_flood_of_findings_is_cut_and_said(tmp_path):
    unknown = b"\x80\x02" + b"".join(b"cm%d\nx\n0" % i for i in range(190)) + b"N."
    data = pack([(f"{i}.pkl", unknown) for i in range(14)])
    verdict = scan(tmp_path, data, "a.zip")
    assert 2000 <= len(verdict.findings) < 2200
    assert any("things are told" in item.why for item in verdict.coverage.skipped)


def test_hostile_texts_are_cut(tmp_path):
    data = pack([("../" + "x" * 60_000, b"")])
    (finding,) = scan(tmp_path, data, "a.zip").findings
    assert len(finding.message) <= 600
    assert len(str(finding.evidence)) < 5000
