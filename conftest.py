"""Tests run side by side: one thread each, since torch's idle threads would spin on the others'.

What they suspect is kept apart from what this machine's real runs did.
"""

from __future__ import annotations

import os
import sys
import tempfile

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="everybit-state-")


@pytest.fixture(autouse=True)
def _nothing_compiled() -> None:
    """Let no test see that another one has compiled: some checks keep away from compiled code."""
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is not None:
        sys.modules["torch._dynamo"].reset()
        utils.counters.clear()
