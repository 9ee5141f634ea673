"""Whole checkpoints that look odd, and those of five libraries: nothing is to be found in them."""

from __future__ import annotations

import collections
import pickle
import warnings
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=_rng(seed)) * 0.02


def _both(folder: Path, state: dict[str, torch.Tensor], name: str = "model") -> None:
    from safetensors.torch import save_file

    for kind in ("zip", "legacy", "safe"):
        (folder / kind).mkdir(exist_ok=True)
    torch.save(state, folder / "zip" / f"{name}.pt")
    torch.save(state, folder / "legacy" / f"{name}.pt", _use_new_zipfile_serialization=False)
    plain = {key: value.contiguous().clone() for key, value in state.items()}
    save_file(plain, folder / "safe" / f"{name}.safetensors")


# -- odd values ------------------------------------------------------------------------------------


def zeros(folder: Path) -> None:
    """Tensors, rows and halves that are zero on purpose."""
    embedding = _normal(2000, 1024)
    embedding[0] = 0  # the padding row: a page of its own
    padded = _normal(1000, 1024)
    padded[900:] = 0  # a vocabulary padded to a round number
    gate = _normal(64, 4096)
    gate[:, 2048:] = 0
    state = {
        "embed.weight": embedding,
        "head.weight": padded,
        "gate.weight": gate,
        "lora_B.weight": torch.zeros(1024, 16),
        "zero_init.weight": torch.zeros(512, 512),
        "bias": torch.zeros(4096),
        "exp_avg_of_frozen": torch.zeros(300, 1024),
        "one_hot": torch.eye(512),
        "block_diagonal": torch.block_diag(*(_normal(128, 128, seed=n) for n in range(8))),
        "pruned": _normal(512, 512) * (torch.rand(512, 512, generator=_rng(1)) < 0.02),
        "relu": torch.relu(_normal(512, 512) - 0.05),
    }
    _both(folder, state)


def masks(folder: Path) -> None:
    """Infinities, huge and tiny numbers where they belong."""
    causal = torch.full((256, 256), float("-inf")).triu(1)
    state = {
        "attn.mask": causal,
        "attn.bias": torch.tril(torch.ones(256, 256, dtype=torch.bool)),
        "attn.masked_bias": torch.tensor(-1e4),
        "attn.big_mask": torch.where(causal == 0, 0.0, torch.finfo(torch.float32).min),
        "rotary.inv_freq": 1.0 / 10_000 ** (torch.arange(0, 128, 2) / 128),
        "rotary.periods": 10_000 ** (torch.arange(0, 128, 2) / 128),
        "bn.num_batches_tracked": torch.tensor(123_456_789),
        "bn.running_var": torch.rand(64, generator=_rng()) * 1e4 + 1e-5,
        "exp_avg_sq": _normal(512, 512) ** 4,
        "position_ids": torch.arange(4096).unsqueeze(0),
        "logit_scale": torch.tensor(4.6052),
    }
    _both(folder, state)


def outliers(folder: Path) -> None:
    """Weights of trained language models: outlier columns, heavy tails, huge norms."""
    weight = _normal(512, 768)
    weight[:, 381] *= 60
    weight[:, 12] *= 200
    norm = torch.ones(768)
    norm[381] = 38.5
    embedding = _normal(1000, 768)
    embedding[7] *= 30
    tails = torch.distributions.StudentT(2.5)
    torch.manual_seed(0)
    state = {
        "mlp.weight": weight,
        "norm.weight": norm,
        "embed.weight": embedding,
        "heavy": tails.sample((400, 400)) * 0.02,
        "laplace": torch.distributions.Laplace(0.0, 0.05).sample((400, 400)),
        "log_normal": torch.exp(_normal(400, 400) * 50),
        "ssm.A_log": torch.log(torch.arange(1, 17).repeat(96, 1).float()),
        "ssm.dt_bias": torch.full((96,), -6.9) + _normal(96),
        "quantile": torch.linspace(-1, 1, 4096) ** 9,
    }
    _both(folder, state)


def dtypes(folder: Path) -> None:
    """Every dtype that is trained or served in."""
    kinds = (
        torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn,
        torch.float8_e5m2, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64,
        torch.bool,
    )  # fmt: skip
    state = {}
    for index, kind in enumerate(kinds):
        base = _normal(128, 96, seed=index) * (50 if not kind.is_floating_point else 1)
        state[str(kind)] = (base.abs() if kind is torch.uint8 else base).to(kind)
    _both(folder, state)
    torch.save({**state, "c": torch.view_as_complex(_normal(64, 2))}, folder / "zip" / "c.pt")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantized = torch.quantize_per_tensor(_normal(64, 64), 0.01, 3, torch.qint8)
        torch.save({"q": quantized}, folder / "zip" / "q.pt")
    packed = torch.randint(0, 256, (256, 256), generator=_rng(), dtype=torch.uint8)
    codes = torch.randint(-(2**31), 2**31 - 1, (128, 64), generator=_rng(), dtype=torch.int32)
    _both(folder, {"w.qweight": codes, "w.qzeros": codes[:8], "w.weight": packed}, "packed")


