"""Pickles as files and members hold them: bare, legacy torch, joblib's with arrays in between."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Severity
from everybit.files.damage import MalformedError, TooLargeError
from everybit.files.pickles.stream import read_first, read_pickle_at, read_pickles
from everybit.files.scans.content import Content, Kind
from everybit.files.scans.held import Held
from everybit.files.scans.names import promises_no_code
from everybit.files.scans.pickle_start import begins_pickle
from everybit.files.scans.pickled import judge_pickles
from everybit.files.scans.walk import MAX_TOLD
from everybit.files.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from everybit.core.finding import Finding
    from everybit.files.pickles.nested import Nested
    from everybit.files.pickles.stream import Stream
    from everybit.files.scans.following import Followed
    from everybit.files.scans.walk import Walk
    from everybit.files.source import ByteSource

#: A pickle of up to this many bytes is read whole; of a longer one large strings are left out.
WHOLE_BYTES: Final = 64 * 1024 * 1024
#: What marks a pickle that joblib may have interrupted.
WRAPPER: Final = b"NumpyArrayWrapper"
_PEEK_BYTES: Final = 64
_MAX_PEEKED: Final = 1000
_LEGACY_PICKLES: Final = ("magic number", "protocol", "record of the machine", "object", "keys")


def look_into_pickle(content: Content, walk: Walk) -> None:
    """Judge the pickle that a content is, and what stands in and behind it."""
    walk.outcome.count("pickles")
    if content.depth == 0 and promises_no_code(content.name):
        walk.warn(
            content,
            "is a pickle under the name of a format that runs no code",
            remedy="Load it by what it is, or not at all; ask its author why it is named so.",
        )
    if content.kind is Kind.TORCH_LEGACY:
        _look_into_legacy(content, walk)
        return
    if content.source.size <= WHOLE_BYTES:
        data = content.source.read(0, content.source.size)
        if WRAPPER not in data:
            end = judge(content, walk, data, stream=content.stream)
            _look_behind(content, walk, end)
            return
    from everybit.files.scans.following import follow_pickle

    at = 0
    while True:
        found = follow_pickle(content.source, at)
        _judge_followed(content, walk, found)
        if found.error is not None or found.end <= at:
            return
        at = found.end
        if not begins_pickle(content.source.read(at, 1024)):
            _look_behind(content, walk, at)
            return


def judge(
    content: Content,
    walk: Walk,
    data: bytes,
    *,
    start: int = 0,
    place: Callable[[int], int] | None = None,
    strings: Mapping[int, tuple[int, int]] | None = None,
    stream: Stream | None = None,
) -> int:
    """Judge the pickles in some bytes of a content; return the offset after the last one.

    Args:
        content: What they stand in.
        walk: Takes the findings.
        data: The pickles, one after the other.
        start: Where they begin in the content.
        place: Where each byte of `data` stands in the content, if not one after the other.
        strings: `[start, end)` in the content of large strings that `data` leaves out, by the
            offset at which each of them would stand in it.
        stream: What `read_pickles` gives for `data`, where it was read already.
    """
    strings = strings or {}
    outcome = judge_pickles(
        data,
        path=content.path,
        member=content.member,
        start=-1 if content.start is None else content.start + start,
        left_out=strings,
        stream=stream,
    )
    if place is None and content.start is not None:
        walk.seen.add(outcome.pickles, content.start + start)
    told = walk.outcome.findings
    for finding in outcome.findings:
        if len(told) >= MAX_TOLD and walk.full(content):
            break
        if content.compiled and _is_of_torchscript(finding):
            continue
        if content.partial and finding.rule.startswith("FIL"):
            continue
        moved = finding if place is None else _moved(content, finding, place, start)
        told.append(moved)
    walk.outcome.skipped += outcome.skipped
    for nested in outcome.nested:
        _look_into_nested(content, walk, nested, start, place, strings.get(nested.position))
    return start + outcome.end


def _look_into_nested(
    content: Content,
    walk: Walk,
    nested: Nested,
    start: int,
    place: Callable[[int], int] | None,
    span: tuple[int, int] | None,
) -> None:
    """Look into bytes that a pickle gives to a call, as the file that they may be."""
    at = nested.position
    where = start + at if place is None or at < 0 else place(at)
    source: ByteSource = Held(content.source.path, [nested.data])
    if span is not None:
        source = Window(content.source, *span)
    head = source.read(0, 1024)
    whole = source.size <= len(head)
    if nested.loaded or begins_pickle(head, whole=whole) or not _is_plain(head):
        child = Content(
            source=source,
            path=content.path,
            member=content.inside(f"bytes at {where}"),
            start=None,
            depth=content.depth + 1,
            by_law=nested.loaded,
            partial=not nested.loaded,  # what nobody need load is not damaged
        )
        walk.look(child, walk)


def _is_plain(data: bytes) -> bool:
    """Return whether bytes inside a pickle begin as no container does."""
    return data[:4] not in (b"PK\x03\x04", b"\x93NUM") and data[:2] not in (b"\x1f\x8b", b"BZ")


def _is_of_torchscript(finding: Finding) -> bool:
    """Return whether a name is of a class that the archive brings, which torch itself compiles."""
    name = str(finding.evidence.get("name", ""))
    return finding.rule == "PKL202" and name.startswith("__torch__.")


def _moved(content: Content, finding: Finding, place: Callable[[int], int], start: int) -> Finding:
    """Return a finding with its place in the file, where what was judged is put together."""
    span = finding.where.byte_range
    if span is None or content.start is None:
        return finding
    base = content.start + start
    first = content.start + place(span[0] - base)
    moved = replace(finding.where, byte_range=(first, first + span[1] - span[0]))
    return replace(finding, where=moved)


def _judge_followed(content: Content, walk: Walk, found: Followed) -> None:
    if found.too_long or isinstance(found.error, TooLargeError):
        walk.closed(content, "its pickle is too long to be followed to its end")
        content = content.but(partial=True)
    if found.odd_array:
        walk.tell(
            content,
            "holds an array of joblib's that is described as NumPy writes none, so that what lies "
            "behind it cannot be told from its elements",
            where=content.place(found.end, found.end + 1),
            severity=Severity.ERROR,
            trick="size of an array",
        )
        content = content.but(partial=True)
    judge(content, walk, found.data, place=found.offset_of, strings=found.strings)
    from everybit.files.scans.following import follow_pickle

    for start, _ in found.objects:
        # An array of objects is a pickle of its own, in the middle of this one.
        inner = follow_pickle(content.source, start, joblib=False)
        walk.outcome.count("pickles")
        judge(content, walk, inner.data, place=inner.offset_of, strings=inner.strings)
    if found.arrays:
        _judge_as_plain(content, walk, found)
    for start, end in found.arrays[:_MAX_PEEKED]:
        head = content.source.read(start, min(_PEEK_BYTES, end - start))
        if head[:1] == b"\x80" and begins_pickle(head) and end - start <= WHOLE_BYTES:
            _look_into_string(content, walk, start, end)


def _judge_as_plain(content: Content, walk: Walk, found: Followed) -> None:
    """Judge what an unpickler does that knows nothing of joblib and runs into raw elements."""
    start = found.parts[0][0]
    data = content.source.read(start, WHOLE_BYTES)
    known = {finding.evidence.get("name") for finding in walk.outcome.findings}
    outcome = judge_pickles(
        data,
        path=content.path,
        member=content.member,
        start=-1 if content.start is None else content.start + start,
        keeps_memo=False,  # it reads one pickle, and ends
    )
    for finding in outcome.findings:
        if finding.rule == "PKL201" and finding.evidence.get("name") not in known:
            walk.outcome.findings.append(finding)


def _look_into_string(content: Content, walk: Walk, start: int, end: int) -> None:
    """Judge a large string that is a pickle itself, for whoever unpickles it later."""
    data = content.source.read(start, end - start)
    first = read_pickles(data).pickles[0]
    if first.error is None and (first.globals or first.calls):
        walk.outcome.count("pickles")
        judge(content, walk, data[: first.end], start=start)


def _look_into_legacy(content: Content, walk: Walk) -> None:
    """Judge the five pickles of the format before torch 1.6; raw storages follow them."""
    plain = read_first(content.source, len(_LEGACY_PICKLES))
    if plain is not None:
        judge(content, walk, plain[1], stream=plain[0])
        return
    at = 0
    try:
        for what in _LEGACY_PICKLES:
            at = read_pickle_at(content.source, at, f"its {what}").end
    except MalformedError:
        # The judge says what is wrong, and what happens before that.
        at = min(content.source.size, WHOLE_BYTES)
    judge(content, walk, content.source.read(0, at))


def _look_behind(content: Content, walk: Walk, end: int) -> None:
    """Tell what follows the last pickle, which no loader of one pickle reads."""
    size = content.source.size
    if content.two or not 0 < end < size:
        return
    rest = content.source.read(end, 4096)
    if not rest.strip(b"\0\r\n\t "):
        return
    walk.tell(
        content,
        f"{size - end:,} bytes follow the STOP of its last pickle",
        where=content.place(end, size),
        severity=Severity.WARNING,
        first_bytes=rest[:16].hex(),
    )
