"""Harmless files of other libraries: written by them where they are here, else by code."""

from __future__ import annotations

import bz2
import dataclasses
import enum
import gzip
import json
import lzma
import pickle
import struct
from typing import TYPE_CHECKING, Any, Final

from bench.scan_corpus.archives import Entry, archive, torch_zip
from bench.scan_corpus.assembling import PROTO_2, Code, named, of, plain, put, text, whole
from bench.scan_corpus.containers_other import npy, stable_baselines
from bench.scan_corpus.folders import gguf, onnx
from bench.scan_corpus.sample import Sample, write_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_UNKNOWN: Final = ("PKL202",)


class Phase(enum.Enum):
    """An enumeration of the user's own."""

    TRAIN = 1
    TEST = 2


@dataclasses.dataclass
class Settings:
    """A configuration of the user's own."""

    lr: float = 0.1
    phase: Phase = Phase.TRAIN


def _instance(module: str, name: str, state: dict[str, Any]) -> bytes:
    """An object as protocol 2 writes one: NEWOBJ, then its attributes."""
    return named(module, name) + b")\x81" + put(state) + b"b"


def _array(values: bytes = bytes(16)) -> Code:
    """A NumPy array as NumPy 1 pickled it."""
    dtype = of("numpy", "dtype")("f8", False, True).opcodes
    dtype += put((3, "<", None, None, None, -1, -1, 0)) + b"b"
    made = of("numpy.core.multiarray", "_reconstruct")(
        Code(named("numpy", "ndarray")), (0,), b"b"
    ).opcodes
    return Code(made + put((1, (2,), Code(dtype), False, values)) + b"b")


def _sklearn() -> bytes:
    state = {
        "fit_intercept": True,
        "coef_": _array(),
        "n_features_in_": 2,
        "_sklearn_version": "1.4",
    }
    return PROTO_2 + _instance("sklearn.linear_model._base", "LinearRegression", state) + b"."


def _joblib() -> bytes:
    """A dictionary with an array whose bytes lie in the middle of the pickle."""
    from bench.scan_corpus.containers_other import joblib_file

    return joblib_file(behind=False)


def _cloudpickle() -> bytes:
    """A function by value, as Stable-Baselines3 keeps schedules: built, and not called."""
    code = of("cloudpickle.cloudpickle", "_builtin_type")("CodeType")(
        1, 0, 0, 1, 2, 19, b"\x97\x00|\x00S\x00", (None,), (), ("progress",), "a.py", "f", "f", 1,
        b"", b"", (), (),
    )  # fmt: skip
    return whole(of("cloudpickle.cloudpickle", "_make_function")(code, {}, None, None, None))


def _lightning(module: str) -> bytes:
    """A checkpoint of Lightning, its hyper-parameters in its own dictionary."""
    hyper = of(module, "AttributeDict")
    attributes = hyper.opcodes + b")\x81(" + text("lr") + put(0.1) + b"u"
    value = {
        "epoch": 1, "global_step": 10, "pytorch-lightning_version": "2.4.0", "state_dict": {},
        "loops": {"fit_loop": {"state_dict": {}}}, "optimizer_states": [], "lr_schedulers": [],
        "callbacks": {"ModelCheckpoint{'monitor': None}": {"best_model_path": "a.ckpt"}},
        "hparams_name": "kwargs", "hyper_parameters": Code(attributes),
    }  # fmt: skip
    return torch_zip(PROTO_2 + put(value) + b".")


def _training_arguments() -> bytes:
    state = {
        "output_dir": "out", "learning_rate": 5e-5,
        "save_strategy": of("transformers.trainer_utils", "SaveStrategy")("steps"),
        "lr_scheduler_type": of("transformers.trainer_utils", "SchedulerType")("linear"),
        "optim": of("transformers.training_args", "OptimizerNames")("adamw_torch"),
    }  # fmt: skip
    return torch_zip(
        PROTO_2 + _instance("transformers.training_args", "TrainingArguments", state) + b"."
    )


def _by_getattr() -> bytes:
    """Members of enumerations as Python 3.12 pickles them, and a method of an object."""
    member = of("builtins", "getattr")(
        of("transformers.trainer_utils", "IntervalStrategy"), "STEPS"
    )
    method = of("builtins", "getattr")(of("collections", "OrderedDict")(), "keys")
    return whole(put({"strategy": member, "keys": method}), proto=PROTO_2)


