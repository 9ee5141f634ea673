"""One name for each thing: re-exports, renamed packages, and what `import *` brings."""

from __future__ import annotations

from typing import Final

#: Libraries whose functions the checks know. They are never looked for in the project, and only
#: calls of them are followed through the project's own wrappers.
KNOWN_LIBRARIES: Final = frozenset(
    {
        "accelerate", "builtins", "cloudpickle", "datasets", "dill", "fastai", "functools",
        "huggingface_hub", "ignite", "joblib", "jsonpickle", "keras", "klepto", "lightning",
        "marshal", "mlflow", "monai", "numpy", "onnx", "operator", "os", "pandas", "peft",
        "pickle", "pickle5", "random", "safetensors", "sentence_transformers", "shelve", "shutil",
        "skops", "sklearn", "tensorflow", "timm", "torch", "torchaudio", "torchtext",
        "torchvision", "transformers", "diffusers", "ultralytics", "yaml", "h5py",
    }
)  # fmt: skip

#: `{dotted prefix: its canonical form}`. The longest prefix wins; applied until nothing changes.
ALIASES: Final = {
    "_pickle": "pickle",
    "builtins": "",
    "cPickle": "pickle",
    "pickle5": "pickle",
    "six.moves.cPickle": "pickle",
    "cloudpickle.cloudpickle": "cloudpickle",
    "dill._dill": "dill",
    "joblib.numpy_pickle": "joblib",
    "sklearn.externals.joblib": "joblib",
    "sklearn.externals.joblib.numpy_pickle": "joblib",
    "multiprocess.pickle": "dill",
    "multiprocessing.reduction.ForkingPickler.loads": "pickle.loads",
    "multiprocessing.reducer.ForkingPickler.loads": "pickle.loads",
    "torch.multiprocessing.reductions.ForkingPickler.loads": "pickle.loads",
    "numpy.lib.npyio.load": "numpy.load",
    "numpy.lib.npyio.loadtxt": "numpy.loadtxt",
    "pandas.io.pickle.read_pickle": "pandas.read_pickle",
    "pandas.io.api.read_pickle": "pandas.read_pickle",
    "pytorch_lightning": "lightning.pytorch",
    "lightning.Callback": "lightning.pytorch.Callback",
    "lightning.LightningDataModule": "lightning.pytorch.LightningDataModule",
    "lightning.LightningModule": "lightning.pytorch.LightningModule",
    "lightning.Trainer": "lightning.pytorch.Trainer",
    "lightning.seed_everything": "lightning.pytorch.seed_everything",
    "lightning.Fabric": "lightning.fabric.Fabric",
    "lightning_fabric": "lightning.fabric",
    "lightning.pytorch.core.LightningModule": "lightning.pytorch.LightningModule",
    "lightning.pytorch.core.module.LightningModule": "lightning.pytorch.LightningModule",
    "lightning.pytorch.core.lightning.LightningModule": "lightning.pytorch.LightningModule",
    "lightning.pytorch.core.LightningDataModule": "lightning.pytorch.LightningDataModule",
    "lightning.pytorch.core.datamodule.LightningDataModule": (
        "lightning.pytorch.LightningDataModule"
    ),
    "lightning.pytorch.trainer.Trainer": "lightning.pytorch.Trainer",
    "lightning.pytorch.trainer.trainer.Trainer": "lightning.pytorch.Trainer",
    "torch.serialization.load": "torch.load",
    "torch.serialization.save": "torch.save",
    "torch.jit._serialization": "torch.jit",
    "torch.jit._script.script": "torch.jit.script",
    "torch.distributed.checkpoint.state_dict_loader": "torch.distributed.checkpoint",
    "torch.distributed.checkpoint.state_dict_saver": "torch.distributed.checkpoint",
    "torch.nn.modules.module.Module": "torch.nn.Module",
    "torch.nn.parallel.distributed.DistributedDataParallel": (
        "torch.nn.parallel.DistributedDataParallel"
    ),
    "torch.nn.parallel.data_parallel.DataParallel": "torch.nn.DataParallel",
    "torch.nn.parallel.DataParallel": "torch.nn.DataParallel",
    "torch.nn.utils.clip_grad.clip_grad_norm_": "torch.nn.utils.clip_grad_norm_",
    "torch.nn.utils.clip_grad.clip_grad_value_": "torch.nn.utils.clip_grad_value_",
    "torch.nn.utils.clip_grad_norm": "torch.nn.utils.clip_grad_norm_",
    "torch.amp.grad_scaler": "torch.amp",
    "torch.cuda.amp.grad_scaler": "torch.cuda.amp",
    "torch.utils.data.dataloader": "torch.utils.data",
    "torch.utils.data.dataset": "torch.utils.data",
    "torch.utils.data.distributed": "torch.utils.data",
    "torch.utils.data.sampler": "torch.utils.data",
    "torch.package.package_importer": "torch.package",
    "torch.package.package_exporter": "torch.package",
    "torch.optim.adam": "torch.optim",
    "torch.optim.adamw": "torch.optim",
    "torch.optim.sgd": "torch.optim",
    "torch.optim.optimizer": "torch.optim",
    "safetensors.torch.safe_open": "safetensors.safe_open",
    "safetensors.numpy.safe_open": "safetensors.safe_open",
    "transformers.modeling_utils.PreTrainedModel": "transformers.PreTrainedModel",
    "posix": "os",
}  # fmt: skip

