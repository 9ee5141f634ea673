"""Harmless pickles of all protocols and opcodes, and seeded damage to them."""

from __future__ import annotations

import collections
import datetime
import pickle
import random
import re
import struct
from fractions import Fraction

VALUES = (
    {"a": [1, 2.5, None, True], "b": (1, (2, 3)), "c": {1, 2}},
    [2**31, -(2**63), 2**300, 1e300, "text", "\u00e9\u4e2d", b"bytes" * 60, bytearray(b"x")],
    collections.OrderedDict(a=1, b=[collections.Counter("aab")]),
    [datetime.datetime(2026, 1, 2), Fraction(1, 3), complex(1, 2), range(3), frozenset({4})],
    [[], {}, (), {"k": {}}, [[1], [2]], ("a", "b", "c", "d")],
)

WRITTEN = (
    b"(I1\nI01\nI00\nI0x10\nI010\nL5L\nL-7\nF1.5\nFinf\nF-1e3\nt.",
    b"(S'a\\x00b'\nS\"q\"\nVtext\\u4e2d\nU\x03abcT\x02\x00\x00\x00xyl.",
    b"(dp0\nS'k'\np1\n(lp2\nI1\naI2\nasg1\n(I3\nI4\ntp3\ns.",
    b"(iharmless\nKlass\np0\n(dp1\nS'x'\nI1\nsb.",
    b"(charmless\nKlass\nI1\nI2\noq\x00}q\x01U\x01aK\x01sb.",
    b"charmless\nfunction\n(K\x01K\x02tR(K\x03K\x04e}K\x05K\x06sb.",
    b"\x80\x02charmless\nKlass\nK\x01\x85\x81q\x00}q\x01(K\x01K\x02ub.",
    b"\x80\x04\x8c\x08harmless\x94\x8c\x05Klass\x94\x93\x94)}\x8c\x01a\x94K\x01s\x92\x94.",
    b"\x80\x04\x8f\x94(K\x01K\x02\x90(K\x03\x91\x86.",
    b"\x80\x05\x96\x03\x00\x00\x00\x00\x00\x00\x00abc\x98\x94C\x02hi\x98\x86.",
    b"(K\x01K\x020K\x0322t.",
    b"(K\x01(K\x02K\x031t.",
    b"Pkey\nK\x01Q\x86.",
    b"\x82\x42\x83\x42\x00\x84\x42\x00\x00\x00\x87.",
    b"]K\x01aK\x00K\x05s(K\x00K\x07u.",
    b"charmless\nobject\nK\x01a(K\x02K\x03eK\x01K\x02s(K\x01\x90}b.",
    b"\x80\x02charmless\nfunction\n)R)R)Rq\x05h\x05\x86.",
    b"\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00K\x01K\x02\x86.",
    b"\x8a\x02\xff\x7f\x8b\x03\x00\x00\x00abc\x86G\x3f\xf0\x00\x00\x00\x00\x00\x00J\xff\xff\xff\xffM\xff\xff\x87.",
    b"N(e.", b"K\x05(u.", b"S'a'\n(\x90.",
    b"\x80\x04U\x08harmlessU\x05Klass\x93.",
    b"I5\0junk\n.", b"I99999999999999999999\0junk\n.", b"F1.5\0junk\n.", b"I \n.", b"I\0\n.",
    b"(p0\nlp1_0\ng10\n.", b"]p 7\ng7 \n.", b"I+1\n.", b"I0b1\n.", b"I1_0\n.", b"I-0\n.",
)  # fmt: skip

#: A memo key so large that CPython would reserve gigabytes for it.
_HUGE_MEMO = re.compile(rb"r..(?:[^\0].|.[^\0])|p[ +0_]*[1-9][0-9_]{5,}", re.DOTALL)
_OPCODES = [bytes([code]) for code in b"(0.12FIJKLMNPQRSTUVXabcdehgijlopqrstu})]"] + [
    bytes([code]) for code in range(0x80, 0x99)
]
_PIECES = (
    b"I1\n", b"I0x1f\n", b"I07\n", b"L1L\n", b"F0.5\n", b"S'x'\n", b"Vx\n", b"K\x01", b"\x8c\x01a",
    b"charmless\nKlass\n", b"p1\n", b"g1\n", b"q\x01", b"h\x01", b"\x94", b"(", b"t", b"R", b"\x81",
    b"b", b"}", b"]", b")", b"\x85", b"2", b"0", b"\x95\x02\x00\x00\x00\x00\x00\x00\x00", b"\0",
    b"\x80\x02", b"\x80\x04", b"\x93", b"Px\n", b"Q", b"a", b"e", b"s", b"u", b"\x90", b"\x8f",
    b"\x82\x42", b"(iharmless\nKlass\n", b"o", b"\x98", b"C\x01z", b"I01 \n", b"\n",
)  # fmt: skip


def seeds() -> list[bytes]:
    """All seeds: pickles of both of CPython's picklers, and hand-written ones."""
    found = list(WRITTEN)
    for value in VALUES:
        for protocol in range(6):
            found += [pickle.dumps(value, protocol), pickle._dumps(value, protocol)]
    return found


def mutants(seed: int, count: int) -> list[bytes]:
    """`count` damaged pickles, the same for the same seed."""
    rng = random.Random(seed)
    start = seeds()
    found = []
    while len(found) < count:
        data = bytearray(rng.choice(start))
        for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5))):
            _damage(data, rng, start)
        if not _HUGE_MEMO.search(data):
            found.append(bytes(data))
    return found


def _damage(data: bytearray, rng: random.Random, start: list[bytes]) -> None:
    at = rng.randrange(len(data) + 1)
    kind = rng.randrange(8)
    if kind == 0 and data:
        data[min(at, len(data) - 1)] ^= 1 << rng.randrange(8)
    elif kind == 1:
        data[at:at] = rng.choice(_PIECES)
    elif kind == 2:
        data[at : at + 1] = rng.choice(_OPCODES)
    elif kind == 3:
        del data[at : at + rng.randrange(1, 4)]
    elif kind == 4:
        other = rng.choice(start)
        cut = rng.randrange(len(other) + 1)
        data[at:at] = other[cut : cut + rng.randrange(1, 12)]
    elif kind == 5:
        data[at:at] = b"".join(rng.choices(_PIECES, k=rng.randrange(1, 6)))
    elif kind == 6:
        piece = bytes(data[at : at + rng.randrange(1, 10)])
        where = rng.randrange(len(data) + 1)
        data[where:where] = piece
    else:
        data[at:at] = struct.pack("<I", rng.randrange(300))[: rng.randrange(1, 5)]
