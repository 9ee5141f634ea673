"""`everybit.Vault`: a folder of checkpoints, each whole or not there.

    vault/step-000000100/state.pt                 what was given, as torch.save writes it
    vault/step-000000100/MANIFEST.everybit.json   digests of the live tensors, step, counters

A checkpoint is written into a hidden folder and appears under its name in one rename, so that a
process killed at any moment leaves the earlier ones as they were.
"""

from __future__ import annotations

import collections
import re
import shutil
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

from everybit._version import __version__
from everybit.checkpoint.extra_state import refuse_other_extra_state, restore_extra_state
from everybit.checkpoint.live_tensors import live_digests
from everybit.checkpoint.loading import load_into
from everybit.checkpoint.numbers import plain_counters, whole_step
from everybit.checkpoint.random_state import RandomState
from everybit.checkpoint.saving import now, write_proved
from everybit.checkpoint.vault_lock import locked
from everybit.checkpoint.whole import verify_place
from everybit.core.atomic import sync_folder
from everybit.core.errors import DamagedError, EverybitError, PathError, UsageError
from everybit.core.finding import Severity
from everybit.files.seals.manifest import (
    MANIFEST_NAME,
    Covers,
    Manifest,
    load_manifest,
    write_manifest,
)
from everybit.probe.wrappers import unwrap

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from everybit.checkpoint.arrival import Arrival

