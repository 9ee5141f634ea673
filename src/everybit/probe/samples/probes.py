"""What else is measured where a batch is made: functions of its samples and of the batch.

A probe is called in the process that made the batch, behind `collate_fn`, and returns what is to
travel with it (`Facts.extra`). It draws nothing, changes nothing, and is cheap: all of them
together may cost two percent of loading. It must be picklable, that is, a function of a module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

Probe = Callable[[Any, Any], Mapping[str, Any]]

PROBES: Final[list[Probe]] = []
