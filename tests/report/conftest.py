from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.report.run_maker import RunMaker

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def make_run(tmp_path: Path) -> RunMaker:
    return RunMaker(tmp_path / "run")
