"""Names of files and members: what they promise, and those that lead astray."""

from __future__ import annotations

import re
from typing import Final

#: Endings of formats that hold data only.
_NO_CODE: Final = (
    ".safetensors", ".gguf", ".ggml", ".onnx", ".h5", ".hdf5", ".json", ".txt", ".csv", ".npy",
    ".yaml", ".yml", ".md", ".png", ".jpg", ".jpeg", ".gif", ".webp", ".parquet", ".arrow",
    ".msgpack", ".toml", ".tflite", ".pb",
)  # fmt: skip
#: Endings under which loaders unpickle.
_PICKLED: Final = (
    ".pkl", ".pickle", ".pck", ".dill", ".joblib", ".pt", ".pth", ".ckpt", ".p", ".pk", ".dat",
)  # fmt: skip
#: Endings that say surely that a pickle is meant.
_SURELY_PICKLED: Final = (".pkl", ".pickle", ".dill", ".joblib")
TEMPLATES: Final = (".jinja", ".jinja2", ".j2")
YAML: Final = (".yaml", ".yml")
#: What most names are made of.
_PLAIN: Final = re.compile(r"[\w-][\w./-]*", re.ASCII)
_DRIVE: Final = re.compile(r"[A-Za-z]:")


def promises_no_code(name: str) -> bool:
    """Return whether people take a file of this name for data only."""
    return name.lower().endswith(_NO_CODE)


def is_model(name: str) -> bool:
    """Return whether people keep models under such a name."""
    lowered = name.lower()
    named = ("model", "optimizer", "scheduler", "training_args", "weights", "adapter")
    return lowered.endswith((*_PICKLED[:-3], *_NO_CODE[:6], ".npz", ".keras", ".distcp")) or (
        lowered.endswith(".bin") and any(word in lowered for word in named)
    )


def is_surely_pickled(name: str) -> bool:
    """Return whether a file of this name is given to an unpickler whatever it holds."""
    return name.lower().endswith(_SURELY_PICKLED)


def is_pickled(name: str) -> bool:
    """Return whether loaders may unpickle a file of this name."""
    return name.lower().endswith(_PICKLED)


def name_problem(name: str) -> str:
    """Return what is wrong with the name of an archive member, or "".

    >>> name_problem("../../etc/passwd")
    'leads out of the folder'
    >>> name_problem("archive/data.pkl")
    ''
    """
    if _PLAIN.fullmatch(name) and ".." not in name:
        return ""
    if "\0" in name:
        return "has a NUL byte, at which some tools end the name"
    plain = name.replace("\\", "/")
    if plain.startswith("/") or _DRIVE.match(plain):
        return "is an absolute path"
    if ".." in plain.split("/"):
        return "leads out of the folder"
    if "\\" in name:
        return "has a backslash, which some systems take for a separator"
    if any(ord(char) < 32 or char in "\u202e\u2066\u2067\u2068" for char in name):
        return "has a control character"
    return ""
