"""What surrounds a parting: differences that precede it, the samples of its step, its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Severity
from everybit.core.link import Link
from everybit.diff.configuration import (
    ORDER_ENTRIES,
    acts_on,
    compare_configurations,
    in_force,
    of_scalars,
)
from everybit.diff.measured import evidence_of
from everybit.diff.place import module_of
from everybit.diff.read_files import SECTION
from everybit.diff.samples import SampleStory, of_step, tell_samples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.diff.environment import Difference
    from everybit.diff.evidence import Evidence
    from everybit.diff.issues import KnownIssue
    from everybit.diff.parting import Parting
    from everybit.diff.side import RankSide
    from everybit.diff.walk import Walked

#: Links whose values are computed: their evidence is breadth and size.
COMPUTED: Final = frozenset(
    {Link.FORWARD, Link.LOSS, Link.GRAD, Link.REDUCE, Link.UPDATE, Link.OUTPUT}
)
#: Steps that agree to the bit before the parting, from which on they prove that the job repeats.
_AGREED_STEPS: Final = 2
#: Sections of an environment that can change the order of sums or the kernel that makes them.
_ARITHMETIC: Final = (
    "cpu.",
    "gpu.",
    "torch.",
    "cuda.",
    "blas",
    "threads.",
    "determinism.",
    "packages.torch.",
    "packages.numpy.",
    "packages.mkl",
    "packages.nvidia-",
    "packages.triton",
    "python.",
    "ranks",
    "host.",
)
#: Variables that do so.
_ARITHMETIC_WORDS: Final = (
    "OMP_",
    "MKL_",
    "BLAS",
    "ONEDNN",
    "DNNL",
    "ATEN_",
    "CUBLAS",
    "CUDNN",
    "NCCL",
    "TORCH",
    "KMP_",
    "THREADS",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What is known around a parting.

    Attributes:
        preceding: Differences of environment, code and command line.
        configuration: Differences of the recorded configuration that were not in force at the last
            step that agrees, or of the first step.
        stale: Differences of configuration that were, and so explain nothing.
        samples: What sets the batches apart, where the parting is one of batches, or what is
            computed from them differs and the model's own inputs agree: targets differ.
        acting: Those of `configuration` that act on the value that parts.
        evidence: Breadth and size, where the parting is of a computed link.
        same_files: Whether the program's own files are on record in both runs, and equal.
        issues: Known issues of one side's versions that can give what parts first.
        configured: Whether both runs recorded all that the value follows from: their configuration,
            and of a loss the samples, targets among them.
    """

    preceding: tuple[Difference, ...] = ()
    configuration: tuple[Difference, ...] = ()
    stale: tuple[Difference, ...] = ()
    samples: SampleStory | None = None
    acting: tuple[Difference, ...] = ()
    evidence: Evidence | None = None
    same_files: bool = False
    issues: tuple[KnownIssue, ...] = ()
    configured: bool = False

    @property
    def arithmetic(self) -> list[Difference]:
        """Differences that change the order of sums: threads, kernels, processors, libraries."""
        ordered = [each for each in self.configuration if _changes_order(each)]
        return [each for each in self.preceding if is_arithmetic(each)] + ordered

    @property
    def code(self) -> list[Difference]:
        """Differences of what runs: code, its arguments, packages that are not torch's."""
        found = [each for each in self.preceding if is_code(each)]
        if self.same_files:
            # Another commit with the same files of the program is no other program.
            found = [each for each in found if not each.entry.startswith("git.")]
        return found

    @property
    def settled(self) -> bool:
        """Whether all that could act on a number is on record, and nothing of it differs."""
        return self.configured and not (
            self.configuration or any(_may_act(each) for each in self.preceding)
        )

    def explained_by(self) -> tuple[dict[str, Any], ...]:
        """Return all that precedes, the likeliest cause first, JSON-ready."""
        acting = list(self.acting)
        rest = [each for each in (*self.configuration, *self.stale) if each not in acting]
        told = {each.entry for each in self.issues}
        preceding = [each for each in self.preceding if each.entry not in told]
        # An issue tells more than the version that it is an issue of.
        lead = [each.to_json() for each in acting] + [each.to_json() for each in self.issues]
        return (*lead, *(each.to_json() for each in (*preceding, *rest)))


def is_arithmetic(difference: Difference) -> bool:
    """Whether a difference of environment can change how sums are made."""
    entry = difference.entry
    if entry.startswith("variables"):
        return any(word in entry.upper() for word in _ARITHMETIC_WORDS)
    return difference.kind == "environment" and entry.startswith(_ARITHMETIC)


def is_precision(difference: Difference) -> bool:
    """Whether it is a flag that chooses the precision of computations: a setting."""
    return difference.entry.startswith("precision.")


