"""What a run of a twin can be told: every knob that a planted difference turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """One bit, flipped behind the program's back.

    Attributes:
        place: `weight`, `buffer`, `moment`, `activation`, `output gradient`, `gradient`, `loss`,
            `batch`, `rng`, `embedding row`.
        step: When.
        module: In which module.
        element: A number that chooses the element, taken modulo their count.
        bit: Which bit of the element's word, from the lowest.
    """

    place: str
    step: int
    module: str = ""
    element: int = 0
    bit: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One run. The defaults are those of run A."""

    model: str = "gpt"
    seed: int = 0
    steps: int = 8
    batch_size: int = 8
    threads: int = 1
    optimizer: str = "AdamW"
    lr: float = 1e-3
    eps: float = 1e-8
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.01
    schedule: str = "constant"
    clip: float = 0.0
    accumulate: int = 1
    reduction: str = "mean"
    smoothing: float = 0.0
    dropout: float = 0.1
    dropout_off_from: int = -1
    norm_momentum: float = 0.1
    norm_eps: float = 1e-5
    norm_eval_from: int = -1
    autocast: bool = False
    matmul: str = "highest"
    onednn: bool = True
    frozen: str = ""
    tied: bool = True
    activation: str = "gelu"
    init_seed: int | None = None
    data_seed: int = 0
    augment_seed: int = 0
    sampler: str = "shuffle"
    set_epoch: bool = True
    validate_after: int = -1
    swapped: int = -1
    changed: int = -1
    labels: str = "plain"
    drawn_at: int = -1
    resume_at: int = -1
    resume_without: str = ""
    skipped_batch: int = -1
    wrapped: bool = False
    flip: Flip | None = None
    told: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return what differs from the defaults."""
        plain = Settings()
        return {
            name: str(getattr(self, name))
            for name in self.__dataclass_fields__
            if getattr(self, name) != getattr(plain, name)
        }
