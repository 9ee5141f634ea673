"""Checkpoints of every format for the campaigns, written and read by the libraries they are of."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Tensors of the models: names as people have them, sizes of all kinds.
_SHAPES: Final = {
    "embed.weight": ((96, 128), torch.float32),
    "block.0.attn.weight": ((128, 64), torch.float32),
    "block.0.attn.bias": ((512,), torch.float32),
    "block.0.mlp.weight": ((64, 160), torch.bfloat16),
    "block.1.attn.weight": ((128, 64), torch.float32),
    "block.1.mlp.weight": ((64, 160), torch.float16),
    "head.weight": ((96, 64), torch.float32),
}
#: Which of them the second shard of a folder holds, with others of the same sizes as the first.
_LAYERS: Final = ("attn.weight", "attn.bias", "mlp.weight")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A kind of checkpoint.

    Attributes:
        name: Of the format.
        write: Writes one of a seed into an empty folder.
        load: Reads it back by the library that wrote it: `{name: bytes}`.
        named: Whether the format gives its tensors names.
    """

    name: str
    write: Callable[[Path, int], dict[str, bytes]]
    load: Callable[[Path], dict[str, bytes]]
    named: bool = True


def plain_bytes(tensor: torch.Tensor) -> bytes:
    """The elements of a contiguous tensor."""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def make_state(seed: int, shapes: dict[str, Any] = _SHAPES) -> dict[str, torch.Tensor]:
    """Weights as training leaves them: normal, of different spread."""
    rng = torch.Generator().manual_seed(seed)
    return {
        name: (torch.randn(shape, generator=rng) * (0.02 + 0.01 * index)).to(dtype)
        for index, (name, (shape, dtype)) in enumerate(shapes.items())
    }


def _bytes_of(state: dict[str, torch.Tensor]) -> dict[str, bytes]:
    return {name: plain_bytes(tensor) for name, tensor in state.items()}


# -- safetensors -----------------------------------------------------------------------------------


def _write_safetensors(folder: Path, seed: int) -> dict[str, bytes]:
    from safetensors.torch import save_file

    state = make_state(seed)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    return _bytes_of(state)


def _load_safetensors(folder: Path) -> dict[str, bytes]:
    from safetensors.torch import load_file

    return _bytes_of(load_file(folder / "model.safetensors"))