_NAME: Final = re.compile(r"^step-(\d{9,})(?:\.(\d+))?$")
_FILE: Final = "state.pt"
_OWN: Final = ("step", "rng")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A checkpoint of a vault.

    Attributes:
        step: Updates that it has seen.
        path: Its folder.
        passed_over: Newer ones that are not whole: `{folder name: why}`.
    """

    step: int
    path: Path
    passed_over: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What `Vault.restore` brought back.

    Attributes:
        step: Updates that it has seen.
        path: The checkpoint's folder.
        arrivals: What arrived in each module, by name.
        values: Plain values that were saved beside the states, by name.
        passed_over: Newer checkpoints that are not whole: `{folder name: why}`.
        not_taken: Without `strict`: extra state that no part of a module took, by module.
    """

    step: int
    path: Path
    arrivals: Mapping[str, Arrival]
    values: Mapping[str, Any]
    passed_over: Mapping[str, str] = field(default_factory=dict)
    not_taken: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Vault:
    """Keeps the newest checkpoints of a run, each proved when written and when read.

    Saves of several processes into one vault wait for each other.

    Args:
        folder: Where they lie; made where it is not there.
        keep: How many to keep, the newest ones; None keeps all.

    Raises:
        PathError: The folder cannot be made.
        UsageError: `keep` is not a positive number.

    Example::

        vault = everybit.Vault("checkpoints", keep=3)
        vault.save(step=step, model=model, optimizer=optimizer, scheduler=scheduler)
        ...
        step = vault.restore(model=model, optimizer=optimizer, scheduler=scheduler).step
    """

    def __init__(self, folder: str | os.PathLike[str], *, keep: int | None = None) -> None:
        if keep is not None and keep < 1:
            raise UsageError("must keep at least one checkpoint", where=f"keep={keep}")
        self.folder = Path(folder)
        self._keep = keep
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PathError.from_os_error(error, self.folder) from error

    def save(
        self,
        *,
        step: int,
        rng: bool = True,
        counters: Mapping[str, int | float] | None = None,
        **state: Any,
    ) -> Path:
        """Save a checkpoint, prove that the disk holds it, then drop the oldest.

        Args:
            step: Updates that the state has seen.
            rng: Also keep the states of the global random generators.
            counters: More numbers for the manifest (epoch, samples).
            **state: By name: modules, optimizers and whatever else has a `state_dict`; tensors and
                plain values.

        Returns:
            The checkpoint's folder.

        Raises:
            PathError: It cannot be written; the earlier checkpoints are untouched.
            DamagedError: The disk does not hold what the tensors hold (FIL102); likewise.
            UsageError: A name is taken by the vault itself, the step is no whole number, or an
                object was given that a restore could not load again.
        """
        taken = [name for name in _OWN if name in state]
        if taken or not state:
            raise UsageError(
                f"{taken[0]!r} is a name of the vault's own" if taken else "nothing to save",
                where="Vault.save",
                todo="name what to save (model=model, optimizer=optimizer)",
            )
        step = whole_step(step)
        numbers = plain_counters(counters)
        nest: dict[str, Any] = {"step": step, **{k: _state_of(v) for k, v in state.items()}}
        if rng:
            nest["rng"] = RandomState.capture().to_plain()
        with locked(self.folder):
            return self._save(step, numbers, nest)

    def _save(self, step: int, numbers: Mapping[str, int | float], nest: Mapping[str, Any]) -> Path:
        name = f"step-{step:09d}"
        attempt = max((each[1] for each in self._listed() if each[0] == step), default=-1) + 1
        target = self.folder / (f"{name}.{attempt}" if attempt else name)
        hidden = self.folder / f".{target.name}.{uuid.uuid4().hex[:8]}.part"
        live = live_digests(nest)
        self._clear()
        try:
            hidden.mkdir()
            written = write_proved(nest, hidden / _FILE, live)
            _refuse_foreign(written.temporary)
            written.name_it()
            write_manifest(
                hidden,
                Manifest(
                    files={_FILE: written.sealed},
                    covers=Covers.FOLDER,
                    sealed_at=now(),
                    sealed_by=f"everybit {__version__}",
                    save_id=uuid.uuid4().hex,
                    step=step,
                    counters={"step": step, **numbers},
                ),
            )
            sync_folder(hidden)
            hidden.rename(target)
            sync_folder(self.folder)
        except OSError as error:
            raise PathError.from_os_error(error, target) from error
        finally:
            shutil.rmtree(hidden, ignore_errors=True)
        self._drop(target)
        return target

    def newest(self) -> Kept | None:
        """Return the newest checkpoint that is whole, verified now; None where there is none.

        Raises:
            PathError: The folder cannot be read.
        """
        passed_over: dict[str, str] = {}
        for step, _, path in reversed(self._listed()):
            why = _why_not_whole(path, step)
            if not why:
                return Kept(step=step, path=path, passed_over=passed_over)
            passed_over[path.name] = why
        return None

    def restore(
        self, *, step: int | None = None, rng: bool = True, strict: bool = True, **targets: Any
    ) -> Restored:
        """Restore from the newest whole checkpoint, or from that of a step.

        Args:
            step: Which; the newest whole one where None.
            rng: Also put back the random generators, where they were kept.
            strict: As for `load_into`.
            **targets: By the names they were saved under: modules and optimizers, loaded with
                proof and by name; whatever else has a `load_state_dict`.

        Raises:
            PathError: There is no whole checkpoint, or none of that step.
            DamagedError: That of the step is not whole.
            FindingsError: It does not fit a target; none is touched by a module that does not fit.
            UsageError: A name was not saved.
        """
        kept = self._find(step)
        file = kept.path / _FILE
        nest = torch.load(file, map_location="cpu", weights_only=True)
        unknown = sorted(set(targets) - set(nest))
        if unknown:
            raise UsageError(
                f"no {unknown[0]!r} was saved in it",
                where=str(kept.path),
                todo=f"it has {', '.join(sorted(nest))}",
            )
        modules = {k: v for k, v in targets.items() if isinstance(v, torch.nn.Module)}
        optimizers = {k: v for k, v in targets.items() if isinstance(v, torch.optim.Optimizer)}
        arrivals = {}
        not_taken = {}
        for name, module in modules.items() if strict else ():
            refuse_other_extra_state(module, nest[name], kept.path)
        for name, module in modules.items():
            mine = [key for key, each in optimizers.items() if _trains(each, module)]
            wanted: list[str | None] = [*mine] or [None]
            for key in wanted:
                arrivals[name] = load_into(
                    module,
                    file,
                    optimizer=None if key is None else optimizers.pop(key),
                    key=name,
                    optimizer_key=key,
                    strict=strict,
                    verify=False,
                )
            if left := restore_extra_state(module, nest[name]):
                not_taken[name] = left
        for name, target in targets.items():
            if name not in modules and (name in optimizers or name not in arrivals):
                if isinstance(target, torch.optim.Optimizer) and name not in optimizers:
                    continue
                target.load_state_dict(nest[name])
        if rng and "rng" in nest:
            RandomState.from_plain(nest["rng"]).restore()
        rest = {k: v for k, v in nest.items() if k not in (*targets, *_OWN)}
        return Restored(
            step=kept.step,
            path=kept.path,
            arrivals=arrivals,
            values=rest,
            passed_over=kept.passed_over,
            not_taken=not_taken,
        )

    def _find(self, step: int | None) -> Kept:
        if step is None:
            kept = self.newest()
            if kept is None:
                raise PathError("holds no whole checkpoint", where=str(self.folder))
            return kept
        found = [each for each in self._listed() if each[0] == step]
        if not found:
            steps = ", ".join(str(each[0]) for each in self._listed()[-8:]) or "none"
            raise PathError(
                f"holds no checkpoint of step {step}",
                where=str(self.folder),
                todo=f"it has {steps}",
            )
        why = _why_not_whole(found[-1][2], step)
        if why:
            raise DamagedError(why, rule="FIL101", where=str(found[-1][2]))
        return Kept(step=step, path=found[-1][2])

    def _listed(self) -> list[tuple[int, int, Path]]:
        """Return `(step, attempt, folder)` of all checkpoints, the oldest first."""
        found = []
        try:
            for path in self.folder.iterdir():
                match = _NAME.match(path.name)
                if match is not None and path.is_dir():
                    found.append((int(match[1]), int(match[2] or 0), path))
        except OSError as error:
            raise PathError.from_os_error(error, self.folder) from error
        return sorted(found)

    def _drop(self, newest: Path) -> None:
        """Remove what `keep` does not cover, earlier attempts of a step, and remains of a kill."""
        listed = self._listed()
        last = {step: path for step, _, path in listed}
        old = [path for step, _, path in listed if last[step] != path]
        kept = [path for path in last.values() if path not in old]
        if self._keep is not None and len(kept) > self._keep:
            old += [path for path in kept[: len(kept) - self._keep] if path != newest]
        for path in old:
            # Gone at once for whoever looks, then removed in peace.
            hidden = self.folder / f".{path.name}.{uuid.uuid4().hex[:8]}.part"
            try:
                path.rename(hidden)
            except OSError:
                continue
        self._clear()

    def _clear(self) -> None:
        """Remove what saves that were killed have left, which may fill the disk."""
        for path in self.folder.glob(".step-*.part"):
            shutil.rmtree(path, ignore_errors=True)


