"""Loads that download code and run it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Certainty
from everybit.source.checks.flag import possible
from everybit.source.checks.load import Load
from everybit.source.checks.sites import told

if TYPE_CHECKING:
    from everybit.source.calls import Argument, CallSite

RULE_ID: Final = "SRC310"
_HUB: Final = {
    "torch.hub.load": "runs its hubconf.py",
    "torch.hub.list": "runs its hubconf.py",
    "torch.hub.help": "runs its hubconf.py",
}
_COMMIT: Final = re.compile(r"[0-9a-fA-F]{40}")


def judge_remote(site: CallSite) -> Load | None:
    """Return the run of remote code that a call is, None where it is none."""
    if site.name in _HUB:
        return _hub(site)
    given = possible(site, "trust_remote_code")
    if not given.may_be_truthy or given.may_be_falsy or given.absent:
        return None  # off, or for somebody else to choose
    if _is_declaration(site) or _pinned(site):
        return None
    surely = given.surely(True)
    how = "is given" if surely else "can be given"
    repository = _text(site.argument("pretrained_model_name_or_path", position=0))
    of = f" of {repository}" if repository else ""
    revision = _text(site.argument("revision"))
    return Load(
        rule=RULE_ID,
        node=site.node,
        inner=site.inner,
        loader=site.name,
        message=f"{told(site)} {how} trust_remote_code=True: it runs code{of} as it is that day",
        evidence={
            "argument": "trust_remote_code",
            **_named(repository, revision),
            **({"through": site.wrapper} if site.wrapper else {}),
        },
        certainty=Certainty.PROOF if surely else None,
        falls_through=not surely,
    )


def judge_own(site: CallSite) -> Load | None:
    """Return the run of remote code that a function of the project is told to do."""
    if "trust_remote_code" not in site.keywords():
        return None
    return judge_remote(site) if site.argument("trust_remote_code").surely(True) else None


def _hub(site: CallSite) -> Load | None:
    if site.wrapper and site.name != "torch.hub.load":
        return None
    source = site.argument("source")
    repository = _text(site.argument("repo_or_dir", position=0))
    if site.wrapper and not repository:
        return None
    if source.may_be("local") or source.unknown:
        return None
    revision = repository.partition(":")[2]
    if _COMMIT.fullmatch(revision):
        return None
    of = f" {repository}" if repository else " a GitHub repository"
    at = "" if revision or not repository else " at its default branch"
    return Load(
        rule=RULE_ID,
        node=site.node,
        inner=site.inner,
        loader=site.name,
        message=f"{told(site)} downloads{of}{at} and {_HUB[site.name]}",
        evidence=_named(repository, revision),
    )


def _is_declaration(site: CallSite) -> bool:
    """Return whether a call only declares the flag (`add_argument`) or stores it."""
    last = site.name.rpartition(".")[2].removesuffix("()")
    return last in ("add_argument", "Namespace", "dict", "field", "Field", "option", "update")


def _pinned(site: CallSite) -> bool:
    """Return whether one commit is named in full."""
    return any(
        isinstance(value, str) and _COMMIT.fullmatch(value) is not None
        for name in ("revision", "code_revision")
        for value in site.argument(name).values
    )


def _named(repository: str, revision: str) -> dict[str, Any]:
    found = {"repository": repository, "revision": revision}
    return {key: value for key, value in found.items() if value}


def _text(argument: Argument) -> str:
    found = [value for value in argument.values if isinstance(value, str)]
    return found[0] if len(found) == 1 else ""
