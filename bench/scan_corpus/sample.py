"""One file of the corpus: what it is, where it is from, and what must be said of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: What a payload prints, and the file that one makes in the working directory where it cannot.
CANARY: Final = "EVERYBIT-CANARY"
MARKER: Final = "everybit-canary"
#: A Python statement and a shell command that do no more than print.
CODE: Final = f"print('{CANARY}')"
SHELL: Final = f"echo {CANARY}"
#: What importing `this` prints: proof for payloads that can only import.
ZEN: Final = "The Zen of Python"

#: Rules that an adversarial file may be told by; the first is what must be said where code runs.
RUNS: Final = ("PKL201",)
UNKNOWN: Final = ("PKL201", "PKL202")
TRICK: Final = ("PKL203", "PKL201", "PKL202")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A file or folder of the corpus.

    Attributes:
        name: Under which it is written; a folder where it has no suffix.
        kind: The class of bypass, or the kind of benign checkpoint.
        source: An advisory, paper or issue; `own`.
        write: Writes it at the path that it is given.
        hostile: Whether it is adversarial.
        expect: Adversarial: rules of which one must be found, all at `warning` or above. Benign:
            rules that are found at `warning`; nothing above a note where empty.
        loader: The real loader that reaches the payload (`canary.LOADERS`); "" where none is
            tried: the library is not here, or it would do more than print.
        proof: What shows that the payload ran: text that it prints, `MARKER`, or `audit:EVENT`.
        needs: A module that must be there for the proof.
        slow: Written by a library that takes seconds to import.
    """

    name: str
    kind: str
    source: str
    write: Callable[[Path], None]
    hostile: bool = True
    expect: tuple[str, ...] = RUNS
    loader: str = ""
    proof: str = CANARY
    needs: str = ""
    slow: bool = False


def slug_of(module: str, name: str) -> str:
    """The part of a file's name that says what it calls."""
    return f"{module}-{name}".replace(".", "-").replace("_", "-").strip("-")


def write_bytes(data: bytes) -> Callable[[Path], None]:
    """Return a writer of these bytes."""

    def write(path: Path) -> None:
        path.write_bytes(data)

    return write
