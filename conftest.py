"""Tests run side by side: one thread each, since torch's idle threads would spin on the others'."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
