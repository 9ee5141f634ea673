"""Known issues of one run's versions that give wrong results, and which can explain a value.

The list itself and the test of a record against it are `host.known_issues`; here they are values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from everybit.core.link import Link

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everybit.diff.parting import Parting

_COMPUTED: Final = frozenset(
    {Link.FORWARD, Link.LOSS, Link.GRAD, Link.REDUCE, Link.UPDATE, Link.OUTPUT}
)
_REDUCED: Final = frozenset({Link.GRAD, Link.REDUCE, Link.UPDATE})
#: What the name of an operation has in it, and the names of the layers that run it.
_LAYERS: Final = (
    ("conv", ("conv",)),
    ("batch_norm", ("norm",)),
    ("rnn", ("rnn", "lstm", "gru")),
)
_COLLECTIVES: Final = ("all_reduce", "all_gather", "collective")
#: Layers of torch that run none of those operations but their own.
_PLAIN_LAYERS: Final = frozenset(
    {"Linear", "Embedding", "LayerNorm", "GroupNorm", "RMSNorm", "Dropout", "Conv1d", "Conv2d",
     "Conv3d", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LSTM", "GRU", "RNN", "MaxPool2d"}
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownIssue:
    """One known issue that one of two runs falls under and the other does not.

    Attributes:
        side: `A` or `B`.
        id: Its name.
        entry: Where in the environment the version stands that decides.
        library: Whose version it is.
        version: That version.
        wrong: What goes wrong, in words.
        ops: The operations.
        before: The entry's value in A.
        after: The entry's value in B.
        unsure: Conditions that the record does not tell; "" where all of them hold.
    """

    side: str
    id: str
    entry: str
    library: str
    version: str
    wrong: str
    ops: tuple[str, ...] = ()
    before: Any = None
    after: Any = None
    unsure: str = ""

    def can_explain(
        self, parting: Parting, configuration: Mapping[str, Any], module: str | None, *, ranks: int
    ) -> bool:
        """Whether what parts first can come of it.

        Args:
            parting: Where two runs part.
            configuration: In force there, for the classes of layers.
            module: The layer whose output it is, where that is known.
            ranks: Ranks of the run.
        """
        if parting.link not in _COMPUTED or parting.missing_in:
            return False
        named = " ".join(self.ops).lower()
        if any(word in named for word in _COLLECTIVES):
            return ranks > 1 and parting.link in _REDUCED
        kind = str(((configuration.get("modules") or {}).get(module) or {}).get("class", ""))
        if parting.link is not Link.FORWARD or kind not in _PLAIN_LAYERS:
            return True  # What else is computed there is not on record.
        known = [layers for word, layers in _LAYERS if word in named]
        attention = "attention" in named
        return not attention and all(
            any(layer in kind.lower() for layer in layers) for layers in known
        )

    def to_json(self) -> dict[str, Any]:
        """Return the form used in `explained_by`."""
        return {
            "entry": self.entry,
            "before": self.before,
            "after": self.after,
            "kind": "environment",
            "rank": 2,
            "why": f"a known issue of {self.side}'s {self.library} {self.version} (ENV903 "
            f"{self.id}): {self.wrong}",
            "issue": self.id,
            "side": self.side,
        }

    def told(self) -> str:
        """Return it as a clause."""
        unsure = f"; {self.unsure}" if self.unsure else ""
        return (
            f"{self.library} {self.version} of {self.side} has a known issue that can give this "
            f"({self.id}: {self.wrong}{unsure})"
        )