def shapes(folder: Path) -> None:
    """Empty, 0-d, strided, shared and tied."""
    base = _normal(64, 48)
    tied = torch.nn.Parameter(_normal(100, 32))
    value: dict[str, Any] = {
        "empty": torch.empty(0, 7),
        "empty_1d": torch.empty(0),
        "scalar": torch.tensor(3.5),
        "transposed": base.t(),
        "view": base[10:20],
        "step": base[::3, 1::2],
        "expanded": _normal(1, 16).expand(300, 16),
        "channels_last": _normal(8, 4, 3, 3).to(memory_format=torch.channels_last),
        "tied.embed": tied,
        "tied.head": tied,
        "ones": torch.ones(1, 1, 1),
        "conjugate": torch.view_as_complex(_normal(20, 2)).conj(),
        "whole": base,
    }
    torch.save(value, folder / "model.pt")
    torch.save(value, folder / "legacy.pt", _use_new_zipfile_serialization=False)
    torch.save(value, folder / "protocol.pt", pickle_protocol=4)


def many(folder: Path) -> None:
    """Ten thousand tensors."""
    _both(folder, {f"layers.{n}.weight": _normal(8, 4, seed=n) for n in range(10_000)})


def unicode_names(folder: Path) -> None:
    """Names in many scripts, of keys, files and folders."""
    names = ("模型.权重", "мода.вес", "näive café", "🤖.weight", "a b", "x" * 200, "ñ.0", "", ".")
    place = folder / "检查点 № 1"
    place.mkdir()
    _both(place, {name: _normal(30, 8, seed=n) for n, name in enumerate(names)}, "модель-权重")


def unchecked(folder: Path) -> None:
    """Saved without checksums."""
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"w": _normal(300, 200), "b": torch.zeros(5000)}, folder / "model.pt")
    finally:
        torch.serialization.set_crc32_options(True)


# -- libraries -------------------------------------------------------------------------------------


class _Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 16, 3)
        self.norm = torch.nn.BatchNorm2d(16)
        self.embed = torch.nn.Embedding(50, 16, padding_idx=0)
        self.head = torch.nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.conv(x)).mean((2, 3)))


