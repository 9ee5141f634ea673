"""The `.metadata` of a DCP folder: which tensors it holds, in which files and at which offsets."""

from __future__ import annotations

from typing import Final

METADATA_NAME: Final = ".metadata"
