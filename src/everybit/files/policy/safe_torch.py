"""Names of PyTorch that are known safe in a pickle.

Source: the set that torch's own `weights_only` unpickler allows (`_get_allowed_globals`), the union
of torch 2.4 to 2.13, with the names of older releases for the same objects; and classes that
`torch.save` writes for whole modules, optimizers, schedulers and DCP metadata in 1.0 to 2.13.
Building these objects stores what the file says in them and runs nothing of the file's own.
"""

from __future__ import annotations

from typing import Final

VERSIONS: Final = "torch 1.0 to 2.13"

_KIND_NAMES: Final = (
    "BFloat16 Bool Byte Char ComplexDouble ComplexFloat Double Float Half Int Long Short"
)
_KINDS: Final = _KIND_NAMES.split()
_QUANTISED: Final = "QInt32Storage QInt8Storage QUInt2x4Storage QUInt4x2Storage QUInt8Storage"
_STORAGES: Final = " ".join(f"{kind}Storage" for kind in _KINDS)
_TENSORS: Final = " ".join(f"{kind}Tensor" for kind in _KINDS)

_DTYPES: Final = (
    "bfloat16 bits16 bits1x8 bits2x4 bits4x2 bits8 bool complex128 complex32 complex64 float16 "
    "float32 float64 float4_e2m1fn_x2 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz "
    "float8_e8m0fnu int1 int2 int3 int4 int5 int6 int7 int8 int16 int32 int64 uint1 uint2 uint3 "
    "uint4 uint5 uint6 uint7 uint8 uint16 uint32 uint64 qint32 qint8 quint2x4 quint4x2 quint8 "
    "half float double short int long cfloat cdouble"
)
_SCHEMES: Final = (
    "per_channel_affine per_channel_affine_float_qparams per_channel_symmetric per_tensor_affine "
    "per_tensor_symmetric"
)
_FORMATS: Final = "contiguous_format preserve_format channels_last channels_last_3d"
_LAYOUTS: Final = "strided sparse_coo sparse_csr sparse_csc sparse_bsr sparse_bsc"
_REBUILDS: Final = (
    "_rebuild_device_tensor_from_cpu_tensor _rebuild_device_tensor_from_numpy "
    "_rebuild_meta_tensor_no_storage _rebuild_nested_tensor _rebuild_parameter "
    "_rebuild_parameter_with_state _rebuild_qtensor _rebuild_sparse_tensor _rebuild_tensor "
    "_rebuild_tensor_v2 _rebuild_tensor_v3 _rebuild_wrapper_subclass _rebuild_xla_tensor "
    "_rebuild_sparse_csr_tensor"
)

_FUNCTIONS: Final = (
    "relu relu6 gelu silu elu selu celu leaky_relu prelu rrelu mish glu tanh sigmoid softmax "
    "log_softmax softmin softplus softsign softshrink hardshrink tanhshrink hardtanh hardswish "
    "hardsigmoid logsigmoid threshold normalize dropout alpha_dropout layer_norm batch_norm "
    "group_norm instance_norm rms_norm linear bilinear embedding conv1d conv2d conv3d "
    "conv_transpose1d conv_transpose2d conv_transpose3d max_pool1d max_pool2d max_pool3d "
    "avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d "
    "adaptive_max_pool2d interpolate pad one_hot cosine_similarity pairwise_distance "
    "scaled_dot_product_attention cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss "
    "huber_loss kl_div binary_cross_entropy binary_cross_entropy_with_logits "
    "cosine_embedding_loss triplet_margin_loss margin_ranking_loss hinge_embedding_loss ctc_loss "
    "relu_ sigmoid_ tanh_ elu_ selu_ leaky_relu_ exp log sqrt abs sin cos erf add sub mul div "
    "matmul bmm mean sum amax amin max min clamp cat stack"
)
_METHODS: Final = " ".join(f"_VariableFunctionsClass.{name}" for name in _FUNCTIONS.split())

#: `{module: names}` of what is a value in a pickle (an activation), and called by none.
NAMED: Final = {
    "torch": _FUNCTIONS,
    "torch._C": _METHODS,
    "torch._C._nn": _FUNCTIONS,
    "torch.nn.functional": _FUNCTIONS,
}

