"""An object of a checkpoint that stays what its pickle says of it: a name and what it was given."""

from __future__ import annotations

from typing import Any


class Record:
    """An inert object: nothing was imported and nothing called to make it.

    Equal records are not the same object, and none is equal to another: a record stands for an
    object whose own idea of equality is not known.

    Attributes:
        name: What would have been called, or the class ("transformers.TrainingArguments"); "" where
            that is itself the result of a call, which is `function` then.
        args: Its positional arguments; None where the checkpoint only mentions the name.
        kwargs: Its keyword arguments.
        state: What the object was given afterwards, mostly its `__dict__`.
        items: What was appended to it.
        pairs: What was set in it, by key.
        function: What would have been called, where that is no name.
    """

    __slots__ = ("args", "function", "items", "kwargs", "name", "pairs", "state")

    def __init__(
        self,
        name: str,
        args: tuple[Any, ...] | None = (),
        kwargs: Any = None,
        state: Any = None,
        items: list[Any] | None = None,
        pairs: dict[Any, Any] | None = None,
        function: Any = None,
    ) -> None:
        self.name = name
        self.args = args
        self.kwargs = kwargs
        self.state = state
        self.items = items
        self.pairs = pairs
        self.function = function

    def __repr__(self) -> str:
        """Return the name and how much there is, never the contents, which may contain itself."""
        parts = [repr(self.name)]
        if self.args is None:
            parts.append("args=None")
        elif self.args:
            parts.append(f"{len(self.args)} args")
        if isinstance(self.state, dict):
            parts.append(f"state of {len(self.state)} attributes")
        elif self.state is not None:
            parts.append("a state")
        parts += [f"{len(held)} {what}" for what, held in
                  (("items", self.items), ("pairs", self.pairs)) if held]  # fmt: skip
        return f"Record({', '.join(parts)})"
