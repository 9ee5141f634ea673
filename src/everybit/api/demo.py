"""`everybit.demo`: train a small GPT, break it, and show each fault caught, named and undone."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from everybit.api.diff import diff
from everybit.api.report import report, write_verdict
from everybit.api.seal import seal
from everybit.api.verify import verify
from everybit.core.errors import PathError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from everybit.core.finding import Finding
    from everybit.drill.demo import Caught, Trained
    from everybit.drill.scenes import Scene

    Say = Callable[[str], None]
    Progress = Callable[[str, int, int], None]

_TEXT_BYTES = 1 << 20


@dataclass(slots=True, kw_only=True)
class DemoResult:
    """What the demo showed.

    Attributes:
        folder: Where its runs, checkpoint and pages lie.
        page: The report page of the healed run.
        failures: What did not go as it must; empty when all did.
    """

    folder: Path
    page: Path
    failures: list[str] = field(default_factory=list)


def demo(
    folder: str | os.PathLike[str] | None = None,
    *,
    say: Say = print,
    progress: Progress = lambda *_: None,
) -> DemoResult:
    """Run the demo.

    Args:
        folder: Where to put runs and checkpoint; `everybit-runs/<time>-demo` where None.
        say: Called with each line.
        progress: Called with what is going on, steps done and steps in all.

    Raises:
        PathError: The folder cannot be made, or is not empty.
    """
    place = _new_folder(Path(folder or f"everybit-runs/{time.strftime('%Y%m%d-%H%M%S')}-demo"))
    return _Demo(place, say, progress).play()


class _Demo:
    """The acts in order; each says what it shows and notes what did not hold."""

    def __init__(self, folder: Path, say: Say, progress: Progress) -> None:
        from everybit.drill.text import standard_library_bytes

        self._say = say
        self._progress = progress
        self._text = standard_library_bytes(_TEXT_BYTES)
        self._result = DemoResult(folder=folder, page=folder / "healed" / "report.html")

    def play(self) -> DemoResult:
        """Play all acts and return what they showed."""
        from everybit.drill.demo import demo_scenes, same_bits

        folder = self._result.folder
        self._say("1  Train a small GPT on the sources of Python's standard library, watched.")
        clean, _ = self._train("clean", "warn", ())
        first, last = clean.losses[0], clean.losses[-1]
        self._say(f"   {len(clean.losses)} steps, loss {first:.3f} -> {last:.3f}")
        self._hold(clean.verdict.ok, "the clean run is clean")
        self._say("")
        self._say("2  Train it again. Between steps, its memory is damaged; the guard heals.")
        healed, caught = self._train("healed", "heal", demo_scenes())
        for one in caught:
            self._tell(one)
        self._hold(len(caught) == len(demo_scenes()), "every fault was planted")
        same = clean.losses == healed.losses and same_bits(clean.weights, healed.weights)
        self._say("")
        self._say("3  Compare the two: every loss, weight and moment, bit for bit.")
        self._hold(same, "the healed run ends with the bits of the clean one")
        self._say("")
        self._say("4  Seal the checkpoint that comes out, and damage one bit of the file.")
        self._checkpoint(folder / "checkpoint", healed.weights)
        self._say("")
        self._say("5  Train with the first fault again and let it pass; where do the runs part?")
        broken, _ = self._train("broken", "record", demo_scenes()[:1])
        self._part(folder, broken.losses[-1])
        self._say("")
        for name in ("clean", "healed", "broken"):
            write_verdict(folder / name)
        self._result.page = report(folder / "healed")
        self._say(f"The report page of the healed run: {self._result.page}")
        return self._result

    def _train(
        self, name: str, on_finding: str, scenes: Sequence[Scene]
    ) -> tuple[Trained, list[Caught]]:
        from everybit.drill.demo import RECIPE, train_guarded

        def step(done: int) -> None:
            self._progress(f"training ({name})", done, RECIPE.steps)

        return train_guarded(
            self._result.folder / name,
            self._text,
            on_finding=on_finding,
            shadow=on_finding == "heal",
            scenes=scenes,
            progress=step,
        )

    def _tell(self, caught: Caught) -> None:
        finding = caught.finding
        self._say(f"   step {caught.scene.step:2}  {caught.scene.title}")
        if finding is None:
            self._hold(False, f"the fault at step {caught.scene.step} was caught")
            return
        self._say(f"            {finding.rule}: {_place(finding)}")
        ok = caught.named_right and caught.healed
        self._hold(ok, "caught before its first use, named right, healed", indent="            ")

    def _checkpoint(self, folder: Path, weights: dict[str, dict[str, object]]) -> None:
        from everybit.drill.demo import load, save

        folder.mkdir()
        path = folder / "model.pt"
        save(weights, path)
        seal(path)
        self._hold(verify(path).ok, f"{path.name} verifies against its manifest")
        tensor, at = _middle_of_a_tensor(path)
        data = bytearray(path.read_bytes())
        data[at] ^= 0x40
        path.write_bytes(data)
        load(path)
        self._say("   torch.load has read the damaged file without a word")
        verdict = verify(path)
        for finding in verdict.findings:
            self._say(f"   {finding.rule}: {finding.message}")
        named = any(finding.where.tensor == tensor for finding in verdict.findings)
        self._hold(named, "verify names the tensor, the element and the bit")
        data[at] ^= 0x40
        path.write_bytes(data)
        self._hold(verify(path).ok, "with the bit put back, it verifies again")

    def _part(self, folder: Path, last_loss: float) -> None:
        self._say(f"   the loss ends at {last_loss:.3f}, and nothing raised an error")
        verdict = diff(folder / "clean", folder / "broken")
        first = verdict.first
        if first is None:
            self._hold(False, "the first value that parts is found")
            return
        where = first.where
        self._say(f"   everybit diff: kind {first.kind}, step {where.step}, link {where.link}")
        self._say(f"   {first.why}")
        right = first.kind == "corruption" and where.step == 6
        self._hold(right, "diff names the fault as the first broken link")

    def _hold(self, ok: bool, claim: str, indent: str = "   ") -> None:
        self._say(f"{indent}{'ok' if ok else 'FAILED'}  {claim}")
        if not ok:
            self._result.failures.append(claim)


def _place(finding: Finding) -> str:
    name = finding.message.partition(" changed at rest before ")[0]
    return f"{name}, {finding.message.partition(': ')[2]}"


def _middle_of_a_tensor(path: Path) -> tuple[str, int]:
    """Return a weight of the checkpoint and the file offset of an element's last byte."""
    from everybit.files import read_tensors

    tensor = next(t for t in read_tensors(path).tensors if t.name.endswith("blocks.1.up.weight"))
    start, end = tensor.byte_ranges[0]
    return tensor.name, start + (end - start) // 8 * 4 + 3


def _new_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise PathError("not empty", where=str(folder), todo="name a new folder with --out")
    except OSError as error:
        todo = "name another folder with --out"
        raise PathError.from_os_error(error, folder, todo=todo) from error
    return folder
