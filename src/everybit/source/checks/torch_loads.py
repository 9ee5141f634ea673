"""Loads of torch and its kin that run what the file says."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Certainty, Severity
from everybit.source.checks import loaders
from everybit.source.checks.flag import possible
from everybit.source.checks.load import Load
from everybit.source.checks.own_bytes import comes_from_itself
from everybit.source.checks.sites import told
from everybit.source.checks.state_dict_load import loads_state_dict
from everybit.source.hit import Fix, SetArgument

if TYPE_CHECKING:
    from everybit.source.calls import Argument, CallSite
    from everybit.source.module import Module

RULE_ID: Final = "SRC301"
_HUGGING_FACE: Final = re.compile(r"hugging_?face|(?:^|_|\b)hf_|safetensors", re.IGNORECASE)
_NO_SWITCH: Final = (
    "No argument makes it safe: run `everybit scan` on what it loads before, and load only what "
    "you or somebody you trust has written; `everybit convert` takes it out of pickle."
)


def judge_site(site: CallSite) -> Load | None:
    """Return the unsafe load that a call of a known function is, None where it is none."""
    name = site.name
    if name == "torch.load":
        return _torch_load(site)
    if name in loaders.UNSAFE_BY_DEFAULT:
        return _from_url(site)
    if name in loaders.ALWAYS:
        return _always(site)
    if name.endswith(".load_from_checkpoint"):
        return _lightning(site)
    if name.endswith(".load_state"):
        return _accelerate(site)
    return _told(site)


def _torch_load(site: CallSite) -> Load | None:
    given = possible(site, "weights_only")
    values = [value for value in given.values if value is not None]
    if any(not value for value in values):
        return None if _made_here(site) else _explicit(site, given)
    if values or given.unknown:
        return None
    pickle = _pickle_module(site)
    if pickle is None or _made_here(site):
        return None
    return Load(
        rule=RULE_ID,
        node=site.node,
        inner=site.inner,
        loader=site.name,
        message=f"torch.load is given pickle_module={pickle}, which switches weights_only off",
        evidence={"argument": "pickle_module", "value": pickle, **_wrapped(site)},
        certainty=Certainty.PROOF,
    )


def _explicit(site: CallSite, given: Argument) -> Load:
    """Return what a call is that is told, or may be told, `weights_only=False`."""
    true = any(given.values)
    surely = not true and not given.unknown and not given.absent
    how = "is given weights_only=False" if surely else "can be given weights_only=False"
    return Load(
        rule=RULE_ID,
        node=site.node,
        inner=site.inner,
        loader=site.name,
        message=f"{told(site)} {how}: a pickle in the file can run any code",
        evidence={
            "argument": "weights_only",
            "values": sorted(map(repr, given.values)),
            **_wrapped(site),
        },
        certainty=Certainty.PROOF if surely else None,
        fix=_weights_only(site),
        falls_through=true,
    )


def _from_url(site: CallSite) -> Load | None:
    given = possible(site, "weights_only", position=loaders.UNSAFE_BY_DEFAULT[site.name])
    if any(value for value in given.values):
        return None
    if given.unknown and not given.absent and not given.values:
        return None
    if site.wrapper and given.absent:
        return None  # told where the wrapper calls it
    url = _text(site.argument("url", position=0))
    plain = " over plain HTTP" if url.startswith("http://") else ""
    said = "is given weights_only=False" if given.values else "has weights_only=False by default"
    return Load(
        rule=RULE_ID,
        node=site.node,
        inner=site.inner,
        loader=site.name,
        message=f"{told(site)} {said}: what it downloads{plain} can run any code",
        evidence={"argument": "weights_only", **({"url": url} if url else {}), **_wrapped(site)},
        certainty=Certainty.PROOF,
        fix=_weights_only(site),
        by_default=not given.values,
    )


def _always(site: CallSite) -> Load | None:
    if site.wrapper or _made_here(site):
        return None
    does, severity = loaders.ALWAYS[site.name]
    if site.name.startswith("torch.distributed.checkpoint.load"):
        reader = site.argument("storage_reader", position=1).node
        if reader is not None and _reads_safetensors(site.module, reader):
            return None
    return Load(
        rule=RULE_ID,
        node=site.node,
        inner=site.inner,
        loader=site.name,
        message=f"{told(site)} {does}",
        evidence={"does": does},
        severity=severity,
        remedy=_NO_SWITCH,
    )


def _reads_safetensors(module: Module, reader: ast.expr) -> bool:
    """Return whether a storage reader is one of Hugging Face's files, by any of its names."""
    made = [ast.unparse(each) for each in (reader, *module.definitions(reader))]
    return any(_HUGGING_FACE.search(text) for text in (*made, *module.resolve_all(reader)))


