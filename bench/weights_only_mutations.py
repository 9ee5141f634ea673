"""Seeded changes of a pickle: of its bits, its opcodes, their arguments, and their order."""

from __future__ import annotations

import io
import pickletools
import struct
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from bench.weights_only_shapes import Base

_INTEGERS: Final = (
    0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 31, 63, 64, 127, 128, 255, 256, 1000, 65535, 65536,
    -1, -2, -4, 2**31 - 1, -(2**31), 2**32, 2**62, 2**63 - 1, 2**63, 2**64, -(2**63), 2**100,
)  # fmt: skip
_FLOATS: Final = (0.0, -0.0, 1.0, -1.0, 0.5, 1e300, float("inf"), float("nan"))
_TEXTS: Final = (
    "", "storage", "module", "cpu", "cuda:0", "cuda:99", "meta", "0", "1", "2", "99", "latin1",
    "utf-8", "conj", "neg", "torch.strided", "torch.sparse_csr", "requires_grad", "data", "grad",
    "items", "keys", "é", "a" * 300, "__class__", "_hooks", "x.y",
)  # fmt: skip
_GLOBALS: Final = (
    "collections OrderedDict", "collections Counter", "collections defaultdict", "torch Size",
    "torch device", "torch Tensor", "torch FloatStorage", "torch HalfStorage", "torch ByteStorage",
    "torch LongStorage", "torch BoolStorage", "torch QInt8Storage", "torch DoubleStorage",
    "torch ComplexFloatStorage", "torch QUInt4x2Storage", "torch.storage UntypedStorage",
    "torch.storage TypedStorage", "torch.cuda FloatStorage", "torch float32", "torch bfloat16",
    "torch int64", "torch bits16", "torch uint4", "torch float8_e4m3fn", "torch complex64",
    "torch qint8", "torch FloatTensor", "torch.sparse FloatTensor", "torch.cuda FloatTensor",
    "torch per_tensor_affine", "torch per_channel_affine", "torch per_channel_symmetric",
    "torch per_channel_affine_float_qparams", "torch._utils _rebuild_tensor",
    "torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_tensor_v3",
    "torch._utils _rebuild_parameter", "torch._utils _rebuild_parameter_with_state",
    "torch._utils _rebuild_qtensor", "torch._utils _rebuild_sparse_tensor",
    "torch._utils _rebuild_meta_tensor_no_storage", "torch._utils _rebuild_nested_tensor",
    "torch._utils _rebuild_wrapper_subclass", "torch._utils _rebuild_device_tensor_from_cpu_tensor",
    "torch._tensor _rebuild_from_type_v2", "torch.nn.parameter Parameter",
    "torch.serialization _get_layout", "_codecs encode", "__builtin__ set", "builtins set",
    "__builtin__ bytearray", "builtins complex", "__builtin__ long", "builtins frozenset",
    "argparse Namespace", "os getcwd", "sys path", "UserDict UserDict", "copy_reg _reconstructor",
)  # fmt: skip
#: Opcodes without an argument that torch's unpickler knows, and some that it does not.
_BARE: Final = b"(NR\x81b)]}tsuae\x85\x86\x87\x88\x89\x8fQ.02\x94\x93l"

Slices = list[bytes]


@cache
def cut(pickled: bytes) -> tuple[bytes, ...]:
    """Return a pickle's opcodes, each with its argument."""
    places = [place for _, _, place in pickletools.genops(io.BytesIO(pickled)) if place is not None]
    ends = [*places[1:], len(pickled)]
    return tuple(pickled[a:b] for a, b in zip(places, ends, strict=True))


def mutate(base: Base, others: Sequence[Base], rng: Random) -> bytes:
    """Return the base's pickle after one to three changes."""
    slices = list(cut(base.pickle))
    changes = rng.choice((1, 1, 1, 2, 3))
    for _ in range(changes):
        if len(slices) < 2:
            break
        act = rng.choices(_ACTS, _WEIGHTS)[0]
        act(slices, others, rng)
    pickled = b"".join(slices)
    if rng.random() < 0.15:
        pickled = _flip(pickled, rng)
    return pickled


def _flip(data: bytes, rng: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2))):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _bits(slices: Slices, _: Sequence[Base], rng: Random) -> None:
    at = rng.randrange(len(slices))
    slices[at] = _flip(slices[at], rng)


def _byte(slices: Slices, _: Sequence[Base], rng: Random) -> None:
    at = rng.randrange(len(slices))
    piece = bytearray(slices[at])
    piece[rng.randrange(len(piece))] = rng.randrange(256)
    slices[at] = bytes(piece)


def _drop(slices: Slices, _: Sequence[Base], rng: Random) -> None:
    at = rng.randrange(len(slices))
    del slices[at : at + rng.choice((1, 1, 1, 2, 5))]


