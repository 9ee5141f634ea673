"""What the tests of the Guard share."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch

from everybit.guard import guard as guard_module
from everybit.host import capture_environment


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Any:
    """Small models gain nothing from threads, and lose much where other jobs want the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True, scope="module")
def _few_objects() -> Any:
    """Models are looked for among all live objects: leave out those of torch and of pytest."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True, scope="module")
def _environment_once() -> Any:
    """Look at the machine once, not for each of many Guards."""
    known = capture_environment()
    patch = pytest.MonkeyPatch()
    patch.setattr(guard_module, "capture_environment", lambda: known)
    yield
    patch.undo()
