"""The benchmark of tracking: what it takes of a pass, and what it writes of that."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

import torch
from bench import tracking
from torch.utils.data import DataLoader, TensorDataset

if TYPE_CHECKING:
    from pathlib import Path


def test_a_pass_is_measured_with_and_without(tmp_path: Path) -> None:
    def loader(num_batches: int) -> DataLoader[Any]:
        return DataLoader(TensorDataset(torch.zeros(num_batches * 2, 3)), batch_size=2)

    def model() -> Any:
        layer = torch.nn.Linear(3, 1)
        return layer, lambda batch: layer(batch[0]).sum()

    case = tracking.Case("rows", loader, 70, model)
    found = tracking.measure(case, 3, tmp_path)
    assert {name: len(rows) for name, rows in found.rows.items()} == {
        "bare": 3,
        "guard": 3,
        "tracked": 3,
    }
    # Sixty batches and more make a difference that no noise turns around.
    assert min(found.added("all")) > 0
    assert min(found.of("tracked", "use")) > 0
    assert min(tracking.of_step(found)) > 0


def test_the_section_tells_every_case() -> None:
    def rows(name: str) -> Any:
        found = tracking.Rows(facts={"parameters": 10_800_000})
        for variant, more in zip(tracking.VARIANTS, (0.0, 1e-5, 1e-4), strict=True):
            seconds = {"first": 1e-4 + 2 * more, "later": 1e-4 + more, "all": 1e-4 + more}
            row = {"cpu": 0.01 + more, **seconds, "use": more / 10}
            found.rows[variant] = [dict(row) for _ in range(3)]
        return found

    text = tracking.text_of({name: rows(name) for name in tracking.CASES}, Namespace(rounds=3))
    for case in tracking.CASES.values():
        assert case.what in text
    assert "10.8 million parameters" in text
    assert "within 1 % of steps of 20 ms and more" in " ".join(text.split())
    assert "of 10 ms and more later" in " ".join(text.split())
    assert "1.10 (1.10 to 1.10) % of the step" in text
