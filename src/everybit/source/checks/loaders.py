"""Which functions load, and which of their arguments decide whether what they load can run."""

from __future__ import annotations

import re
from typing import Final

from everybit.core.finding import Severity

#: `weights_only=False` unless it is given: from a URL, too. `{name: position of weights_only}`.
UNSAFE_BY_DEFAULT: Final = {
    "torch.hub.load_state_dict_from_url": 6,
    "torch.utils.model_zoo.load_url": 6,
    "torchvision._internally_replaced_utils.load_state_dict_from_url": 6,
    "torchvision.models.utils.load_state_dict_from_url": 6,
    "torchvision.models._utils.load_state_dict_from_url": 6,
    "torchvision.models._api.load_state_dict_from_url": 6,
}

#: Functions that run what the file says whatever they are given: what they do, how bad it is.
ALWAYS: Final[dict[str, tuple[str, Severity]]] = {
    "torch.distributed.checkpoint.format_utils.torch_save_to_dcp": (
        "reads the file with weights_only=False",
        Severity.WARNING,
    ),
    "torch.distributed.checkpoint.format_utils.BroadcastingTorchSaveReader": (
        "reads the file with weights_only=False",
        Severity.WARNING,
    ),
    "torch.distributed.checkpoint.format_utils.dcp_to_torch_save": (
        "unpickles the checkpoint's .metadata",
        Severity.NOTE,
    ),
    "torch.distributed.checkpoint.load": (
        "unpickles the checkpoint's .metadata",
        Severity.NOTE,
    ),
    "torch.distributed.checkpoint.load_state_dict": (
        "unpickles the checkpoint's .metadata",
        Severity.NOTE,
    ),
    "torch.distributed.checkpoint.FileSystemReader().read_metadata": (
        "unpickles the checkpoint's .metadata",
        Severity.NOTE,
    ),
    "torch.distributed.checkpoint.filesystem.FileSystemReader().read_metadata": (
        "unpickles the checkpoint's .metadata",
        Severity.NOTE,
    ),
    "torch.package.PackageImporter": (
        "runs Python code of the archive",
        Severity.WARNING,
    ),
    "torch.jit.load": (
        "runs the TorchScript program in the file: no Python, and yet more than tensors",
        Severity.NOTE,
    ),
    "fastai.learner.load_learner": ("unpickles the file", Severity.WARNING),
    "fastai.basic_train.load_learner": ("unpickles the file", Severity.WARNING),
    "fastai.vision.all.load_learner": ("unpickles the file", Severity.WARNING),
    "fastai.text.all.load_learner": ("unpickles the file", Severity.WARNING),
    "fastai.tabular.all.load_learner": ("unpickles the file", Severity.WARNING),
}

#: What unpickles, and how it says so. `loads` and the like take bytes.
UNPICKLING: Final[dict[str, Severity]] = {
    "pickle.load": Severity.WARNING,
    "pickle.loads": Severity.WARNING,
    "pickle.Unpickler": Severity.WARNING,
    "pickle._Unpickler": Severity.WARNING,
    "pickle._load": Severity.WARNING,
    "pickle._loads": Severity.WARNING,
    "dill.load": Severity.WARNING,
    "dill.loads": Severity.WARNING,
    "dill.Unpickler": Severity.WARNING,
    "dill.load_session": Severity.WARNING,
    "dill.load_module": Severity.WARNING,
    "dill.load_module_asdict": Severity.WARNING,
    "cloudpickle.load": Severity.WARNING,
    "cloudpickle.loads": Severity.WARNING,
    "cloudpickle.Unpickler": Severity.WARNING,
    "joblib.load": Severity.WARNING,
    "jsonpickle.decode": Severity.WARNING,
    "jsonpickle.loads": Severity.WARNING,
    "jsonpickle.unpickler.decode": Severity.WARNING,
    "jsonpickle.Unpickler": Severity.WARNING,
    "jsonpickle.unpickler.Unpickler": Severity.WARNING,
    "msgpack_numpy.load": Severity.WARNING,
    "msgpack_numpy.loads": Severity.WARNING,
    "msgpack_numpy.unpack": Severity.WARNING,
    "msgpack_numpy.unpackb": Severity.WARNING,
    "msgpack_numpy.Unpacker": Severity.WARNING,
    "msgpack_numpy.patch": Severity.WARNING,
    "pandas.read_pickle": Severity.WARNING,
    "pandas.compat.pickle_compat.load": Severity.WARNING,
    "shelve.open": Severity.WARNING,
    "shelve.DbfilenameShelf": Severity.WARNING,
    "marshal.load": Severity.NOTE,
    "marshal.loads": Severity.NOTE,
}

#: These unpickle arrays of objects if their `object_hook` is one of `UNPICKLING_HOOKS`.
HOOKED: Final = frozenset(
    f"msgpack.{name}" for name in ("load", "loads", "unpack", "unpackb", "Unpacker")
)
UNPICKLING_HOOKS: Final = frozenset({"msgpack_numpy.decode"})

#: `{name: position of allow_pickle}`.
OBJECT_ARRAYS: Final = {
    "numpy.load": 2,
    "numpy.lib.format.read_array": 1,
    "numpy.lib.npyio.NpzFile": 2,
}

#: Modules whose use as `pickle_module` switches the protection of `torch.load` off.
PICKLE_MODULES: Final = frozenset({"pickle", "dill", "cloudpickle"})

#: Subclasses of these are judged by their `find_class`.
UNPICKLERS: Final = ("pickle.Unpickler", "pickle._Unpickler", "dill.Unpickler")

_LOADING: Final = re.compile(
    r"(?:^|_)(?:load|loads|loader|restore|resume|read)|from_pretrained|_load"
)
_WRITING: Final = re.compile(r"save|dump|write|export|store_|upload|callback", re.IGNORECASE)
#: Lightning's `Trainer.fit(..., weights_only=)` and its siblings: no other library has these.
_TRAINER_VERBS: Final = frozenset({"fit", "validate", "test", "predict"})


def takes_weights_only(name: str) -> bool:
    """Return whether `weights_only` of a function of this name is about loading.

    >>> takes_weights_only("trainer.save_checkpoint"), takes_weights_only("load_checkpoint")
    (False, True)
    """
    last = name.rpartition(".")[2]
    if _WRITING.search(last):
        return False
    return last in _TRAINER_VERBS or _LOADING.search(last) is not None


def is_load(name: str) -> bool:
    """Return whether a function of this name loads something."""
    last = name.rpartition(".")[2]
    return _LOADING.search(last) is not None or last in ("safe_open", "open_file")
