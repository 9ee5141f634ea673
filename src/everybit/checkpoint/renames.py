"""The one constant change of names that would make a file's names the model's."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Shapes = Mapping[str, tuple[int, ...]]

#: Levels that wrappers put into names: data parallelism, torch.compile, FSDP, checkpointing,
#: DeepSpeed, and the name of PEFT's only adapter.
WRAPPERS: Final = frozenset(
    {
        "module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module",
        "_forward_module", "default",
    }
)  # fmt: skip
_MAX_CANDIDATES: Final = 12
_MAX_ALIKE: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Rename:
    """How a name of the file becomes one of the model.

    Attributes:
        drop: Prefix that is taken away; names without it are not of the model.
        add: Prefix that is put in front.
        without_wrappers: Levels of wrappers are left out wherever they stand, on both sides.
    """

    drop: str = ""
    add: str = ""
    without_wrappers: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether it changes nothing."""
        return not (self.drop or self.add or self.without_wrappers)

    def apply(self, name: str) -> str | None:
        """Return the new name; None for a name that lacks the prefix."""
        if not name.startswith(self.drop):
            return None
        name = self.add + name[len(self.drop) :]
        return without_wrappers(name) if self.without_wrappers else name

    def __str__(self) -> str:
        if self.without_wrappers:
            levels = ", ".join(f"`{name}`" for name in ("module", "_orig_mod"))
            return f"leave out the levels of wrappers ({levels} ...) in the names"
        if self.drop and self.add:
            return f"replace the prefix `{self.drop}` in the file's names by `{self.add}`"
        if self.drop:
            return f"remove the prefix `{self.drop}` from the file's names"
        return f"add the prefix `{self.add}` to the file's names" if self.add else "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """How well a rename makes the names fit.

    Attributes:
        rename: The change.
        num_fitting: Tensors of the file that have a place of their shape then.
        ambiguous: Another rename fits as many.
    """

    rename: Rename
    num_fitting: int
    ambiguous: bool = False


def without_wrappers(name: str) -> str:
    """Return a name without the levels of wrappers.

    >>> without_wrappers("module.encoder._orig_mod.weight")
    'encoder.weight'
    """
    return ".".join(part for part in name.split(".") if part not in WRAPPERS)


def placed(rename: Rename, stored: Iterable[str], held: Iterable[str]) -> dict[str, str]:
    """Return `{name of the model: name of the file}` under a rename, for names that both have."""
    if rename.without_wrappers:
        places = {without_wrappers(name): name for name in held}
    else:
        places = {name: name for name in held}
    found: dict[str, str] = {}
    for name in stored:
        new = rename.apply(name)
        if new is not None and new in places:
            found.setdefault(places[new], name)
    return found


def best_fit(held: Shapes, stored: Shapes) -> Fit | None:
    """Return the rename under which most tensors fit by name and shape; None where none fits any.

    The names as they are win a tie. Time is linear in the number of names.

    Args:
        held: Shapes of the model's tensors by name.
        stored: Shapes of the file's tensors by name.
    """
    candidates = [Rename(), *_candidates(held, stored), Rename(without_wrappers=True)]
    fits = []
    for rename in dict.fromkeys(candidates):
        pairs = placed(rename, stored, held)
        fitting = sum(stored[old] == held[new] for new, old in pairs.items())
        fits.append(Fit(rename=rename, num_fitting=fitting))
    best = max(fits, key=lambda fit: fit.num_fitting)
    if not best.num_fitting:
        return None
    rivals = [
        fit
        for fit in fits
        if fit.num_fitting == best.num_fitting
        and fit.rename.drop != best.rename.drop
        and not fit.rename.without_wrappers
    ]
    plain = best.rename.is_plain or best.rename.without_wrappers
    return Fit(
        rename=best.rename, num_fitting=best.num_fitting, ambiguous=bool(rivals) and not plain
    )


def _candidates(held: Shapes, stored: Shapes) -> list[Rename]:
    """Return likely changes of prefix: names of one shape that end alike vote for theirs."""
    ends: dict[str, list[str]] = {}
    for name in held:
        for end in _ends(name):
            ends.setdefault(end, []).append(name)
    votes: Counter[Rename] = Counter()
    for name, shape in stored.items():
        for end in _ends(name):
            alike = [other for other in ends.get(end, ())[:_MAX_ALIKE] if held[other] == shape]
            for other in alike:
                drop, add = name[: len(name) - len(end)], other[: len(other) - len(end)]
                votes[Rename(drop=drop, add=add)] += 1
            if alike:
                break
    return [rename for rename, _ in votes.most_common(_MAX_CANDIDATES)]


def _ends(name: str) -> list[str]:
    """Return the name and what is left of it after each dot, the longest first."""
    parts = name.split(".")
    return [".".join(parts[index:]) for index in range(len(parts))]