#: `{module: names}`
NAMES: Final = {
    "torch": (
        f"{_STORAGES} {_TENSORS} {_QUANTISED} UntypedStorage TypedStorage Size Tensor device dtype "
        f"layout memory_format {_FUNCTIONS} {_DTYPES} {_SCHEMES} {_FORMATS} {_LAYOUTS}"
    ),
    "torch.cuda": f"{_STORAGES} {_TENSORS}",
    "torch.sparse": _TENSORS,
    "torch.cuda.sparse": _TENSORS,
    "torch.storage": f"TypedStorage UntypedStorage _TypedStorage _UntypedStorage {_STORAGES}",
    "torch._C": (
        f"device dtype Size layout memory_format _VariableFunctionsClass {_METHODS} Generator"
    ),
    "torch._C._nn": _FUNCTIONS,
    "torch.nn.functional": _FUNCTIONS,
    "torch._utils": _REBUILDS,
    "torch._tensor": "_rebuild_from_type_v2 _rebuild_from_type Tensor",
    "torch.tensor": "_rebuild_from_type_v2 _rebuild_from_type Tensor",
    "torch.serialization": "_get_layout",
    "torch.nn.parameter": "Parameter Buffer UninitializedParameter UninitializedBuffer",
    "torch.nn": "Parameter",
    "torch.random": "Generator",
    "torch.torch_version": "TorchVersion",
    "torch.amp.grad_scaler": "GradScaler OptState",
    "torch.cuda.amp.grad_scaler": "GradScaler OptState",
    "torch.distributed.checkpoint.metadata": (
        "Metadata TensorStorageMetadata BytesStorageMetadata ChunkStorageMetadata "
        "TensorProperties MetadataIndex StorageMeta _MEM_FORMAT_ENCODING"
    ),
    "torch.distributed.checkpoint.filesystem": "_StorageInfo _StoragePrefix",
    "torch.distributed.checkpoint._extension": "StreamTransformExtension",
    "torch.distributed._shard.metadata": "ShardMetadata",
    "torch.distributed._shard.sharded_tensor.metadata": (
        "TensorProperties MEM_FORMAT_ENCODING ShardedTensorMetadata"
    ),
    "torch.distributed.remote_device": "_remote_device",
    "torch.distributed.tensor": "DTensor Shard Replicate Partial",
    "torch.distributed.tensor._api": "DTensor",
    "torch.distributed.tensor._dtensor_spec": "DTensorSpec TensorMeta ShardOrderEntry",
    "torch.distributed.tensor.placement_types": (
        "Shard Replicate Partial Placement _StridedShard DTensorSpec TensorMeta"
    ),
    "torch.distributed._tensor.placement_types": (
        "Shard Replicate Partial Placement _StridedShard DTensorSpec TensorMeta"
    ),
    "torch.distributed._tensor.api": "DTensor",
    "torch.distributed.device_mesh": "DeviceMesh",
    "torch.distributed._mesh_layout": "_MeshLayout",
    "torch.jit._pickle": (
        "build_intlist build_doublelist build_boollist build_tensorlist build_tensor_from_id "
        "restore_type_tag"
    ),
}

#: Modules in which every class, by its capital letter, stores what it is given and no more.
CLASS_MODULES: Final = (
    "torch.nn.modules.",
    "torch.optim.",
    "torch.ao.nn.quantized.modules.",
    "torch.ao.quantization.observer",
    "torch.nn.quantized.modules.",
)
#: Names in these modules that are no class of theirs: what they import, and what typing gives them.
#: A pickler names a class by the module that defines it.
_IMPORTED_NAMES: Final = (
    "ABC ABCMeta Any Args BackwardHook Buffer Callable ClassVar Counter DeviceDict DeviceDtypeDict "
    "DeviceLikeType Enum F Function GlobalOptimizerPostHook GlobalOptimizerPreHook Hashable "
    "Indices Iterable Iterator Kwargs List Literal Mapping MutableMapping NamedTuple Node Optional "
    "OrderedDict PackedSequence ParamSpec Parameter ParamsT Protocol RemovableHandle Self Sequence "
    "StateDict SupportsFloat Tensor TensorListList TypeAlias TypeVar TypedDict "
    "UninitializedBuffer UninitializedParameter Union"
)
IMPORTED: Final = frozenset(_IMPORTED_NAMES.split())
