"""The examples, and what a flip in each can hit."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tests.examples.witness import GRADIENT, Plan

EXAMPLES = Path(__file__).parent.parent.parent / "examples"

ALL = ("weight", "state", "buffer", "gradient")


@dataclass(frozen=True, kw_only=True)
class Example:
    """A script and how it is tried.

    Attributes:
        name: For test ids and folders.
        script: File name.
        args: Arguments besides `--steps` and `--seed`.
        steps: Steps of a short run.
        kinds: What a flip can hit.
        first: Updates before the first flip.
        gap: Updates between two flips.
        slack: Updates of other optimizers that may come before the damaged bits are next used.
        after: The moment at which weights, state and buffers are hit.
        preload: Packages it needs, imported before.
        timed: It prints how long things took.
        config: Settings of the Guard.
        quick: Whether it is tried by the tests too, not only by the campaign.
    """

    name: str
    script: str
    args: tuple[str, ...] = ()
    steps: int = 8
    kinds: tuple[str, ...] = ALL
    first: int = 2
    gap: int = 1
    slack: int = 0
    after: str = "step"
    preload: tuple[str, ...] = ()
    timed: bool = False
    config: dict[str, object] = field(default_factory=dict)
    quick: bool = True

    @property
    def path(self) -> Path:
        """Path of the script."""
        return EXAMPLES / self.script

    def arguments(self, seed: int = 0) -> list[str]:
        """Return the arguments of a short run."""
        return ["--steps", str(self.steps), "--seed", str(seed), *self.args]

    def plans(self, kinds: tuple[str, ...] = ALL, seed: int = 0) -> list[Plan]:
        """Return a flip of each kind that can be hit, at steps of its own."""
        return [
            Plan(
                kind=kind,
                step=self.first + self.gap * number,
                after="backward" if kind == GRADIENT else self.after,
                seed=1000 * seed + number,
            )
            for number, kind in enumerate(kind for kind in self.kinds if kind in kinds)
        ]


def example(script: str, name: str = "", **options: object) -> Example:
    """Return an example named after its script."""
    return Example(name=name or script, script=f"{script}.py", **options)  # type: ignore[arg-type]


#: Scripts that have a Guard of their own, and a test of their own.
GUARDED = ("guarded_loop.py",)
#: What scripts share.
SHARED = ("checkpoints.py",)
EAGER = ("--backend", "aot_eager")
FROZEN = ("weight", "buffer")
EVERY_CALL = {"scrub_percent": 100}
REPERTOIRE = (
    example("evaluate", config=EVERY_CALL, kinds=FROZEN, after="call"),
    example("serve", config=EVERY_CALL, kinds=FROZEN, after="call", steps=24),
    example("generate", config=EVERY_CALL, kinds=FROZEN, after="call"),
    example("train_cnn"),
    example("train_cnn", "train_cnn_workers", quick=False, args=("--workers", "2")),
    example("train_gpt"),
    example("gan", first=3, gap=2, slack=3, steps=6),
    example("fit_lbfgs", kinds=("weight", "state", "buffer")),
    example("amp_fp16", steps=10, first=4),
    example("amp_fp16", "amp_fp16_fused", quick=False, args=("--fused",), steps=10, first=4),
    example("amp_bf16"),
    example("compile_model", args=EAGER),
    example("compile_model", "compile_parts", quick=False, args=(*EAGER, "--what", "parts")),
    example("compile_model", "compile_in_place", quick=False, args=(*EAGER, "--what", "in-place")),
    example("checkpoint_activations"),
    example("fine_tune"),
    example("ema_swa"),
    example("save_and_resume", steps=9),
    example("distill"),
    example("dqn", after="call"),
    example("maml", slack=0),
    example("data_parallel"),
    example("other_optimizers", "lion"),
    example("other_optimizers", "schedulefree", args=("--optimizer", "schedulefree")),
    example("other_optimizers", "lamb", quick=False, args=("--optimizer", "lamb")),
    example("other_optimizers", "lookahead", quick=False, args=("--optimizer", "lookahead")),
    example("cast_model", steps=14, first=9),
    example("moco"),
    example("word2vec", kinds=("weight", "state", "buffer"), slack=1, gap=2, steps=6, after="call"),
    example(
        "step_in_backward",
        kinds=("weight", "state", "buffer"),
        first=16,
        gap=8,
        slack=8,
        after="backward",
    ),
    # What they copy by hand behind an update is read past any call: hit right before the call.
    example("diffusion", after="call"),
    example("muon", slack=1, gap=2, steps=6),
    example(
        "hf_trainer",
        timed=True,
        preload=("transformers", "accelerate"),
        kinds=("weight", "state", "gradient"),
    ),
    example("lightning_autoencoder", preload=("lightning",)),
    example("accelerate_classifier", preload=("accelerate",)),
)