def torch_training(folder: Path) -> None:
    """What training scripts save at every step: model, optimizer, EMA, scheduler, scaler, RNG."""
    torch.manual_seed(0)
    model = _Net()
    ema = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    for step in range(3):
        model(torch.randn(4, 3, 8, 8)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        ema.update_parameters(model)
        torch.save(
            {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "scheduler": schedule.state_dict(),
                "ema": ema.state_dict(),
                "rng": torch.get_rng_state(),
                "numpy_rng": np.random.default_rng(0).bit_generator.state,
                "step": step + 1,
                "epoch": 0,
                "args": collections.OrderedDict(lr=1e-3, name="run"),
            },
            folder / f"step-{step + 1:05}.pt",
        )
    torch.save(model.state_dict(), folder / "weights.pth")


def torch_script(folder: Path) -> None:
    """`torch.jit.save` and `torch.export.save`: archives with code in them."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(model).save(str(folder / "scripted.pt"))
        torch.export.save(torch.export.export(model, (torch.zeros(1, 8),)), folder / "program.pt2")


def safetensors_library(folder: Path) -> None:
    """`save_file`, `save_model` with tied weights, metadata, and NumPy's flavour."""
    from safetensors.numpy import save_file as save_arrays
    from safetensors.torch import save_file, save_model

    torch.manual_seed(0)
    model = torch.nn.ModuleDict({"embed": torch.nn.Embedding(40, 16)})
    model["head"] = torch.nn.Linear(16, 40, bias=False)
    model["head"].weight = model["embed"].weight
    save_model(model, str(folder / "tied.safetensors"))
    save_file(
        {"w": _normal(20, 30)}, folder / "meta.safetensors", metadata={"步": "7", "json": "{}"}
    )
    save_file({}, folder / "nothing.safetensors")
    save_arrays({"a": np.arange(12.0), "b": np.zeros((3, 0), "i8")}, folder / "arrays.safetensors")


def numpy_library(folder: Path) -> None:
    """`save`, `savez`, `savez_compressed`, Fortran order, booleans, text, structured arrays."""
    rng = np.random.default_rng(0)
    np.save(folder / "a.npy", rng.standard_normal((30, 40)))
    np.save(folder / "f.npy", np.asfortranarray(rng.standard_normal((30, 40)).astype("f4")))
    np.save(folder / "b.npy", rng.standard_normal(100) > 0)
    np.save(folder / "big.npy", rng.standard_normal(50).astype(">f8"))
    np.save(folder / "text.npy", np.array(["a", "bc"]))
    np.save(folder / "scalar.npy", np.float32(3))
    np.savez(folder / "z.npz", w=rng.standard_normal((50, 50)), step=np.int64(3))
    np.savez_compressed(folder / "c.npz", w=rng.standard_normal((50, 50)))


def token_files(folder: Path) -> None:
    """Token ids with their vocabulary, as training scripts prepare them."""
    rng = np.random.default_rng(0)
    rng.integers(0, 50_304, 50_000).astype("u2").tofile(folder / "train.bin")
    rng.integers(0, 50_304, 5_000).astype("u2").tofile(folder / "val.bin")
    (folder / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": 50_304}))


def dcp_library(folder: Path) -> None:
    """`torch.distributed.checkpoint` of a model and its optimizer, in several files."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.filesystem import FileSystemWriter
    from torch.distributed.checkpoint.state_dict import get_state_dict

    torch.manual_seed(0)
    model = _Net()
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(4, 3, 8, 8)).square().mean().backward()
    optimizer.step()
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments, "step": 1, "text": "note"}
    for threads in (1, 3):
        writer = FileSystemWriter(folder / f"threads-{threads}", thread_count=threads)
        dcp.save(state, storage_writer=writer, no_dist=True)


def _small_gpt() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(vocab_size=120, n_positions=32, n_embd=32, n_layer=2, n_head=2)
    return GPT2LMHeadModel(config)


def transformers_pretrained(folder: Path) -> None:
    """`save_pretrained`: one file, shards, half precision."""
    model = _small_gpt()
    model.save_pretrained(folder / "one")
    model.save_pretrained(folder / "shards", max_shard_size="40KB")
    model.to(torch.bfloat16).save_pretrained(folder / "half")


def transformers_trainer(folder: Path) -> None:
    """Checkpoints of `Trainer`, as it leaves them beside each other."""
    from transformers import Trainer, TrainingArguments

    rows = [{"input_ids": (ids := torch.randint(0, 120, (16,))), "labels": ids} for _ in range(12)]
    arguments = TrainingArguments(
        output_dir=str(folder), max_steps=3, save_steps=1, per_device_train_batch_size=2,
        report_to=[], use_cpu=True, disable_tqdm=True, logging_steps=1, save_total_limit=3,
    )  # fmt: skip
    Trainer(model=_small_gpt(), args=arguments, train_dataset=rows).train()


def lightning_checkpoints(folder: Path) -> None:
    """Checkpoints of Lightning's `ModelCheckpoint`, one a step and the last."""
    import logging

    import lightning

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.save_hyperparameters({"width": 16})
            self.net = _Net()

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            return self.net(batch[0]).square().mean()

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.AdamW(self.parameters())
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(8, 3, 8, 8))
    keep = lightning.pytorch.callbacks.ModelCheckpoint(
        dirpath=folder, every_n_train_steps=1, save_top_k=-1, save_last=True
    )
    trainer = lightning.Trainer(
        max_epochs=1, callbacks=[keep], logger=False, enable_progress_bar=False,
        enable_model_summary=False, accelerator="cpu", default_root_dir=folder,
    )  # fmt: skip
    trainer.fit(Module(), torch.utils.data.DataLoader(data, batch_size=2))


# -- large -----------------------------------------------------------------------------------------


def over_4_gib(folder: Path) -> None:
    """Sparse files over 4 GiB: lengths and offsets of more than 32 bits."""
    import json

    rows = 4608 * 1024 * 1024 // 4096
    header = {
        "big": {"dtype": "F32", "shape": [rows, 1024], "data_offsets": [0, 4096 * rows]},
        "small": {"dtype": "F32", "shape": [4], "data_offsets": [4096 * rows, 4096 * rows + 16]},
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + 4096 * rows)
        file.seek(0, 2)
        file.write(np.arange(1, 5, dtype="f4").tobytes())
    array = np.lib.format.open_memmap(folder / "w.npy", "w+", np.dtype("f4"), (rows, 1024))
    array[-1] = np.arange(1024)
    array.flush()


KINDS: Final[dict[str, Callable[[Path], None]]] = {
    "genuine zeros": zeros,
    "masks and legal extremes": masks,
    "outliers of trained weights": outliers,
    "all dtypes, packed weights": dtypes,
    "empty, 0-d, strided, shared, tied": shapes,
    "10,000 tensors": many,
    "Unicode names": unicode_names,
    "saved without checksums": unchecked,
    "torch: a training run": torch_training,
    "torch: TorchScript and export": torch_script,
    "safetensors": safetensors_library,
    "NumPy": numpy_library,
    "token files": token_files,
    "DCP": dcp_library,
    "Transformers: save_pretrained": transformers_pretrained,
    "Transformers: Trainer": transformers_trainer,
    "Lightning": lightning_checkpoints,
}
LARGE: Final = {"over 4 GiB, sparse": over_4_gib}
