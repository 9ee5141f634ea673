"""Harmless checkpoints that torch writes: weights of all kinds, training states, old formats."""

from __future__ import annotations

import copy
import io
import pickle
from typing import TYPE_CHECKING, Any, Final

from bench.scan_corpus.sample import Sample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

UNKNOWN: Final = ("PKL202",)


def saved(make: Callable[[], Any], **options: Any) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        import torch

        torch.save(make(), path, **options)

    return write


def make_model() -> Any:
    import torch

    return torch.nn.Sequential(
        torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.ReLU(), torch.nn.Linear(4, 2)
    )


def trained() -> tuple[Any, Any, Any]:
    import torch

    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, amsgrad=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
    scheduler.step()
    return model, optimizer, scheduler


def _training() -> dict[str, Any]:
    import torch

    model, optimizer, scheduler = trained()
    return {
        "model": model.state_dict(), "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(), "epoch": 3, "best": 0.25, "name": "run-1",
        "rng": torch.get_rng_state(), "scaler": torch.amp.GradScaler("cpu").state_dict(),
    }  # fmt: skip


def _dtypes() -> dict[str, Any]:
    import torch

    names = [
        "float64",
        "float32",
        "float16",
        "bfloat16",
        "float8_e4m3fn",
        "float8_e5m2",
        "int64",
        "int32",
        "int16",
        "int8",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "bool",
        "complex64",
        "complex128",
    ]
    return {name: torch.zeros(4).to(getattr(torch, name)) for name in names}


def _views() -> dict[str, Any]:
    import torch

    base = torch.arange(24.0).reshape(4, 6)
    return {
        "base": base, "t": base.t(), "row": base[1], "every": base[:, ::2],
        "expanded": torch.ones(1).expand(4), "last": base.to(memory_format=torch.contiguous_format),
    }  # fmt: skip


def _tied() -> dict[str, Any]:
    import torch

    embed = torch.nn.Embedding(8, 4)
    head = torch.nn.Linear(4, 8, bias=False)
    head.weight = embed.weight
    return {"embed.weight": embed.weight, "head.weight": head.weight}


def _odd() -> dict[str, Any]:
    import torch

    return {
        "empty": torch.empty(0, 3), "scalar": torch.tensor(1.5),
        "conj": torch.ones(2).cfloat().conj(),
        "negative": torch.ones(2).cfloat().imag.neg(), "meta": torch.empty(2, device="meta"),
        "size": torch.Size([1, 2]), "dtype": torch.float16, "device": torch.device("cpu"),
        "parameter": torch.nn.Parameter(torch.ones(2), requires_grad=False),
    }  # fmt: skip


def _sparse() -> dict[str, Any]:
    import warnings

    import torch

    dense = torch.eye(4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {"coo": dense.to_sparse(), "csr": dense.to_sparse_csr()}


def _quantised() -> dict[str, Any]:
    import torch

    each = torch.quantize_per_channel(
        torch.ones(2, 2), torch.ones(2), torch.zeros(2, dtype=torch.long), 0, torch.qint8
    )
    return {"tensor": torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8), "each": each}


def _nested() -> dict[str, Any]:
    import warnings

    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {"nested": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])}


def _metadata_state() -> Any:
    return make_model().state_dict()


def _unchanged(_step: int) -> float:
    return 1.0


def _training_schedulers() -> Any:
    import torch

    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler
    return [
        made.state_dict() for made in (
            schedule.OneCycleLR(optimizer, 0.1, 10), schedule.ReduceLROnPlateau(optimizer),
            schedule.LambdaLR(optimizer, _unchanged), schedule.StepLR(optimizer, 3),
            schedule.SequentialLR(
                optimizer, [schedule.StepLR(optimizer, 1), schedule.StepLR(optimizer, 2)], [3]),
        )
    ]  # fmt: skip


def _average() -> Any:
    import torch

    return torch.optim.swa_utils.AveragedModel(make_model()).state_dict()


def _copied_optimizer() -> Any:
    import torch

    optimizers = [
        torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1, momentum=0.9),
        torch.optim.Adam([torch.nn.Parameter(torch.ones(2))]),
        torch.optim.LBFGS([torch.nn.Parameter(torch.ones(2))]),
    ]
    return [copy.deepcopy(optimizer.state_dict()) for optimizer in optimizers]


def pickled(make: Callable[[], Any], protocol: int) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(pickle.dumps(make(), protocol)) and None


