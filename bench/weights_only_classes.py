"""Why the model refuses files that torch accepts: every refusal that is not proved, in classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """A class of refusals.

    Attributes:
        name: Its name.
        why: Why torch accepts such a file, and why the model does not.
        starts: What its refusals begin with.
    """

    name: str
    why: str
    starts: tuple[str, ...]


REASONS: Final = (
    Reason(
        name="damage",
        why="Records of the file contradict each other, or it is cut where torch does not look; "
        "scan and verify tell it as FIL104, FIL107 or PKL203, and nothing is promised about it.",
        starts=("damage:",),
    ),
    Reason(
        name="other arguments",
        why="A rebuild function or a class got arguments that torch's parsers happen to take (a "
        "list or a number for a tuple, None, a boolean for a number, hooks or text of another "
        "type); torch.save never writes them.",
        starts=("gets ", "calls ", "makes ", "encodes ", "names a ", "rebuilds a "),
    ),
    Reason(
        name="storage described oddly",
        why="A persistent id has a key, device, type or count that torch.save never writes, or "
        "describes one storage twice; torch takes the first description, and looks up nothing in "
        "some of the fields.",
        starts=("asks for ", "gives a ...", "describes ", "uses the key ", "gives a storage"),
    ),
    Reason(
        name="storages that grow",
        why="A tensor reaches past its storage: torch lets a storage of the legacy format grow and "
        "leaves memory in it that was never written.",
        starts=("reaches past",),
    ),
    Reason(
        name="keys not proved",
        why="A dictionary's key is a tensor or another object that Python hashes by its address.",
        starts=("keeps a key", "copies "),
    ),
    Reason(
        name="state of an object",
        why="Attributes that the class has itself, or odd ones, are set on a tensor, or BUILD sets "
        "up a tensor as torch before 0.2 wrote it: what comes of it depends on their values.",
        starts=("sets attributes", "gives state to"),
    ),
    Reason(
        name="quantiser",
        why="Scales, zero points or an axis of another form than torch.save writes.",
        starts=("quantises ",),
    ),
    Reason(
        name="records beside the pickle",
        why="A small record (version, byteorder, alignment, identity) or a member's name has a "
        "form that torch happens to read; torch.save never writes it.",
        starts=("has a ", "has member", "has no ", "is called", "lists storage", "has another"),
    ),
)


def reason_of(refusal: str) -> str:
    """Return the class of a refusal; "" where it has none, which is a fault of the campaign."""
    for reason in REASONS:
        if refusal.startswith(reason.starts):
            return reason.name
    return ""