def _lightning(site: CallSite) -> Load | None:
    given = possible(site, "weights_only")
    if any(not value for value in given.values if value is not None):
        return _explicit(site, given)
    url = _text(site.argument("checkpoint_path", position=0))
    if given.values or given.unknown or "://" not in url or url.startswith("file:"):
        return None
    return Load(
        rule=RULE_ID,
        node=site.node,
        inner=site.inner,
        loader=site.name,
        message=f"{told(site)} has weights_only=False by default for a URL",
        evidence={"argument": "weights_only", "url": url},
    )


def _accelerate(site: CallSite) -> Load | None:
    options = site.argument("load_kwargs", position=1).node
    if options is not None and _holds_false(site.module, options):
        return Load(
            rule=RULE_ID,
            node=site.node,
            inner=site.inner,
            loader=site.name,
            message=f"{told(site)} is given weights_only=False in load_kwargs",
            evidence={"argument": "load_kwargs"},
            certainty=Certainty.PROOF,
        )
    if not site.wrapper and "register_for_checkpointing(" in site.module.text:
        return Load(
            rule=RULE_ID,
            node=site.node,
            inner=site.inner,
            loader=site.name,
            message=(
                f"{told(site)} unpickles the objects registered for checkpointing "
                "with weights_only=False"
            ),
            evidence={"argument": "register_for_checkpointing"},
            severity=Severity.NOTE,
            remedy=_NO_SWITCH,
        )
    return None


def _told(site: CallSite) -> Load | None:
    """Return what any other loader is that is told `weights_only=False` in so many words."""
    if not loaders.takes_weights_only(site.name):
        return None
    given = possible(site, "weights_only")
    if any(not value for value in given.values if value is not None):
        return _explicit(site, given)
    if not site.name.endswith((".from_pretrained", ".from_single_file")):
        return None
    safetensors = site.argument("use_safetensors")
    if not safetensors.values or not all(value is False for value in safetensors.values):
        return None
    return Load(
        rule=RULE_ID,
        node=site.node,
        inner=site.inner,
        loader=site.name,
        message=f"{told(site)} is given use_safetensors=False and reads a pickle in its place",
        evidence={"argument": "use_safetensors", **_wrapped(site)},
        severity=Severity.NOTE,
        remedy="Leave the argument out: safetensors is preferred and holds nothing that runs.",
    )


def _holds_false(module: Module, node: ast.expr) -> bool:
    for value in (node, *module.definitions(node)):
        if isinstance(value, ast.Dict):
            for key, each in zip(value.keys, value.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "weights_only":
                    return bool(module.constants(each).surely(False))
        if isinstance(value, ast.Call):
            for keyword in value.keywords:
                if keyword.arg == "weights_only":
                    return bool(module.constants(keyword.value).surely(False))
    return False


def _pickle_module(site: CallSite) -> str | None:
    node = site.argument("pickle_module", position=2).node
    if node is None:
        return None
    names = site.module.resolve_all(node)
    return next((name for name in names if name in loaders.PICKLE_MODULES), None)


def _weights_only(site: CallSite) -> Fix | None:
    call = site.node
    if site.wrapper or not isinstance(call, ast.Call):
        return None
    if any(keyword.arg is None for keyword in call.keywords):
        return None
    if not loads_state_dict(site.module, call):
        return None
    edit = SetArgument(call=call, name="weights_only", value="True")
    return Fix(what="set weights_only=True", edits=(edit,))


def _made_here(site: CallSite) -> bool:
    if site.inner is not None and comes_from_itself(*site.inner):
        return True  # the wrapper reads what it has written itself
    return comes_from_itself(site.module, site.node)


def _wrapped(site: CallSite) -> dict[str, Any]:
    return {"through": site.wrapper} if site.wrapper else {}


def _text(argument: Argument) -> str:
    found = [value for value in argument.values if isinstance(value, str)]
    return found[0] if len(found) == 1 else ""
