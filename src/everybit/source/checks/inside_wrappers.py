"""Which loads inside a wrapper can become unsafe by what the wrapper's caller says."""

from __future__ import annotations

import ast
import re
from typing import Final

from everybit.source.checks import loaders
from everybit.source.leading import Wanted

#: Arguments that decide, whatever is called, with the value that decides nothing.
_KEYWORDS: Final = {"weights_only": True, "trust_remote_code": False, "allow_pickle": False}
#: What the names of functions hold that load.
_LOADS: Final = re.compile(
    r"load|pickl|pretrained|hub|restore|read_|dump|save|pipeline|Importer|SentenceTransformer"
)
_FROM_FILES: Final = (".from_pretrained", ".from_single_file")


def _may_be_unsafe(name: str, call: ast.Call) -> bool:
    """Return whether a call inside a wrapper may be judged at the wrapper's own calls.

    What is unsafe whatever it is given is told inside the wrapper, and not at its calls.
    """
    told = {keyword.arg for keyword in call.keywords}
    if None in told or any(isinstance(each, ast.Starred) for each in call.args):
        return _LOADS.search(name) is not None
    if name == "torch.hub.load" or name.endswith((".load_from_checkpoint", ".load_state")):
        return True
    if name == "torch.load":
        return "pickle_module" in told or len(call.args) > 2
    if name in loaders.UNSAFE_BY_DEFAULT:
        return len(call.args) > loaders.UNSAFE_BY_DEFAULT[name]
    if name in loaders.OBJECT_ARRAYS:
        return len(call.args) > loaders.OBJECT_ARRAYS[name]
    return name.endswith(_FROM_FILES) and "use_safetensors" in told


def _decides(keyword: str | None, value: ast.expr) -> bool:
    """Return whether a keyword makes a load unsafe, or leaves that to the wrapper's caller."""
    if keyword not in _KEYWORDS:
        return False
    return not isinstance(value, ast.Constant) or value.value is not _KEYWORDS[keyword]


LOADS: Final = Wanted(
    call=_may_be_unsafe,
    handed=lambda name: _LOADS.search(name) is not None,
    keyword=_decides,
)