def _refuse_foreign(file: Path) -> None:
    """Refuse what `torch.load` would refuse at the restore, while earlier checkpoints are there."""
    names = torch.serialization.get_unsafe_globals_in_checkpoint(file)
    if names:
        raise UsageError(
            f"holds objects of {', '.join(sorted(names)[:4])}, which could not be restored",
            where="Vault.save",
            todo="save their `state_dict()`, or plain values and tensors",
        )


def _state_of(value: Any) -> Any:
    if isinstance(value, torch.nn.Module):
        return _plain(unwrap(value).state_dict())
    state = getattr(value, "state_dict", None)
    return _plain(state() if callable(state) and not isinstance(value, type) else value)


def _plain(value: Any) -> Any:
    """Return a nest with NumPy's numbers as Python's: `torch.load` refuses theirs."""
    if type(value) in (dict, collections.OrderedDict):
        items = {key: _plain(item) for key, item in value.items()}
        same = all(items[key] is item for key, item in value.items())
        return value if same else type(value)(items)
    if type(value) in (list, tuple):
        inner = [_plain(item) for item in value]
        same = all(one is other for one, other in zip(inner, value, strict=True))
        return value if same else type(value)(inner)
    if type(value).__module__ == "numpy" and not getattr(value, "shape", True):
        return value.item()
    return value


def _trains(optimizer: torch.optim.Optimizer, module: torch.nn.Module) -> bool:
    mine = {id(p) for p in module.parameters()}
    return any(id(p) in mine for group in optimizer.param_groups for p in group["params"])


def _why_not_whole(path: Path, step: int) -> str:
    """Return why a checkpoint's folder is not whole; "" where it is, by its manifest."""
    if not (path / MANIFEST_NAME).is_file():
        return "it has no manifest: its save did not finish"
    try:
        outcome = verify_place(path)
    except EverybitError as error:
        return error.line()
    try:
        manifest = load_manifest(path)
    except EverybitError as error:
        return error.line()
    if manifest is not None and manifest.step not in (None, step):
        return f"it is of step {manifest.step} under the name of another"
    errors = [each for each in outcome.findings if each.severity is Severity.ERROR]
    if errors:
        return f"{errors[0].rule} {errors[0].message}"
    return next((f"{s.what}: {s.why}" for s in outcome.skipped if s.promised), "")
