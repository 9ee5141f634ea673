"""How each entry of an environment record can change numbers: rank, reason, and rule. Data only.

The table is read from the top; the first pattern that fits an entry decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """What a difference in an entry can do.

    Attributes:
        rank: 1 (other results altogether) to 9 (nothing that is known); findings are sorted by it.
        why: How it changes numbers, in a few words.
        rule: The rule of its finding.
        note: Whether it is a note: no reason for alarm by itself.
    """

    rank: int
    why: str
    rule: str = "ENV901"
    note: bool = False


_CODE: Final = Weight(rank=1, why="another program")
_READ: Final = Weight(rank=1, why="the program read it before its first step")
_SET: Final = Weight(rank=1, why="the program set it otherwise")
_ASKED: Final = Weight(rank=1, why="the program was asked for something else")
_LABELS: Final = Weight(rank=1, why="other targets for the same labels")
_SEED: Final = Weight(rank=1, why="other random numbers: initial weights, order, dropout")
_HASH: Final = Weight(rank=1, why="another order of sets, and of what is built from them")
_PRECISION: Final = Weight(
    rank=2, why="rounds more coarsely: 5e-4 in TF32 and float16, 4e-3 in bfloat16", rule="ENV906"
)
_LIBRARY: Final = Weight(
    rank=3, why="other kernels: last places, and now and then a fault of one release", rule="ENV904"
)
_HARDWARE: Final = Weight(
    rank=3, why="other kernels: last places, other initial weights from one seed", rule="ENV904"
)
_THREADS: Final = Weight(
    rank=4, why="sums in another order: about 1e-7 of a float32 value", rule="ENV905"
)
_ALGORITHMS: Final = Weight(rank=4, why="other algorithms, or ones that do not repeat: last places")
_COLLECTIVE: Final = Weight(rank=4, why="gradients summed over ranks in another order: last places")
_DATA: Final = Weight(rank=3, why="reads, decodes or transforms data: other inputs")
_ASSEMBLY: Final = Weight(rank=5, why="a switch of a library: kernels, algorithms or precision")
_PYTHON: Final = Weight(rank=6, why="another interpreter, and with it other builds of libraries")
_LOCK: Final = Weight(rank=6, why="other versions may be installed; `packages` tells which are")
_DRIVER: Final = Weight(rank=6, why="compiles kernels that are not built in: last places, rarely")
_MEMORY: Final = Weight(rank=6, why="without ECC a flipped bit is not corrected")
_PACKAGE: Final = Weight(rank=7, why="nothing, unless the program computes with it")
_UNTRACKED: Final = Weight(
    rank=7, why="files that are not committed; the program may use them", note=True
)
_MOUNT: Final = Weight(
    rank=7, why="data from elsewhere: a stale or cut file is another input", note=True
)
_PLACE: Final = Weight(
    rank=8, why="nothing by itself; libraries inside differ, where they do", note=True
)
_SYSTEM: Final = Weight(rank=8, why="nothing that is known", note=True)
_MICROCODE: Final = Weight(rank=6, why="mends or changes instructions; none that round are known")
_PIECE: Final = Weight(
    rank=8, why="another piece of the same hardware: none, if it is sound", note=True
)
_SPEED: Final = Weight(
    rank=9, why="speed; a part driven past its limits computes wrongly", note=True
)
_OTHER: Final = Weight(rank=7, why="not known to this version of everybit")

#: `(pattern, weight)`; patterns are those of `fnmatch`.
WEIGHTS: Final[tuple[tuple[str, Weight], ...]] = (
    ("code.*", _CODE),
    ("files.*", _READ),
    ("git.commit", _CODE),
    ("git.dirty", _CODE),
    ("git.diff_digest", _CODE),
    ("git.*", _UNTRACKED),
    ("argv.*", _ASKED),
    ("command", _ASKED),
    ("config.*", _ASKED),
    ("labels.*", _LABELS),
    ("seeds.*", _SEED),
    ("variables.PYTHONHASHSEED", _HASH),
    ("python.hash_randomization", _HASH),
    ("precision.*", _PRECISION),
    ("variables.*TF32*", _PRECISION),
    ("determinism.*", _ALGORITHMS),
    ("variables.CUBLAS_WORKSPACE_CONFIG", _ALGORITHMS),
    ("torch.*", _LIBRARY),
    ("blas.*", _LIBRARY),
    ("libraries.*", _LIBRARY),
    ("cuda.nccl", _COLLECTIVE),
    ("cuda.*", _LIBRARY),
    ("packages.torch.*", _LIBRARY),
    ("packages.nvidia-nccl*", _COLLECTIVE),
    ("packages.nvidia-*", _LIBRARY),
    ("packages.triton.*", _LIBRARY),
    ("packages.intel-openmp.*", _LIBRARY),
    ("packages.mkl.*", _LIBRARY),
    *(
        (f"packages.{name}.*", _DATA)
        for name in (
            "albumentations*", "av", "datasets", "decord", "h5py", "librosa", "numpy", "opencv-*",
            "pandas", "pillow", "pillow-simd", "polars", "pyarrow", "scikit-*", "scipy",
            "sentencepiece", "soundfile", "tiktoken", "timm", "tokenizers", "torchaudio",
            "torchdata", "torchvision", "transformers", "webdataset",
        )
    ),
    ("packages.*", _PACKAGE),
    ("cpu.kernel_flags", _HARDWARE),
    ("cpu.microcode", _MICROCODE),
    ("cpu.flags_digest", _MICROCODE),
    ("cpu.libc", Weight(rank=5, why="its mathematical functions round otherwise: last places")),
    ("cpu.*", _HARDWARE),
    ("gpu.driver*", _DRIVER),
    ("gpu.devices.*.ecc", _MEMORY),
    ("gpu.devices.*.uuid", _PIECE),
    ("gpu.devices.*.vbios", _PIECE),
    ("gpu.devices.*.inforom", _PIECE),
    ("gpu.devices.*.gsp_firmware", _PIECE),
    ("gpu.devices.*.clocks.*", _SPEED),
    ("gpu.devices.*.power_limit_w", _SPEED),
    ("gpu.devices.*.persistence", _SPEED),
    ("gpu.devices.*.compute_mode", _SPEED),
    ("gpu.*", _HARDWARE),
    ("threads.*", _THREADS),
    ("variables.*_NUM_THREADS", _THREADS),
    ("variables.MKL_DYNAMIC", _THREADS),
    ("variables.OMP_DYNAMIC", _THREADS),
    ("variables.NCCL_*", _COLLECTIVE),
    ("variables.GLOO_*", _COLLECTIVE),
    ("nccl.*", _COLLECTIVE),
    ("variables.*", _ASSEMBLY),
    ("python.*", _PYTHON),
    ("lock.*", _LOCK),
    ("mounts.*", _MOUNT),
    ("container.*", _PLACE),
    ("system.*", _SYSTEM),
    ("ranks*", _COLLECTIVE),
    ("command", _ASKED),
    ("config.*", _ASKED),
    ("configuration.precision.num_threads", _THREADS),
    ("configuration.precision.deterministic", _ALGORITHMS),
    ("configuration.precision.onednn", _ALGORITHMS),
    ("configuration.precision.attention", _ALGORITHMS),
    ("configuration.precision.cudnn_benchmark", _ALGORITHMS),
    ("configuration.precision.cudnn_deterministic", _ALGORITHMS),
    ("configuration.precision.*", _PRECISION),
    ("configuration.*", _SET),
)  # fmt: skip


@cache
def weight_of(entry: str) -> Weight:
    """Return what a difference in an entry can do.

    Args:
        entry: Dotted path in the record (`packages.numpy.version`).

    >>> weight_of("threads.intra_op").rule, weight_of("threads.intra_op").rank
    ('ENV905', 4)
    """
    return next((weight for pattern, weight in WEIGHTS if fnmatchcase(entry, pattern)), _OTHER)