def is_code(difference: Difference) -> bool:
    """Whether it is one of code, of its arguments, or of a package that runs in the loop."""
    entry = difference.entry
    if difference.kind == "code" or entry in ("command", "argv.options"):
        return True
    if entry.startswith(f"{SECTION}."):
        return True  # A configuration that is read decides as much as what reads it.
    return entry.startswith("packages.") and not is_arithmetic(difference)


def _may_act(difference: Difference) -> bool:
    # Seeds act by way of the random streams, which are compared.
    return difference.severity is not Severity.NOTE and not difference.entry.startswith("seeds.")


def _changes_order(difference: Difference) -> bool:
    section, _, rest = difference.entry.removeprefix("configuration.").partition(".")
    return section == "precision" and rest.startswith(ORDER_ENTRIES)


def gather(
    parting: Parting,
    walked: Walked,
    preceding: Sequence[Difference],
    *,
    same_files: bool = False,
    issues: Sequence[KnownIssue] = (),
    num_ranks: int = 1,
) -> Context:
    """Collect what is on record around a parting; nothing is read before there is one.

    Args:
        parting: Where two runs part.
        walked: The walk that found it.
        preceding: Differences of environment, code and command line.
        same_files: Whether the program's own files are on record in both runs, and equal.
        issues: Known issues of one side's versions.
        num_ranks: Ranks of the runs.
    """
    a, b = walked.sides
    step = parting.step
    new, stale = _configuration(a, b, parting, walked.last_agreed)
    name = parting.first_name
    acting = [
        each
        for each in new
        if not _changes_order(each) and acts_on(each.entry, parting.link, module_of(name), name)
    ]
    held = [in_force(side.configurations(), step) if side.configurations else {} for side in (a, b)]
    samples, targets = _story(a, b, parting, walked.last_agreed)
    evidence = None
    if parting.link in COMPUTED and parting.differences and not parting.missing_in:
        evidence = evidence_of(
            parting,
            held[0],
            repeats=_repeats(walked),
            first=walked.last_agreed is None,
            targets=targets,
        )
    return Context(
        preceding=tuple(preceding),
        configuration=tuple(new),
        stale=tuple(stale),
        samples=samples,
        evidence=evidence,
        acting=tuple(acting),
        same_files=same_files,
        issues=tuple(
            each
            for each in issues
            if each.can_explain(parting, held[0], module_of(name), ranks=num_ranks)
        ),
        configured=all(held) and (targets or parting.link is not Link.LOSS),
    )


def _configuration(
    a: RankSide, b: RankSide, parting: Parting, last_agreed: int | None
) -> tuple[list[Difference], list[Difference]]:
    """Return the differences of configuration at a step: new ones, and those in force before."""
    found = _compared(a, b, parting.step)
    if parting.records is not None and not any(".lr" in each.entry for each in found):
        found += of_scalars(*(record.scalars for record in parting.records))
    if last_agreed is None:
        return found, []
    before = {
        (each.entry, repr(each.before), repr(each.after)) for each in _compared(a, b, last_agreed)
    }
    stale = [each for each in found if (each.entry, repr(each.before), repr(each.after)) in before]
    return [each for each in found if each not in stale], stale


def _compared(a: RankSide, b: RankSide, step: int) -> list[Difference]:
    if a.configurations is None or b.configurations is None:
        return []
    return compare_configurations(
        in_force(a.configurations(), step), in_force(b.configurations(), step)
    )


def _story(
    a: RankSide, b: RankSide, parting: Parting, last_agreed: int | None
) -> tuple[SampleStory | None, bool]:
    """Return what sets the batches apart, and whether what the loss is made of is known equal."""
    if parting.missing_in or parting.records is None:
        return None, False
    told = tell_samples(*(_samples(side, parting.step) for side in (a, b)))
    if parting.link in (Link.BATCH, Link.RNG):
        return told, False
    if parting.link not in COMPUTED or told is None:
        return None, False
    if not told.differs:
        return None, True
    before = None
    if last_agreed is not None:
        before = tell_samples(*(_samples(side, last_agreed) for side in (a, b)))
    # What differed before without any effect (a path, a time beside the sample) explains nothing.
    stale = before is not None and before.differs
    return (None, False) if stale else (told, False)


def _samples(side: RankSide, step: int) -> list[Any]:
    return of_step(side.samples(), step) if side.samples is not None else []


def _repeats(walked: Walked) -> str:
    proven = [
        f"run {name}: {side.repeats}"
        for name, side in zip("AB", walked.sides, strict=True)
        if side.repeats
    ]
    if proven:
        return "; ".join(proven)
    if walked.num_steps - 1 >= _AGREED_STEPS:
        return f"the {walked.num_steps - 1} steps before it agree to the bit"
    return ""
