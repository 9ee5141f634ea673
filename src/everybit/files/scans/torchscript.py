"""What the code of a TorchScript archive reaches: torch compiles it, and it is no Python.

It cannot import, open or call anything of Python's. What it can do is call operators, and a few
of those touch files or the network.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Certainty, Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everybit.files.scans.content import Content
    from everybit.files.scans.walk import Walk

_OPERATOR: Final = re.compile(
    r"(?<![\w.])(?:torch\s*\.\s*)?ops\s*\.\s*(\w+)\s*\.\s*(\w+)"
    r"|(?<![\w.])torch\s*\.\s*(\w+)\s*\("
)
_CLASS: Final = re.compile(r"__torch__\s*\.\s*torch\s*\.\s*classes\s*\.\s*(\w+)\s*\.\s*(\w+)")
#: Namespaces that torch itself, torchvision and torchaudio bring.
_USUAL: Final = frozenset(
    {
        "aten", "prim", "prims", "quantized", "_quantized", "quantized_decomposed", "torchvision",
        "torchaudio", "torchtext", "image", "sparse", "mkldnn", "mkldnn_prepacked", "mkl", "onednn",
        "xnnpack", "prepacked", "vulkan_prepack", "metal_prepack", "inductor", "profiler",
        "static_runtime", "torch_ipex", "tensorrt", "cuda", "nvprims", "dnnl", "caffe2",
        "internal", "symm_mem", "higher_order", "fbgemm", "torch_sparse", "torch_scatter",
        "torch_cluster", "torch_spline_conv", "pyg",
    }
)  # fmt: skip
_USUAL_CLASSES: Final = frozenset(
    {"quantized", "xnnpack", "sparse", "rnn", "mkldnn", "profiler", "metal", "vulkan", "nnapi",
     "_nnapi", "tensorrt", "cuda", "torchaudio", "torchtext", "dist_c10d", "torchvision"}
)  # fmt: skip
#: Operators that touch files or the network, and what they do.
_DANGEROUS: Final = {
    ("aten", "save"): "writes a file",
    ("aten", "from_file"): "maps a file, and can write to it",
    ("image", "write_file"): "writes a file",
    ("image", "read_file"): "reads a file",
    ("torchaudio", "sox_io_save_audio_file"): "writes a file",
    ("aten", "rpc_async"): "calls another machine",
    ("aten", "rpc_sync"): "calls another machine",
    ("aten", "rpc_remote"): "calls another machine",
    ("prim", "rpc_async"): "calls another machine",
}
_NETWORK: Final = frozenset({"c10d", "_c10d_functional", "rpc", "tensorpipe", "distributed_rpc"})
_MAX_LISTED: Final = 16


def tell_code(content: Content, walk: Walk, code: Mapping[str, str]) -> None:
    """Tell of operators that touch files or the network, and of those from elsewhere."""
    walk.outcome.count("TorchScript sources", len(code))
    dangerous: dict[str, str] = {}
    strange: dict[str, str] = {}
    for name, text in code.items():
        for found in _OPERATOR.finditer(text):
            space, operator = (found[1], found[2]) if found[1] else ("aten", found[3])
            does = _DANGEROUS.get((space, operator))
            if space in _NETWORK:
                does = "talks to other processes"
            if does:
                dangerous.setdefault(f"{space}::{operator}", f"{does} ({name})")
            elif space not in _USUAL:
                strange.setdefault(f"{space}::{operator}", name)
        for found in _CLASS.finditer(text):
            if found[1] not in _USUAL_CLASSES:
                strange.setdefault(f"torch.classes.{found[1]}.{found[2]}", name)
    if dangerous:
        first = next(iter(dangerous))
        walk.tell(
            content,
            f"holds TorchScript code that calls {first}, which {dangerous[first]}",
            rule_id="PKL201",
            certainty=Certainty.STRONG,
            operators=dict(list(dangerous.items())[:_MAX_LISTED]),
            remedy="Do not run it; ask its author why a model would touch files or the network.",
        )
    if strange:
        first = next(iter(strange))
        walk.tell(
            content,
            f"holds TorchScript code that calls {first}, which comes with a library of its own",
            rule_id="PKL205",
            severity=Severity.NOTE,
            operators=list(strange)[:_MAX_LISTED],
            remedy="It loads only where that library is installed; see who wrote it.",
        )
