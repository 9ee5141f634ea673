"""Which names of a file and of a model belong together, and what it means where some do not."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from everybit.checkpoint.renames import Fit, Rename, best_fit

if TYPE_CHECKING:
    from collections.abc import Mapping

    Shapes = Mapping[str, tuple[int, ...]]

#: Buffers that a module computes by itself, and counters that start anew without harm.
_COMPUTED: Final = re.compile(
    r"(?:^|\.)(?:(?:original_)?inv_freq|position_ids|token_type_ids|num_batches_tracked"
    r"|masked_bias|relative_position_index|relative_coords_table|attn_mask|causal_mask|cos_cached"
    r"|sin_cached|_float_tensor|rotary_emb\.\w+|attn\.(?:attention\.)?bias"
    r"|embed_positions\.weights|total_ops|total_params)$"
)
_HEADS: Final = frozenset(
    {
        "head", "heads", "classifier", "classification_head", "fc", "lm_head", "score", "cls",
        "qa_outputs", "prediction_head", "pooler", "projection_head", "last_linear", "regressor",
        "aux_classifier", "output_layer",
    }
)  # fmt: skip
_MAX_HEAD: Final = 8
_MAX_HEADS: Final = 2
_ADAPTER: Final = re.compile(r"(?:^|\.|_)(?:lora_|adapter|prompt_|prefix_encoder|ia3_|vera_|oft_)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """How the names and shapes of a file and a model stand to each other.

    Attributes:
        num_stored: Tensors of the file.
        num_held: Tensors of the model.
        arrived: Names with a tensor of the same shape on both sides.
        missing: Names of the model that the file has not.
        unexpected: Names of the file that the model has not.
        mismatched: `{name: (shape in the file, shape in the model)}`.
        tied: `{missing name: the name that shares its memory and arrived}`.
        explained: `{name: why its absence is harmless}`, tied ones included.
        head: Names of a head that is the model's own, most likely on purpose.
        better: The rename under which more would fit; None where there is none.
    """

    num_stored: int
    num_held: int
    arrived: tuple[str, ...]
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    mismatched: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]]
    tied: Mapping[str, str] = field(default_factory=dict)
    explained: Mapping[str, str] = field(default_factory=dict)
    head: tuple[str, ...] = ()
    better: Fit | None = None

    @property
    def really_missing(self) -> tuple[str, ...]:
        """The missing names whose absence nothing explains."""
        return tuple(name for name in self.missing if name not in self.explained)

    @property
    def really_unexpected(self) -> tuple[str, ...]:
        """The unexpected names whose presence nothing explains."""
        return tuple(name for name in self.unexpected if name not in self.explained)

    @property
    def is_nothing(self) -> bool:
        """Whether nothing of the file arrives."""
        return bool(self.num_stored and self.num_held) and not self.arrived

    @property
    def is_whole(self) -> bool:
        """Whether all of both sides fit, but for what is explained."""
        return not (self.really_missing or self.really_unexpected or self.mismatched)

    @property
    def is_on_purpose(self) -> bool:
        """Whether what does not fit looks like a deliberate part or a new head.

        All of the file arrived (a part, an adapter), or all of the model is filled (the whole file
        given to a part), or only a head differs.
        """
        if self.is_nothing:
            return False
        whole_file = not self.really_unexpected and not self.mismatched
        return whole_file or self.fills_the_model

    @property
    def fills_the_model(self) -> bool:
        """Whether every tensor of the model arrived but for a head of its own."""
        whole_model = not self.really_missing and not self.mismatched
        return bool(self.arrived) and (whole_model or bool(self.head))


def match_keys(held: Shapes, stored: Shapes, same: Mapping[str, str] | None = None) -> Match:
    """Hold a file's names and shapes against a model's.

    Args:
        held: Shapes of the model's tensors by name, in its order.
        stored: Shapes of the file's tensors, under the names by which they are to be loaded.
        same: `{name: first name}` of the model's tensors that share one memory.
    """
    arrived = tuple(name for name in stored if held.get(name) == stored[name])
    missing = tuple(name for name in held if name not in stored)
    unexpected = tuple(name for name in stored if name not in held)
    mismatched = {
        name: (stored[name], held[name])
        for name in stored
        if name in held and held[name] != stored[name]
    }
    tied = _tied(missing, set(arrived), same or {})
    explained = {name: f"it is tied to {other}, which arrived" for name, other in tied.items()}
    for name in (*missing, *unexpected):
        if name not in explained and _COMPUTED.search(name):
            explained[name] = "the module computes it, or counts it anew"
    absent = [name for name in missing if name not in explained]
    if absent and len(arrived) == len(stored) and all(_ADAPTER.search(name) for name in stored):
        explained |= dict.fromkeys(absent, "the file is an adapter: it holds no base weights")
        absent = []
    rest = [name for name in unexpected if name not in explained]
    head = _head([*absent, *mismatched], len(arrived))
    better = None
    if (absent or not arrived) and rest and len(head) < len(absent) + len(mismatched):
        fit = best_fit(held, stored)
        if fit is not None and not fit.rename.is_plain and fit.num_fitting > len(arrived):
            better = fit
    return Match(
        num_stored=len(stored),
        num_held=len(held),
        arrived=arrived,
        missing=missing,
        unexpected=unexpected,
        mismatched=mismatched,
        tied=tied,
        explained=explained,
        head=head,
        better=better,
    )


def _tied(missing: tuple[str, ...], arrived: set[str], same: Mapping[str, str]) -> dict[str, str]:
    by_first: dict[str, str] = {}
    for name in arrived:
        by_first.setdefault(same.get(name, name), name)
    return {
        name: by_first[same.get(name, name)] for name in missing if same.get(name, name) in by_first
    }


def _head(names: list[str], num_arrived: int) -> tuple[str, ...]:
    """Return the names where all are of heads, a pooler say, and the rest of the model arrived."""
    if not names or len(names) > _MAX_HEAD or num_arrived <= len(names):
        return ()
    tops = {head_of(name) for name in names}
    return tuple(names) if len(tops) <= _MAX_HEADS and None not in tops else ()


def head_of(name: str) -> str | None:
    """Return the head that a tensor belongs to by its name; None where that is none."""
    parts = name.split(".")
    for depth, part in enumerate(parts[:-1]):
        if part in _HEADS:
            return ".".join(parts[: depth + 1])
    return None


def suggestion(match: Match, *, where: str = "prefix") -> str:
    """Return the advice to rename as one clause, "" where no rename would help."""
    if match.better is None:
        return ""
    rename: Rename = match.better.rename
    unsure = " (others would fit as many)" if match.better.ambiguous else ""
    given = rename.drop or rename.add
    how = f'; pass {where}="{given}"' if given and not (rename.drop and rename.add) else ""
    how = how or f'; pass {where}="auto"'
    return f"{rename}: then {match.better.num_fitting} of {match.num_stored} fit{unsure}{how}"
