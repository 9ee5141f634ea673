"""The Vaults of a program that is run again: as they were then, and the nearest checkpoint below.

A Vault holds what the first run saved by its end. The program would go on from there and never come
to the step. It is shown what lay in the folder as the first run began, and, to pass over what need
not be computed, the checkpoints that the run itself saved up to the step. Nothing is saved again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from everybit.core.after_import import AfterImport

if TYPE_CHECKING:
    from collections.abc import Callable

    Entry = tuple[int, int, Path]

#: Tells which checkpoint a computation began with, in its folder.
TOLD: Final = "vault.json"


class VaultsThen:
    """Shows every `everybit.Vault` of this process as the first run met it.

    Args:
        began_s: When the first run began, in seconds since the epoch.
        step: The step that is looked for, as the first run counted.
        near: Show the checkpoints that the first run saved up to that step too.
        out: Where the checkpoint that was restored is told.
        passed_over: Called with how many steps of the first run lie before the restored one.
    """

    def __init__(
        self,
        *,
        began_s: float,
        step: int,
        near: bool,
        out: Path,
        passed_over: Callable[[int], None],
    ) -> None:
        self._began_s = began_s
        self._step = step
        self._near = near
        self._out = out
        self._passed_over = passed_over

    def install(self) -> None:
        """Wait for the module of Vaults; nothing is ever put back."""
        AfterImport("everybit.checkpoint.vault", self._patch).install()

    def _patch(self) -> None:
        from everybit.checkpoint.vault import Vault

        kind: Any = Vault
        listed, restore = kind._listed, kind.restore

        def shown(vault: Any) -> list[Entry]:
            then, own = self._split(listed(vault))
            return [*then, *own]

        def restored(vault: Any, **kwargs: Any) -> Any:
            found = restore(vault, **kwargs)
            then, own = self._split(listed(vault))
            if any(path == found.path for _, _, path in own):
                self._tell(found, found.step - max((each[0] for each in then), default=0))
            return found

        def kept(vault: Any, *, step: int, **_: Any) -> Path:
            return Path(vault.folder) / f"step-{int(step):09d}"

        kind._listed, kind.restore, kind.save = shown, restored, kept

    def _split(self, entries: list[Entry]) -> tuple[list[Entry], list[Entry]]:
        """Return what was there as the first run began, and what of its own is shown."""
        then = [each for each in entries if each[2].stat().st_mtime < self._began_s]
        first = max((step for step, _, _ in then), default=0)
        own = [
            each
            for each in entries
            if self._near and each not in then and 0 <= each[0] - first <= self._step
        ]
        return then, own

    def _tell(self, found: Any, steps: int) -> None:
        told = {"step": found.step, "path": str(found.path)}
        (self._out / TOLD).write_text(json.dumps(told), encoding="utf-8")
        self._passed_over(steps)
