from __future__ import annotations

import hashlib
import re
from pathlib import Path

from everybit.report import page

FOLDER = Path(page.__file__).parent / "vendor"


def test_the_files_of_others_are_unchanged_and_named_with_version_and_licence():
    told = (FOLDER / "README.md").read_text()
    sums = re.findall(r"([0-9a-f]{64})  (\S+)", told)
    assert {name for _, name in sums} == {"uPlot.iife.min.js", "uPlot.min.css"}
    for digest, name in sums:
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == digest
    version = re.search(r"uPlot (\d+\.\d+\.\d+)", told).group(1)
    assert f"uPlot (v{version})" in (FOLDER / "uPlot.iife.min.js").read_text()[:80]
    assert "MIT License" in (FOLDER / "LICENSE").read_text()


def test_the_dark_palette_is_one_palette():
    # The style sheet has it twice: by the system's wish and by the switch.
    style = (FOLDER.parent / "style.css").read_text()
    blocks = re.findall(r"color-scheme: dark;([^}]*)}", style)
    dark = [" ".join(block.split()) for block in blocks]
    assert len(dark) == 2
    assert dark[0] == dark[1]
    light = re.search(r"color-scheme: light;([^}]*)}", style).group(1)
    assert set(re.findall(r"--[\w-]+", light)) == set(re.findall(r"--[\w-]+", dark[0]))
