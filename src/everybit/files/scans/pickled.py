"""What loading some pickles would do, as findings: PKL201, PKL202, and PKL203 for their opcodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Finding, Location, Severity
from everybit.core.making import made
from everybit.core.rule import rule
from everybit.core.verdict import Skipped
from everybit.files.damage import MalformedError, TooLargeError
from everybit.files.pickles.nested import BY_CONTENT, Nested, find_nested, is_given_whole
from everybit.files.pickles.raw_arrays import hides_wrapper
from everybit.files.pickles.reach import Reached, Via, find_reached
from everybit.files.pickles.stream import read_pickles
from everybit.files.policy import effects
from everybit.files.policy.judging import Danger, Judgement, judge

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from everybit.files.pickles.nodes import Pickle
    from everybit.files.pickles.stream import Stream

#: Of one stream so many names are told one by one.
MAX_FINDINGS: Final = 200
_MAX_SHOWN: Final = 8
_SAFE: Final = Danger.SAFE
_DANGEROUS: Final = Danger.DANGEROUS
_CHANGE: Final = Via.CHANGE


class PickledOutcome:
    """What one stream of pickles came to.

    Attributes:
        findings: One for each distinct name, dangerous ones first, then opcode tricks and damage.
        nested: Bytes that the pickles hand to something that loads them or does what is not known
            to be harmless: files in themselves, to be scanned by their content.
        pickles: As they were read; the last one may be broken.
        end: Offset after the last STOP.
        skipped: What could not be looked at.
    """

    __slots__ = ("end", "findings", "nested", "pickles", "skipped")

    def __init__(self, pickles: Sequence[Pickle], end: int) -> None:
        self.findings: list[Finding] = []
        self.nested: list[Nested] = []
        self.pickles = pickles
        self.end = end
        self.skipped: list[Skipped] = []


def judge_pickles(
    data: bytes,
    *,
    path: str,
    member: str | None,
    start: int,
    key_hint: str = "",
    left_out: Container[int] = (),
    keeps_memo: bool = True,
    stream: Stream | None = None,
) -> PickledOutcome:
    """Judge every pickle in some bytes; nothing is imported or called.

    Args:
        data: The bytes of the file or member, from the first opcode on.
        path: The file, relative to the verb's target.
        member: Archive member, or None.
        start: Offset of `data` in the file; -1 where the file does not hold it as it is
            (compressed, or nested in another pickle).
        key_hint: What the pickles are, for messages ("the pickle in `data.pkl`").
        left_out: Offsets of large strings that the reader left out, and that are empty in `data`.
        keeps_memo: One unpickler may read them all.
        stream: What `read_pickles` gives for `data`, where it was read already.
    """
    stream = stream or read_pickles(data, keeps_memo=keeps_memo)
    return _judge(stream, _Place(path, member, start, key_hint), left_out)


class _Place:
    __slots__ = ("member", "path", "start", "subject")

    def __init__(self, path: str, member: str | None, start: int, hint: str) -> None:
        self.path = path
        self.member = member
        self.start = start
        inner = f" ({member})" if member else ""
        self.subject = f"{path}{inner}: {hint or 'loading it'}"

    def at(self, position: int, name: str = "") -> Location:
        first = self.start + position
        place = None if self.start < 0 else (first, first + 1)
        return made(
            Location, path=self.path, member=self.member, byte_range=place, module=name or None
        )


def _judge(stream: Stream, place: _Place, left_out: Container[int]) -> PickledOutcome:
    outcome = PickledOutcome(stream.pickles, stream.end)
    judged: dict[str, tuple[Reached, Judgement]] = {}
    odd = bool(stream.others)
    for pickle in stream.pickles:
        _judge_names(pickle, judged)
        odd = odd or bool(pickle.oddities) or hides_wrapper(pickle)
        if pickle.calls:
            outcome.nested += find_nested(pickle, left_out)
    for pickle in stream.others:
        other: dict[str, tuple[Reached, Judgement]] = {}
        _judge_names(pickle, other)
        for name, item in other.items():
            if _could_be(name):
                judged.setdefault(name, item)
        outcome.nested += find_nested(pickle, left_out)
    broken = stream.pickles[-1].error if stream.pickles else None
    told = _drop_within(judged) if len(judged) > 1 else list(judged.values())
    builders = [item for item in told if item[1].does == effects.BUILDS_CODE]
    if builders:
        told = [item for item in told if item[1].does != effects.BUILDS_CODE]
    extra: dict[str, Any] = (
        {} if broken is None else {"breaks_off_at": broken.damage.evidence.get("position")}
    )
    outcome.findings = [_tell(*item, place, extra) for item in told[:MAX_FINDINGS]]
    if builders:
        outcome.findings.append(_tell_builders(builders, place, extra))
    if len(told) > MAX_FINDINGS:
        why = f"{len(told) - MAX_FINDINGS} more names than are told one by one"
        outcome.skipped.append(Skipped(what=f"names in {place.path}", why=why, promised=False))
    if odd:
        outcome.findings += _oddities(stream, place)
    if broken is not None:
        _add_break(outcome, stream, broken, place, told=bool(told or builders))
    return outcome


def _judge_names(pickle: Pickle, judged: dict[str, tuple[Reached, Judgement]]) -> None:
    """Add the names of one pickle that are not known safe; the worst of each name counts."""
    for reached in find_reached(pickle):
        judgement = judge(reached)
        if judgement.danger is _SAFE:
            continue
        name = reached.qualified
        if name in BY_CONTENT and is_given_whole(pickle, name, reached.num_calls):
            continue  # its bytes are judged by what they hold
        known = judged.get(name)
        if known is None or _worth(reached, judgement) > _worth(*known):
            judged[name] = (reached, judgement)


def _worth(reached: Reached, judgement: Judgement) -> tuple[bool, bool, bool]:
    return judgement.danger is _DANGEROUS, reached.via is _CHANGE, reached.called


def _could_be(name: str) -> bool:
    # The elements of an array, read as opcodes, give names that no program has.
    return name.isascii() and name.isprintable() and " " not in name


def _drop_within(
    judged: dict[str, tuple[Reached, Judgement]],
) -> list[tuple[Reached, Judgement]]:
    """Return what is told, dangerous names first; a module on the way to a name is left out."""
    dangerous = [name for name, item in judged.items() if item[1].danger is _DANGEROUS]
    on_the_way = {
        name
        for name, (reached, _) in judged.items()
        if not reached.called
        and reached.via is not _CHANGE
        and any(other.startswith(f"{name}.") for other in dangerous[:MAX_FINDINGS])
    }
    told = [item for name, item in judged.items() if name not in on_the_way]
    return sorted(told, key=lambda item: item[1].danger is not _DANGEROUS)


def _tell(reached: Reached, judgement: Judgement, place: _Place, extra: dict[str, Any]) -> Finding:
    name = reached.qualified
    name = name if name.isprintable() else _printable(name)
    calls = reached.calls
    for call in calls:
        if not "".join(call).isprintable():
            call[:] = [_printable(argument) for argument in call]
    library = judgement.library
    evidence: dict[str, Any] = {
        "name": name,
        "library": library if library.isprintable() else _printable(library),
        "via": str(reached.via),
        "called": reached.num_calls > 0,
        "num_calls": reached.num_calls,
        "arguments": calls[:_MAX_SHOWN],
        "positions": reached.positions,
        **extra,
    }
    if judgement.does:
        evidence["does"] = judgement.does
    if reached.raw:
        evidence["written_as"] = _printable(reached.raw)
    where = place.at(reached.position, name)
    verb = _verb(reached)
    if judgement.danger is _DANGEROUS:
        given = f"({', '.join(calls[0])})" if verb == "calls" and calls else ""
        message = f"{place.subject} {verb} {name}{given}, which {judgement.does}"
        return rule("PKL201").finding(message, where=where, evidence=evidence)
    if judgement.does:
        message = f"{place.subject} {verb} {name}, which {judgement.does}"
    else:
        message = f"{place.subject} {verb} {name}, which is not known to be safe"
    return rule("PKL202").finding(message, where=where, evidence=evidence)


def _tell_builders(
    builders: list[tuple[Reached, Judgement]], place: _Place, extra: dict[str, Any]
) -> Finding:
    """Tell once that functions or classes are made of code in the file."""
    names = [_printable(reached.qualified) for reached, _ in builders]
    # The library that makes them, and not `types`, is what people know.
    first = next((r for r, j in builders if j.library not in ("types", "builtins")), builders[0][0])
    evidence: dict[str, Any] = {
        "name": _printable(first.qualified),
        "names": sorted(names)[:MAX_FINDINGS],
        "library": first.module.partition(".")[0],
        "does": effects.BUILDS_CODE,
        "num_calls": sum(reached.num_calls for reached, _ in builders),
        "positions": sorted(at for reached, _ in builders for at in reached.positions)[:_MAX_SHOWN],
        **extra,
    }
    message = (
        f"{place.subject} calls {_printable(first.qualified)} and its like, which "
        f"{effects.BUILDS_CODE}; loading alone does not run it"
    )
    where = place.at(first.position, evidence["name"])
    return rule("PKL202").finding(message, where=where, evidence=evidence)


def _verb(reached: Reached) -> str:
    if reached.via is _CHANGE:
        return "changes"
    return "calls" if reached.num_calls else "names"


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _oddities(stream: Stream, place: _Place) -> list[Finding]:
    found: dict[str, tuple[int, bool]] = {}
    for pickle in (*stream.pickles, *stream.others):
        for oddity in pickle.oddities:
            found.setdefault(oddity.what, (oddity.position, oddity.trick))
        if hides_wrapper(pickle):
            found.setdefault("makes joblib's wrapper of arrays as no pickler does", (0, True))
    findings = []
    for what, (position, trick) in found.items():
        findings.append(
            rule("PKL203").finding(
                f"{place.subject}: its pickle {what}",
                where=place.at(position),
                evidence={"trick": what, "position": position},
                severity=Severity.ERROR if trick else Severity.WARNING,
            )
        )
    return findings


def _add_break(
    outcome: PickledOutcome, stream: Stream, error: MalformedError, place: _Place, *, told: bool
) -> None:
    position = int(error.damage.evidence.get("position", stream.end))
    what = f"the rest of the pickles in {place.path} from offset {position}"
    if isinstance(error, TooLargeError) or told:
        outcome.skipped.append(Skipped(what=what, why=error.damage.message))
        return
    if stream.whole:
        return  # what follows the last STOP is no pickle: the caller knows what it may be
    outcome.findings.append(
        rule(error.damage.rule).finding(
            f"{place.subject}: {error.damage.message}",
            where=place.at(position),
            evidence=error.damage.evidence,
        )
    )