def _double(slices: Slices, _: Sequence[Base], rng: Random) -> None:
    at = rng.randrange(len(slices))
    piece = slices[at : at + rng.choice((1, 1, 2, 6, 20))]
    slices[at:at] = piece


def _swap(slices: Slices, _: Sequence[Base], rng: Random) -> None:
    a, b = rng.randrange(len(slices)), rng.randrange(len(slices))
    slices[a], slices[b] = slices[b], slices[a]


def _near_swap(slices: Slices, _: Sequence[Base], rng: Random) -> None:
    at = rng.randrange(len(slices) - 1)
    slices[at], slices[at + 1] = slices[at + 1], slices[at]


def _insert(slices: Slices, _: Sequence[Base], rng: Random) -> None:
    slices.insert(rng.randrange(len(slices)), _any_opcode(rng))


def _replace(slices: Slices, _: Sequence[Base], rng: Random) -> None:
    slices[rng.randrange(len(slices))] = _any_opcode(rng)


def _bare(slices: Slices, _: Sequence[Base], rng: Random) -> None:
    """Put another opcode without an argument in the place of one."""
    places = [at for at, piece in enumerate(slices) if len(piece) == 1]
    if places:
        slices[rng.choice(places)] = bytes((rng.choice(_BARE),))


def _argument(slices: Slices, _: Sequence[Base], rng: Random) -> None:
    """Give an opcode another argument of its kind."""
    places = [at for at, piece in enumerate(slices) if len(piece) > 1]
    if places:
        at = rng.choice(places)
        slices[at] = _other(slices[at], rng)


def _name(slices: Slices, _: Sequence[Base], rng: Random) -> None:
    places = [at for at, piece in enumerate(slices) if piece[:1] == b"c"]
    if places:
        slices[rng.choice(places)] = _global(rng)


def _number(slices: Slices, _: Sequence[Base], rng: Random) -> None:
    places = [at for at, piece in enumerate(slices) if piece[:1] in b"KMJ\x8aG"]
    if places:
        slices[rng.choice(places)] = _plain(rng)


def _splice(slices: Slices, others: Sequence[Base], rng: Random) -> None:
    donor = cut(rng.choice(others).pickle)
    start = rng.randrange(len(donor))
    piece = donor[start : start + rng.choice((1, 2, 4, 8, 20, 60))]
    at = rng.randrange(len(slices))
    slices[at : at + rng.choice((0, 0, 1, len(piece)))] = piece


def _cut_off(slices: Slices, _: Sequence[Base], rng: Random) -> None:
    del slices[rng.randrange(len(slices)) :]
    if rng.random() < 0.7:
        slices.append(b".")


_ACTS: Final[tuple[Callable[[Slices, Sequence[Base], Random], None], ...]] = (
    _bits, _byte, _drop, _double, _swap, _near_swap, _insert, _replace, _bare, _argument, _name,
    _number, _splice, _cut_off,
)  # fmt: skip
_WEIGHTS: Final = (6, 4, 6, 6, 4, 4, 5, 5, 8, 22, 8, 14, 6, 2)


def _any_opcode(rng: Random) -> bytes:
    kind = rng.random()
    if kind < 0.4:
        return bytes((rng.choice(_BARE),))
    if kind < 0.6:
        return _plain(rng)
    if kind < 0.7:
        return _global(rng)
    if kind < 0.8:
        return b"h" + bytes((rng.randrange(40),))
    if kind < 0.9:
        return b"q" + bytes((rng.randrange(40),))
    return _text(rng.choice(_TEXTS))


def _plain(rng: Random) -> bytes:
    kind = rng.random()
    if kind < 0.7:
        return _integer(rng.choice(_INTEGERS))
    if kind < 0.8:
        return b"G" + struct.pack(">d", rng.choice(_FLOATS))
    return rng.choice((b"N", b"\x88", b"\x89", b")", _text(rng.choice(_TEXTS))))


def _integer(value: int) -> bytes:
    if 0 <= value < 256:
        return b"K" + bytes((value,))
    if -(2**31) <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes((len(raw),)) + raw


def _text(value: str) -> bytes:
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def _global(rng: Random) -> bytes:
    module, name = rng.choice(_GLOBALS).split(" ")
    return f"c{module}\n{name}\n".encode()


def _other(piece: bytes, rng: Random) -> bytes:
    code = piece[:1]
    if code in b"KMJ\x8a":
        return _integer(rng.choice(_INTEGERS))
    if code == b"G":
        return b"G" + struct.pack(">d", rng.choice(_FLOATS))
    if code == b"c":
        return _global(rng)
    if code in b"XU":
        return _text(rng.choice(_TEXTS))
    if code in b"hq":
        return code + bytes((rng.randrange(60),))
    return _flip(piece, rng)
