"""What a model is given: values that are not finite, ids that its embedding has no row for."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Final

import torch

from everybit.core.boundary import Boundary
from everybit.core.verdict import Checked, Coverage, Skipped
from everybit.detect.batch_nonfinite import BadValues, judge_values
from everybit.detect.token_range import (
    TokenInput,
    gaps_in,
    gaps_meant,
    judge_failed,
    judge_gaps,
    judge_width,
)
from everybit.guard.check import Check
from everybit.probe.digest import flatten, readable
from everybit.probe.memory import dtype_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from everybit.core.finding import Finding
    from everybit.core.samples import SampleRecord
    from everybit.guard.moment import Moment

#: Calls of the model whose ids are looked at for width and gaps.
TOKEN_CALLS: Final = 4
#: Findings of one input that are told.
MAX_TOLD: Final = 16
MAX_ROWS: Final = 16


class InputsCheck(Check):
    """Look at the inputs of root calls: one sum a float tensor.

    Where the loss, or the answer, comes out finite all the same, what is found is a warning only:
    so it is judged once that is known.

    Args:
        rank: Rank of the process.
        record_of: Returns the delivered batch that a tensor is of.
        sources: Types of the arrays of ids that data sets hold, by path.
    """

    def __init__(
        self,
        *,
        rank: int,
        record_of: Callable[[torch.Tensor], SampleRecord | None],
        sources: Mapping[str, str],
    ) -> None:
        self._rank = rank
        self._record_of = record_of
        self._sources = sources
        self._num_inputs = 0
        self._bad: list[tuple[BadValues, SampleRecord | None]] = []
        self._asked: list[tuple[str, torch.Tensor, torch.Tensor]] = []
        self._tokens: list[tuple[str, torch.Tensor]] = []
        self._embeddings: weakref.WeakKeyDictionary[torch.nn.Module, dict[str, int]] = (
            weakref.WeakKeyDictionary()
        )
        self._num_token_calls = 0
        self._told: dict[tuple[str, str], int] = {}
        self._meant: dict[str, str] = {}

    def __call__(self, boundary: Boundary, moment: Moment) -> Sequence[Finding]:
        """Look at inputs as a call begins; judge them once it is known what came of them."""
        if boundary is Boundary.FORWARD_START:
            if moment.differentiable or moment.evaluating:
                return self._look(moment)
        elif boundary is Boundary.FORWARD_END:
            found = self._ended(moment) if not moment.outputs else []
            self._tokens = []
            if moment.evaluating and self._bad:
                found += self._judge(moment.step, _finite(moment.outputs))
            return found
        elif boundary is Boundary.BACKWARD_START and self._bad:
            return self._judge(moment.step, _finite(moment.losses))
        return ()

    def finish(self, moment: Moment) -> Sequence[Finding]:
        """Judge what lies on accelerators, and what no loss came of."""
        asked, self._asked = self._asked, []
        for path, tensor, finite in asked:
            if not bool(finite):
                self._bad.append((_count(path, tensor), self._record_of(tensor)))
        return self._judge(moment.step, None) if self._bad else ()

    def coverage(self) -> Coverage:
        """Return how many inputs were looked at."""
        skipped = [
            Skipped(what=f"type of the ids of input {path or 'of the model'}", why=why,
                    promised=False)
            for path, why in self._meant.items()
        ]  # fmt: skip
        checked = Checked(what="inputs of the model", count=self._num_inputs)
        return Coverage(checked=(checked,) if self._num_inputs else (), skipped=tuple(skipped))

    def _look(self, moment: Moment) -> list[Finding]:
        self._tokens = []
        leaves = [*flatten(list(moment.args)), *flatten(dict(moment.kwargs))]
        for path, leaf in leaves:
            if not isinstance(leaf, torch.Tensor) or not readable(leaf):
                continue
            if leaf.is_floating_point():
                self._num_inputs += 1
                self._look_at_values(path, leaf.detach())
            elif not leaf.is_complex() and leaf.dtype is not torch.bool:
                self._tokens.append((path, leaf))
        if self._tokens and moment.root is not None and self._num_token_calls < TOKEN_CALLS:
            return self._look_at_ids(moment)
        return []

    def _look_at_values(self, path: str, tensor: torch.Tensor) -> None:
        if not tensor.numel() or tensor.element_size() == 1:
            return
        if tensor.device.type != "cpu":
            self._asked.append((path, tensor, torch.isfinite(tensor).all()))
            return
        # A sum that overflows is looked at element by element.
        total = tensor.sum(dtype=torch.float32) if tensor.element_size() == 2 else tensor.sum()
        if not bool(torch.isfinite(total)):
            bad = _count(path, tensor)
            if bad.rows:
                self._bad.append((bad, self._record_of(tensor)))

    def _judge(self, step: int, finite: bool | None) -> list[Finding]:
        held, self._bad = self._bad, []
        found = []
        for bad, record in held:
            key = (bad.path, "masked" if finite else "")
            self._told[key] = self._told.get(key, 0) + 1
            if self._told[key] <= (1 if finite else MAX_TOLD):
                finding = judge_values(
                    bad, step=step, rank=self._rank, finite_behind=finite, record=record
                )
                found += [finding] if finding is not None else []
        return found

    def _look_at_ids(self, moment: Moment) -> list[Finding]:
        assert moment.root is not None
        embeddings = self._embeddings_of(moment.root)
        if not embeddings:
            return []
        self._num_token_calls += 1
        found: list[Finding | None] = []
        for path, leaf in self._tokens:
            if leaf.dim() == 2 and leaf.device.type == "cpu":
                tokens = _tokens(path, leaf, max(embeddings.values()))
                at = {"step": moment.step, "rank": self._rank}
                found.append(judge_gaps(tokens, self._sources, **at))
                meant = gaps_meant(tokens, self._sources)
                self._meant |= {path: meant} if meant else {}
                found.append(judge_width(tokens, self._sources, embeddings, **at))
        return [each for each in found if each is not None and self._is_new(each)]

    def _ended(self, moment: Moment) -> list[Finding]:
        """Look at ids where an error ended the call."""
        if moment.root is None:
            return []
        embeddings = self._embeddings_of(moment.root)
        found: list[Finding | None] = [
            judge_failed(_tokens(path, leaf, 0), embeddings, step=moment.step, rank=self._rank)
            for path, leaf in self._tokens
            if leaf.device.type == "cpu" and leaf.numel()
        ]
        return [each for each in found if each is not None and self._is_new(each)]

    def _embeddings_of(self, root: torch.nn.Module) -> dict[str, int]:
        known = self._embeddings.get(root)
        if known is None:
            known = self._embeddings[root] = {
                name or type(module).__name__: module.num_embeddings
                for name, module in root.named_modules()
                if isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag))
            }
        return known

    def _is_new(self, finding: Finding) -> bool:
        key = (str(finding.evidence.get("input")), str(finding.evidence.get("kind")))
        self._told[key] = self._told.get(key, 0) + 1
        return self._told[key] == 1


def _finite(values: Any) -> bool:
    """Whether all tensors of a loss, or of an answer, are finite."""
    tensors = [leaf for _, leaf in flatten(list(values)) if isinstance(leaf, torch.Tensor)]
    return all(
        bool(torch.isfinite(each.detach()).all())
        for each in tensors
        if each.is_floating_point() and readable(each)
    )


def _count(path: str, tensor: torch.Tensor) -> BadValues:
    values = tensor.detach().cpu()
    nan, infinite = torch.isnan(values), torch.isinf(values)
    negative = infinite & (values < 0)
    bad = nan | infinite
    rows = (
        bad.reshape(bad.shape[0], -1).any(1).nonzero()[:MAX_ROWS, 0].tolist() if bad.dim() else [0]
    )
    num_nan, num_negative = int(nan.sum()), int(negative.sum())
    num_positive = int(infinite.sum()) - num_negative
    others = values[~bad]
    return BadValues(
        path=path,
        num_nan=num_nan,
        num_positive=num_positive,
        num_negative=num_negative,
        num_elements=values.numel(),
        rows=tuple(rows) if bool(bad.any()) else (),
        is_mask=not num_nan and not num_positive and bool((others == 0).all()),
    )


def _tokens(path: str, leaf: torch.Tensor, vocabulary: int) -> TokenInput:
    values = leaf.detach().to(torch.int64)
    rows = values[:MAX_ROWS].tolist() if values.dim() == 2 else []
    high = max(0, vocabulary - 1) >> 16
    return TokenInput(
        path=path,
        dtype=dtype_name(leaf.dtype),
        lowest=int(values.min()),
        highest=int(values.max()),
        gaps=gaps_in(rows, high_words=high),
    )
