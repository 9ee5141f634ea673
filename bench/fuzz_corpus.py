"""What fuzzing starts from: small whole files of every kind that everybit parses, by code."""

from __future__ import annotations

import json
import pickle
import shutil
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from bench.subjects import make_state, write_dcp, write_sharded, write_tar

import everybit
from everybit.files.seals.manifest import MANIFEST_NAME

#: Shapes of the fuzzed models: what matters is what stands around the numbers.
_SHAPES: Final = {
    "embed.weight": ((4, 8), torch.float32),
    "block.0.attn.bias": ((8,), torch.bfloat16),
    "block.0.mlp.weight": ((4, 6), torch.float16),
}


def _rich_value() -> dict[str, Any]:
    """Views, shared storages, strides, empty tensors, and plain values of all kinds."""
    base = torch.arange(24.0).reshape(4, 6)
    return {
        "w": base,
        "t": base.t(),
        "view": base[1:3],
        "tied": torch.nn.Parameter(base[:1].clone()),
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(1.5),
        "ints": torch.arange(5),
        "complex": torch.ones(2, dtype=torch.complex64).conj(),
        "nested": [1, "two", None, 2.5, {"three": (4, True)}],
    }


def _optimizer_value() -> dict[str, Any]:
    return {
        "model": {"w": torch.ones(3, 2), "b": torch.zeros(3)},
        "optimizer": {
            "state": {
                0: {"step": torch.tensor(4.0), "exp_avg": torch.ones(3, 2)},
                1: {"step": torch.tensor(4.0), "exp_avg": torch.ones(3)},
            },
            "param_groups": [{"lr": 0.1, "params": [0, 1], "betas": (0.9, 0.999)}],
        },
        "lr_scheduler": {"last_epoch": 4, "base_lrs": [0.1]},
        "epoch": 1,
        "global_step": 4,
    }


def write_corpus(folder: Path) -> list[dict[str, str]]:
    """Write the corpus into an empty folder.

    Returns:
        Its entries: `name`, `folder` below the corpus, `file` that is changed, `how` it is
        changed, and `target` that is read: `file` or `folder`.
    """
    entries: list[dict[str, str]] = []

    def add(name: str, where: str, file: str, how: str, target: str = "file") -> None:
        entries.append({"name": name, "folder": where, "file": file, "how": how, "target": target})

    for name in ("safetensors", "torch-zip", "torch-unchecked", "torch-legacy", "torch-tar"):
        (folder / name).mkdir()
    _write_plain(folder)
    _write_arrays(folder)
    add("safetensors", "safetensors", "model.safetensors", "safetensors")
    add("torch zip", "torch-zip", "model.pt", "zip")
    add("torch zip, no checksums", "torch-unchecked", "model.pt", "zip")
    add("torch legacy", "torch-legacy", "model.pt", "pickle")
    add("torch tar", "torch-tar", "model.pt", "tar")
    add("npy", "arrays", "weights.npy", "npy")
    add("npz", "arrays", "weights.npz", "zip")
    add("tokens", "tokens", "meta.pkl", "pickle", "folder")
    (folder / "safetensors-sharded").mkdir()
    write_sharded(folder / "safetensors-sharded", 1, _SHAPES, ("attn.bias", "mlp.weight"))
    write_dcp(folder / "DCP", 1, (4, 3), 2)
    sharded = "safetensors-sharded"
    add("shard index", sharded, "model.safetensors.index.json", "json", "folder")
    add("shard", sharded, "model-00002-of-00003.safetensors", "safetensors", "folder")
    add("DCP metadata", "DCP", ".metadata", "pickle", "folder")
    add("DCP data", "DCP", "__0_0.distcp", "nested zips", "folder")
    add("DCP data alone", "DCP", "__0_1.distcp", "nested zips")
    _write_more(folder, add)
    return entries


def _write_plain(folder: Path) -> None:
    from safetensors.torch import save_file

    state = make_state(1, _SHAPES)
    value = {"model": state, "step": 7}
    save_file(state, folder / "safetensors" / "model.safetensors", metadata={"format": "pt"})
    torch.save(value, folder / "torch-zip" / "model.pt")
    torch.serialization.set_crc32_options(False)
    torch.save(value, folder / "torch-unchecked" / "model.pt")
    torch.serialization.set_crc32_options(True)
    legacy = folder / "torch-legacy" / "model.pt"
    torch.save(value, legacy, _use_new_zipfile_serialization=False)
    write_tar(folder / "torch-tar" / "model.pt", value, list(state.values()))


