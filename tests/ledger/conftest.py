from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.ledger.runs import record

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """One rank, one attempt, ended well."""
    return record(tmp_path / "run")
