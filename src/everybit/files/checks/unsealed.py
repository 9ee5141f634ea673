"""A file with no seal: everything that its own format allows to be tested."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.core.finding import Finding, Location
from everybit.core.rule import rule
from everybit.core.verdict import Skipped
from everybit.files.damage import Damage, MalformedError
from everybit.files.outcome import Outcome
from everybit.files.passes import no_progress
from everybit.files.reading import describe_not_a_model, read_structure
from everybit.files.sniff import looks_like_model_name
from everybit.files.tensor import FileFormat
from everybit.files.zips.integrity import checksum_records_differ, crc_damage, crc_status
from everybit.files.zips.members import member_crc, unreadable

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.files.source import ByteSource
    from everybit.files.structure import Structure
    from everybit.files.zips.archive import Member

_SMALL_BYTES = 1 << 20


def check_unsealed(
    source: ByteSource,
    name: str,
    *,
    full: bool = True,
    progress: Callable[[int], None] = no_progress,
) -> Outcome:
    """Test one open file by its format alone.

    Args:
        source: The file.
        name: Its path relative to the target, for findings.
        full: Also read the contents against the archive's checksums; else the structure only.
        progress: Is told the bytes read, as they are.
    """
    outcome = Outcome()
    structure = read_structure(source)
    if not structure.format.readable:
        _tell_other_format(structure.format, source, name, outcome)
        return outcome
    damages = [damage for damage in structure.damages if damage.rule != "FIL108"]
    failed, crc_damages = _check_members(source, structure, name, full, outcome, progress)
    if failed:
        # The pickle record is itself damaged, so what it claims is no second damage.
        moot = [damage for damage in damages if damage.from_pickle]
        damages = [damage for damage in damages if not damage.from_pickle]
        if moot:
            first = crc_damages[failed]
            evidence = {**first.evidence, "structure": [d.message for d in moot[:3]]}
            crc_damages[failed] = Damage(
                rule=first.rule, message=first.message, where=first.where, evidence=evidence
            )
    outcome.count("file structures")
    outcome.findings += [damage.finding(name) for damage in (*damages, *crc_damages.values())]
    outcome.skipped += [
        Skipped(what=f"{name}: {item.what}", why=item.why, promised=item.promised)
        for item in structure.skipped
    ]
    if full and not structure.format.checksummed:
        held = f"bytes of {len(structure.tensors)} tensors" if structure.tensors else "its bytes"
        outcome.skipped.append(
            Skipped(
                what=f"{name}: {held}",
                why=f"{structure.format} carries no checksum and the file is not sealed; "
                "`everybit seal` it while it is known to be good, or ask for --level structure",
            )
        )
    return outcome


def _check_members(
    source: ByteSource,
    structure: Structure,
    name: str,
    full: bool,
    outcome: Outcome,
    progress: Callable[[int], None],
) -> tuple[str, dict[str, Damage]]:
    """Return the pickle record's name if its checksum failed, and damages by member."""
    damages: dict[str, Damage] = {}
    failed = ""
    if not structure.members:
        return failed, damages
    if not structure.has_checksums:
        for member in structure.members:
            if member.crc or member.other_crc:
                damages[member.name] = checksum_records_differ(member)
        if full:
            why = "the archive was saved without checksums (all are zero); seal it while it is good"
            outcome.skipped.append(Skipped(what=f"{name}: checksums of its members", why=why))
        return failed, damages
    num_checked = 0
    for member in structure.members:
        if not member.usable:
            continue
        if not full and member.size > _SMALL_BYTES:
            if member.other_crc is not None:
                damages[member.name] = checksum_records_differ(member)
            continue
        problem = unreadable(member)
        if problem:
            outcome.skipped.append(Skipped(what=f"{name}: member {member.name}", why=problem))
            continue
        damage = _check_member(source, structure, member, progress)
        outcome.num_bytes += member.compressed_size
        num_checked += 1
        if damage is not None:
            damages[member.name] = damage
            if member.name.endswith("/data.pkl"):
                failed = member.name
    outcome.count("member checksums", num_checked)
    return failed, damages


def _check_member(
    source: ByteSource, structure: Structure, member: Member, progress: Callable[[int], None]
) -> Damage | None:
    try:
        crc = member_crc(source, member, progress)
    except MalformedError as error:
        return error.damage
    if crc_status(member, crc) is None:
        return None
    return crc_damage(source, structure, member, crc)


def _tell_other_format(kind: FileFormat, source: ByteSource, name: str, outcome: Outcome) -> None:
    what, todo = describe_not_a_model(kind)
    named_so = looks_like_model_name(name)
    if (what and named_so) or kind is FileFormat.LFS_POINTER:
        outcome.count("file structures")
        outcome.findings.append(_not_a_model(what, todo, source, name))
    elif named_so and name.lower().endswith(".safetensors"):
        outcome.count("file structures")
        what = "is no safetensors file" + (f" but {kind}" if kind is not FileFormat.UNKNOWN else "")
        outcome.findings.append(_not_a_model(what, "fetch the real file", source, name))
    else:
        why = f"its format is not read by this release ({kind}) and it is not sealed"
        outcome.skipped.append(Skipped(what=f"{name}: structure and bytes", why=why))


def _not_a_model(what: str, todo: str, source: ByteSource, name: str) -> Finding:
    head = source.read(0, 64)
    return rule("FIL118").finding(
        f"{name} {what}, under a model's name",
        where=Location(path=name, byte_range=(0, min(64, source.size)) if head else None),
        evidence={
            "size_bytes": source.size,
            "first_bytes": head.decode("ascii", "backslashreplace"),
        },
        remedy=f"{todo[:1].upper()}{todo[1:]}." if todo else "",
    )
