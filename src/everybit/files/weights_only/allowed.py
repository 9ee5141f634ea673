"""The names that torch's weights_only unpickler allows by itself, and since which release.

From the sources of torch 2.5, 2.10 and 2.13 and from the tracker's word on what came between. Where
it is not sure which release brought a name, the later one is given. Held against the installed
torch by `tests/files/weights_only/test_tables.py`. Names that other packages register when they are
imported (DTensor, jagged nested tensors) are not counted: a fresh process does not have them.
"""

from __future__ import annotations

from typing import Final

from everybit.files.pickles import storage_types

#: The releases that the table speaks of.
VERSIONS: Final = ("2.6", "2.7", "2.8", "2.9", "2.10", "2.11", "2.12", "2.13")

#: `torch.<name>` -> canonical dtype name; the storage classes of before 2.0 and what they hold.
STORAGE_DTYPES: Final = {
    name: dtype for name, dtype in storage_types.STORAGE_DTYPES.items() if name != "UntypedStorage"
}
_CUDA_STORAGES: Final = frozenset(name for name in STORAGE_DTYPES if not name.startswith("Q"))

#: Dtypes that are stored as bytes beside the dtype's name.
_NEW_DTYPES: Final = (
    "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz", "float8_e8m0fnu",
    "float4_e2m1fn_x2", "bits8", "bits16", "bits1x8", "bits2x4", "bits4x2", "complex32",
    "uint16", "uint32", "uint64",
)  # fmt: skip
#: Dtypes of fewer than eight bits, which hold nothing by themselves.
_SMALL_DTYPES: Final = tuple(f"{kind}{bits}" for kind in ("uint", "int") for bits in range(1, 8))
DTYPES: Final = frozenset((*STORAGE_DTYPES.values(), *_NEW_DTYPES, *_SMALL_DTYPES))

_TENSOR_KINDS: Final = (
    "Double", "Float", "Half", "Long", "Int", "Short", "Char", "Byte", "Bool", "BFloat16",
)  # fmt: skip
_SPARSE_KINDS: Final = tuple(kind for kind in _TENSOR_KINDS if kind != "Bool")

QSCHEMES: Final = frozenset(
    f"torch.{name}"
    for name in (
        "per_tensor_affine",
        "per_tensor_symmetric",
        "per_channel_affine",
        "per_channel_symmetric",
        "per_channel_affine_float_qparams",
    )
)
_REBUILDS: Final = (
    "_rebuild_parameter", "_rebuild_parameter_with_state", "_rebuild_qtensor", "_rebuild_tensor",
    "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_sparse_tensor",
    "_rebuild_meta_tensor_no_storage", "_rebuild_nested_tensor", "_rebuild_wrapper_subclass",
    "_rebuild_device_tensor_from_numpy", "_rebuild_device_tensor_from_cpu_tensor",
)  # fmt: skip

ALLOWED: Final = frozenset(
    (
        "collections.OrderedDict",
        "collections.Counter",
        "torch.nn.parameter.Parameter",
        "torch.serialization._get_layout",
        "torch.Size",
        "torch.Tensor",
        "torch.device",
        "torch.storage.TypedStorage",
        "torch.storage.UntypedStorage",
        "torch._tensor._rebuild_from_type_v2",
        "_codecs.encode",
        "builtins.bytearray",
        "builtins.set",
        "builtins.complex",
        *(f"torch.{name}" for name in DTYPES),
        *(f"torch.{name}" for name in STORAGE_DTYPES),
        *(f"torch.cuda.{name}" for name in _CUDA_STORAGES),
        *(f"torch{where}.{kind}Tensor" for where in ("", ".cuda") for kind in _TENSOR_KINDS),
        *(f"torch{w}.sparse.{kind}Tensor" for w in ("", ".cuda") for kind in _SPARSE_KINDS),
        *QSCHEMES,
        *(f"torch._utils.{name}" for name in _REBUILDS),
    )
)

#: The first release that surely allows a name, where that is later than 2.6.
SINCE: Final = {
    **dict.fromkeys((f"torch.{name}" for name in _SMALL_DTYPES), "2.7"),
    "builtins.complex": "2.7",
    "torch.float8_e8m0fnu": "2.7",
    "torch.float4_e2m1fn_x2": "2.8",
}

#: Modules whose names torch refuses even where somebody allows them.
BLOCKED_MODULES: Final = frozenset({"sys", "os", "posix", "nt"})

#: Names that torch allows once a part of it is imported, and which.
ALLOWED_ONCE_IMPORTED: Final = {
    **dict.fromkeys(
        (
            "torch.nested._internal.nested_tensor.NestedTensor",
            "torch.nested._internal.nested_tensor._rebuild_njt",
            "torch._dynamo.decorators._DimRange",
        ),
        "torch.nested and torch._dynamo",
    ),
    **dict.fromkeys(
        (
            "torch.distributed.device_mesh.DeviceMesh",
            "torch.distributed.tensor._dtensor_spec.DTensorSpec",
            "torch.distributed.tensor._dtensor_spec.TensorMeta",
            "torch.distributed.tensor.DTensor",
            "torch.distributed.tensor.placement_types.Partial",
            "torch.distributed.tensor.placement_types.Replicate",
            "torch.distributed.tensor.placement_types.Shard",
        ),
        "torch.distributed.tensor",
    ),
}


def storage_dtype(name: str) -> str | None:
    """Return the dtype of an allowed storage class; None where the name is no such class."""
    if name == "torch.storage.UntypedStorage":
        return "uint8"
    return STORAGE_DTYPES.get(name.rpartition(".")[2]) if name in ALLOWED else None


def dtype_of(name: str) -> str | None:
    """Return the canonical name of an allowed dtype; None where the name is no dtype."""
    short = name.removeprefix("torch.")
    return short if short in DTYPES and name == f"torch.{short}" else None


def allowed_by(version: str) -> frozenset[str]:
    """Return the names that a release of torch allows ("2.7"); raises `ValueError` for others."""
    if version not in VERSIONS:
        raise ValueError(f"there is no table for torch {version}")
    index = VERSIONS.index(version)
    return frozenset(
        name for name in ALLOWED if VERSIONS.index(SINCE.get(name, VERSIONS[0])) <= index
    )