def _write_arrays(folder: Path) -> None:
    (folder / "arrays").mkdir()
    (folder / "tokens").mkdir()
    array = np.arange(20, dtype="<f4").reshape(4, 5)
    np.save(folder / "arrays" / "weights.npy", array)
    np.savez(folder / "arrays" / "weights.npz", a=array, b=array[0])
    array.astype("u2").tofile(folder / "tokens" / "train.bin")
    (folder / "tokens" / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": 50, "itos": {0: "a"}}))


def _write_more(folder: Path, add: Any) -> None:
    for name, value in (("rich", _rich_value()), ("training", _optimizer_value())):
        (folder / name).mkdir()
        torch.save(value, folder / name / "model.pt")
        add(f"torch zip, {name}", name, "model.pt", "zip")
        (folder / f"{name}-legacy").mkdir()
        torch.save(
            value, folder / f"{name}-legacy" / "model.pt", _use_new_zipfile_serialization=False
        )
        add(f"torch legacy, {name}", f"{name}-legacy", "model.pt", "pickle")
    (folder / "pickle").mkdir()
    plain = {"a": [1, 2.5, None, True], "b": {"c": ("d", b"e")}, "f": {1, 2}}
    (folder / "pickle" / "state.pkl").write_bytes(pickle.dumps(plain))
    add("pickle", "pickle", "state.pkl", "pickle")
    _write_trainer(folder / "trainer")
    for file in ("trainer_state.json", "config.json"):
        add(file, "trainer", file, "json", "folder")
    add("optimizer.pt", "trainer", "optimizer.pt", "zip", "folder")
    shutil.copytree(folder / "safetensors-sharded", folder / "sealed")
    everybit.seal(folder / "sealed")
    add("manifest", "sealed", MANIFEST_NAME, "manifest", "folder")
    add("sealed shard", "sealed", "model-00001-of-00003.safetensors", "safetensors", "folder")
    shutil.copytree(folder / "torch-zip", folder / "sealed-zip")
    everybit.seal(folder / "sealed-zip")
    add("sealed torch zip", "sealed-zip", "model.pt", "zip", "folder")
    (folder / "sums").mkdir()
    torch.save(_optimizer_value(), folder / "sums" / "model.pt")
    (folder / "sums" / "SHA256SUMS").write_text(f"{'0' * 64}  model.pt\n", encoding="utf-8")
    add("SHA256SUMS", "sums", "SHA256SUMS", "bytes", "folder")
    _write_signed(folder, add)


def _write_trainer(folder: Path) -> None:
    from safetensors.torch import save_file

    folder.mkdir()
    value = _optimizer_value()
    save_file({"w": torch.ones(3, 2), "b": torch.zeros(3)}, folder / "model.safetensors")
    torch.save(value["optimizer"], folder / "optimizer.pt")
    torch.save(value["lr_scheduler"], folder / "scheduler.pt")
    state = {"global_step": 4, "epoch": 1.0, "log_history": [{"loss": 1.0, "step": 4}]}
    (folder / "trainer_state.json").write_text(json.dumps(state), encoding="utf-8")
    config = {"architectures": ["A"], "vocab_size": 4, "torch_dtype": "float32"}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def _write_signed(folder: Path, add: Any) -> None:
    """Parity, where this release writes it: every file that sealing adds is fuzzed."""
    from inspect import signature

    options = signature(everybit.seal).parameters
    if "parity" not in options:
        return
    place = folder / "parity"
    shutil.copytree(folder / "torch-zip", place)
    before = {path.name for path in place.rglob("*")}
    everybit.seal(place, parity=0.2)
    for path in sorted(place.rglob("*")):
        if path.is_file() and path.name not in before and path.name != MANIFEST_NAME:
            add("parity", "parity", path.relative_to(place).as_posix(), "bytes", "folder")
            add("parity, by value", "parity", path.relative_to(place).as_posix(), "json", "folder")


def main() -> None:
    """Write the corpus into the folder that the command line names, with a list of it."""
    folder = Path(sys.argv[1])
    folder.mkdir()
    entries = write_corpus(folder)
    (folder / "corpus.json").write_text(json.dumps(entries, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
