"""What a load that is watched comes to: FIL116 for weights, FIL115 for optimizer state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from everybit.checkpoint.arrival import listed
from everybit.checkpoint.keys import Match, match_keys, suggestion
from everybit.checkpoint.optimizer_state import SHAPED
from everybit.checkpoint.renames import without_wrappers
from everybit.core.finding import Certainty, Finding, Location, Severity
from everybit.core.link import Link
from everybit.core.rule import rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everybit.guard.load_samples import Sampled

_MAX_LISTED: Final = 32


def judge_load(match: Match, kind: str, path: str) -> Finding | None:
    """Judge a `load_state_dict` that left names out.

    Args:
        match: How names stood to each other.
        kind: Class of the module.
        path: The file, where it is known.
    """
    better = suggestion(match)
    whence = f" from {path}" if path else ""
    if match.is_nothing:
        message = (
            f"nothing was loaded into {kind}{whence}: none of the {match.num_stored} tensors given "
            f"has a name of the model's {match.num_held}"
        )
    elif match.is_on_purpose or not _is_much(match):
        return None
    else:
        message = (
            f"{len(match.arrived)} of {match.num_held} tensors of {kind} were loaded{whence}: "
            f"{len(match.really_missing)} are missing ({listed(match.really_missing)}) and "
            f"{len(match.really_unexpected)} of those given have no place"
        )
    names = (*match.really_missing, *match.mismatched, *match.unexpected)
    return rule("FIL116").finding(
        f"{message}; {better}" if better else message,
        where=Location(parameter=names[0], link=Link.LOAD),
        evidence={
            "num_given": match.num_stored,
            "num_in_model": match.num_held,
            "num_arrived": len(match.arrived),
            "missing": list(match.really_missing[:_MAX_LISTED]),
            "unexpected": list(match.really_unexpected[:_MAX_LISTED]),
            **({"file": path} if path else {}),
            **({"suggestion": better} if better else {}),
        },
        severity=Severity.ERROR if match.is_nothing else Severity.WARNING,
        certainty=Certainty.PROOF if match.is_nothing else Certainty.STRONG,
    )


def _is_much(match: Match) -> bool:
    """Whether so much stayed out that it was hardly meant: a rename fits, or most of both sides."""
    lost = len(match.really_unexpected) + len(match.mismatched)
    if match.better is not None and match.better.num_fitting >= max(2, lost // 2):
        return True
    return 2 * len(match.arrived) < min(match.num_held, match.num_stored)


def judge_overwritten(before: Sampled, names: list[str], kind: str) -> Finding:
    """Tell that loaded tensors hold values that have nothing to do with what was loaded."""
    return rule("FIL116").finding(
        f"{len(names)} of {len(before.values)} tensors that were loaded into {kind} hold unrelated "
        f"values before their first use: they were initialised again after the load "
        f"({listed(names)})",
        where=Location(parameter=names[0], link=Link.LOAD),
        evidence={
            "num_overwritten": len(names),
            "num_loaded": len(before.values),
            "overwritten": names[:_MAX_LISTED],
        },
        remedy="Load after everything that initialises weights.",
        certainty=Certainty.STRONG,
    )


def judge_pretrained(
    held: Mapping[str, torch.Tensor], info: Mapping[str, Any], path: str, kind: str
) -> Finding | None:
    """Judge what `from_pretrained` says of its load: initialised afresh beyond a head."""
    missing = {str(name) for name in info.get("missing_keys", ())}
    mismatched = {
        str(item[0] if isinstance(item, tuple | list) else item)
        for item in info.get("mismatched_keys", ())
    }
    fresh = missing | mismatched
    if not fresh:
        return None
    shapes = {name: tuple(tensor.shape) for name, tensor in held.items()}
    stored = {name: shape for name, shape in shapes.items() if name not in fresh}
    match = match_keys(shapes, stored)
    left = [name for name in match.really_missing if name not in match.head]
    if not left or (stored and len(left) < 3 and not mismatched):
        return None
    given = [str(name) for name in info.get("unexpected_keys", ())]
    return rule("FIL116").finding(
        f"from_pretrained filled {len(stored)} of {len(shapes)} tensors of {kind} from {path}; "
        f"{len(left)} others than a head were initialised afresh ({listed(sorted(left))})",
        where=Location(parameter=sorted(left)[0], link=Link.LOAD),
        evidence={
            "num_in_model": len(shapes),
            "num_fresh": len(left),
            "missing": sorted(missing)[:_MAX_LISTED],
            "other_shapes": sorted(mismatched)[:_MAX_LISTED],
            "unexpected": sorted(given)[:_MAX_LISTED],
        },
        severity=Severity.WARNING if stored else Severity.ERROR,
        remedy="Load it with the class that its config names, or into the part that it is of.",
    )


def judge_optimizer_load(
    optimizer: torch.optim.Optimizer, state: Mapping[str, Any]
) -> Finding | None:
    """Judge an optimizer's `load_state_dict`, before it happens: does each moment find its own.

    Args:
        optimizer: The optimizer.
        state: The state dict that it is given.
    """
    if getattr(optimizer, "_optimizer_load_state_dict_pre_hooks", None):
        return None  # A hook of the program's may match by name itself.
    try:
        given_groups, states = state["param_groups"], state["state"]
        pairs_of_groups = list(zip(optimizer.param_groups, given_groups, strict=False))
        whole = all("params" in given for _, given in pairs_of_groups)
    except (KeyError, TypeError, IndexError):
        return None  # torch refuses it.
    if not whole:
        return None
    moved, misshapen = [], []
    for group, given in pairs_of_groups:
        names, old = group.get("param_names"), given.get("param_names")
        if names and old and len(names) == len(old):
            pairs = zip(map(without_wrappers, old), map(without_wrappers, names), strict=True)
            moved += [(one, other) for one, other in pairs if one != other]
            # Names of one place or another: a wrapper, a part of a larger model.
            if moved and not set(map(without_wrappers, old)) & set(map(without_wrappers, names)):
                moved = []
        for index, (parameter, number) in enumerate(
            zip(group["params"], given["params"], strict=False)
        ):
            for slot, value in (states.get(number) or {}).items():
                if (
                    slot in SHAPED
                    and isinstance(value, torch.Tensor)
                    and _differs(value, parameter)
                ):
                    name = names[index] if names else f"parameter {index}"
                    misshapen.append((slot, name, list(value.shape), list(parameter.shape)))
    if moved:
        shown = [f"that of {old} on {new}" for old, new in moved]
        message = (
            f"optimizer state lands on other parameters: {len(moved)} names stand at other places "
            f"than in the file ({listed(shown)})"
        )
        place = moved[0][1]
    elif misshapen:
        slot, place, has, wanted = misshapen[0]
        message = (
            f"optimizer state of other shapes than its parameters was loaded: {slot} of {place} is "
            f"{has} and the parameter {wanted} (and {len(misshapen) - 1} more)"
        )
    else:
        return None
    return rule("FIL115").finding(
        message,
        where=Location(parameter=place, optimizer=type(optimizer).__name__, link=Link.LOAD),
        evidence={
            "moved": [list(pair) for pair in moved[:_MAX_LISTED]],
            "other_shapes": [list(item) for item in misshapen[:_MAX_LISTED]],
        },
        severity=Severity.WARNING,
        certainty=Certainty.PROOF,
        remedy="Load it with `everybit.load_into(model, path, optimizer=optimizer)`, which matches "
        "by name.",
    )


def _differs(value: torch.Tensor, parameter: torch.Tensor) -> bool:
    return value.numel() != 1 and value.shape != parameter.shape and value.dim() == parameter.dim()