def _write_accelerate(path: Path) -> None:
    """The folder that `Accelerator.save_state` writes."""
    import accelerate
    import torch

    accelerator = accelerate.Accelerator(cpu=True)
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model, optimizer = accelerator.prepare(model, optimizer)
    accelerator.save_state(str(path))


def _write_trainer(path: Path) -> None:
    """A Trainer's checkpoint folder."""
    import torch
    from safetensors.torch import save_file

    path.mkdir()
    state = {"weight": torch.ones(2, 2)}
    save_file(state, path / "model.safetensors", metadata={"format": "pt"})
    parameter = torch.nn.Parameter(torch.ones(2, 2))
    optimizer = torch.optim.AdamW([parameter])
    torch.save(optimizer.state_dict(), path / "optimizer.pt")
    torch.save({"last_epoch": 3, "_last_lr": [0.1]}, path / "scheduler.pt")
    import numpy as np

    torch.save({"numpy": np.random.RandomState(0).get_state(), "cpu": torch.get_rng_state()},
               path / "rng_state.pth")  # fmt: skip
    (path / "training_args.bin").write_bytes(_training_arguments())
    for name, value in (
        ("config.json", {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}),
        ("trainer_state.json", {"global_step": 3, "log_history": []}),
        ("tokenizer_config.json", {"tokenizer_class": "GPT2Tokenizer", "chat_template":
                                   "{% for m in messages %}{{ m['content'] }}{% endfor %}"}),
        ("generation_config.json", {"max_length": 20}),
    ):  # fmt: skip
        (path / name).write_text(json.dumps(value), encoding="utf-8")
    (path / "README.md").write_text("# A model\n", encoding="utf-8")
    (path / "merges.txt").write_text("#version: 0.2\na b\n", encoding="utf-8")


def _write_transformers(path: Path) -> None:
    """A model that Transformers saves, in both formats."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=1, n_head=1, n_embd=4, vocab_size=8, n_positions=8)
    model = GPT2LMHeadModel(config)
    model.save_pretrained(path)
    torch.save(model.state_dict(), path / "pytorch_model.bin")


def _write_lightning(path: Path) -> None:
    """A checkpoint that Lightning's Trainer wrote."""
    import logging

    import lightning
    import torch

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Model(lightning.LightningModule):
        def __init__(self, lr: float = 0.1, sizes: tuple[int, int] = (2, 1)) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(*sizes)

        def training_step(self, batch: Any, index: int) -> Any:
            return self.layer(batch).sum()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    data = torch.utils.data.DataLoader(torch.ones(2, 2))
    trainer = lightning.Trainer(
        max_steps=1, accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, barebones=False,
    )  # fmt: skip
    trainer.fit(Model(), data)
    trainer.save_checkpoint(path)


def _write_safetensors(path: Path) -> None:
    import numpy as np
    from safetensors.numpy import save_file

    save_file({"w": np.ones(4, "<f4")}, path, metadata={"format": "pt"})


def _write_numpy(path: Path) -> None:
    import numpy as np

    with path.open("wb") as file:
        if path.suffix == ".npz":
            np.savez(file, a=np.arange(3), b=np.ones((2, 2)))
        else:
            np.save(file, np.arange(3))


def _write_object_array(path: Path) -> None:
    import numpy as np

    with path.open("wb") as file:
        np.save(file, np.array(["a", None, 1.5, {"k": [1, 2]}], dtype=object), allow_pickle=True)


def _write_index(path: Path) -> None:
    from bench.fuzz_corpus import _SHAPES
    from bench.subjects import write_sharded

    path.mkdir()
    write_sharded(path, 1, _SHAPES, ("attn.bias", "mlp.weight"))


def _pickled(value: Any, protocol: int = 4) -> Callable[[Path], None]:
    return write_bytes(pickle.dumps(value, protocol))


