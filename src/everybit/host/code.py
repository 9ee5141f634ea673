"""The program's own code, by digest: the script, and the modules beside it that it imports.

Read as text, never imported. What lies in site-packages or the standard library is told by the
sections `packages` and `python`.
"""

from __future__ import annotations

import ast
import hashlib
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_FILES: Final = 200
_MAX_BYTES: Final = 1024 * 1024


def read_code(script: str | None = None) -> dict[str, Any]:
    """Return `{"script": digest, relative path: digest}` of the program's own files.

    Followed are imports that lead to files below the script's folder, or below the root of its
    package; also those within functions. Imports by computed names are not seen.

    Args:
        script: The program; `sys.argv[0]` where None.
    """
    main = Path(sys.argv[0] if script is None and sys.argv else script or "")
    if main.suffix != ".py" or not main.is_file() or _is_installed(main.resolve()):
        return {"absent": "no script of the program's own"}
    main = main.resolve()
    root = _root(main)
    digests: dict[str, str] = {}
    seen, waiting = {main}, [main]
    while waiting and len(seen) <= MAX_FILES:
        path = waiting.pop(0)
        try:
            data = path.read_bytes()[:_MAX_BYTES]
        except OSError:
            continue
        name = "script" if path == main else path.relative_to(root).as_posix()
        digests[name] = hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()[:16]
        for found in _imported(data, path, root, main.parent):
            if found not in seen:
                seen.add(found)
                waiting.append(found)
    return dict(sorted(digests.items(), key=lambda item: (item[0] != "script", item[0])))


def _root(main: Path) -> Path:
    """Return the folder that the script's own package lies in; its folder where it is in none."""
    root = main.parent
    while (root / "__init__.py").is_file() and root != root.parent:
        root = root.parent
    return root


def _is_installed(path: Path) -> bool:
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return any(path.is_relative_to(place) for place in places if place) or (
        "site-packages" in path.parts or "dist-packages" in path.parts
    )


def _imported(data: bytes, path: Path, root: Path, beside: Path) -> Iterator[Path]:
    places: tuple[Path, ...]
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files(alias.name.split("."), root, beside)
        elif isinstance(node, ast.ImportFrom):
            parts = node.module.split(".") if node.module else []
            if node.level:
                base = path.parent
                for _ in range(node.level - 1):
                    base = base.parent
                places = (base,)
            else:
                places = (root, beside)
            for alias in node.names:
                yield from _files([*parts, alias.name], *places)


def _files(parts: list[str], *places: Path) -> Iterator[Path]:
    """Yield the files that importing a dotted name runs: its packages, and the module itself."""
    for place in places:
        folder, found = place, False
        for part in parts:
            for file in (folder / f"{part}.py", folder / part / "__init__.py"):
                if file.is_file():
                    found = True
                    yield file.resolve()
            folder = folder / part
            if not folder.is_dir():
                break
        if found:
            return
