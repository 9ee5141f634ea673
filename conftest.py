"""Tests run side by side: one thread each, since torch's idle threads would spin on the others'.

What they suspect is kept apart from what this machine's real runs did.
"""

from __future__ import annotations

import os
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="everybit-state-")
