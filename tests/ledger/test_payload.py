from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest

from everybit.ledger.frame import MAX_PAYLOAD_BYTES, ZLIB
from everybit.ledger.payload import PayloadError, decode_json, encode_json


def round_trip(value: dict[str, object]) -> dict[str, object]:
    return decode_json(*encode_json(value))


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"a": [1, 2.5, None, True, "ü"], "b": {"c": "\udc80 from surrogateescape"}},
        {"long": "x" * 10_000},
        {"big": 2**80},
    ],
)
def test_json_is_read_back_equal(value: dict[str, object]) -> None:
    assert round_trip(value) == value


def test_long_texts_are_compressed() -> None:
    payload, flags = encode_json({"long": "x" * 10_000})
    assert flags == ZLIB
    assert len(payload) < 200
    assert encode_json({"a": 1}) == (b'{"a":1}', 0)


def test_what_json_cannot_hold_becomes_text() -> None:
    assert round_trip(
        {"nan": float("nan"), "at": [float("-inf")], "path": Path("a/b"), "t": (1,)}
    ) == {
        "nan": "NaN",
        "at": ["-Infinity"],
        "path": "a/b",
        "t": [1],
    }
    assert round_trip({"k": {(1, 2): 3}}) == {"k": {"(1, 2)": 3}}


def test_a_value_that_holds_itself_is_recorded_somehow() -> None:
    value: dict[str, object] = {"n": 1}
    value["self"] = value
    assert round_trip(value)["n"] == 1


def test_the_payload_is_strict_json() -> None:
    payload, _ = encode_json({"nan": float("nan")})

    def refuse(token: str) -> None:
        raise AssertionError(token)

    json.loads(payload, parse_constant=refuse)


@pytest.mark.parametrize(
    ("payload", "flags"),
    [
        (b"", 0),
        (b"[1]", 0),
        (b"{", 0),
        (b"\xff\xfe\x00", 0),
        (b"[" * 100_000, 0),
        (b'{"a":' + b"9" * 10_000 + b"}", 0),
        (b"not zlib", ZLIB),
        (zlib.compress(b"{}")[:-1], ZLIB),
        (zlib.compress(b"{}") + b"more", ZLIB),
        (b"{}", 2),
    ],
)
def test_what_is_no_object_raises_one_error(payload: bytes, flags: int) -> None:
    with pytest.raises(PayloadError):
        decode_json(payload, flags)


def test_a_bomb_is_not_unpacked() -> None:
    bomb = zlib.compress(bytes(MAX_PAYLOAD_BYTES + 1), 1)
    with pytest.raises(PayloadError, match="unpack"):
        decode_json(bomb, ZLIB)
