"""Wait for a program to import a module, so that it is imported when and as the program does it.

Some settings count only before torch is imported (`OMP_NUM_THREADS` set from within a script, for
one): a watcher that imported torch first would change the numbers.
"""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class AfterImport:
    """Calls back once, right after a module has been imported; at once where it is there already.

    Args:
        name: Full name of the module.
        then: What to call.
    """

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name = name
        self._then = then
        self._waiting = True

    def install(self) -> None:
        """Begin to wait."""
        if self._name in sys.modules:
            self._arrived()
        else:
            sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Wait no longer."""
        self._waiting = False
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find it as the other finders do, and have its loader tell when it is done."""
        if name != self._name or not self._waiting:
            return None
        self._waiting = False
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._waiting = True
        if spec is None or spec.loader is None:
            return spec
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self._arrived()

        loader.exec_module = exec_module
        return spec

    def _arrived(self) -> None:
        if self._waiting:
            self.remove()
            self._then()
