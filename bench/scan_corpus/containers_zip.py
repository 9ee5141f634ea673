"""Archive tricks: what the loader reads of a ZIP is not what a scanner reads."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from bench.scan_corpus.archives import Entry, archive, torch_entries, torch_zip
from bench.scan_corpus.assembling import PROTO_2, plain, shell, whole
from bench.scan_corpus.sample import CANARY, RUNS, TRICK, Sample, write_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

_EVIL: Final = whole(shell(), proto=PROTO_2)
_GOOD: Final = plain({"weights": [1.0, 2.0], "epoch": 3})
_PICKLESCAN: Final = "picklescan "


def _changed(**fields: Any) -> bytes:
    """The hostile archive with these fields of its pickle's headers changed."""
    entries = torch_entries(_EVIL)
    entries[0] = replace(entries[0], **fields)
    return archive(entries)


def _twice(first: bytes, second: bytes, name: str = "archive/data.pkl") -> bytes:
    entries = torch_entries(first)
    entries.insert(1, Entry(name=name, data=second))
    return archive(entries)


def _beside(name: str, data: bytes = _EVIL, **fields: Any) -> bytes:
    return archive([*torch_entries(_GOOD), Entry(name=name, data=data, **fields)])


def _nested_zip(depth: int) -> bytes:
    data = _EVIL
    for level in range(depth):
        name = "data.pkl" if level == 0 else f"inner{level}.zip"
        data = archive([Entry(name=name, data=data)])
    return data


def _two_directories() -> bytes:
    """A harmless archive whose comment holds the end of another, hostile one, and the reverse."""
    harmless = archive(torch_entries(_GOOD))
    return torch_zip(_EVIL) + harmless


