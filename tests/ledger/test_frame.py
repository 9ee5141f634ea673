from __future__ import annotations

import pytest
import xxhash

from everybit.ledger.frame import (
    CHECK_BYTES,
    HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
    OVERHEAD_BYTES,
    Kind,
    check_of,
    decode_header,
    encode_frame,
    is_intact,
)


def frame_of(payload: bytes) -> bytes:
    return encode_frame(
        Kind.OBSERVATION,
        payload,
        flags=0,
        sequence=5,
        log_id=0x0123456789ABCDEF,
        previous=bytes(range(16)),
    )


def test_the_layout_is_frozen() -> None:
    # A change here is a new format version: logs on disk were written with these bytes.
    assert frame_of(b"{}").hex() == (
        "eb4249540d0a1af7"  # sync mark
        "02"  # format
        "06"  # kind
        "0000"  # flags
        "02000000"  # length
        "0500000000000000"  # sequence
        "efcdab8967452301"  # log id
        "000102030405060708090a0b0c0d0e0f"  # checksum of the frame before
        "50b71445c9cbde34"  # header check
        "7b7d"  # payload
        "34571c63a43165e454953cf1389dbd7d"  # frame check
    )


def test_kind_numbers_are_frozen() -> None:
    assert {kind.name: int(kind) for kind in Kind} == {
        "HEADER": 1,
        "NAMES": 2,
        "STEP": 3,
        "TABLES": 4,
        "FINDING": 5,
        "OBSERVATION": 6,
        "COVERAGE": 7,
        "END": 8,
        "SAMPLES": 9,
    }


@pytest.mark.parametrize("payload", [b"", b"{}", bytes(1000)])
def test_what_was_encoded_is_decoded(payload: bytes) -> None:
    frame = frame_of(payload)
    header = decode_header(frame[:HEADER_BYTES])
    assert header is not None
    assert (header.kind, header.flags, header.sequence) == (Kind.OBSERVATION, 0, 5)
    assert header.previous == bytes(range(16))
    assert header.frame_bytes == len(frame) == OVERHEAD_BYTES + len(payload)
    assert is_intact(frame)
    assert check_of(frame) == frame[-CHECK_BYTES:]


def test_no_flipped_bit_of_a_frame_passes() -> None:
    frame = frame_of(b"some payload")
    for bit in range(8 * len(frame)):
        damaged = bytearray(frame)
        damaged[bit // 8] ^= 1 << bit % 8
        assert not is_intact(damaged), bit
        if bit < 8 * HEADER_BYTES:
            assert decode_header(bytes(damaged[:HEADER_BYTES])) is None, bit


def test_a_payload_has_a_greatest_length() -> None:
    with pytest.raises(ValueError, match="at most"):
        frame_of(bytes(MAX_PAYLOAD_BYTES + 1))


def test_a_longer_length_is_not_believed_even_where_the_check_holds() -> None:
    for length, believed in ((MAX_PAYLOAD_BYTES, True), (MAX_PAYLOAD_BYTES + 1, False)):
        fields = frame_of(b"")[:48]
        fields = fields[:12] + length.to_bytes(4, "little") + fields[16:]
        header = decode_header(fields + xxhash.xxh3_64_digest(fields))
        assert (header is not None) is believed