def _rows() -> Iterator[tuple[str, str, Callable[[Path], None], tuple[str, ...], bool]]:
    vocabulary = {"vocab_size": 4, "stoi": {"a": 0}, "itos": {0: "a"}}
    for name, write, expect in (
        ("enum.pkl", _pickled(Phase.TRAIN), _UNKNOWN),
        ("dataclass.pkl", _pickled(Settings()), _UNKNOWN),
        ("meta.pkl", _pickled(vocabulary), ()),
        ("vocabulary-0.pkl", _pickled(vocabulary, 0), ()),
        ("two-pickles.pkl", write_bytes(plain(vocabulary) * 2), ()),
        ("sklearn.pkl", write_bytes(_sklearn()), None),
        ("sklearn.joblib", write_bytes(_sklearn()), None),
        ("array.joblib", write_bytes(_joblib()), ()),
        ("array.joblib.gz", write_bytes(gzip.compress(_joblib(), mtime=0)), ()),
        ("enum-by-getattr.pkl", write_bytes(_by_getattr()), None),
        ("function.pkl", write_bytes(_cloudpickle()), _UNKNOWN),
        ("stable-baselines.zip", write_bytes(stable_baselines(_cloudpickle())), _UNKNOWN),
        ("detectron.pkl", write_bytes(whole(put({"model": {"w": _array()}}), proto=PROTO_2)), ()),
        ("yolo.pt", write_bytes(torch_zip(
            PROTO_2 + _instance("ultralytics.nn.tasks", "DetectionModel", {"yaml": {}}) + b".")),
         None),
        ("word-vectors.model", write_bytes(
            PROTO_2 + _instance("gensim.models.keyedvectors", "KeyedVectors", {"n": 1}) + b"."),
         None),
        ("lightning.ckpt", write_bytes(_lightning("lightning.fabric.utilities.data")), ()),
        ("lightning-old.ckpt", write_bytes(_lightning("pytorch_lightning.utilities.parsing")), ()),
        ("training_args.bin", write_bytes(_training_arguments()), None),
        ("hydra.ckpt", write_bytes(torch_zip(
            PROTO_2 + _instance("omegaconf.dictconfig", "DictConfig", {"_content": {}}) + b".")),
         None),
    ):  # fmt: skip
        yield name, "pickles", write, expect if expect is not None else ("PKL202?",), False
    yield "trainer", "Transformers", _write_trainer, ("PKL202?",), False
    yield "transformers", "Transformers", _write_transformers, (), True
    yield "accelerate", "Accelerate", _write_accelerate, (), True
    yield "lightning-real.ckpt", "Lightning", _write_lightning, (), True
    yield "sharded", "safetensors", _write_index, (), False
    yield "weights.safetensors", "safetensors", _write_safetensors, (), False
    yield "weights.npy", "NumPy", _write_numpy, (), False
    yield "weights.npz", "NumPy", _write_numpy, (), False
    yield "weights-as-bin.bin", "NumPy", _write_numpy, (), False
    yield "objects.npy", "NumPy", _write_object_array, (), False
    yield (
        "deflated.npz",
        "NumPy",
        write_bytes(archive([Entry(name="a.npy", data=npy(bytes(4), descr="'<f4'"), method=8)])),
        (),
        False,
    )
    yield "model.onnx", "ONNX", write_bytes(onnx(None)), (), False
    yield (
        "llama.gguf",
        "GGUF",
        write_bytes(gguf("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}")),
        (),
        False,
    )
    yield (
        "vocabulary.pkl.gz",
        "compressed",
        write_bytes(gzip.compress(plain(vocabulary), mtime=0)),
        (),
        False,
    )
    yield (
        "vocabulary.pkl.bz2",
        "compressed",
        write_bytes(bz2.compress(plain(vocabulary))),
        (),
        False,
    )
    yield (
        "vocabulary.pkl.xz",
        "compressed",
        write_bytes(lzma.compress(plain(vocabulary))),
        (),
        False,
    )
    yield ("zip-of-models.zip", "archives", write_bytes(archive([
        Entry(name="a/model.pt", data=torch_zip(plain({"a": 1})), method=8),
        Entry(name="a/readme.md", data=b"# Models\n")])), (), False)  # fmt: skip
    yield ("tokens.bin", "data", write_bytes(struct.pack("<4H", 1, 2, 3, 4) * 64), (), False)
    yield ("configuration.json", "data", write_bytes(b'{"model_type": "gpt2"}'), (), False)
    yield ("notes.txt", "data", write_bytes(b"csome words\nand more\n(not a pickle\n"), (), False)


def _write_onnx_beside(path: Path) -> None:
    path.mkdir()
    (path / "model.onnx").write_bytes(onnx("model.onnx.data", offset=0))
    (path / "model.onnx.data").write_bytes(bytes(8))


def samples() -> Iterator[Sample]:
    """One file or folder for each row; `PKL202?`: may be found, at `warning`."""
    for name, kind, write, expect, slow in _rows():
        yield Sample(
            name=f"benign-{name}", kind=f"other: {kind}", source="own", write=write,
            hostile=False, expect=expect, slow=slow,
        )  # fmt: skip
    yield Sample(
        name="benign-onnx-beside", kind="other: ONNX", source="own", write=_write_onnx_beside,
        hostile=False, expect=(),
    )  # fmt: skip
