"""`State`: weights, buffers, optimizer state, scaler, schedulers and random generators, at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
import xxhash

from everybit.core.errors import DamagedError
from everybit.probe.digest import plain_word
from everybit.probe.memory import row_major
from everybit.probe.state.copies import copy_tensors, pieces_of
from everybit.probe.state.entry import Entry, difference, same
from everybit.probe.state.optimizers import OptimizerHeld, labels_of
from everybit.probe.state.others import OtherHeld, ScalerHeld, held_other
from everybit.probe.state.place import Kind, Place
from everybit.probe.state.rng import RngState
from everybit.probe.state.room import Room
from everybit.probe.state.walk import Held, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from everybit.probe.state.copies import Copy


class State:
    """What a training step starts from, or has come to, as one value. Made by `capture`."""

    def __init__(
        self,
        *,
        held: list[Held],
        optimizers: list[OptimizerHeld],
        others: list[OtherHeld | ScalerHeld],
        gradients: list[tuple[torch.Tensor, torch.Tensor | None]] | None,
        rng: RngState | None,
    ) -> None:
        self._held = held
        self._optimizers = optimizers
        self._others = others
        self._gradients = gradients
        self._rng = rng
        self._entries: dict[str, Entry] = {}
        self._by_id: dict[int, Copy] = {}
        self._numbers: dict[str, tuple[Kind, Any, int]] = {}

    @classmethod
    def capture(
        cls,
        modules: Mapping[str, torch.nn.Module],
        optimizers: Mapping[str, torch.optim.Optimizer] | None = None,
        *,
        scaler: Any = None,
        schedulers: Sequence[Any] = (),
        loader: Any = None,
        others: Mapping[str, Any] | None = None,
        rng: bool = True,
        gradients: bool = False,
        base: State | None = None,
        memory_bytes: int | None = None,
        folder: Path | None = None,
    ) -> State:
        """Copy everything that is carried, as it is now. Nothing is written, and nothing drawn.

        Of a tensor that is sharded over ranks this process's shard is copied; a tied weight once.

        Args:
            modules: Root modules by name, "" for the first. Wrappers (DDP, compile) are seen
                through: names are state_dict keys of the model inside.
            optimizers: Optimizers by name.
            scaler: A GradScaler, torch's or another with `state_dict`.
            schedulers: Schedulers, anything with `state_dict` and `load_state_dict`.
            loader: A loader that knows its position (`state_dict`); others have none.
            others: More objects with `state_dict` and `load_state_dict`, by name.
            rng: Take the states of the global random generators.
            gradients: Take `.grad` of every parameter.
            base: An earlier state: what has the same bytes now shares its copy.
            memory_bytes: Hold so many bytes of new copies in memory, the rest in a file.
            folder: Where that file goes, mode 0600; the folder for temporary files by default.

        Raises:
            PathError: Copies do not fit into memory, nor can they be written to a file.
        """
        held, known = [], {}
        by_root: list[tuple[str, list[Held]]] = []
        for name, root in modules.items():
            parts = list(walk(root))
            by_root.append((name, parts))
            held += parts
            known.update({k: v for k, v in labels_of(name, parts).items() if k not in known})
        steppers = [OptimizerHeld(name, each) for name, each in (optimizers or {}).items()]
        rest = [("scaler", scaler), ("loader", loader)]
        rest += [(f"scheduler{index}", each) for index, each in enumerate(schedulers)]
        rest += list((others or {}).items())
        state = cls(
            held=held,
            optimizers=steppers,
            others=[held_other(name, item) for name, item in rest if _has_state(item)],
            gradients=[] if gradients else None,
            rng=RngState.capture() if rng else None,
        )
        found = list(state._tensors_of(by_root, known))
        state._copy(found, base, Room(memory_bytes, folder))
        for key, part in by_root:
            state._note_plain(key, part)
        for leaf in (leaf for each in state._others for leaf in each.leaves()):
            state._note(Kind.OTHER, *leaf)
        for stream, word in state._rng.words().items() if state._rng is not None else ():
            state._note(Kind.RNG, f"rng.{stream}", word)
        return state

    def restore(self, *, rng: bool = True) -> None:
        """Write everything back in place: the same tensor objects, the same memory.

        Optimizer state that came since is removed, what went is put back; tensors that were
        exchanged for others are put back too. Gradients are as captured, or left alone where they
        were not. Nothing is drawn from a random generator.

        Args:
            rng: Put the random generators back too, where they were captured.

        Raises:
            DamagedError: A copy is not what was copied; nothing has been written then.
        """
        self.check()
        for held in self._held:
            held.put_back()
        for optimizer in self._optimizers:
            optimizer.put_back()
        for other in self._others:
            other.put_back()
        for parameter, gradient in self._gradients or ():
            if parameter.grad is not gradient:
                parameter.grad = gradient
        for entry in self._entries.values():
            entry.write()
        if rng and self._rng is not None:
            self._rng.restore()

    def check(self) -> None:
        """Test every copy against its digest.

        Raises:
            DamagedError: One is not what was copied.
        """
        tested: set[int] = set()
        for name, entry in self._entries.items():
            if id(entry.copy) not in tested:
                tested.add(id(entry.copy))
                if not entry.copy.is_whole():
                    rule = "MEM602" if entry.place.kind is Kind.STATE else "MEM601"
                    raise DamagedError(
                        f"the copy of {name} changed in memory",
                        rule=rule,
                        todo="nothing was written; go back to a checkpoint, test the memory",
                    )

    def digest(self) -> str:
        """Return one digest (XXH3-128, hexadecimal) over all of it, names and order included.

        Of every tensor the `tree` digest goes into it, whatever device it is on.
        """
        hasher = xxhash.xxh3_128(b"everybit.state/1\0")
        for name, word in self.words():
            hasher.update(f"{name}\0{word}\0".encode())
        return hasher.hexdigest()

    def words(self) -> list[tuple[str, str]]:
        """Return `(name, digest)` of every tensor and every number, in order."""
        tensors = [(name, entry.copy.digest) for name, entry in self._entries.items()]
        return tensors + [(name, f"{word:016x}") for name, (_, _, word) in self._numbers.items()]

    def equals(self, other: State) -> bool:
        """Whether both hold the same names with the same bits, in the same order."""
        if list(self._entries) != list(other._entries):
            return False
        mine, theirs = self._entries.values(), other._entries.values()
        return all(same(a.copy, b.copy) for a, b in zip(mine, theirs, strict=True)) and [
            (name, word) for name, (_, _, word) in self._numbers.items()
        ] == [(name, word) for name, (_, _, word) in other._numbers.items()]

    def differs(self, other: State) -> list[Place]:
        """Return where the two part, in this state's order; empty where they are equal.

        Args:
            other: A state of the same modules and optimizers; `before` in changes is this state's
                value, `after` the other's.
        """
        found = []
        for name, entry in self._entries.items():
            theirs = other._entries.get(name)
            if theirs is None:
                found.append(replace(entry.place, detail="it is gone"))
            elif not same(entry.copy, theirs.copy):
                found.append(difference(entry, theirs))
        for name, theirs in other._entries.items():
            if name not in self._entries:
                found.append(replace(theirs.place, detail="it is new"))
        absent = (Kind.OTHER, "absent", None)
        for name in dict.fromkeys((*self._numbers, *other._numbers)):
            kind, before, word = self._numbers.get(name, absent)
            kind_after, after, word_after = other._numbers.get(name, absent)
            if word != word_after:
                kind = kind_after if before == "absent" else kind
                detail = "" if kind is Kind.RNG else f"{before!r:.60} -> {after!r:.60}"
                found.append(Place(kind=kind, name=name, detail=detail))
        return found

    def heal(
        self,
        *,
        parameter: str | None,
        module: str | None = None,
        optimizer: str | None = None,
        tensor: str | None = None,
    ) -> Place | None:
        """Write one tensor back, named as a `Location` names it.

        Returns:
            What differed (`before` is the copy's value); None where there is no such tensor, its
            copy is damaged, or nothing differs.
        """
        wanted = (parameter, module, optimizer, tensor)
        for entry in self._entries.values():
            place = entry.place
            if (place.parameter, place.module, place.optimizer, place.tensor) != wanted:
                continue
            if place.kind is Kind.GRADIENT or not entry.copy.is_whole():
                continue
            found = entry.now()
            if found is None or same(entry.copy, found.copy):
                continue
            differs = difference(entry, found)
            entry.write()
            return differs
        return None

    def copy_of(self, tensor: torch.Tensor) -> Copy | None:
        """Return the copy of a live tensor that is whole in one piece, None for another."""
        return self._by_id.get(id(tensor))

    @property
    def num_bytes(self) -> int:
        """Bytes of all copies, each once."""
        copies = {id(entry.copy): entry.copy.num_bytes for entry in self._entries.values()}
        return sum(copies.values())

    @property
    def rng(self) -> RngState | None:
        """The random generators as captured."""
        return self._rng

    def _tensors_of(
        self,
        roots: list[tuple[str, list[Held]]],
        known: dict[int, tuple[str, str | None]],
    ) -> Iterator[tuple[Place, torch.Tensor]]:
        """Yield every tensor once with its place; numbers of optimizers are noted."""
        seen: set[int] = set()
        parameters: list[tuple[str, str | None, torch.Tensor]] = []

        def new(tensor: torch.Tensor) -> bool:
            is_new = id(tensor) not in seen
            seen.add(id(tensor))
            return is_new

        for root, parts in roots:
            module = root or None
            for part in parts:
                prefix = f"{part.name}." if part.name else ""
                for kind, holder in (
                    (Kind.PARAMETER, part.parameters),
                    (Kind.BUFFER, part.buffers),
                ):
                    for key, tensor in holder.items():
                        if tensor is None or not new(tensor):
                            continue
                        named = prefix + key
                        if kind is Kind.PARAMETER:
                            parameters.append((named, module, tensor))
                        label = f"{root}:{named}" if root else named
                        yield (
                            Place(kind=kind, name=label, parameter=named, module=module),
                            tensor,
                        )
        for optimizer in self._optimizers:
            for leaf in optimizer.leaves(known):
                if not isinstance(leaf.value, torch.Tensor):
                    self._note(Kind.SETTING, leaf.name, leaf.value)
                    continue
                if not new(leaf.value):
                    continue
                if leaf.tensor is None:
                    parameters.append((leaf.parameter, None, leaf.value))
                place = Place(
                    kind=Kind.PARAMETER if leaf.tensor is None else Kind.STATE,
                    name=leaf.name,
                    parameter=leaf.parameter,
                    module=leaf.module,
                    optimizer=optimizer.name,
                    tensor=leaf.tensor,
                )
                yield place, leaf.value
        for other in self._others:
            for name, tensor in other.tensors():
                if new(tensor):
                    yield Place(kind=Kind.OTHER, name=name), tensor
        if self._gradients is not None:
            for named, module, parameter in parameters:
                gradient = parameter.grad
                self._gradients.append((parameter, gradient))
                label = f"{module}:{named}" if module else named
                if gradient is not None and new(gradient):
                    name = f"gradient::{label}"
                    yield (
                        Place(kind=Kind.GRADIENT, name=name, parameter=named, module=module),
                        gradient,
                    )

    def _copy(
        self, found: list[tuple[Place, torch.Tensor]], base: State | None, room: Room
    ) -> None:
        pieces = [
            (place, tensor, suffix, piece)
            for place, tensor in found
            for suffix, piece in pieces_of(tensor)
        ]
        earlier = base._entries if base is not None else {}
        known = [
            earlier[name].copy if (name := place.name + suffix) in earlier else None
            for place, _, suffix, _ in pieces
        ]
        copies = copy_tensors([piece for *_, piece in pieces], known, room)
        for (place, tensor, suffix, piece), copy in zip(pieces, copies, strict=True):
            full = replace(
                place,
                name=place.name + suffix,
                dtype=copy.dtype,
                shape=copy.shape,
                device=str(piece.device),
            )
            self._entries[full.name] = Entry(full, tensor, suffix, copy)
            if not suffix:
                self._by_id[id(tensor)] = copy

    def _note_plain(self, root: str, parts: list[Held]) -> None:
        for part in parts:
            prefix = f"{root}:{part.name}" if root else part.name
            for key, value in part.plain.items():
                self._note(Kind.OTHER, f"{prefix}.{key}" if prefix else key, value)

    def _note(self, kind: Kind, name: str, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            raw = row_major(value.detach().cpu()).reshape(-1).view(torch.uint8)
            word = xxhash.xxh3_64_intdigest(raw.numpy().tobytes())
        else:
            known = plain_word(value)
            # Of an object nothing but its kind is told: a callable, a set.
            word = (
                xxhash.xxh3_64_intdigest(type(value).__name__.encode()) if known is None else known
            )
        self._numbers[name] = (kind, value, word)


def _has_state(item: Any) -> bool:
    return item is not None and hasattr(item, "state_dict") and hasattr(item, "load_state_dict")
