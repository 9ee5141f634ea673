"""From a tensor as its pickle describes it to its place in the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from everybit.core.finding import Location
from everybit.files.damage import Damage
from everybit.files.geometry import STORED_ITEMSIZE, extent, normal_stride, shape_problem
from everybit.files.tensor import FileTensor
from everybit.files.zips.records import STORED

if TYPE_CHECKING:
    from everybit.files.pickles.torch_values import TensorSpec
    from everybit.files.zips.archive import Member


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Where the bytes of a storage, or of a pickle, lie in the file.

    Attributes:
        label: What messages call it.
        member: Archive member that it is; None where the file is no archive.
        start: First byte in the file.
        end: Last byte, excluded.
        size: Bytes of content; `end - start` unless it is compressed.
        compressed: The bytes in the file are not the content.
        unplaced: Its place in the file cannot be trusted.
    """

    label: str
    member: str | None = None
    start: int
    end: int
    size: int
    compressed: bool = False
    unplaced: bool = False


def hold_member(member: Member, base: int = 0) -> Held:
    """Return where a member's bytes lie; `base` is where its archive begins in the file."""
    return Held(
        label=f"member {member.name}",
        member=member.name,
        start=member.start + base,
        end=member.end + base,
        size=member.size,
        compressed=member.method != STORED,
        unplaced=not member.usable,
    )


def place_tensor(
    spec: TensorSpec, held: Held | None, record: Held, *, big_endian: bool = False
) -> FileTensor | Damage | str:
    """Return the tensor in its place, or what is wrong with it, or why it is not read.

    Args:
        spec: The description.
        held: Its storage; None where the file has none of that key.
        record: The pickle that describes it.
        big_endian: Elements are stored big-endian.
    """
    if spec.problem:
        return spec.problem
    problem = shape_problem(spec.shape)
    if not problem and len(spec.shape) != len(spec.stride):
        problem = f"{len(spec.shape)} sizes and {len(spec.stride)} strides"
    if not problem and (spec.offset < 0 or any(step < 0 for step in spec.stride)):
        problem = "a negative offset or stride"
    if problem:
        return _impossible(spec, problem, record)
    stride = normal_stride(spec.shape, spec.stride)
    if spec.storage is None:
        return _inline(spec, record, stride)
    if held is None:
        if spec.storage.location == "meta" or not spec.storage.num_bytes:
            return FileTensor(
                name=spec.name, dtype=spec.dtype, shape=spec.shape, stride=stride,
                byte_ranges=(), start=record.start, member=record.member,
                unreadable="" if 0 in spec.shape else "it has no bytes",
            )  # fmt: skip
        return _impossible(spec, f"its storage {spec.storage.key} is not in the file", record)
    size = STORED_ITEMSIZE[spec.dtype]
    needed = (spec.offset + extent(spec.shape, stride)) * size if 0 not in spec.shape else 0
    if held.size != spec.storage.num_bytes:
        return _impossible(
            spec,
            f"{held.label} has {held.size} bytes, its storage {spec.storage.num_bytes}",
            held,
        )
    if needed > held.size:
        return _impossible(spec, f"it ends at byte {needed} of a storage of {held.size}", held)
    begin = held.start if held.compressed else held.start + spec.offset * size
    end = held.end if held.compressed else held.start + needed
    unreadable = "its member is compressed" if held.compressed else ""
    if held.unplaced:
        unreadable = "its place in the file is not certain"
        begin = end = 0
    return FileTensor(
        name=spec.name,
        dtype=spec.dtype,
        shape=spec.shape,
        stride=stride,
        byte_ranges=((begin, end),) if needed and end > begin else (),
        start=begin,
        member=held.member,
        big_endian=big_endian,
        conjugate=spec.conjugate,
        negative=spec.negative,
        unreadable=unreadable if needed else "",
    )


def _inline(spec: TensorSpec, record: Held, stride: tuple[int, ...]) -> FileTensor | Damage:
    if spec.inline is None:
        return _impossible(spec, "it has neither storage nor bytes", record)
    data, start, end = spec.inline
    in_place = start >= 0 and not record.compressed
    place = (record.start + start, record.start + end) if in_place else (record.start, record.end)
    return FileTensor(
        name=spec.name,
        dtype=spec.dtype,
        shape=spec.shape,
        stride=stride,
        byte_ranges=(place,) if data else (),
        start=place[0],
        member=record.member,
        inline=None if in_place else data,
    )


def _impossible(spec: TensorSpec, problem: str, held: Held) -> Damage:
    return Damage(
        rule="FIL107",
        message=f"tensor {spec.name}: {problem}",
        where=Location(member=held.member, tensor=spec.name, byte_range=(held.start, held.end)),
        from_pickle=True,
    )
