"""Whether two runs were asked to repeat at all (ENV902)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Location
from everybit.core.link import Link
from everybit.core.rule import rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everybit.core.finding import Finding

_ENTRY: Final = "deterministic_algorithms"


def judge_determinism(
    a: Mapping[str, Any], b: Mapping[str, Any], *, parted: bool
) -> Finding | None:
    """Return the ENV902 note for two runs that were not asked to repeat, else None.

    Records that are of no run (`everybit env`) say nothing about one and get no note. Runs whose
    values did not part get one only where a GPU computes: on a CPU nearly everything repeats.

    Args:
        a: Environment record of a run.
        b: That of the other.
        parted: Whether their values part.
    """
    flags = [record.get("determinism") for record in (a, b)]
    if not all("argv" in record for record in (a, b)):
        return None
    told = [flag.get(_ENTRY) if isinstance(flag, dict) else None for flag in flags]
    if False not in told or not (parted or any(_has_gpu(record) for record in (a, b))):
        return None
    off = " and ".join(side for side, on in zip("AB", told, strict=True) if on is False)
    return rule("ENV902").finding(
        f"deterministic algorithms were off in {off}: some operations give other bits each time",
        where=Location(link=Link.ENVIRONMENT, entry=f"determinism.{_ENTRY}"),
        evidence={"a": told[0], "b": told[1]},
    )


def _has_gpu(record: Mapping[str, Any]) -> bool:
    gpu, cuda = record.get("gpu") or {}, record.get("cuda") or {}
    told = bool(gpu) and not {"absent", "unknown"} & set(gpu) and gpu.get("num_devices") != 0
    return told and "absent" not in cuda
