"""The arithmetic of parity: XOR with numpy, Reed-Solomon with ISA-L through pyeclib."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from everybit.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: liberasurecode puts this many bytes before each fragment; they do not depend on the data.
_HEAD_BYTES: Final = 80
#: Every byte is coded by itself; pieces that stay in the cache are four times as fast.
_PIECE_BYTES: Final = 32 * 1024
_BACKEND: Final = "isa_l_rs_cauchy"


def xor_into(target: Any, start: int, data: Any) -> None:
    """XOR a buffer into `target` (a uint8 array) from `start` on.

    Whole words where both sides allow it, which is at memory speed.
    """
    import numpy as np

    view = target[start : start + len(data)]
    array = np.frombuffer(data, np.uint8)
    words = len(array) // 8 * 8
    if words and not start % 8:
        wide = view[:words].view(np.uint64)
        np.bitwise_xor(wide, array[:words].view(np.uint64), out=wide)
    else:
        words = 0
    rest = view[words:]
    np.bitwise_xor(rest, array[words:], out=rest)


def xor_restore(blocks: list[bytes], num_bytes: int) -> bytes:
    """Return the one block that is missing: the XOR of the others."""
    import numpy as np

    total = np.zeros(num_bytes, np.uint8)
    for block in blocks:
        xor_into(total, 0, block)
    return total.tobytes()


def check_reed_solomon() -> None:
    """Raise `UsageError` where Reed-Solomon cannot be computed here."""
    try:
        import pyeclib.ec_iface as ec
    except (ImportError, OSError) as error:
        raise UsageError(
            "Reed-Solomon parity needs pyeclib, which is not installed",
            todo="pip install 'everybit[parity]'",
        ) from error
    if _BACKEND not in ec.VALID_EC_TYPES:
        raise UsageError(
            "Reed-Solomon parity needs ISA-L, which this pyeclib does not have",
            todo="pip install 'everybit[parity]' from a wheel",
        )


@cache
def _driver(num_data: int, num_parity: int) -> Any:
    check_reed_solomon()
    from pyeclib.ec_iface import ECDriver

    return ECDriver(k=num_data, m=num_parity, ec_type=_BACKEND)


@cache
def _heads(num_data: int, num_parity: int, num_bytes: int) -> tuple[bytes, ...]:
    fragments = _driver(num_data, num_parity).encode(bytes(num_data * num_bytes))
    return tuple(fragment[:_HEAD_BYTES] for fragment in fragments)


def rs_encode(data: bytes | bytearray, num_data: int, num_parity: int) -> list[bytes]:
    """Return the parity blocks of `num_data` equally long blocks, one after the other in `data`.

    Raises:
        UsageError: pyeclib or ISA-L is not there.
    """
    driver, view = _driver(num_data, num_parity), memoryview(data)
    width = len(data) // num_data
    blocks: list[list[memoryview]] = [[] for _ in range(num_parity)]
    for at in range(0, width, _PIECE_BYTES):
        end = min(at + _PIECE_BYTES, width)
        piece = b"".join(view[row * width + at : row * width + end] for row in range(num_data))
        for row, fragment in enumerate(driver.encode(piece)[num_data:]):
            blocks[row].append(memoryview(fragment)[_HEAD_BYTES:])
    return [b"".join(pieces) for pieces in blocks]


def rs_restore(
    blocks: Mapping[int, bytes], wanted: list[int], num_data: int, num_parity: int
) -> dict[int, bytes]:
    """Return lost data blocks of a stripe from any `num_data` others.

    Args:
        blocks: `{place in the stripe: block}`, parity counted after data.
        wanted: Places of data blocks that are lost.
        num_data: Data blocks a stripe.
        num_parity: Parity blocks a stripe.
    """
    there = dict(sorted(blocks.items())[:num_data])
    num_bytes = len(next(iter(there.values())))
    heads = _heads(num_data, num_parity, num_bytes)
    fragments = [heads[place] + block for place, block in there.items()]
    found = _driver(num_data, num_parity).reconstruct(fragments, wanted)
    return {
        place: bytes(memoryview(block)[_HEAD_BYTES:])
        for place, block in zip(wanted, found, strict=True)
    }