def _bomb() -> bytes:
    """A deflated member of 512 MiB of zeros, which is half a MiB in the file."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    packed = piece * 512 + packer.flush()
    entry = Entry(
        name="archive/data.pkl", data=packed, told_method=8, local_method=8,
        told_size=512 << 20, local_size=512 << 20, crc=0,
    )  # fmt: skip
    data = bytearray(archive([entry]))
    at = data.rfind(b"PK\x01\x02")
    data[at + 20 : at + 24] = len(packed).to_bytes(4, "little")
    return bytes(data)


# name, kind, source, bytes, loader, expected
_Row = tuple[str, str, str, bytes, str, tuple[str, ...]]


def _rows() -> Iterator[_Row]:
    yield ("plain", "plain torch archive", "pickle documentation", torch_zip(_EVIL), "torch", RUNS)
    yield (
        "local-name-differs",
        "headers disagree",
        _PICKLESCAN + "CVE-2025-1944",
        _changed(local_name="archive/date.pkl"),
        "torch",
        RUNS,
    )
    yield (
        "local-name-shorter",
        "headers disagree",
        _PICKLESCAN + "CVE-2025-1944",
        _changed(local_name="x"),
        "torch",
        RUNS,
    )
    for bit in (0x1, 0x20, 0x40, 0x2000):
        yield (
            f"local-flag-{bit:x}",
            "flag bits",
            _PICKLESCAN + "CVE-2025-1945",
            _changed(local_flags=bit),
            "torch",
            RUNS,
        )
        yield (
            f"central-flag-{bit:x}",
            "flag bits",
            _PICKLESCAN + "CVE-2025-1945",
            _changed(flags=bit),
            "",
            RUNS,
        )
        yield (
            f"both-flag-{bit:x}",
            "flag bits",
            _PICKLESCAN + "CVE-2025-1945",
            _changed(flags=bit, local_flags=bit),
            "",
            RUNS,
        )
    yield ("crc-wrong", "CRC", _PICKLESCAN + "CVE-2025-10156", _changed(crc=1), "torch", RUNS)
    yield ("crc-zero", "CRC", _PICKLESCAN + "CVE-2025-10156", _changed(crc=0), "torch", RUNS)
    yield (
        "local-crc-wrong",
        "CRC",
        _PICKLESCAN + "CVE-2025-10156",
        _changed(local_crc=1),
        "torch",
        RUNS,
    )
    yield (
        "local-method-differs",
        "headers disagree",
        "own",
        _changed(local_method=8),
        "torch",
        RUNS,
    )
    yield (
        "local-method-unknown",
        "headers disagree",
        "own",
        _changed(local_method=99),
        "torch",
        RUNS,
    )
    yield ("central-method-unknown", "headers disagree", "own", _changed(told_method=99), "", TRICK)
    yield ("local-size-differs", "headers disagree", "own", _changed(local_size=3), "torch", RUNS)
    yield (
        "central-size-larger",
        "headers disagree",
        "own",
        _changed(told_size=len(_EVIL) + 40),
        "torch",
        RUNS,
    )
    yield ("version-needed", "headers disagree", "own", _changed(version=255), "torch", RUNS)
    yield (
        "extra-field",
        "headers disagree",
        "own",
        _changed(extra=b"\x99\x99\x04\0abcd"),
        "torch",
        RUNS,
    )
    yield (
        "deflated-pickle",
        "compression",
        "own",
        archive([replace(torch_entries(_EVIL)[0], method=8), *torch_entries(_EVIL)[1:]]),
        "torch",
        RUNS,
    )
    yield ("duplicate-first-hostile", "duplicates", "own", _twice(_EVIL, _GOOD), "torch", RUNS)
    yield ("duplicate-second-hostile", "duplicates", "own", _twice(_GOOD, _EVIL), "", RUNS)
    yield (
        "case-first-hostile",
        "case of names",
        "own",
        _twice(_EVIL, _GOOD, "archive/DATA.PKL"),
        "",
        RUNS,
    )
    yield (
        "case-second-hostile",
        "case of names",
        "own",
        _twice(_GOOD, _EVIL, "archive/Data.pkl"),
        "",
        RUNS,
    )
    entries = torch_entries(_EVIL)
    yield (
        "case-alone",
        "case of names",
        "own",
        archive([replace(entries[0], name="archive/DATA.PKL"), *entries[1:]]),
        "torch",
        RUNS,
    )
    yield ("other-prefix", "duplicates", "own", _beside("other/data.pkl"), "", RUNS)
    yield (
        "renamed-member-txt",
        "member extensions",
        _PICKLESCAN + "CVE-2025-1889",
        _beside("archive/readme.txt"),
        "",
        RUNS,
    )
    yield (
        "renamed-member-config",
        "member extensions",
        _PICKLESCAN + "CVE-2025-1889",
        _beside("archive/config.p"),
        "",
        RUNS,
    )
    yield (
        "renamed-member-none",
        "member extensions",
        _PICKLESCAN + "CVE-2025-1889",
        _beside("archive/weights"),
        "",
        RUNS,
    )
    yield ("member-in-data-folder", "member extensions", "own", _beside("archive/data/9"), "", RUNS)
    yield (
        "hidden-from-directory",
        "hidden members",
        "own",
        _beside("archive/extra.pkl", hidden=True),
        "",
        TRICK,
    )
    yield (
        "overlapping-offset",
        "hidden members",
        "own",
        archive([*torch_entries(_GOOD), Entry(name="archive/b.pkl", data=_EVIL, at=0)]),
        "",
        TRICK,
    )
    yield (
        "bytes-before",
        "bytes around",
        "fickling test_polyglot",
        archive(torch_entries(_EVIL), before=b"#!/bin/sh\nexit\n"),
        "",
        RUNS,
    )
    yield (
        "bytes-behind",
        "bytes around",
        "own",
        archive(torch_entries(_EVIL), after=b"\n" * 64),
        "torch",
        RUNS,
    )
    yield (
        "comment",
        "bytes around",
        "own",
        archive(torch_entries(_EVIL), comment=b"PK\x05\x06" + bytes(18)),
        "",
        TRICK,
    )
    yield ("two-archives", "bytes around", "own", _two_directories(), "", RUNS)
    yield (
        "pickle-in-front",
        "bytes around",
        "fickling test_polyglot",
        _EVIL + torch_zip(_GOOD),
        "torch",
        RUNS,
    )
    yield (
        "zip-behind-legacy",
        "bytes around",
        "fickling test_polyglot",
        _EVIL + archive([Entry(name="readme.txt", data=b"hello")]),
        "torch",
        RUNS,
    )
    for label, name in (
        ("parent", "archive/../../evil.pkl"), ("absolute", "/tmp/everybit-canary.txt"),
        ("backslash", "archive\\..\\evil.txt"), ("drive", "C:/evil.txt"),
    ):  # fmt: skip
        yield (f"path-{label}", "paths", "CWE-22 (Zip Slip)", _beside(name, b"x"), "", ("PKL203",))
    yield ("nul-in-name", "paths", "own", _beside("archive/data.pkl\0.txt"), "", RUNS)
    yield (
        "link",
        "links",
        "CWE-59",
        _beside("archive/link", b"/etc/hostname", attributes=0xA1FF << 16, system=3),
        "",
        ("PKL203",),
    )
    for depth in (2, 5, 40):
        yield (
            f"zip-in-zip-{depth}",
            "archives in archives",
            "modelscan #338",
            _nested_zip(depth),
            "",
            RUNS if depth < 40 else TRICK,
        )
    yield (
        "torch-in-zip",
        "archives in archives",
        "modelscan #338",
        archive([Entry(name="model.pt", data=torch_zip(_EVIL), method=8)]),
        "",
        RUNS,
    )
    yield (
        "mar-with-model",
        "archives in archives",
        "TorchServe .mar",
        archive(
            [
                Entry(name="MAR-INF/MANIFEST.json", data=b"{}"),
                Entry(name="model.pth", data=torch_zip(_EVIL)),
            ]
        ),
        "",
        RUNS,
    )
    yield (
        "members-of-pickles",
        "plain archive of pickles",
        _PICKLESCAN + "malicious1.zip",
        archive([Entry(name="data.pkl", data=_EVIL)]),
        "zip members",
        RUNS,
    )
    yield (
        "member-deflated-txt",
        "member extensions",
        _PICKLESCAN + "malicious1_wrong_ext.zip",
        archive([Entry(name="data.txt", data=_EVIL, method=8)]),
        "zip members",
        RUNS,
    )
    yield ("bomb", "bombs", "own", _bomb(), "", TRICK)


def samples() -> Iterator[Sample]:
    """One file for each trick."""
    for name, kind, source, data, loader, expect in _rows():
        yield Sample(
            name=f"zip-{name}.pt",
            kind=f"ZIP: {kind}",
            source=source,
            write=write_bytes(data),
            expect=expect,
            loader=loader,
            proof=CANARY if loader else "",
            needs="torch" if loader == "torch" else "",
        )
