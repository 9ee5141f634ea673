"""Loads by torch's default in a project that admits a torch whose default is unsafe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.core.finding import Certainty, Severity
from everybit.source.checks.fallback import for_old_versions
from everybit.source.checks.load import Load
from everybit.source.checks.own_bytes import comes_from_itself
from everybit.source.checks.state_dict_load import loads_state_dict
from everybit.source.checks.test_code import is_test
from everybit.source.checks.torch_requirement import Admits, torch_requirement
from everybit.source.hit import Fix, SetArgument

if TYPE_CHECKING:
    from everybit.source.calls import CallSite
    from everybit.source.module import Module

RULE_ID: Final = "SRC301"
_MAX_LINES: Final = 32


def loads_by_default(module: Module) -> Load | None:
    """Return one finding for all loads of a file that give no `weights_only`.

    A `warning` where the project's requirements admit no torch from 2.6 on, a `note` where they
    admit both; none where they admit new ones only or say nothing.
    """
    place = module.project.place_of(module)
    if place is None or is_test(module):
        return None
    sites = [site for site in module.calls() if site.name == "torch.load" and _silent(site)]
    if not sites:
        return None
    wanted = torch_requirement(place.parent)
    if wanted is None or wanted.admits is Admits.NEW:
        return None
    old = wanted.admits is Admits.OLD
    which = "admits no other" if old else "admits it"
    lines = [site.node.lineno for site in sites]
    more = f", as {len(lines) - 1} more in this file" if len(lines) > 1 else ""
    return Load(
        rule=RULE_ID,
        node=sites[0].node,
        loader="torch.load",
        message=(
            f"torch.load gives no weights_only{more}: before torch 2.6 that is False, and "
            f"{wanted.file} {which} ({wanted.text})"
        ),
        evidence={
            "argument": "weights_only",
            "lines": lines[:_MAX_LINES],
            "requirement": wanted.text,
            "file": wanted.file,
        },
        severity=Severity.WARNING if old else Severity.NOTE,
        certainty=Certainty.PROOF if old else None,
        remedy="Give weights_only=True, or ask for torch 2.6 or later.",
        fix=_fix(sites),
    )


def _silent(site: CallSite) -> bool:
    """Return whether a call surely leaves both arguments out."""
    given = [site.argument("weights_only"), site.argument("pickle_module", position=2)]
    if any(each.unknown or any(v is not None for v in each.values) for each in given):
        return False
    if for_old_versions(site.module, site.node):
        return False
    return not comes_from_itself(site.module, site.node)


def _fix(sites: list[CallSite]) -> Fix | None:
    """Return the fix of those whose result is a state dict and nothing else."""
    edits = tuple(
        SetArgument(call=site.node, name="weights_only", value="True")
        for site in sites
        if not site.indirect
        and not any(keyword.arg is None for keyword in site.node.keywords)
        and loads_state_dict(site.module, site.node)
    )
    return Fix(what="set weights_only=True", edits=edits) if edits else None
