"""everybit: find, place, explain and undo silent data corruption in PyTorch.

Importing this package loads neither torch nor numpy: every public name arrives when it is first
used. `diff`, `drill` and `report` are packages as well as verbs; called, they are the verb.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from everybit._version import __version__

if TYPE_CHECKING:
    from everybit.api.convert import convert
    from everybit.api.cross import cross
    from everybit.api.diff import diff
    from everybit.api.drill import drill
    from everybit.api.env import env, env_check, env_diff, env_lock
    from everybit.api.extract import extract
    from everybit.api.init import init_repro
    from everybit.api.lint import lint
    from everybit.api.matrix import matrix
    from everybit.api.release import release
    from everybit.api.repair import repair
    from everybit.api.replay import replay
    from everybit.api.report import report
    from everybit.api.run import run
    from everybit.api.scan import scan
    from everybit.api.seal import seal
    from everybit.api.verify import verify
    from everybit.checkpoint import (
        Arrival,
        Record,
        Vault,
        check_load,
        digest,
        load_into,
        restore,
        save,
    )
    from everybit.core.errors import EverybitError, FindingsError, StoppedError, UsageError
    from everybit.core.explain import Explanation, explain_error
    from everybit.core.finding import Certainty, Finding, Location, Severity
    from everybit.core.verdict import Coverage, Status, Verdict
    from everybit.guard import Guard
    from everybit.host.suspicions import Suspicion, suspicions
    from everybit.ledger import Incident, load_incident, open_run
    from everybit.probe.seeded import Seeded
    from everybit.probe.seeding import generator_for, seed_everything, seed_this_rank

__all__ = [
    "Arrival",
    "Certainty",
    "Coverage",
    "EverybitError",
    "Explanation",
    "Finding",
    "FindingsError",
    "Guard",
    "Incident",
    "Location",
    "Record",
    "Seeded",
    "Severity",
    "Status",
    "StoppedError",
    "Suspicion",
    "UsageError",
    "Vault",
    "Verdict",
    "__version__",
    "check_load",
    "convert",
    "cross",
    "diff",
    "digest",
    "drill",
    "env",
    "env_check",
    "env_diff",
    "env_lock",
    "explain_error",
    "extract",
    "generator_for",
    "init_repro",
    "lint",
    "load_incident",
    "load_into",
    "matrix",
    "open_run",
    "release",
    "repair",
    "replay",
    "report",
    "restore",
    "run",
    "save",
    "scan",
    "seal",
    "seed_everything",
    "seed_this_rank",
    "suspicions",
    "verify",
]

_HOME: Final = {
    "Arrival": "everybit.checkpoint",
    "Certainty": "everybit.core.finding",
    "Coverage": "everybit.core.verdict",
    "EverybitError": "everybit.core.errors",
    "Explanation": "everybit.core.explain",
    "Finding": "everybit.core.finding",
    "FindingsError": "everybit.core.errors",
    "Guard": "everybit.guard",
    "Incident": "everybit.ledger",
    "Location": "everybit.core.finding",
    "Seeded": "everybit.probe.seeded",
    "Severity": "everybit.core.finding",
    "Status": "everybit.core.verdict",
    "Record": "everybit.checkpoint",
    "StoppedError": "everybit.core.errors",
    "Suspicion": "everybit.host.suspicions",
    "suspicions": "everybit.host.suspicions",
    "UsageError": "everybit.core.errors",
    "Vault": "everybit.checkpoint",
    "Verdict": "everybit.core.verdict",
    "check_load": "everybit.checkpoint",
    "convert": "everybit.api.convert",
    "cross": "everybit.api.cross",
    "digest": "everybit.checkpoint",
    "env": "everybit.api.env",
    "env_check": "everybit.api.env",
    "env_diff": "everybit.api.env",
    "env_lock": "everybit.api.env",
    "extract": "everybit.api.extract",
    "explain_error": "everybit.core.explain",
    "generator_for": "everybit.probe.seeding",
    "init_repro": "everybit.api.init",
    "lint": "everybit.api.lint",
    "load_incident": "everybit.ledger",
    "load_into": "everybit.checkpoint",
    "matrix": "everybit.api.matrix",
    "open_run": "everybit.ledger",
    "release": "everybit.api.release",
    "repair": "everybit.api.repair",
    "replay": "everybit.api.replay",
    "restore": "everybit.checkpoint",
    "run": "everybit.api.run",
    "save": "everybit.checkpoint",
    "scan": "everybit.api.scan",
    "seal": "everybit.api.seal",
    "seed_everything": "everybit.probe.seeding",
    "seed_this_rank": "everybit.probe.seeding",
    "verify": "everybit.api.verify",
}

# Packages that share their name with a verb: importing one of them anywhere makes it an attribute
# of this package, in the verb's place. So the package itself answers the call.
_VERB_PACKAGES: Final = ("diff", "drill", "report")


def __getattr__(name: str) -> Any:
    if name in _VERB_PACKAGES:
        return importlib.import_module(f"everybit.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'everybit' has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(_HOME[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError(
            f"everybit.{name} needs torch; `pip install 'everybit[torch]'` adds it", name="torch"
        ) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _VerbPackage(ModuleType):
    """A package that is called as the verb of its name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        verb = self.__name__.rpartition(".")[2]
        return getattr(importlib.import_module(f"everybit.api.{verb}"), verb)(*args, **kwargs)


class _Package(ModuleType):
    """This package: makes the packages in `_VERB_PACKAGES` callable as they arrive."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _VERB_PACKAGES and isinstance(value, ModuleType):
            value.__class__ = _VerbPackage
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
