"""Where a sealed file came from and under which licence it may be used, as its sealer said."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Any, Final

from everybit.core.errors import UsageError

_MAX_TEXT: Final = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What whoever sealed a file said of it. Only a signature makes it more than a claim.

    Attributes:
        source: A web address, a repository and revision, a run: where the bytes came from; empty
            where nothing was said.
        license: SPDX identifier of the licence (`Apache-2.0`); empty where nothing was said.
    """

    source: str = ""
    license: str = ""

    def __bool__(self) -> bool:
        return bool(self.source or self.license)

    def encode(self) -> dict[str, str]:
        """Return the keys of the manifest's entry that are set."""
        told = {"source": self.source, "license": self.license}
        return {key: value for key, value in told.items() if value}


NO_ORIGIN: Final = Origin()


def make_origin(source: str | None, license_id: str | None) -> Origin:
    """Return an origin as somebody gave it.

    Raises:
        UsageError: A text is empty, too long, or not one line of visible characters.
    """
    return Origin(source=_given("source", source), license=_given("license", license_id))


def decode_origin(entry: dict[str, Any]) -> Origin:
    """Read an origin from a manifest's entry.

    Raises:
        ValueError: A text is none, or too long.
    """
    found = {}
    for key in ("source", "license"):
        text = entry.get(key, "")
        if not isinstance(text, str) or len(text) > _MAX_TEXT:
            raise ValueError(key)
        found[key] = text
    return Origin(**found)


def _given(what: str, text: str | None) -> str:
    if text is None:
        return ""
    text = text.strip()
    if not text:
        raise UsageError(f"the {what} is empty", todo="say where the files come from")
    if len(text) > _MAX_TEXT or any(unicodedata.category(c) in ("Cc", "Cs", "Zl") for c in text):
        raise UsageError(
            f"the {what} is not one line of at most {_MAX_TEXT} characters",
            todo="give a web address, a repository and revision, or an SPDX identifier",
        )
    return text
