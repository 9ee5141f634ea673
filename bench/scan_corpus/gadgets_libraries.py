"""Calls of torch, NumPy and their kin that run code, and of libraries that need not be here."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Final

from bench.scan_corpus.assembling import of, shell, whole
from bench.scan_corpus.sample import (
    CANARY,
    CODE,
    MARKER,
    RUNS,
    SHELL,
    UNKNOWN,
    ZEN,
    Sample,
    slug_of,
    write_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_PICKLESCAN: Final = "picklescan "
_PAPER: Final = "Liu et al. 2025 (arXiv 2508.19774)"
_NESTED: Final = whole(shell())

# kind, source, module, name, arguments, proof, expected
Row = tuple[str, str, str, str, tuple[Any, ...], str, tuple[str, ...]]

_TORCH: Final[tuple[Row, ...]] = (
    ("loads again", _PICKLESCAN + "GHSA-655q-fx9r-782v", "torch", "load", ("absent.pt",),
     "audit:open", RUNS),
    ("loads again", _PICKLESCAN + "_unsafe_globals", "torch.serialization", "load", ("absent.pt",),
     "audit:open", RUNS),
    ("loads again", "own", "torch.storage", "_load_from_bytes", (_NESTED,), CANARY, RUNS),
    ("loads again", "own", "torch.jit", "load", ("absent.pt",), "", RUNS),
    ("loads again", _PAPER, "torch.hub", "load", (".", "x", "local"), "", RUNS),
    ("loads again", "own", "torch.hub", "load_state_dict_from_url", ("data:,x",), "", RUNS),
    ("loads again", "own", "torch.package", "PackageImporter", ("absent.pt",), "", RUNS),
    ("native code", "own", "torch.ops", "load_library", ("absent.so",), "", RUNS),
    ("compiles", "own", "torch.utils.cpp_extension", "load_inline", ("x", ""), "", RUNS),
    ("compiles", _PICKLESCAN + "GHSA-655q-fx9r-782v", "torch._inductor.codecache", "compile_file",
     ("", "", ["sh", "-c", SHELL]), "", RUNS),
    ("process", _PICKLESCAN + "GHSA-f745-w6jp-hpxx", "torch.utils.collect_env", "run", (SHELL,),
     "audit:subprocess.Popen", RUNS),
    ("process", _PICKLESCAN + "GHSA-jhph-76pp-mggw", "torch.utils.collect_env",
     "run_and_read_all", (of("torch.utils.collect_env", "run"), SHELL),
     "audit:subprocess.Popen", RUNS),
    ("runs code", _PICKLESCAN + "GHSA-4r9r-ch6f-vxmx", "torch.utils.bottleneck.__main__",
     "run_cprofile", (CODE, {}), CANARY, RUNS),
    ("runs code", _PICKLESCAN + "GHSA-4whj-rm5r-c2v8", "torch.utils.bottleneck.__main__",
     "run_autograd_prof", (CODE, {}), CANARY, RUNS),
    ("runs code", _PICKLESCAN + "GHSA-86cj-95qr-2p4f", "torch._dynamo.guards",
     "GuardBuilder.get", ({}, CODE), "", RUNS),
    ("runs code", _PICKLESCAN + "GHSA-f4x7-rfwp-v3xw", "torch.fx.experimental.symbolic_shapes",
     "ShapeEnv.evaluate_guards_expression", ({}, CODE, []), "", RUNS),
    ("runs code", _PICKLESCAN + "GHSA-vr7h-p6mm-wpmh", "torch.jit.unsupported_tensor_ops",
     "execWrapper", (CODE, {}, {}), CANARY, RUNS),
    ("nested pickle", _PICKLESCAN + "GHSA-vv6j-3g6g-2pvj", "torch.utils._config_module",
     "ConfigModule.load_config", ({}, _NESTED), "", RUNS),
    ("nested pickle", _PICKLESCAN + "GHSA-h3qp-7fh3-f8h4",
     "torch.utils.data.datapipes.utils.decoder", "basichandlers", ("pickle", _NESTED),
     CANARY, RUNS),
    ("runs code", "own", "torch.fx.graph_module", "_exec_with_source", (CODE, {}), CANARY, RUNS),
    ("runs code", "own", "torch.fx.graph_module", "reduce_graph_module",
     ({"_code": "def forward(self): pass"}, CODE), CANARY, RUNS),
    ("imports", "own", "torch._utils", "_import_dotted_name", ("this.s",), ZEN, UNKNOWN),
    ("writes a file", "own", "torch", "save", (1, MARKER), MARKER, RUNS),
    ("writes a file", "CVE-2025-32434 (aten::from_file)", "torch", "from_file",
     (MARKER, True, 8), MARKER, RUNS),
    ("calls its argument", "own", "torch._tensor", "_rebuild_from_type_v2",
     (of("posix", "system"), of("builtins", "int"), (SHELL,), None), CANARY, RUNS),
    ("calls its argument", "own", "torch.utils._pytree", "tree_map",
     (of("posix", "system"), [SHELL]), CANARY, RUNS),
    ("calls its argument", "own", "torch.utils.checkpoint", "checkpoint",
     (of("posix", "system"), SHELL, True), "", RUNS),
)  # fmt: skip

_NUMPY: Final[tuple[Row, ...]] = (
    ("runs code", _PICKLESCAN + "malicious22", "numpy.testing._private.utils", "runstring",
     (CODE, {}), CANARY, RUNS),
    ("runs code", _PICKLESCAN + "GHSA-r8g5-cgf2-4m4m", "numpy.f2py.crackfortran", "getlincoef",
     (CODE, []), CANARY, RUNS),
    ("runs code", _PICKLESCAN + "GHSA-r8g5-cgf2-4m4m", "numpy.f2py.crackfortran", "_eval_length",
     (CODE, {}), CANARY, RUNS),
    ("native code", _PICKLESCAN + "scanner TODO", "numpy.ctypeslib", "load_library",
     ("absent", "."), "", RUNS),
    ("loads again", _PICKLESCAN + "scanner TODO", "numpy", "load", ("absent.npy", None, True),
     "audit:open", RUNS),
    ("writes a file", "own", "numpy", "memmap", (MARKER, "uint8", "w+", 0, (1,)), MARKER, RUNS),
    ("writes a file", "own", "numpy", "savetxt", (MARKER, [1]), MARKER, RUNS),
    ("reads a file", "own", "numpy", "fromfile", ("/dev/null",), "audit:open", RUNS),
    ("runs code", "own", "sympy.parsing.sympy_parser", "eval_expr", (CODE, {}, {}), CANARY,
     UNKNOWN),
    ("runs code", "own", "networkx.utils.decorators", "argmap._compile", (CODE,), "", UNKNOWN),
    ("imports", "own", "pkg_resources", "run_script", ("pip", "x"), "", UNKNOWN),
    ("network", _PICKLESCAN + "#1", "requests.api", "get", ("data:,x",), "", RUNS),
    ("network", _PICKLESCAN + "#1", "aiohttp.client", "ClientSession", (), "", RUNS),
)  # fmt: skip

#: Not installed: nothing to prove, and a scanner cannot know them all. Never clean, though.
_ELSEWHERE: Final[tuple[tuple[str, str, str, tuple[Any, ...]], ...]] = (
    (_PICKLESCAN + "scanner TODO", "pandas", "read_pickle", ("absent.pkl",)),
    (_PICKLESCAN + "scanner TODO", "pandas.io.pickle", "read_pickle", ("absent.pkl",)),
    ("modelscan #338", "pandas.io.parsers.readers", "read_csv", ("http://127.0.0.1:9/",)),
    (_PAPER, "pandas.core.computation.eval", "eval", (CODE,)),
    ("CVE-2024-34997", "joblib.numpy_pickle", "load", ("absent.joblib",)),
    ("CVE-2020-13092", "joblib", "load", ("absent.joblib",)),
    ("fickling #190", "dill", "loads", (_NESTED,)),
    ("fickling #190", "cloudpickle", "loads", (_NESTED,)),
    ("modelscan #338", "mlflow.projects.backend.local", "_run_entry_point", (SHELL, ".", "", "")),
    ("CVE-2025-23304", "hydra.utils", "instantiate", ({"_target_": "os.getcwd"},)),
    (_PAPER, "keras.models", "load_model", ("absent.keras",)),
    (_PAPER, "tensorflow.io", "write_file", (MARKER, "x")),
    (_PAPER, "IPython.core.interactiveshell", "InteractiveShell.run_cell", ({}, CODE)),
    (_PAPER, "yaml", "unsafe_load", ("!!python/name:os.getcwd",)),
    ("own", "transformers.dynamic_module_utils", "get_class_from_dynamic_module", ("m.C", "."))
)  # fmt: skip


def samples() -> Iterator[Sample]:
    """One file for each row."""
    rows = [("torch", row) for row in _TORCH] + [("other", row) for row in _NUMPY]
    for index, (group, (kind, source, module, name, arguments, proof, expect)) in enumerate(rows):
        yield Sample(
            name=f"library-{group}-{index:02d}-{slug_of(module, name)}.pkl",
            kind=f"libraries: {kind}",
            source=source,
            write=write_bytes(whole(of(module, name)(*arguments))),
            expect=expect,
            loader="pickle" if proof else "",
            proof=proof,
            needs=module,
        )
    for index, (source, module, name, arguments) in enumerate(_ELSEWHERE):
        yield Sample(
            name=f"library-elsewhere-{index:02d}-{slug_of(module, name)}.pkl",
            kind="libraries: not installed here",
            source=source,
            write=write_bytes(whole(of(module, name)(*arguments))),
            expect=UNKNOWN,
        )
    own = pickle.PROTO + b"\x04" + of("victim.models", "Trainer")("x").opcodes + pickle.STOP
    yield Sample(
        name="library-own-class-called.pkl",
        kind="libraries: not installed here",
        source="own",
        write=write_bytes(own),
        expect=UNKNOWN,
    )
