"""What a file is, by its content and by what lies beside it: more than its head can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.files.formats import distcp, npz, tokens, torch_tar
from everybit.files.formats.dcp_metadata import METADATA_NAME
from everybit.files.sniff import sniff
from everybit.files.tensor import FileFormat

if TYPE_CHECKING:
    from everybit.files.source import ByteSource

_MAX_SIBLINGS: Final = 10_000


def identify(source: ByteSource) -> FileFormat:
    """Return what a file is; a plain `ZIP` or `TAR` is an archive that holds no model's format."""
    kind = sniff(source)
    if kind is FileFormat.ZIP:
        if distcp.is_distcp(source):
            return FileFormat.DISTCP
        return FileFormat.NPZ if npz.is_npz(source) else kind
    if kind is FileFormat.TAR:
        return FileFormat.TORCH_TAR if torch_tar.is_torch_tar(source) else kind
    if kind is not FileFormat.DCP_METADATA and _stands_for_metadata(source):
        return FileFormat.DCP_METADATA
    if kind in tokens.POSSIBLE and tokens.has_description(source):
        return FileFormat.TOKENS
    return kind


def _stands_for_metadata(source: ByteSource) -> bool:
    """Return whether a file stands where a DCP folder keeps its `.metadata`, however damaged."""
    if source.path.name != METADATA_NAME:
        return False
    try:
        siblings = source.path.parent.iterdir()
        return any(
            sibling.suffix == ".distcp"
            for sibling, _ in zip(siblings, range(_MAX_SIBLINGS), strict=False)
        )
    except OSError:
        return False