def write_sharded(
    folder: Path, seed: int, shapes: dict[str, Any] = _SHAPES, layers: tuple[str, ...] = _LAYERS
) -> dict[str, bytes]:
    """Three shards of equal size: same shapes under names of equal length."""
    from safetensors.torch import save_file

    weight_map = {}
    everything: dict[str, bytes] = {}
    for number in range(3):
        own = {f"model.layers.{number}.{layer}": shapes[f"block.0.{layer}"] for layer in layers}
        state = make_state(100 * seed + number, own)
        shard = f"model-{number + 1:05}-of-00003.safetensors"
        save_file(state, folder / shard, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(state, shard)
        everything |= _bytes_of(state)
    total = sum(map(len, everything.values()))
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    text = json.dumps(index, indent=2, sort_keys=True) + "\n"
    (folder / "model.safetensors.index.json").write_text(text, encoding="utf-8")
    return everything


def _load_sharded(folder: Path) -> dict[str, bytes]:
    from safetensors import safe_open

    index = json.loads((folder / "model.safetensors.index.json").read_text(encoding="utf-8"))
    found = {}
    for name, shard in index["weight_map"].items():
        with safe_open(folder / shard, "pt") as file:
            found[name] = plain_bytes(file.get_tensor(name))
    return found


# -- torch -----------------------------------------------------------------------------------------


def _nested(seed: int) -> tuple[dict[str, Any], dict[str, bytes]]:
    state = make_state(seed)
    moments = make_state(seed + 10_000, {"exp_avg": _SHAPES["head.weight"]})
    value = {
        "model": state,
        "optimizer": {"state": {0: {"exp_avg": moments["exp_avg"], "step": 7}}},
        "step": 7,
    }
    named = {f"model.{name}": tensor for name, tensor in state.items()}
    named["optimizer.state.0.exp_avg"] = moments["exp_avg"]
    return value, _bytes_of(named)


def _flat(value: dict[str, Any]) -> dict[str, bytes]:
    named = {f"model.{name}": tensor for name, tensor in value["model"].items()}
    named["optimizer.state.0.exp_avg"] = value["optimizer"]["state"][0]["exp_avg"]
    # What stands beside the tensors is read too, so that its damage is no harmless one.
    rest = {"step": value["step"], "state_step": value["optimizer"]["state"][0]["step"]}
    return {**_bytes_of(named), "": json.dumps(rest).encode()}


def _write_torch(folder: Path, seed: int, *, legacy: bool = False) -> dict[str, bytes]:
    value, named = _nested(seed)
    torch.save(value, folder / "model.pt", _use_new_zipfile_serialization=not legacy)
    return named


def _write_unchecked(folder: Path, seed: int) -> dict[str, bytes]:
    torch.serialization.set_crc32_options(False)
    try:
        return _write_torch(folder, seed)
    finally:
        torch.serialization.set_crc32_options(True)


def _load_torch(folder: Path) -> dict[str, bytes]:
    return _flat(torch.load(folder / "model.pt", weights_only=True))


class _ByKey(pickle.Pickler):
    """Writes tensors as keys, as torch did before 0.1.10."""

    def persistent_id(self, value: object) -> str | None:
        return str(id(value)) if isinstance(value, torch.Tensor) else None


def _write_tar(folder: Path, seed: int) -> dict[str, bytes]:
    value, named = _nested(seed)
    every = [*value["model"].values(), value["optimizer"]["state"][0]["exp_avg"]]
    write_tar(folder / "model.pt", value, every)
    return named


def write_tar(path: Path, value: Any, every: list[torch.Tensor]) -> None:
    """The oldest format: `sys_info`, `pickle`, `tensors` and `storages` in a tar archive."""
    kinds = {torch.float32: "Float", torch.float16: "Half", torch.bfloat16: "BFloat16"}
    storages, tensors, described = io.BytesIO(), io.BytesIO(), io.BytesIO()
    pickle.dump(len(every), storages, protocol=2)
    pickle.dump(len(every), tensors, protocol=2)
    for number, tensor in enumerate(every):
        kind = kinds[tensor.dtype]
        storage_type = getattr(torch, f"{kind}Storage")
        pickle.dump((number, "cpu", storage_type), storages, protocol=2)
        storages.write(tensor.numel().to_bytes(8, "little") + plain_bytes(tensor))
        tensor_type = getattr(torch, f"{kind}Tensor")
        pickle.dump((id(tensor), number, tensor_type), tensors, protocol=2)
        numbers = [tensor.dim(), *tensor.shape, *tensor.stride(), 0]
        tensors.write(b"".join(n.to_bytes(8, "little") for n in numbers))
    pickle.dump([], storages, protocol=2)
    _ByKey(described, protocol=2).dump(value)
    info = {"protocol_version": 1000, "little_endian": True, "type_sizes": {"long": 4}}
    parts = {
        "sys_info": pickle.dumps(info, protocol=2),
        "pickle": described.getvalue(),
        "tensors": tensors.getvalue(),
        "storages": storages.getvalue(),
    }
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in parts.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


def _load_tar(folder: Path) -> dict[str, bytes]:
    # everybit: ignore[SRC301] written a moment ago by this very script, and damaged by it
    return _flat(torch.load(folder / "model.pt", weights_only=False))


def write_dcp(
    folder: Path, seed: int, shape: tuple[int, ...] = (96, 80), count: int = 6
) -> dict[str, bytes]:
    """Two files of equal size, each entry a torch archive of its own."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.filesystem import FileSystemWriter

    shapes = {f"model.block.{n}.weight": (shape, torch.float32) for n in range(count)}
    state = make_state(seed, shapes)
    dcp.save(state, storage_writer=FileSystemWriter(folder, thread_count=2), no_dist=True)
    return _bytes_of(state)


def _load_dcp(folder: Path) -> dict[str, bytes]:
    import torch.distributed.checkpoint as dcp

    shapes = {f"model.block.{n}.weight": ((96, 80), torch.float32) for n in range(6)}
    state = make_state(-1, shapes)
    # everybit: ignore[SRC301] written a moment ago by this very script, and damaged by it
    dcp.load(state, checkpoint_id=str(folder), no_dist=True)
    return _bytes_of(state)


# -- NumPy and tokens ------------------------------------------------------------------------------


def _write_npy(folder: Path, seed: int) -> dict[str, bytes]:
    array = np.random.default_rng(seed).standard_normal((160, 96)).astype(np.float32)
    np.save(folder / "weights.npy", array)
    return {"weights": array.tobytes()}


def _load_npy(folder: Path) -> dict[str, bytes]:
    array = np.load(folder / "weights.npy", allow_pickle=False)
    return {"weights": array.tobytes() + str((array.dtype, array.shape)).encode()}


def _write_npz(folder: Path, seed: int) -> dict[str, bytes]:
    rng = np.random.default_rng(seed)
    shapes = {"layer.weight": (128, 96), "layer.bias": (400,), "head": (96, 64)}
    arrays = {name: rng.standard_normal(shape).astype("f4") for name, shape in shapes.items()}
    np.savez(folder / "weights.npz", **arrays)
    return {name: array.tobytes() for name, array in arrays.items()}


def _load_npz(folder: Path) -> dict[str, bytes]:
    with np.load(folder / "weights.npz", allow_pickle=False) as archive:
        return {
            name: array.tobytes() + str((array.dtype, array.shape)).encode()
            for name in archive.files
            for array in (archive[name],)
        }


def _write_tokens(folder: Path, seed: int) -> dict[str, bytes]:
    rng = np.random.default_rng(seed)
    vocabulary = 50_304
    found = {}
    for split, count in (("train", 60_000), ("val", 6_000)):
        tokens = rng.integers(0, vocabulary, count).astype(np.uint16)
        tokens.tofile(folder / f"{split}.bin")
        found[split] = tokens.tobytes()
    (folder / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": vocabulary}))
    return found


def _load_tokens(folder: Path) -> dict[str, bytes]:
    # everybit: ignore[SRC302] written a moment ago by this very script, and damaged by it
    meta = pickle.loads((folder / "meta.pkl").read_bytes())
    found = {split: (folder / f"{split}.bin").read_bytes() for split in ("train", "val")}
    return {**found, "": json.dumps(meta, default=str).encode()}


SUBJECTS: Final = (
    Subject(name="safetensors", write=_write_safetensors, load=_load_safetensors),
    Subject(name="safetensors, sharded", write=write_sharded, load=_load_sharded),
    Subject(name="torch zip", write=_write_torch, load=_load_torch),
    Subject(name="torch zip, no checksums", write=_write_unchecked, load=_load_torch),
    Subject(
        name="torch legacy",
        write=lambda folder, seed: _write_torch(folder, seed, legacy=True),
        load=_load_torch,
    ),
    Subject(name="torch tar", write=_write_tar, load=_load_tar),
    Subject(name="DCP", write=write_dcp, load=_load_dcp),
    Subject(name="npy", write=_write_npy, load=_load_npy, named=False),
    Subject(name="npz", write=_write_npz, load=_load_npz),
    Subject(name="tokens", write=_write_tokens, load=_load_tokens, named=False),
)
