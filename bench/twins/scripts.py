"""Twins whose difference is in their files: a line of code, a package. Run as programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bench.twins.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parents[2]

#: The program of both runs. What it calls `scale` differs.
SCRIPT = """\
import json
import sys
from pathlib import Path

from bench.twins import training
from bench.twins.settings import Settings

from {source} import scale

plain = training.build
run, place = sys.argv[1:3]


def build(settings):
    model = plain(settings)
    module = model.get_submodule(place)
    forward = module.forward
    module.forward = lambda x: scale(forward(x))
    return model


training.build = build
arguments = json.loads(Path(__file__).with_name("settings.json").read_text())
training.train(Settings(**arguments["settings"]), Path(run), trace=arguments["trace"])
"""
SCALE = "def scale(x):\n    return x * {factor}\n"


def write_program(folder: Path, source: str, factor: str, version: str = "1.0") -> None:
    """Write a program whose `scale` is in a file beside it (`layers`) or in a package."""
    folder.mkdir(parents=True)
    (folder / "train.py").write_text(SCRIPT.format(source=source))
    if source == "layers":
        (folder / "layers.py").write_text(SCALE.format(factor=factor))
        return
    site = folder / "site"
    (site / source).mkdir(parents=True)
    (site / source / "__init__.py").write_text(SCALE.format(factor=factor))
    info = site / f"{source}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {source}\nVersion: {version}\n")
    (info / "RECORD").write_text(f"{source}/__init__.py,sha256={factor},1\n")


def run_program(folder: Path, run: Path, settings: Mapping[str, object], module: str, trace: str):
    """Run it in a process of its own."""
    (folder / "settings.json").write_text(json.dumps({"settings": settings, "trace": trace}))
    path = [str(ROOT), str(folder / "site"), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "train.py", str(run), module],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"the program of a twin failed:\n{done.stderr}")


def arguments(settings: Settings) -> dict[str, object]:
    """Return what of a run's settings is not the default, JSON-ready."""
    plain = Settings()
    return {
        name: getattr(settings, name)
        for name in settings.__dataclass_fields__
        if getattr(settings, name) != getattr(plain, name)
    }
