"""The parity file itself: its blocks are computed anew from the files that it protects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.core.finding import Certainty
from everybit.files.damage import MalformedError
from everybit.files.parity.coding import rs_encode, xor_restore
from everybit.files.parity.container import (
    back_envelope,
    blocks_start_for,
    front_envelope,
    read_index,
    read_raw_index,
)
from everybit.files.parity.health import check_parity, damaged_blocks, expected_size
from everybit.files.parity.layout import Code
from everybit.files.parity.leaves import leaf_holds
from everybit.files.parity.record import PARITY_NAME
from everybit.files.repair.mending import Evidence, Mend, Mending
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from everybit.files.outcome import Outcome
    from everybit.files.parity.container import Index
    from everybit.files.repair.sealed import SealedFolder


def plan_parity_file(sealed: SealedFolder, prefix: str, outcome: Outcome) -> Mending | None:
    """Return how a damaged parity file is put right; None where it is whole or there is none.

    Args:
        sealed: The folder, whose files give the blocks.
        prefix: Its path relative to the target, empty or ending in a slash.
        outcome: Takes what was checked, and what cannot be repaired here.

    Raises:
        PathError: The parity file cannot be read.
    """
    before = len(outcome.findings)
    check_parity(sealed.folder, prefix, sealed.manifest, outcome, progress=sealed.progress)
    findings = outcome.findings[before:]
    path = sealed.folder / PARITY_NAME
    if not findings or not path.is_file() or all("computed from" in f.message for f in findings):
        return None
    with ByteSource(path) as source:
        raw = read_raw_index(source)
        try:
            index = read_index(source)
        except MalformedError:
            return None
        if raw is None:
            return None
        del outcome.findings[before:]
        mending = Mending(path=path, name=prefix + PARITY_NAME, findings=findings)
        mending.size_bytes = expected_size(index)
        _plan_index(source, index, raw, mending)
        for block in damaged_blocks(source, index):
            data = _block(sealed, index, block)
            span = index.block_start(block), index.block_start(block + 1)
            if data is None:
                mending.lost.append(span)
                mending.why_lost = (
                    "the files that it protects are not whole; repair them first, then again"
                )
            else:
                mending.mends.append(_mend(*span, data, Evidence.FILES))
    mending.proves = _prover(len(mending.lost))
    return mending


def _plan_index(source: ByteSource, index: Index, raw: bytes, mending: Mending) -> None:
    front = front_envelope(raw) + raw
    front = front.ljust(blocks_start_for(len(raw)), b"\0")
    back = raw + back_envelope(raw)
    for start, data in ((0, front), (index.blocks_end, back)):
        if source.read(start, len(data)) != data:
            mending.mends.append(_mend(start, start + len(data), data, Evidence.TWIN))


def _mend(start: int, end: int, data: bytes, evidence: Evidence) -> Mend:
    return Mend(
        start=start, end=end, evidence=evidence, certainty=Certainty.PROOF, fetch=lambda: data
    )


def _block(sealed: SealedFolder, index: Index, block: int) -> bytes | None:
    """Return a block computed anew, proved by its digest; None where a leaf is lost."""
    layout = index.layout
    row, stripe = divmod(block, layout.stripes)
    leaves = []
    for leaf in layout.stripe_leaves(stripe):
        number, inner = layout.file_of(leaf)
        path = layout.files[number][0]
        entry = index.manifest.files[path]
        known = sealed.manifest.files.get(path)
        if known is None or known.tree != entry.tree:
            return None
        data = sealed.any_leaf(path, inner)
        if data is None:
            return None
        leaves.append(data.ljust(layout.block_bytes, b"\0"))
    if layout.code is Code.XOR:
        made = xor_restore(leaves, layout.block_bytes)
    else:
        leaves += [bytes(layout.block_bytes)] * (layout.data_per_stripe - len(leaves))
        made = rs_encode(b"".join(leaves), layout.data_per_stripe, layout.parity_per_stripe)[row]
    return made if leaf_holds(made, index.block_digest(block)) else None


def _prover(num_lost: int) -> Callable[[Path], str]:
    def prove(path: Path) -> str:
        with ByteSource(path) as source:
            index = read_index(source)
            whole = index.whole_copies == 2 and source.size == expected_size(index)
            if not whole or len(damaged_blocks(source, index)) > num_lost:
                return "the parity file that was written does not hold"
        return ""

    return prove
