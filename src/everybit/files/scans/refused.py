"""Whether `torch.load(weights_only=True)` refuses a file, and the way out (PKL204)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Certainty, Finding, Location, Severity
from everybit.core.rule import rule
from everybit.files.damage import MalformedError, TooLargeError
from everybit.files.weights_only.files import Loaded, load_as_torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.files.damage import Damage
    from everybit.files.scans.allowing import Allowance
    from everybit.files.source import ByteSource
    from everybit.files.weights_only.acceptance import Refusal
    from everybit.files.weights_only.seen import Seen

_RULE: Final = "PKL204"
_MAX_LISTED: Final = 50
_MAX_SHOWN: Final = 3
_READERS: Final = {"legacy": "torch_legacy", "zip": "torch_zip"}
#: What torch does not read whatever it is allowed, though nothing in it need be wrong.
_OTHER_FORMATS: Final = ("torchscript", "tar", "pickle")


def tell_refused(
    source: ByteSource, name: str, *, damage_told: bool = True, seen: Seen | None = None
) -> Finding | None:
    """Return the finding that torch refuses a file, or is not proved to accept it.

    None where torch accepts, where the file is none of torch's, and where all that stands against
    it is damage that other rules told.

    Args:
        source: The file.
        name: Its path relative to the target of the verb.
        damage_told: Something is told of the file already. Where nothing is, damage that torch
            stumbles over is told here, as `verify` tells it.
        seen: What was read of the file already.
    """
    loaded = load_as_torch(source, seen)
    acceptance = loaded.acceptance
    # What is no whole archive may be another format's (DCP), whose readers tell of it.
    told = damage_told or (loaded.kind == "zip" and loaded.member is None)
    if told or acceptance.accepted or not acceptance.damaged:
        return tell_loaded(loaded, name)
    damage = _damage(source, loaded.kind) if loaded.kind in _READERS else None
    if damage is not None:
        return damage.finding(name)
    loaded.acceptance = acceptance.marked(damaged=False)
    return tell_loaded(loaded, name)


def _damage(source: ByteSource, kind: str) -> Damage | None:
    """Return the first thing that cannot be right in a file; None where there is none."""
    reader = importlib.import_module(f"everybit.files.formats.{_READERS[kind]}")
    try:
        damages: Sequence[Damage] = reader.read_structure(source).damages
    except TooLargeError:
        return None
    except MalformedError as error:
        return error.damage
    return damages[0] if damages else None


def tell_loaded(loaded: Loaded, name: str) -> Finding | None:
    """Return the finding for what torch does with a file; damage alone is none."""
    acceptance = loaded.acceptance
    if not loaded.kind or acceptance.accepted or acceptance.damaged:
        return None
    refusals = acceptance.refusals
    names = _by_name(refusals)
    unsafe = [told for told in names if not known_safe(told)]
    sure = any(refusal.proved for refusal in refusals)
    lifted = None
    if not unsafe and loaded.kind not in _OTHER_FORMATS:
        from everybit.files.scans.allowing import allow

        lifted = allow(refusals)
    first = refusals[0]
    return rule(_RULE).finding(
        _message(name, loaded, names, sure=sure),
        where=Location(path=name, member=loaded.member, tensor=first.key or None),
        evidence=_evidence(loaded, names, lifted),
        remedy=_remedy(name, loaded, unsafe, lifted),
        severity=_severity(loaded, refusals, unsafe),
        certainty=Certainty.PROOF if sure else Certainty.STRONG,
    )


def known_safe(name: str) -> bool:
    """Return whether the policy knows a qualified name as harmless to build."""
    from everybit.files.policy.safe import is_safe

    module, _, attribute = name.rpartition(".")
    return is_safe(module, attribute)


def _by_name(refusals: Sequence[Refusal]) -> dict[str, Refusal]:
    """Return the first refusal of each name, in order; calls of allowed names are left out."""
    from everybit.files.weights_only.allowed import ALLOWED

    names: dict[str, Refusal] = {}
    for refusal in refusals:
        if refusal.name and refusal.name not in ALLOWED:
            names.setdefault(refusal.name, refusal)
    return names


def _severity(loaded: Loaded, refusals: Sequence[Refusal], unsafe: Sequence[str]) -> Severity:
    if unsafe:
        return Severity.WARNING
    named = {refusal.name for refusal in refusals if refusal.by_name}
    usual = loaded.kind in _OTHER_FORMATS or all(
        refusal.by_name or refusal.usual or refusal.name in named for refusal in refusals
    )
    return Severity.NOTE if usual else Severity.WARNING


def _message(name: str, loaded: Loaded, names: dict[str, Refusal], *, sure: bool) -> str:
    verb = "refuses it" if sure else "is not proved to accept it"
    start = f"{name}: torch.load(weights_only=True) {verb}"
    if not names:
        told = loaded.acceptance.refusals[0]
        where = f" ({told.name})" if told.name else ""
        return f"{start}: it {told.reason}{where}{_under(told.key)}"
    shown = [
        f"{told} ({refusal.library}){_under(refusal.key)}"
        for told, refusal in list(names.items())[:_MAX_SHOWN]
    ]
    more = len(names) - len(shown)
    rest = f" and {more} more name{'s' * (more > 1)}" if more else ""
    return f"{start}: it names {', '.join(shown)}{rest}"


def _under(key: str) -> str:
    return f" under {key}" if key else ""


def _evidence(
    loaded: Loaded, names: dict[str, Refusal], lifted: Allowance | None
) -> dict[str, Any]:
    listed = list(names.items())[:_MAX_LISTED]
    others = [told for told in loaded.acceptance.refusals if not told.by_name][:_MAX_LISTED]
    facts: dict[str, Any] = {
        "format": loaded.kind,
        "names": [f"{told}{_under(refusal.key)}" for told, refusal in listed],
        "num_names": len(names),
        "reasons": [f"{told.reason}{_under(told.key)}" for told in others],
        "safe_globals": list(lifted.expressions) if lifted is not None else [],
        "details": [
            {
                "name": told,
                "library": refusal.library,
                "keys": [key for key in loaded.keys.get(told, (refusal.key,)) if key],
                "position": refusal.position,
                "known_safe": known_safe(told),
            }
            for told, refusal in listed
        ],
    }
    return {key: value for key, value in facts.items() if value}


def _remedy(name: str, loaded: Loaded, unsafe: Sequence[str], lifted: Allowance | None) -> str:
    if loaded.kind == "pickle":
        return (
            "torch.load reads no plain pickle, whatever it is allowed; have it saved again, "
            "tensors as safetensors and settings as JSON"
        )
    if loaded.kind == "torchscript":
        return (
            f"Take its weights with `everybit extract {name} --out model.safetensors`, and build "
            "the model from its source"
        )
    convert = (
        f"(1) `everybit convert {name} --out DIR` writes its tensors as safetensors and the rest "
        "as JSON, and runs nothing of it"
    )
    tensors = (
        f'(2) load only the tensors: `everybit.load_into(model, "{name}")`, or '
        f"`everybit extract {name} --out model.safetensors`"
    )
    steps = [convert, tensors]
    if lifted is not None:
        steps.append(f"(3) {lifted.advice(name)}")
    elif unsafe:
        shown = ", ".join(unsafe[:_MAX_SHOWN])
        steps.append(f"Allow nothing of it: what building {shown} does is not known")
    return "; ".join(steps)
