"""A torch archive, as torch's own reader finds its records in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.files.damage import MalformedError
from everybit.files.weights_only.acceptance import Acceptance, Refusal
from everybit.files.weights_only.reading import read_as_torch
from everybit.files.weights_only.seen import Seen
from everybit.files.zips.archive import Member, read_archive
from everybit.files.zips.members import member_chunks, read_member, unreadable
from everybit.files.zips.records import STORED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.files.source import ByteSource

#: As `torch_zip` bounds it.
MAX_PICKLE_BYTES: Final = 256 * 1024 * 1024
_MAX_RECORD_BYTES: Final = 1024
#: Torch's reader keeps names in a buffer of 512 bytes.
_MAX_NAME_BYTES: Final = 400
#: The versions of the archive that torch 2.6 to 2.13 read.
_VERSIONS: Final = frozenset(str(version).encode() for version in range(1, 11))
_MAX_DIGITS: Final = 6
#: Deflate's level, a data descriptor, a name in UTF-8.
_USUAL_FLAGS: Final = 0x080E
_BYTE_ORDERS: Final = (b"little", b"big")
#: A member with one of these makes an archive one of TorchScript for torch.
_SCRIPT: Final = "constants.pkl"


def read_torch_archive(
    source: ByteSource, seen: Seen | None = None
) -> tuple[str, Acceptance, str | None, bytes]:
    """Return the kind of an archive, what torch does with it, its pickle's member and the pickle.

    The kind is "zip", "torchscript", or "" for an archive that is not torch's.

    Args:
        source: The archive.
        seen: What was read of it already.
    """
    seen = seen or Seen()
    try:
        archive = seen.archive or read_archive(source)
    except MalformedError as error:
        return "zip", _damaged(error.damage.message), None, b""
    names = [member.name for member in archive.members]
    root = f"{names[0].partition('/')[0]}/" if names else ""
    if not any(_is_ours(name) for name in names):
        return "", Acceptance(accepted=False), None, b""
    if archive.damages:
        return "zip", _damaged(archive.damages[0].message), None, b""
    if any(member.flags & ~_USUAL_FLAGS for member in archive.members):
        return "zip", _refused("has a member with odd flags", proved=False), None, b""
    if f"{root}{_SCRIPT}" in names:
        what = "is a TorchScript archive, which holds code; torch never reads it with weights_only"
        return "torchscript", _refused(what), f"{root}{_SCRIPT}", b""
    problem = _odd_names(names, root)
    if problem:
        return "zip", _refused(problem), None, b""
    members = {member.name.removeprefix(root): member for member in archive.members}
    return _read(source, members, seen)


def _read(
    source: ByteSource, members: dict[str, Member], seen: Seen
) -> tuple[str, Acceptance, str | None, bytes]:
    record = members["data.pkl"]
    try:
        data = read_member(source, record, MAX_PICKLE_BYTES)
        refusals = tuple(_odd_records(source, members))
    except MalformedError as error:
        problem = unreadable(record) or record.size > MAX_PICKLE_BYTES
        made = _damaged(error.damage.message).marked(damaged=not problem)
        return "zip", made, record.name, b""
    asked: set[str] = set()

    def size_of(key: str) -> int | None:
        asked.add(key)
        member = members.get(f"data/{key}")
        return member.size if member is not None else None

    seen.whole = seen.at(record.start, len(data)) if record.method == STORED else None
    acceptance = read_as_torch(data, storages=size_of, known=seen.whole)
    problem = _odd_storage(source, [members[f"data/{key}"] for key in sorted(asked)
                                    if f"data/{key}" in members])  # fmt: skip
    if problem:
        refusals = (*refusals, Refusal(reason=problem, proved=False))
    if refusals:
        acceptance = acceptance.refused((*acceptance.refusals, *refusals))
    return "zip", acceptance, record.name, data


def _is_ours(name: str) -> bool:
    """Return whether a member makes an archive one of torch's, which knows no case of letters."""
    return name.partition("/")[2].casefold() in ("data.pkl", _SCRIPT)


def _odd_names(names: list[str], root: str) -> str:
    """Return why torch does not find its records by these names, or ""."""
    if root == "/" or "/" not in names[0]:
        return "has a first member that is in no folder, by which torch looks for the others"
    for name in names:
        if not name.startswith(root):
            return f"has member {name[:80]} outside the folder {root} of its first member"
        if not name.isascii() or len(name) > _MAX_NAME_BYTES or not name.isprintable():
            return "has a member with a name that torch may not find"
    if f"{root}data.pkl" not in names:
        return f"has no {root}data.pkl"
    if f"{root}version" not in names and f"{root}.data/version" not in names:
        return "has no record of its version"
    return ""


def _odd_records(source: ByteSource, members: dict[str, Member]) -> Iterator[Refusal]:
    """Yield what is wrong with the small records that torch reads beside the pickle."""
    version = ".data/version" if ".data/version" in members else "version"
    record = read_member(source, members[version], _MAX_RECORD_BYTES)
    if record.removesuffix(b"\n") not in _VERSIONS:
        yield Refusal(reason=f"has a {version} record that torch does not read")
    order = members.get("byteorder")
    if order and read_member(source, order, _MAX_RECORD_BYTES) not in _BYTE_ORDERS:
        yield Refusal(reason="has a byteorder record that says neither little nor big")
    alignment = members.get(".storage_alignment")
    if alignment and not _is_number(read_member(source, alignment, _MAX_RECORD_BYTES)):
        yield Refusal(reason="has a .storage_alignment record that is no number")
    identity = members.get(".data/serialization_id")
    if identity and not _is_text(read_member(source, identity, _MAX_RECORD_BYTES)):
        yield Refusal(reason="has a .data/serialization_id record that is no text")
    if ".format_version" in members:
        read_member(source, members[".format_version"], _MAX_RECORD_BYTES)


def _is_number(data: bytes) -> bool:
    return data.isdigit() and len(data) <= _MAX_DIGITS


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _odd_storage(source: ByteSource, records: list[Member]) -> str:
    """Return why a storage's record may not be read, or ""."""
    for record in records:
        if unreadable(record):
            return f"has member {record.name}, of which {unreadable(record)}"
        if record.method != STORED:
            try:
                for _ in member_chunks(source, record):
                    pass
            except MalformedError as error:
                return error.damage.message
    return ""


def _refused(reason: str, *, proved: bool = True) -> Acceptance:
    return Acceptance(accepted=False, refusals=(Refusal(reason=reason, proved=proved),))


def _damaged(message: str) -> Acceptance:
    return _refused(message, proved=False).marked(damaged=True)