def _write_script(path: Path) -> None:
    import torch

    torch.jit.save(torch.jit.trace(make_model().eval(), torch.ones(3, 4)), str(path))


def _write_dcp(path: Path) -> None:
    import torch
    import torch.distributed.checkpoint as dcp

    value = {"weight": torch.arange(8.0), "epoch": 3, "name": "a"}
    dcp.save(value, storage_writer=dcp.FileSystemWriter(path, sync_files=False), no_dist=True)


def _write_dcp_training(path: Path) -> None:
    import torch.distributed.checkpoint as dcp

    model, optimizer, _ = trained()
    value = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 3}
    dcp.save(value, storage_writer=dcp.FileSystemWriter(path, sync_files=False), no_dist=True)


def _write_tar(path: Path) -> None:
    import torch
    from bench.subjects import write_tar

    state = {"a.weight": torch.ones(2, 2), "b.weight": torch.zeros(3)}
    write_tar(path, {"model": state}, list(state.values()))


def _write_unchecked(path: Path) -> None:
    import torch

    torch.serialization.set_crc32_options(False)
    try:
        torch.save(_training(), path)
    finally:
        torch.serialization.set_crc32_options(True)


def _write_stream(path: Path) -> None:
    """`torch.save` into memory, written elsewhere: another archive name."""
    import torch

    out = io.BytesIO()
    torch.save({"module." + name: value for name, value in _metadata_state().items()}, out)
    path.write_bytes(out.getvalue())


# name, kind, writer, expected
_ROWS: Final[tuple[tuple[str, str, Callable[[Path], None], tuple[str, ...] | None], ...]] = (
    ("state-dict.pt", "weights", saved(_metadata_state), ()),
    ("state-dict-protocol-4.pt", "weights", saved(_metadata_state, pickle_protocol=4), ()),
    ("state-dict-protocol-5.pt", "weights", saved(_metadata_state, pickle_protocol=5), ()),
    ("data-parallel.pth", "weights", _write_stream, ()),
    ("pytorch_model.bin", "weights", saved(_metadata_state), ()),
    ("training.pt", "training state", saved(_training), ()),
    ("training-unchecked.pt", "training state", _write_unchecked, ()),
    ("optimizer.pt", "training state", saved(lambda: trained()[1].state_dict()), ()),
    ("optimizers.pt", "training state", saved(_copied_optimizer), ()),
    ("scheduler.pt", "training state", saved(lambda: trained()[2].state_dict()), ()),
    ("dtypes.pt", "weights", saved(_dtypes), ()),
    ("views.pt", "weights", saved(_views), ()),
    ("tied.pt", "weights", saved(_tied), ()),
    ("odd.pt", "weights", saved(_odd), ()),
    ("sparse.pt", "weights", saved(_sparse), ()),
    ("quantised.pt", "weights", saved(_quantised), ()),
    ("nested-tensor.pt", "weights", saved(_nested), ()),
    ("empty.pt", "weights", saved(dict), ()),
    ("one-tensor.pt", "weights", saved(lambda: _dtypes()["float32"]), ()),
    ("legacy-state-dict.pt", "old formats",
     saved(_metadata_state, _use_new_zipfile_serialization=False), ()),
    ("legacy-training.pt", "old formats",
     saved(_training, _use_new_zipfile_serialization=False), ()),
    ("legacy-views.pt", "old formats", saved(_views, _use_new_zipfile_serialization=False), ()),
    ("tar.pt", "old formats", _write_tar, ()),
    ("schedulers.pt", "training state", saved(_training_schedulers), ()),
    ("averaged.pt", "training state", saved(_average), ()),
    ("torchscript.pt", "TorchScript", _write_script, ()),
    ("dcp", "DCP", _write_dcp, ()),
    ("dcp-training", "DCP", _write_dcp_training, ()),
    ("tensor.pkl", "pickles", pickled(lambda: _dtypes()["float32"], 4), ()),
    ("state-dict.pkl", "pickles", pickled(_metadata_state, 2), ()),
)  # fmt: skip


def samples() -> Iterator[Sample]:
    """One file or folder for each row; what may be unknown to a policy is where None stands."""
    for name, kind, write, expect in _ROWS:
        yield Sample(
            name=f"benign-torch-{name}", kind=f"torch: {kind}", source="torch", write=write,
            hostile=False,
            expect=("PKL202?",) if expect is None else expect,
        )  # fmt: skip
