"""The JSON files beside a model that loaders need: whether they can be read at all."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from everybit.core.errors import PathError
from everybit.core.finding import Location
from everybit.core.rule import rule
from everybit.files.checkpoints.snapshot import holds_data
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from everybit.core.finding import Finding

_NAMES: Final = frozenset({
    "config.json", "generation_config.json", "adapter_config.json", "trainer_state.json",
    "model_index.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "preprocessor_config.json",
})  # fmt: skip
#: A larger one is a tokenizer of a size that costs more to read than it tells.
_MAX_BYTES: Final = 32 * 1024 * 1024


def check_documents(files: Mapping[str, Path], damaged: set[str]) -> Iterator[Finding]:
    """Yield a finding for each JSON file beside a model's files that is none.

    A full disk leaves them empty, a crash leaves zeros, a hub leaves pointers.

    Args:
        files: Every file by its path relative to the target.
        damaged: Files with findings of their own.
    """
    folders = {name.rpartition("/")[0] for name in files if holds_data(name)}
    for name, path in files.items():
        folder, _, short = name.rpartition("/")
        if short not in _NAMES or folder not in folders or name in damaged:
            continue
        try:
            with ByteSource(path) as source:
                if source.size > _MAX_BYTES:
                    continue
                data = source.read(0, source.size)
        except PathError:
            continue  # told as a file that cannot be read
        problem = _problem(data)
        if problem:
            yield rule("FIL107").finding(
                f"{name} {problem}",
                where=Location(path=name, byte_range=(0, len(data))),
                evidence={"size_bytes": len(data), "first_bytes": ascii(data[:32])[2:-1]},
                remedy=_remedy(short),
            )


def _remedy(short: str) -> str:
    if short == "trainer_state.json":
        return f"Fetch {short} again, or resume from a sibling: only it tells the step reached."
    return f"Fetch {short} again, from where the model came from; no tensor is in it."


def _problem(data: bytes) -> str:
    if not data:
        return "is empty, where loaders read JSON"
    if not data.strip(b"\0"):
        return f"holds nothing but {len(data):,} zeros, where loaders read JSON"
    if data.startswith(b"version https://git-lfs"):
        return "is a git-LFS pointer, where loaders read JSON: run `git lfs pull`"
    try:
        json.loads(data)
    except (ValueError, RecursionError) as error:
        at = f": {error}" if isinstance(error, json.JSONDecodeError) else ""
        return f"is no JSON{at}"
    return ""
