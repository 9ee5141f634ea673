"""The model's answer: whether torch accepts a pickle or a file, and what it refuses."""

from __future__ import annotations


class Refusal:
    """One thing for which torch refuses a pickle, or for which acceptance is not proved.

    Attributes:
        reason: Why, as a clause without subject ("is not among the names that torch allows").
        name: Qualified name of the global; "" where it is an opcode, an argument or the file.
        key: Dotted key in the object under which it hangs; "" where that is unknown.
        library: The library that the name comes from; "" without a name.
        position: Offset of the opcode in the pickle; -1 where the file and no pickle is meant.
        by_name: `torch.serialization.safe_globals` with the name would lift it.
        proved: Torch certainly refuses; False where acceptance is merely not proved.
        usual: Torch itself writes such files; not proved is then no sign of anything.
    """

    __slots__ = ("by_name", "key", "library", "name", "position", "proved", "reason", "usual")

    def __init__(
        self,
        *,
        reason: str,
        name: str = "",
        key: str = "",
        library: str = "",
        position: int = -1,
        by_name: bool = False,
        proved: bool = True,
        usual: bool = False,
    ) -> None:
        self.reason = reason
        self.name = name
        self.key = key
        self.library = library
        self.position = position
        self.by_name = by_name
        self.proved = proved
        self.usual = usual

    def under(self, key: str) -> Refusal:
        """Return the same refusal with the key under which it hangs."""
        return Refusal(
            reason=self.reason,
            name=self.name,
            key=key,
            library=self.library,
            position=self.position,
            by_name=self.by_name,
            proved=self.proved,
            usual=self.usual,
        )


class Acceptance:
    """Whether `torch.load(weights_only=True)` is proved to accept, and the refusals if not.

    Attributes:
        accepted: It is proved that torch does not raise.
        refusals: In the order of the pickle; empty where accepted.
        damaged: The refusal is damage that `verify` and `scan` tell by other rules.
        end: Offset after STOP, where the pickle was walked to its end; else -1.
    """

    __slots__ = ("accepted", "damaged", "end", "refusals")

    def __init__(
        self,
        *,
        accepted: bool,
        refusals: tuple[Refusal, ...] = (),
        damaged: bool = False,
        end: int = -1,
    ) -> None:
        self.accepted = accepted
        self.refusals = refusals
        self.damaged = damaged
        self.end = end

    def refused(self, refusals: tuple[Refusal, ...]) -> Acceptance:
        """Return what is left of it where these refusals stand against it."""
        return Acceptance(accepted=False, refusals=refusals, damaged=self.damaged, end=self.end)

    def marked(self, *, damaged: bool) -> Acceptance:
        """Return the same answer as damage that other rules tell, or as none."""
        return Acceptance(
            accepted=self.accepted, refusals=self.refusals, damaged=damaged, end=self.end
        )
