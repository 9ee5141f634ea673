"""Names of training libraries that are known safe in a pickle.

Source: what their own checkpoints hold: `Trainer.save_model` and `training_args.bin` of
Transformers 4.20 to 5.24, checkpoints of Lightning 1.4 to 2.6, Accelerate 0.20 to 1.15, DeepSpeed,
timm, Ultralytics' plain fields, OmegaConf 2.0 to 2.3, pandas and SciPy containers. They hold
settings and counters; building them stores these. What runs at use, after loading, is not judged.
"""

from __future__ import annotations

from typing import Final

VERSIONS: Final = "Transformers 4.20 to 5.24, Lightning 1.4 to 2.6, Accelerate 0.20 to 1.15"

#: `{module: names}`
NAMES: Final = {
    "transformers.training_args": "TrainingArguments OptimizerNames ParallelMode",
    "transformers.training_args_seq2seq": "Seq2SeqTrainingArguments",
    "transformers.trainer_utils": (
        "IntervalStrategy SchedulerType HubStrategy SaveStrategy EvaluationStrategy "
        "FSDPOption ShardedDDPOption ExplicitEnum"
    ),
    "transformers.trainer_pt_utils": "AcceleratorConfig",
    "transformers.debug_utils": "DebugOption",
    "transformers.integrations.deepspeed": "HfTrainerDeepSpeedConfig HfDeepSpeedConfig",
    "transformers.deepspeed": "HfTrainerDeepSpeedConfig HfDeepSpeedConfig",
    "transformers.generation.configuration_utils": "GenerationConfig GenerationMode",
    "accelerate.utils.dataclasses": (
        "DistributedType DeepSpeedPlugin FullyShardedDataParallelPlugin PrecisionType "
        "GradientAccumulationPlugin DataLoaderConfiguration ProjectConfiguration "
        "AORecipeKwargs DynamoBackend TorchDynamoPlugin RNGType SageMakerDistributedType"
    ),
    "accelerate.state": "AcceleratorState PartialState GradientState",
    "trl.trainer.sft_config": "SFTConfig",
    "trl.trainer.dpo_config": "DPOConfig",
    "trl.trainer.grpo_config": "GRPOConfig",
    "lightning_fabric.utilities.data": "AttributeDict",
    "lightning.fabric.utilities.data": "AttributeDict",
    "pytorch_lightning.utilities.parsing": "AttributeDict",
    "lightning.pytorch.utilities.parsing": "AttributeDict",
    "pytorch_lightning.callbacks.model_checkpoint": "ModelCheckpoint",
    "pytorch_lightning.callbacks.early_stopping": "EarlyStopping",
    "lightning.pytorch.callbacks.model_checkpoint": "ModelCheckpoint",
    "lightning.pytorch.callbacks.early_stopping": "EarlyStopping",
    "lightning_utilities.core.enums": "StrEnum",
    "omegaconf.dictconfig": "DictConfig",
    "omegaconf.listconfig": "ListConfig",
    "omegaconf.base": "ContainerMetadata Metadata Container Node",
    "omegaconf.nodes": (
        "AnyNode StringNode IntegerNode FloatNode BooleanNode BytesNode PathNode EnumNode ValueNode"
    ),
    "deepspeed.runtime.fp16.loss_scaler": "DynamicLossScaler LossScaler LossScalerBase",
    "deepspeed.runtime.zero.config": "ZeroStageEnum",
    "deepspeed.utils.tensor_fragment": "fragment_address",
    "megatron.core.enums": "ModelType",
    "megatron.model.enums": "ModelType AttnMaskType AttnType LayerType PositionEmbeddingType",
    "ml_dtypes": "bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz int4 uint4",
    "jax.numpy": "bfloat16",
    "pandas.core.frame": "DataFrame",
    "pandas.core.series": "Series",
    "pandas.core.indexes.base": "Index _new_Index",
    "pandas.core.indexes.range": "RangeIndex",
    "pandas.core.indexes.multi": "MultiIndex",
    "pandas.core.indexes.datetimes": "DatetimeIndex _new_DatetimeIndex",
    "pandas.core.internals.managers": "BlockManager SingleBlockManager",
    "pandas.core.internals.blocks": "new_block",
    "pandas._libs.internals": "_unpickle_block",
    "pandas._libs.arrays": "__pyx_unpickle_NDArrayBacked",
    "pandas._libs.tslibs.timestamps": "_unpickle_timestamp Timestamp",
    "pandas._libs.tslibs.timedeltas": "_timedelta_unpickle Timedelta",
    "scipy.sparse._csr": "csr_matrix csr_array",
    "scipy.sparse._csc": "csc_matrix csc_array",
    "scipy.sparse._coo": "coo_matrix coo_array",
    "scipy.sparse.csr": "csr_matrix",
    "scipy.sparse.csc": "csc_matrix",
    "scipy.sparse.coo": "coo_matrix",
    "joblib.numpy_pickle": "NumpyArrayWrapper",
    "sklearn.externals.joblib.numpy_pickle": "NumpyArrayWrapper",
    "gymnasium.spaces.box": "Box",
    "gymnasium.spaces.discrete": "Discrete",
    "gymnasium.spaces.multi_discrete": "MultiDiscrete",
    "gymnasium.spaces.multi_binary": "MultiBinary",
    "gymnasium.spaces.dict": "Dict",
    "gymnasium.spaces.tuple": "Tuple",
    "gym.spaces.box": "Box",
    "gym.spaces.discrete": "Discrete",
    "gym.spaces.multi_discrete": "MultiDiscrete",
    "gym.spaces.multi_binary": "MultiBinary",
    "gym.spaces.dict": "Dict",
    "gym.spaces.tuple": "Tuple",
}
