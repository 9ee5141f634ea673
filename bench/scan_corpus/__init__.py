"""A corpus of adversarial and of harmless model files, all of it made by code.

Adversarial files are harmless: what would run prints, reads the working directory, or makes a
file there. `canary` proves, file by file, that the real loader does run it. Each file has a class
of bypass and a source: an advisory, a paper, an issue, or `own`.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final

from bench.scan_corpus import (
    benign_files,
    benign_torch,
    benign_values,
    chains,
    containers_other,
    containers_torch,
    containers_zip,
    disguises,
    folders,
    gadgets_libraries,
    gadgets_stdlib,
    handed,
    loaded,
    packings,
    streams,
)
from bench.scan_corpus.sample import Sample

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_HOSTILE: Final = (
    gadgets_stdlib,
    gadgets_libraries,
    chains,
    handed,
    loaded,
    streams,
    containers_zip,
    disguises,
    packings,
    containers_torch,
    containers_other,
    folders,
)
_BENIGN: Final = (benign_torch, benign_values, benign_files)


def corpus(*, slow: bool = False) -> tuple[Sample, ...]:
    """Return all files: the adversarial ones, then the benign ones.

    Args:
        slow: With those whose libraries take seconds to import.
    """
    found = [sample for module in (*_HOSTILE, *_BENIGN) for sample in module.samples()]
    return tuple(sample for sample in found if slow or not sample.slow)


def write_corpus(folder: Path, samples: Iterable[Sample]) -> None:
    """Write these files into an existing folder, each under its name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old formats are what is wanted
        for sample in samples:
            sample.write(folder / sample.name)


__all__ = ["Sample", "corpus", "write_corpus"]
