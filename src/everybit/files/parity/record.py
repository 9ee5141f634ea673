"""What the manifest remembers of its parity file, and the promise that goes with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from everybit.core.tree import LEAF_BYTES
from everybit.files.parity.layout import Code, num_leaves_of

if TYPE_CHECKING:
    from everybit.files.parity.layout import Layout

PARITY_NAME: Final = "PARITY.everybit"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParityRecord:
    """A parity file as its manifest knows it.

    Attributes:
        id: Digest of the manifest that it protects, as it was before it knew of its parity.
        size_bytes: Size of the parity file.
        layout: Its geometry.
    """

    id: str
    size_bytes: int
    layout: Layout

    def encode(self) -> dict[str, Any]:
        """Return the manifest's `parity` entry."""
        return {
            "file": PARITY_NAME,
            "id": self.id,
            "size_bytes": self.size_bytes,
            "code": str(self.layout.code),
            "stripes": self.layout.stripes,
            "data_per_stripe": self.layout.data_per_stripe,
            "parity_per_stripe": self.layout.parity_per_stripe,
        }

    def guarantee(self) -> str:
        """Return what losses are certain to be restored while the parity file is whole."""
        layout = self.layout
        spent = f"{self.size_bytes:,} bytes of parity for {layout.num_bytes:,}"
        if not layout.num_leaves:
            return f"{spent}: the files are empty, and are restored from the manifest alone"
        run = layout.contiguous_leaves
        code = "XOR" if layout.code is Code.XOR else "Reed-Solomon"
        if run >= layout.num_leaves:
            return f"{spent} ({code}): all files are restored, however much of them is lost"
        borne = layout.parity_per_stripe
        leaves = "one 64 KiB leaf" if borne == 1 else f"{borne} leaves of 64 KiB"
        return (
            f"{spent} ({code}) restore, one at a time: a contiguous loss of up to "
            f"{(run - 1) * LEAF_BYTES + 1:,} bytes anywhere in a file; scattered damage in "
            f"{leaves} wherever it falls, in more where no {borne + 1} of them share one of the "
            f"{layout.stripes:,} stripes; {self._whole_files()}"
        )

    def _whole_files(self) -> str:
        layout = self.layout
        run = layout.contiguous_leaves
        largest = max(size for _, size in layout.files)
        if num_leaves_of(largest) <= run:
            return "any one missing file"
        if any(0 < num_leaves_of(size) <= run for _, size in layout.files):
            return f"a missing file of up to {run * LEAF_BYTES:,} bytes, so not the largest"
        return f"no missing file, since each has more than {run * LEAF_BYTES:,} bytes"
