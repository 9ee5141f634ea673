"""A drill on a user's script."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from everybit.api.drill import drill
from everybit.core.errors import PathError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
import sys
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 3))
optimizer = torch.optim.AdamW(model.parameters())
print("noise on stdout")
for epoch in range(10**6):
    optimizer.zero_grad()
    model(torch.randn(int(sys.argv[1]), 6)).square().mean().backward()
    optimizer.step()
"""


def test_a_script_is_drilled_unedited(tmp_path: Path, capfd) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    table = drill(
        str(script), ["4"], faults=1, steps=7, sites=["weight", "activation"], workers=2
    ).table
    assert table["trials"]["asked"] == table["trials"]["done"] == 22
    by_site = {site["site"]: site for site in table["sites"]}
    weights = by_site["weight"]
    assert weights["missed"] == 0
    assert weights["caught"] == weights["placed"] >= 8
    assert weights["same_end"] >= 8
    assert by_site["activation"]["rules"]["CMP701"] >= 7
    assert table["broken"] == []
    assert (table["false_alarms"]["alarms"], table["false_alarms"]["steps"]) == (0, 7)
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import torch\n", "no update of an optimizer was seen"),
        ("raise ValueError('mine')\n", "ValueError: mine"),
        (SCRIPT.replace("torch.manual_seed(0)", ""), "does not repeat"),
    ],
)
def test_what_cannot_be_drilled_is_told(tmp_path: Path, text, said) -> None:
    script = tmp_path / "train.py"
    script.write_text(text)
    with pytest.raises(UsageError, match=said):
        drill(str(script), ["4"], steps=5)


def test_a_script_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PathError):
        drill(str(tmp_path / "none.py"))
