"""A recorded call as bytes, and the same call on another rank, made with that rank's own replica.

What goes along is what the call began with and what it gave: inputs, random generators, buffers,
the gradients that came in, digests. Weights stay at home: the other rank has the same ones, which
is seen by their digest.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
import xxhash

from everybit.guard.capsule.content import NotPlainError, decode, encode, find_imported
from everybit.guard.replay.compare import read_all
from everybit.guard.replay.record import CallRecord, Pass
from everybit.guard.replay.repeat import CannotRepeatError, repeat
from everybit.guard.replay.trace import Event
from everybit.guard.replay.values import leaves, word_of
from everybit.host.cpu import read_cpu
from everybit.probe.memory import version
from everybit.probe.state import RngState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.guard.replay.repeat import Repeated

#: Larger calls are not sent to another rank.
MAX_BYTES: Final = 64 << 20


@dataclass(eq=False)
class Parcel:
    """A call of another rank.

    Attributes:
        facts: What has to be the same where two ranks are to give the same bits, in words.
        weights: A word for the weights that it was made with.
        digest: A word for all that it gave: outputs, and gradients that leave it.
        plain: Everything but the tensors.
        tensors: These.
    """

    facts: dict[str, str]
    weights: int
    digest: int
    plain: dict[str, Any]
    tensors: list[torch.Tensor]

    def to_bytes(self) -> bytes:
        """Return the form that another rank reads."""
        head = {
            "facts": self.facts,
            "weights": self.weights,
            "digest": self.digest,
            "plain": self.plain,
            "devices": [tensor.device.type for tensor in self.tensors],
        }
        text = json.dumps(head).encode()
        buffer = io.BytesIO()
        torch.save([tensor.cpu() for tensor in self.tensors], buffer)
        return len(text).to_bytes(8, "little") + text + buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Parcel:
        """Rebuild a parcel; its tensors come to this rank's own device."""
        start = 8 + int.from_bytes(data[:8], "little")
        head = json.loads(data[8:start])
        tensors = torch.load(io.BytesIO(data[start:]), weights_only=True)
        tensors = [
            tensor if kind == "cpu" else tensor.to(kind)
            for tensor, kind in zip(tensors, head["devices"], strict=True)
        ]
        return cls(head["facts"], head["weights"], head["digest"], head["plain"], tensors)


def pack_call(record: CallRecord) -> Parcel:
    """Pack a recorded call whose backward pass has ended.

    Raises:
        NotPlainError: Something in it has no plain form, or it is too large.
    """
    assert record.held is not None
    assert record.rng is not None
    read_all(record)
    tensors: list[torch.Tensor] = []
    size = sum(t.numel() * t.element_size() for _, t in leaves(record.args, "") if _is(t))
    if size > MAX_BYTES:
        raise NotPlainError(f"inputs of {size >> 20} MiB")
    plain = {
        "step": record.step,
        "call": record.call,
        "args": encode(tuple(record.args), tensors),
        "kwargs": encode(dict(record.kwargs), tensors),
        "buffers": encode(record.held.copies(), tensors),
        "rng": _pack_rng(record.rng, tensors),
        "outputs": record.output_words,
        "events": [[event.name, event.comes_out, event.words] for event in record.events],
        "passes": [
            {
                "seeds": encode([[*at, seed] for at, (seed, _) in each.seeds.items()], tensors),
                "words": [[place, words] for place, words in each.words.items()],
                "order": each.order,
                "differentiable": each.differentiable,
                "announced": each.announced,
            }
            for each in record.passes.values()
        ],
    }
    if sum(tensor.numel() * tensor.element_size() for tensor in tensors) > MAX_BYTES:
        raise NotPlainError(f"a call of more than {MAX_BYTES >> 20} MiB")
    return Parcel(facts_of(record), weights_word(record), digest_of(record), plain, tensors)


