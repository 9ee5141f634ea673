"""The JSON records of a log: from payloads to values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Finding
from everybit.core.observation import Observation
from everybit.core.verdict import Checked, Coverage, Skipped
from everybit.ledger.end import End
from everybit.ledger.frame import Kind
from everybit.ledger.payload import PayloadError, decode_json
from everybit.ledger.samples import read_samples

if TYPE_CHECKING:
    from collections.abc import Callable

#: What a value of the wrong shape raises while it is built.
_MISSHAPEN: Final = (KeyError, TypeError, ValueError, AttributeError)


def as_header(payload: memoryview, flags: int) -> dict[str, Any]:
    """Read a log's header; each of these raises `PayloadError` where the payload is none."""
    header = decode_json(payload, flags)
    for key, kind in (("rank", int), ("attempt", int), ("environment", dict), ("config", dict)):
        if type(header.get(key)) is not kind:
            raise PayloadError(f"has no {key}")
    return header


def as_finding(payload: memoryview, flags: int) -> Finding:
    """Read a finding."""
    data = decode_json(payload, flags)
    try:
        return Finding.from_json(data)
    except _MISSHAPEN as error:
        raise PayloadError(f"is no finding ({error})") from error


def as_observation(payload: memoryview, flags: int) -> Observation:
    """Read an observation."""
    data = decode_json(payload, flags)
    kind, step, facts = data.get("kind"), data.get("step"), data.get("data")
    if not (isinstance(kind, str) and type(step) is int and isinstance(facts, dict)):
        raise PayloadError("is no observation")
    return Observation(kind=kind, step=step, data=facts)


def as_coverage(payload: memoryview, flags: int) -> tuple[Coverage, dict[str, Any]]:
    """Read an account of what was checked, and the numbers with it."""
    data = decode_json(payload, flags)
    try:
        account, stats = data["coverage"], dict(data["stats"])
        checked = tuple(
            Checked(what=str(c["what"]), count=int(c["count"])) for c in account["checked"]
        )
        skipped = tuple(
            Skipped(what=str(s["what"]), why=str(s["why"]), promised=bool(s["promised"]))
            for s in account["skipped"]
        )
    except _MISSHAPEN as error:
        raise PayloadError(f"is no account of what was checked ({error})") from error
    return Coverage(checked=checked, skipped=skipped), stats


def as_end(payload: memoryview, flags: int) -> End:
    """Read an end record."""
    return End.from_json(decode_json(payload, flags))


#: How the index makes sure that a frame will be readable when somebody asks for it.
READERS: Final[dict[int, Callable[[memoryview, int], object]]] = {
    Kind.HEADER: as_header,
    Kind.FINDING: as_finding,
    Kind.OBSERVATION: as_observation,
    Kind.COVERAGE: as_coverage,
    Kind.END: as_end,
    Kind.SAMPLES: read_samples,
}
