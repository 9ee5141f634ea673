"""CRC-32 as algebra: joining checksums, and finding what damage explains a difference.

A CRC-32 is the remainder of the message, as a polynomial over GF(2), modulo P. The XOR of two CRCs
of equally long messages depends only on where the messages differ. One flipped bit, d bits before
the end, gives x^(d + 32) mod P, so its place is a discrete logarithm. P is primitive and the order
of x, 2^32 - 1 = 3 * 5 * 17 * 257 * 65537, is smooth: Pohlig and Hellman's method finds the place in
about a millisecond whatever the length of the message. A burst within 32 bits is, for each place
that it could have, one known pattern; a second digest then tells which.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_POLYNOMIAL: Final = 0xEDB88320  # reflected: bit 31 is x^0
_ONE: Final = 1 << 31
_X: Final = 1 << 30
_ORDER: Final = (1 << 32) - 1
_PRIMES: Final = (3, 5, 17, 257, 65537)
_STEP: Final = 257  # baby steps for the largest prime

#: Damage of up to this many bytes is found by `bursts`.
BURST_BYTES: Final = 4


def _multiply(a: int, b: int) -> int:
    product = 0
    mask = _ONE
    while a:
        if a & mask:
            product ^= b
            a ^= mask
        mask >>= 1
        b = (b >> 1) ^ _POLYNOMIAL if b & 1 else b >> 1
    return product


def _power(base: int, exponent: int) -> int:
    result = _ONE
    while exponent:
        if exponent & 1:
            result = _multiply(result, base)
        base = _multiply(base, base)
        exponent >>= 1
    return result


@cache
def _x_power(exponent: int) -> int:
    return _power(_X, exponent % _ORDER)


def join(crc_first: int, crc_second: int, num_bytes_second: int) -> int:
    """Return the CRC-32 of two messages one after the other, from their CRCs.

    >>> import zlib
    >>> join(zlib.crc32(b"ab"), zlib.crc32(b"c"), 1) == zlib.crc32(b"abc")
    True
    """
    return _multiply(_x_power(8 * num_bytes_second), crc_first) ^ crc_second


def flipped_bit(syndrome: int, num_bytes: int) -> tuple[int, int] | None:
    """Return the one bit whose flip explains a CRC difference.

    Args:
        syndrome: XOR of the CRC-32 that should be and the one computed.
        num_bytes: Length of the message.

    Returns:
        `(byte, bit)`, the bit counted from the least significant, or None where no single flip
        gives this difference. Messages of 512 MiB and more have several such bits; None too.

    >>> import zlib
    >>> flipped_bit(zlib.crc32(b"everybit") ^ zlib.crc32(b"everyBit"), 8)
    (5, 5)
    """
    if not 0 < syndrome <= _ORDER or 8 * num_bytes >= _ORDER:
        return None
    distance = (_logarithm(syndrome) - 32) % _ORDER
    if distance >= 8 * num_bytes:
        return None
    return num_bytes - 1 - distance // 8, 7 - distance % 8


def flipped_bits(syndrome: int, num_bytes: int) -> list[tuple[int, int]]:
    """Return every bit whose flip alone explains a CRC difference.

    There is one at most below 512 MiB, and one more for each further 512 MiB.

    Args:
        syndrome: XOR of the CRC-32 that should be and the one computed.
        num_bytes: Length of the message.

    Returns:
        `(byte, bit)` from the end of the message to its start.
    """
    if not 0 < syndrome <= _ORDER:
        return []
    first = (_logarithm(syndrome) - 32) % _ORDER
    distances = range(first, 8 * num_bytes, _ORDER)
    return [(num_bytes - 1 - distance // 8, 7 - distance % 8) for distance in distances]


def bursts(syndrome: int, num_bytes: int, *, step: int = BURST_BYTES) -> Iterator[tuple[int, int]]:
    """Yield every window of four bytes and the only XOR mask there that explains the syndrome.

    Args:
        syndrome: XOR of the CRC-32 that should be and the one computed.
        num_bytes: Length of the message, at least four.
        step: Distance of the windows, 4 for aligned words or 1 for all.

    Yields:
        `(offset, mask)` from the last window back to the first, the mask little-endian.
    """
    last = num_bytes - BURST_BYTES
    first_offset = last - last % step
    pattern = _multiply(syndrome, _x_power(-32 - 8 * (last - first_offset)))
    back = _multiplication(-8 * step)
    for offset in range(first_offset, -1, -step):
        yield offset, pattern
        pattern = _apply(back, pattern)


def _apply(tables: tuple[list[int], ...], element: int) -> int:
    return (
        tables[0][element & 255]
        ^ tables[1][element >> 8 & 255]
        ^ tables[2][element >> 16 & 255]
        ^ tables[3][element >> 24]
    )


def _tabulate(linear: Callable[[int], int]) -> tuple[list[int], ...]:
    """Return a linear map of 32 bits as four tables of a byte each."""
    return tuple([linear(byte << 8 * place) for byte in range(256)] for place in range(4))


@cache
def _multiplication(exponent: int) -> tuple[list[int], ...]:
    factor = _x_power(exponent)
    return _tabulate(lambda element: _multiply(element, factor))


@cache
def _squaring() -> tuple[list[int], ...]:
    return _tabulate(lambda element: _multiply(element, element))


@cache
def _baby_steps(prime: int) -> dict[int, int]:
    generator = _x_power(_ORDER // prime)
    element, steps = _ONE, {}
    for exponent in range(min(prime, _STEP)):
        steps[element] = exponent
        element = _multiply(element, generator)
    return steps


def _logarithm(element: int) -> int:
    """Return k with x^k = element, by Pohlig and Hellman (IEEE Trans. Inf. Theory 24, 1978)."""
    squares = [element]
    for _ in range(31):
        squares.append(_apply(_squaring(), squares[-1]))
    result = 0
    for prime in _PRIMES:
        cofactor = _ORDER // prime
        image = _ONE
        for place, square in enumerate(squares):
            if cofactor >> place & 1:
                image = _multiply(image, square)
        steps = _baby_steps(prime)
        giant = 0
        while image not in steps:
            image = _apply(_multiplication(-cofactor * _STEP), image)
            giant += _STEP
        result += (giant + steps[image]) % prime * cofactor * pow(cofactor, -1, prime)
    return result % _ORDER