def unpack_call(parcel: Parcel, own: CallRecord) -> CallRecord:
    """Return another rank's call as if this rank's replica had made it.

    Args:
        parcel: The call.
        own: A call that this rank's replica has made in the same step.

    Raises:
        ValueError: The parcel does not fit this rank's model.
    """
    plain = parcel.plain

    def made(key: str) -> Any:
        return decode(plain[key], parcel.tensors, find_imported)

    args, kwargs = made("args"), made("kwargs")
    inputs = [t for _, t in leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
    passes = {
        number: Pass(
            seeds={
                (place, at): (seed, version(seed))
                for place, at, seed in decode(each["seeds"], parcel.tensors, find_imported)
            },
            words=dict(each["words"]),
            order=each["order"],
            differentiable=each["differentiable"],
            announced=each["announced"],
        )
        for number, each in enumerate(plain["passes"])
    }
    return CallRecord(
        step=plain["step"],
        call=plain["call"],
        module=own.module,
        args=args,
        kwargs=kwargs,
        inputs=[(tensor, version(tensor), word_of(tensor)) for tensor in inputs],
        weights=own.weights,
        rng=_unpack_rng(plain["rng"], parcel.tensors),
        held=own.held,
        settings=own.settings,
        events=[Event(name, out, words, []) for name, out, words in plain["events"]],
        paths=own.paths,
        output_words=plain["outputs"],
        graph=own.graph,
        owners=own.owners,
        passes=passes,
        complete=True,
    )


def repeat_parcel(parcel: Parcel, own: CallRecord) -> tuple[CallRecord, Repeated]:
    """Make another rank's call with this rank's replica; leaves no trace of it.

    Raises:
        CannotRepeatError: That is not possible, or would prove nothing; why.
    """
    why = next((f"{k}: {v}, here {own_v}" for k, v, own_v in _pairs(parcel, own) if v != own_v), "")
    if why:
        raise CannotRepeatError(f"the ranks compute under other conditions ({why})")
    if parcel.weights != weights_word(own):
        raise CannotRepeatError("the ranks' weights are not the same")
    assert own.held is not None
    kept = [copy.clone() for copy in own.held.copies()]
    try:
        record = unpack_call(parcel, own)
        buffers = decode(parcel.plain["buffers"], parcel.tensors, find_imported)
        own.held.with_buffers(buffers)
        return record, repeat(record)
    except (ValueError, TypeError, KeyError, RuntimeError) as error:
        raise CannotRepeatError(f"the call does not fit this rank's model: {error}") from error
    finally:
        own.held.with_buffers(kept)


def digest_of(side: CallRecord | Repeated, record: CallRecord | None = None) -> int:
    """Return a word for all that leaves a call: outputs, and gradients for parameters and inputs.

    Args:
        side: The call, or a repeat.
        record: The call that was repeated.
    """
    record = side if isinstance(side, CallRecord) else record
    assert record is not None
    read_all(side)
    found: list[Any] = [side.output_words]
    if isinstance(side, CallRecord):
        passes = [each.words for each in side.passes.values()]
    else:
        passes = list(side.words.values())
    out = record.graph.out if record.graph is not None else []
    found += [
        words[place][edge] if place in words else None
        for words in passes
        for place, edge, _, _ in out
    ]
    return xxhash.xxh3_64_intdigest(repr(found).encode()) >> 1


def weights_word(record: CallRecord) -> int:
    """Return a word for the weights that a call was made with (63 bits)."""
    from everybit.guard.readout import read_words

    words = read_words([word or 0 for _, _, _, word in record.weights])
    names = [name for name, _, _, _ in record.weights]
    return xxhash.xxh3_64_intdigest(repr((names, words)).encode()) >> 1


def facts_of(record: CallRecord) -> dict[str, str]:
    """Return what has to be the same on two ranks that are to give the same bits."""
    assert record.settings is not None
    settings = record.settings
    facts = {name: str(value) for name, value in settings.fixed}
    facts["autocast"] = str(settings.autocast)
    facts["torch"] = torch.__version__
    facts["operations"] = _word(record.graph.shape) if record.graph else ""
    device = next((p.device for _, p, _, _ in record.weights), torch.device("cpu"))
    if device.type == "cuda":
        facts["device"] = torch.cuda.get_device_name(device)
    else:
        cpu = read_cpu()
        facts["device"] = f"{cpu.get('model')} {torch.backends.cpu.get_cpu_capability()}"
    return facts


def _pairs(parcel: Parcel, own: CallRecord) -> Sequence[tuple[str, str, str]]:
    mine = facts_of(own)
    return [(key, value, mine.get(key, "")) for key, value in parcel.facts.items()]


def _word(value: object) -> str:
    return xxhash.xxh3_64_hexdigest(repr(value).encode())


def _is(value: object) -> bool:
    return isinstance(value, torch.Tensor)


def _pack_rng(rng: RngState, tensors: list[torch.Tensor]) -> dict[str, Any]:
    numpy = None
    if rng.numpy is not None:
        state = dict(rng.numpy["state"])
        if "key" in state:
            state["key"] = torch.from_numpy(state["key"].astype("int64"))
        numpy = {**rng.numpy, "state": state}
    here: list[torch.Tensor] = []
    if rng.devices:
        here = [rng.devices[torch.cuda.current_device()]]
    return {
        "python": encode(rng.python, tensors),
        "numpy": encode(numpy, tensors),
        "cpu": encode(rng.cpu, tensors),
        "devices": encode(here, tensors),
    }


def _unpack_rng(plain: dict[str, Any], tensors: list[torch.Tensor]) -> RngState:
    numpy = decode(plain["numpy"], tensors, find_imported)
    if numpy is not None and "key" in numpy["state"]:
        numpy["state"]["key"] = numpy["state"]["key"].numpy().astype("uint32")
    devices: tuple[torch.Tensor, ...] = ()
    theirs = decode(plain["devices"], tensors, find_imported)
    if theirs:
        now = [torch.cuda.get_rng_state(index) for index in range(torch.cuda.device_count())]
        now[torch.cuda.current_device()] = theirs[0]
        devices = tuple(now)
    return RngState(
        decode(plain["python"], tensors, find_imported),
        numpy,
        decode(plain["cpu"], tensors, find_imported).clone(),
        devices,
    )
