"""`everybit.explain_error`: what a loader's message really means, without torch."""

from __future__ import annotations

import os
import re
import textwrap
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from everybit.core.messages import MESSAGES, Message, Where

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

#: Frames in which a loader reads a file, as a traceback prints them.
_LOADERS: Final = re.compile(
    r'torch[/\\](?:serialization\.py", line \d+, in (?:_legacy)?_?load\b|_weights_only_unpickler)'
    r"|torch[/\\]distributed[/\\]checkpoint[/\\](?:state_dict_loader|filesystem)"
    r"|safetensors[/\\]|\btorch\.load\b"
)
_PLACES: Final = {Where.LOADER: _LOADERS, Where.UNPICKLER: re.compile("_weights_only_unpickler")}
#: Where loaders keep the path of the file they read.
_READERS: Final = re.compile(r"[/\\](?:torch|safetensors|transformers)[/\\]")
_HELD_AS: Final = ("f", "filename", "checkpoint_file", "checkpoint_id", "shard_file", "file_name")
_PATH: Final = re.compile(
    r"['\"`]?((?:[\w.~+-]*[/\\])?[\w./\\~+-]*"
    r"\.(?:safetensors|ckpt|pth|pt|bin|distcp|index\.json))\b['\"`]?"
)
_MAX_TEXT: Final = 200_000
_NUM_FRAMES: Final = 14
_REFUSED: Final = "PKL204"
#: Globals of every torch file: one that differs from these in one letter is a damaged one.
_USUAL: Final = (
    "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_parameter",
    "collections.OrderedDict", "torch.FloatStorage", "torch.HalfStorage", "torch.BFloat16Storage",
    "torch.LongStorage", "torch.IntStorage", "torch.DoubleStorage", "torch.ByteStorage",
    "torch.BoolStorage", "torch.float32", "torch.bfloat16", "torch.float16", "torch.Size",
    "torch.storage.UntypedStorage", "torch._utils._rebuild_tensor_v3",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What an error message of a loader really means.

    Attributes:
        rules: What `everybit verify` would report, the likeliest first.
        what: What is really wrong, as sentences.
        todo: What to do, with everybit's commands.
    """

    rules: tuple[str, ...]
    what: str
    todo: str

    def __str__(self) -> str:
        ids = ", ".join(self.rules)
        todo = f"{self.todo[:1].upper()}{self.todo[1:]}" if self.todo[:1] != "`" else self.todo
        return f"{self.what} {todo}. ({ids})"

    def paragraph(self, *, width: int = 96) -> str:
        """Return it wrapped, for a terminal, with a line's end."""
        return (
            textwrap.fill(str(self), width, break_long_words=False, break_on_hyphens=False) + "\n"
        )


def explain_error(error: str | BaseException, *, path: str = "") -> Explanation | None:
    """Return what is really wrong where a loader raised this error; None for any other error.

    Knows what torch, safetensors, Transformers and DCP say of files that are damaged, cut short,
    something else, refused, or made for another model.

    Args:
        error: The exception, or its text as printed: the last line, or the whole traceback.
        path: The file, where it is known; taken from the text where that names one.

    >>> explanation = explain_error("_pickle.UnpicklingError: invalid load key, 'v'.")
    >>> explanation.rules
    ('FIL118',)
    """
    pasted = isinstance(error, str)
    text = error if isinstance(error, str) else _text_of(error)
    frames = error if isinstance(error, str) else _printed(_frames_of(error))
    text = text[:_MAX_TEXT]
    for message in MESSAGES:
        found = message.pattern.search(text)
        if found is None:
            continue
        place = message.raised_in
        alone = pasted and _is_short(message, text)
        if place and not alone and not _PLACES[place].search(frames):
            continue
        return _explanation(message, found, path or _path_in(text, error))
    return None


def _explanation(message: Message, found: re.Match[str], path: str) -> Explanation:
    name = next((group for group in found.groups() if group), "")
    rules, what = message.rules, message.what
    if _REFUSED in rules and _is_damaged(name):
        rules = ("FIL108", "FIL107")
        what = f"The pickle names {name}, which is a usual name with a damaged letter."
    todo = message.todo.replace("{file}", path or "FILE")
    if rules != message.rules:
        todo = (
            f"`everybit verify {path or 'FILE'}` places the damage, and `everybit repair` "
            "puts a single flipped bit back"
        )
    return Explanation(
        rules=rules,
        what=" ".join(what.replace("{name}", name or "it").split()),
        todo=" ".join(todo.split()),
    )


def _is_damaged(name: str) -> bool:
    return any(
        len(usual) == len(name) and sum(a != b for a, b in zip(usual, name, strict=True)) == 1
        for usual in _USUAL
    )


def _is_short(message: Message, text: str) -> bool:
    """Whether a pasted text is this one line alone, of the kinds that say nothing else."""
    alone = text.strip()
    return "\n" not in alone and message.pattern.pattern.endswith(r"\s*$")


def _text_of(error: BaseException) -> str:
    """Return the texts of an error and of those that led to it, as Python prints them."""
    lines: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen and len(seen) < 10:
        seen.add(id(current))
        try:
            lines.append("".join(traceback.format_exception_only(current)))
            notes: Any = getattr(current, "__notes__", None)
            lines += [str(note) for note in notes or ()]
        except Exception:  # an error whose text cannot be made
            lines.append(type(current).__name__)
        current = current.__cause__ or current.__context__
    return "\n".join(lines)


def _frames_of(error: BaseException) -> Iterator[FrameType]:
    """Yield the innermost frames: a program far above a loader is none of its own."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen and len(seen) < 10:
        seen.add(id(current))
        frames = [frame for frame, _ in traceback.walk_tb(current.__traceback__)]
        yield from frames[-_NUM_FRAMES:]
        current = current.__cause__ or current.__context__


def _printed(frames: Iterator[FrameType]) -> str:
    return "\n".join(
        f'"{frame.f_code.co_filename}", line {frame.f_lineno}, in {frame.f_code.co_name}'
        for frame in frames
    )


def _path_in(text: str, error: str | BaseException) -> str:
    """Return the file's path: from the frames of the loader, or from the text."""
    if not isinstance(error, str):
        for frame in _frames_of(error):
            if _READERS.search(frame.f_code.co_filename):
                for name in _HELD_AS:
                    value = frame.f_locals.get(name)
                    if isinstance(value, str | os.PathLike) and str(value):
                        return str(value)
        if isinstance(error, OSError) and isinstance(error.filename, str):
            return error.filename
    found = _PATH.search(text)
    return found[1] if found else ""
