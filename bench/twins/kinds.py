"""Forty planted differences: how each is planted, and what `diff` should say of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from bench.twins.data import first_use
from bench.twins.settings import Flip, Settings

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    Plant = Callable[[Settings, random.Random], "Planted"]

#: Steps of an epoch of 40 samples in batches of 8.
EPOCH: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A pair of runs and the right answer.

    Attributes:
        a: Settings of run A.
        b: Settings of run B.
        step: The step at which they should part; None where any will do.
        module: The module that should be named (or hold the parameter that is); "" where the
            difference lies in none.
        source: Where the two programs keep what differs (`layers`: a file beside them, else a
            package); "" where the difference is one of settings.
    """

    a: Settings
    b: Settings
    step: int | None = 0
    module: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of planted difference.

    Attributes:
        name: Its name in the table.
        plant: Makes a pair of runs.
        right: The kinds that are right; `none`: the runs should not part.
        right_by_step: The same without traced modules, where they differ.
    """

    name: str
    plant: Plant
    right: tuple[str, ...]
    right_by_step: tuple[str, ...] = ()

    def answers(self, trace: str) -> tuple[str, ...]:
        """Return the right kinds at a level of tracing."""
        return self.right_by_step if self.right_by_step and trace == "step" else self.right


def _either(settings: Settings, draw: random.Random) -> Settings:
    return replace(settings, model=draw.choice(["gpt", "cnn"]))


def _changed(step: int | None = 0, module: str = "", model: str = "", **knobs) -> Plant:
    """Plant other settings in B."""

    def plant(base: Settings, draw: random.Random) -> Planted:
        a = replace(base, model=model) if model else _either(base, draw)
        return Planted(a=a, b=replace(a, **knobs), step=step, module=module)

    return plant


_GPT_MODULES: Final = ("block0.qkv", "block0.up", "block1.out", "block1.down")
_CNN_MODULES: Final = ("conv1", "conv2", "fc1", "fc2")


def _flip(place: str, model: str = "", module: str = "", bits: tuple[int, int] = (8, 30)) -> Plant:
    def plant(base: Settings, draw: random.Random) -> Planted:
        a = replace(base, model=model) if model else _either(base, draw)
        where = module or draw.choice(_GPT_MODULES if a.model == "gpt" else _CNN_MODULES)
        step = draw.randrange(2, 7)
        flip = Flip(
            place=place,
            step=step,
            module=where,
            element=draw.randrange(1 << 30),
            bit=draw.randrange(*bits),
        )
        named = where if place not in ("batch", "rng", "loss") else ""
        return Planted(a=a, b=replace(a, flip=flip), step=step, module=named)

    return plant


def _swapped(base: Settings, draw: random.Random) -> Planted:
    a = replace(_either(base, draw), sampler="fixed")
    at = draw.randrange(32)
    return Planted(a=a, b=replace(a, swapped=at), step=at // 8)


def _token(base: Settings, draw: random.Random) -> Planted:
    a = replace(_either(base, draw), sampler="fixed")
    at = draw.randrange(40)
    return Planted(a=a, b=replace(a, changed=at), step=first_use(a, at))


def _skipped(base: Settings, draw: random.Random) -> Planted:
    a = replace(_either(base, draw), sampler="fixed")
    at = draw.randrange(4)
    return Planted(a=a, b=replace(a, skipped_batch=at), step=at)


def _set_epoch(base: Settings, draw: random.Random) -> Planted:
    a = replace(_either(base, draw), sampler="distributed")
    return Planted(a=a, b=replace(a, set_epoch=False), step=EPOCH)


def _validated(base: Settings, draw: random.Random) -> Planted:
    a = _either(base, draw)
    after = draw.randrange(4)
    return Planted(a=a, b=replace(a, validate_after=after), step=after + 1)


def _drawn(base: Settings, draw: random.Random) -> Planted:
    a = _either(base, draw)
    at = draw.randrange(2, 7)
    return Planted(a=a, b=replace(a, drawn_at=at), step=at)


def _resumed(without: str, step: int) -> Plant:
    def plant(base: Settings, draw: random.Random) -> Planted:
        # Random streams matter to the order of the shuffle and to dropout alike.
        a = _either(base, draw)
        return Planted(a=a, b=replace(a, resume_at=EPOCH, resume_without=without), step=step)

    return plant


def _mode(knob: str, model: str, module: str) -> Plant:
    def plant(base: Settings, draw: random.Random) -> Planted:
        a = replace(base, model=model)
        step = draw.randrange(2, 7)
        return Planted(a=a, b=replace(a, **{knob: step}), step=step, module=module)

    return plant


def _other_seed(base: Settings, draw: random.Random) -> Planted:
    a = _either(base, draw)
    return Planted(a=a, b=replace(a, seed=a.seed + 1), step=0)


def _threads(base: Settings, draw: random.Random) -> Planted:
    a = replace(_either(base, draw), steps=2)
    return Planted(a=a, b=replace(a, threads=2), step=None)


def _flip_elsewhere(bits: tuple[int, int]) -> Plant:
    """Plant a flip in the first value that a step computes, under another thread count."""

    def plant(base: Settings, draw: random.Random) -> Planted:
        a = replace(_either(base, draw), steps=2)
        where = "embed" if a.model == "gpt" else "conv1"
        flip = Flip(
            place="activation",
            step=0,
            module=where,
            element=draw.randrange(1 << 30),
            bit=draw.randrange(*bits),
        )
        return Planted(a=a, b=replace(a, threads=2, flip=flip), step=0, module=where)

    return plant


def _program(source: str) -> Plant:
    def plant(base: Settings, draw: random.Random) -> Planted:
        a = replace(_either(base, draw), steps=3)
        where = draw.choice(_GPT_MODULES if a.model == "gpt" else _CNN_MODULES)
        return Planted(a=a, b=a, step=0, module=where, source=source)

    return plant


_CORRUPTION: Final = ("corruption",)
_CONFIG: Final = ("config",)

KINDS: Final = (
    Kind(name="bit flip: weight", plant=_flip("weight"), right=_CORRUPTION),
    Kind(name="bit flip: buffer", plant=_flip("buffer", "cnn", "bn1"), right=_CORRUPTION),
    Kind(name="bit flip: moment", plant=_flip("moment"), right=_CORRUPTION),
    Kind(
        name="bit flip: embedding row",
        plant=_flip("embedding row", "gpt", "place"),
        right=_CORRUPTION,
    ),
    Kind(name="bit flip: activation", plant=_flip("activation"), right=_CORRUPTION),
    Kind(name="bit flip: output gradient", plant=_flip("output gradient"), right=_CORRUPTION),
    Kind(name="bit flip: parameter gradient", plant=_flip("gradient"), right=_CORRUPTION),
    Kind(name="bit flip: loss", plant=_flip("loss"), right=_CORRUPTION),
    Kind(name="bit flip: batch", plant=_flip("batch", "cnn"), right=("data",)),
    Kind(name="bit flip: random stream", plant=_flip("rng"), right=("rng",)),
    Kind(name="one sample swapped", plant=_swapped, right=("data",)),
    Kind(name="one value of one sample changed", plant=_token, right=("data",)),
    Kind(name="labels permuted", plant=_changed(labels="permuted"), right=("data",)),
    Kind(
        name="augmentation seeded otherwise",
        plant=_changed(model="cnn", augment_seed=1),
        right=("data",),
    ),
    Kind(name="one batch left out", plant=_skipped, right=("data",)),
    Kind(name="set_epoch missing", plant=_set_epoch, right=("data",)),
    Kind(name="a validation pass moves the order", plant=_validated, right=("rng",)),
    Kind(name="one draw more", plant=_drawn, right=("rng",)),
    Kind(name="another seed", plant=_other_seed, right=("init",)),
    Kind(name="other initial weights", plant=_changed(init_seed=9), right=("init",)),
    Kind(name="resumed without random streams", plant=_resumed("rng", EPOCH), right=("rng",)),
    Kind(
        name="resumed without optimizer state", plant=_resumed("optimizer", 0), right=("missing",)
    ),
    Kind(name="resumed with everything", plant=_resumed("", 0), right=("none",)),
    Kind(name="learning rate 1 % off", plant=_changed(lr=1.01e-3), right=_CONFIG),
    Kind(name="another schedule", plant=_changed(step=1, schedule="cosine"), right=_CONFIG),
    Kind(name="a schedule that acts later", plant=_changed(step=4, schedule="late"), right=_CONFIG),
    Kind(name="another epsilon", plant=_changed(eps=1e-6), right=_CONFIG),
    Kind(name="another weight decay", plant=_changed(weight_decay=0.05), right=_CONFIG),
    Kind(name="other betas", plant=_changed(betas=(0.9, 0.99)), right=_CONFIG),
    Kind(name="another optimizer", plant=_changed(optimizer="Adam"), right=_CONFIG),
    Kind(
        name="dropout switched off",
        plant=_mode("dropout_off_from", "gpt", "block0.drop"),
        right=_CONFIG,
    ),
    Kind(
        name="another dropout",
        plant=_changed(dropout=0.2, model="cnn", module="drop"),
        right=_CONFIG,
    ),
    Kind(
        name="batch norm momentum",
        plant=_changed(norm_momentum=0.2, model="cnn", module="bn1"),
        right=_CONFIG,
    ),
    Kind(
        name="batch norm left in eval", plant=_mode("norm_eval_from", "cnn", "bn1"), right=_CONFIG
    ),
    Kind(
        name="another norm epsilon",
        plant=_changed(norm_eps=1e-3, model="cnn", module="bn1"),
        right=_CONFIG,
    ),
    Kind(
        name="autocast", plant=_changed(autocast=True, model="cnn", module="conv1"), right=_CONFIG
    ),
    Kind(name="another batch size", plant=_changed(batch_size=4), right=_CONFIG),
    Kind(
        name="gradient accumulation",
        plant=_changed(accumulate=2, told=("--accumulate", "2")),
        right=_CONFIG,
    ),
    Kind(name="gradient clipping", plant=_changed(clip=0.1, told=("--clip", "0.1")), right=_CONFIG),
    Kind(
        name="another loss reduction",
        plant=_changed(reduction="sum", told=("--reduction", "sum")),
        right=_CONFIG,
    ),
    Kind(
        name="matmul precision",
        plant=_changed(matmul="medium", model="gpt", module="block0.qkv"),
        right=("config", "none"),
    ),
    Kind(name="a changed line of code", plant=_program("layers"), right=_CONFIG),
    Kind(name="a changed package", plant=_program("twinscale"), right=_CONFIG),
    Kind(
        name="a frozen layer",
        plant=_changed(frozen="head", tied=True, model="gpt"),
        right=("missing", "config"),
    ),
    Kind(
        name="weights untied",
        plant=_changed(tied=False, model="gpt", module="head"),
        right=("missing", "init"),
    ),
    Kind(name="threads", plant=_threads, right=("noise", "none")),
    Kind(
        name="another convolution kernel",
        plant=_changed(onednn=False, model="cnn", step=None),
        right=("noise",),
    ),
    Kind(
        name="flip beyond noise, other threads",
        plant=_flip_elsewhere((26, 31)),
        right=("corruption", "unknown"),
    ),
    Kind(
        name="flip within noise, other threads",
        plant=_flip_elsewhere((0, 6)),
        right=("unknown",),
        # Without traced modules the noise itself is what shows first.
        right_by_step=("unknown", "noise"),
    ),
)
