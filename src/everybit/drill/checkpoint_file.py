"""The trial of a file: save a subject, seal the file, damage it, verify it."""

from __future__ import annotations

import datetime
import random
import tempfile
import time
from pathlib import Path

import torch

from everybit._version import __version__
from everybit.core.finding import Severity
from everybit.drill.subjects import build
from everybit.drill.trial import Fate, Outcome, Shape, Trial
from everybit.files.checks.placed import Thoroughness
from everybit.files.checks.verifying import verify_file
from everybit.files.seals.gathering import gather
from everybit.files.seals.manifest import write_manifest


def try_file(trial: Trial) -> Outcome:
    """Damage some bytes of a tensor in a sealed `torch.save` file, and verify it."""
    training = build(trial.subject, trial.dtype, trial.seed % 8)
    rng = random.Random(trial.seed)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="everybit-drill-") as folder:
        path = Path(folder) / "model.pt"
        state = training.model.state_dict()
        torch.save(state, path)
        _seal(path)
        name = rng.choice([name for name, value in state.items() if value.numel() >= 64])
        right = state[name].contiguous().view(torch.uint8).numpy().tobytes()
        content = bytearray(path.read_bytes())
        start = content.find(right)
        size = len(right)
        before = bytes(content)
        if trial.shape is Shape.FLIP:
            content[start + rng.randrange(size)] ^= 1 << rng.randrange(8)
        else:
            length = rng.randint(2, min(4096, size))
            first = start + rng.randrange(size - length + 1)
            content[first : first + length] = (
                bytes(length) if trial.shape is Shape.ZERO else rng.randbytes(length)
            )
        path.write_bytes(content)
        changed = sum(a != b for a, b in zip(before, content, strict=True))
        findings = verify_file(path, Thoroughness(full=True, strong=False)).findings
    severe = [f for f in findings if f.severity is not Severity.NOTE]
    named = any(f.where.tensor == name for f in severe)
    return Outcome(
        trial=trial,
        fate=Fate.CAUGHT if severe else Fate.MISSED if changed else Fate.ABSENT,
        rules=tuple(dict.fromkeys(f.rule for f in severe)),
        steps_after=0 if severe else None,
        placed=named if severe else None,
        where={"tensor": name, "path": path.name},
        num_elements=changed,
        seconds=time.perf_counter() - began,
    )


def _seal(path: Path) -> None:
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    for folder, found in gather((path,)).items():
        write_manifest(folder, found.manifest(sealed_at=now, sealed_by=f"everybit {__version__}"))
