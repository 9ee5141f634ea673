"""What a tensor is for, by its name: trained, a running statistic, a counter, optimizer state."""

from __future__ import annotations

from typing import Final

_STATISTICS: Final = frozenset({"running_mean", "running_var", "num_batches_tracked"})
_COUNTERS: Final = frozenset(
    {
        "step",
        "steps",
        "_step_count",
        "global_step",
        "last_epoch",
        "epoch",
        "iteration",
        "iter",
        "num_updates",
        "num_batches_tracked",
        "n_averaged",
        "total_batch_idx",
    }
)
_MOMENTS: Final = frozenset(
    {
        "exp_avg",
        "exp_avg_sq",
        "max_exp_avg_sq",
        "momentum_buffer",
        "square_avg",
        "acc_delta",
        "exp_inf",
        "exp_avg_sq_row",
        "exp_avg_sq_col",
        "row_var",
        "col_var",
        "grad_avg",
        "prev",
        "sum",
    }
)
#: Buffers that a model computes anew, so that a file may leave them out.
_RECOMPUTED: Final = frozenset(
    {"position_ids", "inv_freq", "num_batches_tracked", "attn.bias", "masked_bias"}
)


def tail(name: str) -> str:
    """Return the last part of a dotted name.

    >>> tail("layers.0.bn.running_var")
    'running_var'
    """
    return name.rpartition(".")[2]


def is_statistic(name: str) -> bool:
    """Return whether a name is that of a normalisation layer's running statistic."""
    return tail(name) in _STATISTICS


def is_counter(name: str) -> bool:
    """Return whether a name is that of something that counts steps, batches or epochs."""
    return tail(name) in _COUNTERS


def of_optimizer(name: str) -> bool:
    """Return whether a name is that of optimizer state.

    >>> of_optimizer("optimizer.state.3.exp_avg"), of_optimizer("state.weight")
    (True, False)
    """
    parts = name.split(".")
    return parts[-1] in _MOMENTS or (len(parts) > 2 and parts[-1] == "step" and "state" in parts)


def is_trained(name: str) -> bool:
    """Return whether a tensor is a weight, as far as its name tells."""
    return not (is_statistic(name) or is_counter(name) or of_optimizer(name))


def is_recomputed(name: str) -> bool:
    """Return whether a model computes this buffer itself."""
    return any(name == each or name.endswith(f".{each}") for each in _RECOMPUTED)