#: `{module: names that `from module import *` brings}`, as far as a check knows the name.
STAR_NAMES: Final[dict[str, frozenset[str]]] = {
    "torch": frozenset({"load", "save", "jit", "nn", "hub", "optim", "amp", "cuda", "utils"}),
    "torch.serialization": frozenset({"load", "save", "safe_globals", "add_safe_globals"}),
    "torch.nn": frozenset({"Module", "DataParallel", "parallel", "utils", "parameter"}),
    "torch.nn.parallel": frozenset({"DistributedDataParallel", "DataParallel"}),
    "torch.nn.utils": frozenset({"clip_grad_norm_", "clip_grad_value_"}),
    "torch.hub": frozenset({"load", "load_state_dict_from_url", "download_url_to_file"}),
    "torch.optim": frozenset({"Adam", "AdamW", "SGD", "Optimizer", "lr_scheduler"}),
    "torch.utils.data": frozenset(
        {
            "BatchSampler", "ConcatDataset", "DataLoader", "Dataset", "DistributedSampler",
            "IterableDataset", "RandomSampler", "Sampler", "Subset", "TensorDataset",
            "get_worker_info", "random_split",
        }
    ),
    "torch.cuda.amp": frozenset({"GradScaler", "autocast"}),
    "torch.amp": frozenset({"GradScaler", "autocast"}),
    "pickle": frozenset({"load", "loads", "dump", "dumps", "Unpickler", "Pickler"}),
    "dill": frozenset(
        {"load", "loads", "dump", "dumps", "load_session", "load_module", "Unpickler", "Pickler"}
    ),
    "cloudpickle": frozenset({"load", "loads", "dump", "dumps"}),
    "joblib": frozenset({"load", "dump", "Parallel", "delayed"}),
    "numpy": frozenset({"load", "save", "savez", "random", "loadtxt", "memmap"}),
    "pandas": frozenset({"read_pickle", "read_hdf", "DataFrame", "HDFStore"}),
    "lightning.pytorch": frozenset({"LightningModule", "LightningDataModule", "Trainer"}),
    "os": frozenset({"environ", "putenv", "replace", "rename", "path", "system"}),
    "shelve": frozenset({"open"}),
    "functools": frozenset({"partial"}),
}  # fmt: skip


def canonical(name: str) -> str:
    """Return the one name of a thing.

    >>> canonical("torch.serialization.load"), canonical("builtins.open")
    ('torch.load', 'open')
    """
    for _ in range(4):
        found = _rename(name)
        if found == name:
            break
        name = found
    return name


def _rename(name: str) -> str:
    end = len(name)
    while end > 0:
        # `pickle.Unpickler().load` is renamed by its head as well.
        head = name[:end]
        new = ALIASES.get(head)
        if new is not None:
            return (new + name[end:]).removeprefix(".") or name
        end = name.rfind(".", 0, end)
    return name


def top_level(name: str) -> str:
    """Return the package that a dotted name begins with.

    >>> top_level("torch.cuda.amp.GradScaler().step")
    'torch'
    """
    return name.partition(".")[0].removesuffix("()")
