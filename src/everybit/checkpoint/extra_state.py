"""State of modules that is no tensor and that only their own code can take: `set_extra_state`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from everybit.core.errors import FindingsError
from everybit.core.finding import Location, Severity
from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.probe.wrappers import unwrap

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    import torch

#: The last part of the key under which torch keeps it.
_EXTRA: Final = "_extra_state"
_MAX_TOLD: Final = 8


def refuse_other_extra_state(module: torch.nn.Module, state: Mapping[str, Any], path: Path) -> None:
    """Refuse a state dict whose extra state is not that of a module's own parts.

    Args:
        module: What it is to be loaded into; nothing is changed.
        state: Its state dict.
        path: Where that was read, for the message.

    Raises:
        FindingsError: Extra state is missing, or nothing takes what there is (FIL116).
    """
    held, taken = set(_extra(state)), set(_extra(unwrap(module).state_dict()))
    if held == taken:
        return
    parts = [
        f"{what} ({', '.join(sorted(keys)[:_MAX_TOLD])})"
        for keys, what in (
            (taken - held, "extra state of the model is not in the checkpoint"),
            (held - taken, "no part of the model takes extra state of the checkpoint"),
        )
        if keys
    ]
    finding = rule("FIL116").finding(
        "; ".join(parts),
        where=Location(path=str(path), parameter=min(held ^ taken), link=Link.LOAD),
        evidence={"missing": sorted(taken - held), "unexpected": sorted(held - taken)},
        severity=Severity.ERROR,
    )
    raise FindingsError(
        f"FIL116 {finding.message}; nothing was loaded",
        where=str(path),
        todo="restore into the model that was saved, or pass strict=False",
        findings=[finding],
    )


def restore_extra_state(module: torch.nn.Module, state: Mapping[str, Any]) -> tuple[str, ...]:
    """Give the parts of a module the state that only their own code can take.

    Returns:
        The keys that no part of the module took.
    """
    extra = _extra(state)
    if not extra:
        return ()
    return tuple(unwrap(module).load_state_dict(extra, strict=False).unexpected_keys)


def _extra(state: Mapping[str, Any]) -> dict[str, Any]:
    keys: Iterable[str] = state
    return {key: state[key] for key in keys if key.rpartition(".")[2] == _EXTRA}
