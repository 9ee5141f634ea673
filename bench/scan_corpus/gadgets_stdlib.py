"""Calls of the standard library that run code, commands, files or sockets when unpickled.

Each row is one file: a pickle that calls the function once, with harmless arguments.
"""

from __future__ import annotations

import marshal
from typing import TYPE_CHECKING, Any, Final

from bench.scan_corpus.assembling import Code, of, whole
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
_FICKLING: Final = "fickling "
#: Nothing listens at the discard port of this machine.
_NOBODY: Final = ("127.0.0.1", 9)

# kind, source, module, name, arguments, proof ("" where it is not tried)
Row = tuple[str, str, str, str, tuple[Any, ...], str]

_CODE: Final[tuple[Row, ...]] = (
    ("runs code", "pickle documentation", "builtins", "exec", (CODE,), CANARY),
    ("runs code", "pickle documentation", "builtins", "eval", (CODE,), CANARY),
    ("runs code", "Slaviero 2011", "builtins", "compile", (CODE, "x", "exec"), "audit:compile"),
    ("imports", "own", "builtins", "__import__", ("this",), ZEN),
    ("debugger", _PICKLESCAN + "1.0.1", "builtins", "breakpoint", (), "audit:builtins.breakpoint"),
    ("runs code", _PICKLESCAN + "#27", "runpy", "_run_code", (CODE, {}), CANARY),
    ("imports", _FICKLING + "GHSA-wfq2-52f7-7qvj", "runpy", "run_module", ("this",), ZEN),
    ("profiler", _PICKLESCAN + "GHSA-49gj-c84q-6qm9", "cProfile", "run", (CODE,), CANARY),
    ("profiler", _PICKLESCAN + "GHSA-9w88-8rmg-7g2p", "cProfile", "runctx", (CODE, {}, {}), CANARY),
    ("profiler", _PICKLESCAN + "GHSA-7wx9-6375-f5wh", "profile", "run", (CODE,), CANARY),
    ("profiler", _PICKLESCAN + "GHSA-x696-vm39-cp64", "profile", "Profile.run",
     (of("profile", "Profile")(), CODE), CANARY),
    ("profiler", _PICKLESCAN + "GHSA-6vqj-c2q5-j97w", "profile", "Profile.runctx",
     (of("profile", "Profile")(), CODE, {}, {}), CANARY),
    ("debugger", _PICKLESCAN + "GHSA-46h3-79wf-xr6c", "bdb", "Bdb.run",
     (of("bdb", "Bdb")(), CODE), CANARY),
    ("debugger", _PICKLESCAN + "GHSA-g38g-8gr9-h9xp", "pdb", "run", (CODE,), ""),
    ("tracer", _PICKLESCAN + "GHSA-5qwp-399c-mjwf", "trace", "Trace.run",
     (of("trace", "Trace")(0, 0), CODE), CANARY),
    ("tracer", _PICKLESCAN + "GHSA-g344-hcph-8vgg", "trace", "Trace.runctx",
     (of("trace", "Trace")(0, 0), CODE, {}, {}), CANARY),
    ("runs code", _PICKLESCAN + "GHSA-v7x6-rv5q-mhwc", "timeit", "timeit", ("pass", CODE), CANARY),
    ("runs code", _PICKLESCAN + "GHSA-fqq6-7vqf-w3fg", "doctest", "debug_script", (CODE, True),
     CANARY),
    ("runs code", _PICKLESCAN + "GHSA-g38g-8gr9-h9xp", "codeop", "compile_command", (CODE,),
     "audit:compile"),
    ("runs code", _PICKLESCAN + "GHSA-g38g-8gr9-h9xp", "compileall", "compile_dir", (".",),
     "Listing"),
    ("runs code", _PICKLESCAN + "GHSA-g38g-8gr9-h9xp", "py_compile", "compile", ("absent.py",), ""),
    ("runs code", _PICKLESCAN + "GHSA-cj3c-v495-4xqh", "code", "InteractiveInterpreter.runcode",
     (of("code", "InteractiveInterpreter")(), CODE), CANARY),
    ("subinterpreter", _FICKLING + "GHSA-6ggj-6f2q-f7mx", "_xxsubinterpreters", "run_string",
     (of("_xxsubinterpreters", "create")(), CODE), CANARY),
    ("evaluates annotations", "own", "typing", "_eval_type",
     (of("typing", "ForwardRef")(CODE), {}, {}), CANARY),
    ("imports", _FICKLING + "GHSA-q5qq-mvfm-j35x", "importlib", "import_module", ("this",), ZEN),
    ("imports", _PICKLESCAN + "GHSA-84r2-jw7c-4r5q", "pydoc", "locate", ("this",), ZEN),
    ("imports", "own", "pydoc", "safeimport", ("this",), ZEN),
    ("imports", "own", "unittest", "TestLoader.loadTestsFromName",
     (of("unittest", "TestLoader")(), "this"), ZEN),
    ("imports", "own", "xml.sax", "make_parser", (["this"],), ZEN),
    ("imports", "own", "importlib", "reload", (of("builtins", "__import__")("this"),), ZEN),
    ("nested pickle", _PICKLESCAN + "GHSA-f54q-57x4-jg88", "lib2to3.pgen2.grammar",
     "Grammar.loads", (of("lib2to3.pgen2.grammar", "Grammar")(),
                       whole(of("builtins", "print")(CANARY))), CANARY),
    ("runs code", _PICKLESCAN + "GHSA-p9w7-82w4-7q8m", "lib2to3.pgen2.pgen",
     "ParserGenerator.make_label", (None, {}, f'""+{CODE}'), ""),
    ("IDLE", _PICKLESCAN + "GHSA-9xph-j2h6-g47v", "idlelib.calltip", "get_entity", (CODE,), CANARY),
    ("IDLE", _PICKLESCAN + "GHSA-m869-42cg-3xwr", "idlelib.run", "Executive.runcode", ({}, CODE),
     ""),
    ("IDLE", _PICKLESCAN + "GHSA-3vg9-h568-4w9m", "idlelib.debugobj", "ObjectTreeItem.SetText",
     ({}, CODE), ""),
    ("IDLE", _PICKLESCAN + "GHSA-3gf5-cxq9-w223", "idlelib.pyshell",
     "ModifiedInterpreter.runcode", ({}, CODE), ""),
)  # fmt: skip

_COMMANDS: Final[tuple[Row, ...]] = (
    ("shell", "pickle documentation", "os", "system", (SHELL,), CANARY),
    ("shell", "pickle documentation", "posix", "system", (SHELL,), CANARY),
    ("shell", _PICKLESCAN + "_unsafe_globals", "nt", "system", (SHELL,), ""),
    ("shell", "own", "os", "popen", (SHELL,), "audit:subprocess.Popen"),
    ("process", "own", "os", "execvp", ("echo", ["echo", CANARY]), CANARY),
    ("process", "own", "os", "spawnlp", (0, "echo", "echo", CANARY), CANARY),
    ("process", "own", "os", "posix_spawnp", ("echo", ["echo", CANARY], {}), CANARY),
    ("process", _PICKLESCAN + "#1", "subprocess", "Popen", (["echo", CANARY],), CANARY),
    ("process", _PICKLESCAN + "#1", "subprocess", "check_output", (["echo", CANARY],),
     "audit:subprocess.Popen"),
    ("process", "own", "subprocess", "getoutput", (SHELL,), "audit:subprocess.Popen"),
    ("process", _FICKLING + "GHSA-r7v6-mfhq-g3m2", "pty", "spawn", (["echo", CANARY],), CANARY),
    ("process", _PICKLESCAN + "GHSA-655q-fx9r-782v", "pydoc", "pipepager", ("", SHELL),
     "audit:subprocess.Popen"),
    ("process", _PICKLESCAN + "GHSA-g38g-8gr9-h9xp", "uuid", "_get_command_stdout",
     ("echo", CANARY), "audit:subprocess.Popen"),
    ("shell", _PICKLESCAN + "GHSA-g38g-8gr9-h9xp", "_osx_support", "_read_output", (SHELL,),
     "audit:os.system"),
    ("process", _PICKLESCAN + "GHSA-g38g-8gr9-h9xp", "_aix_support", "_read_cmd_output", (SHELL,),
     ""),
    ("process", _PICKLESCAN + "GHSA-g38g-8gr9-h9xp", "imaplib", "IMAP4_stream", (SHELL,),
     "audit:subprocess.Popen"),
    ("process", _PICKLESCAN + "GHSA-g38g-8gr9-h9xp", "_pyrepl.pager", "pipe_pager", ("", SHELL),
     ""),
    ("process", _PICKLESCAN + "GHSA-g38g-8gr9-h9xp", "test.support.script_helper",
     "assert_python_ok", ("-c", "pass"), "audit:subprocess.Popen"),
    ("process", _FICKLING + "GHSA-q5qq-mvfm-j35x", "multiprocessing.util", "spawnv_passfds",
     (b"/bin/echo", [b"echo", CANARY.encode()], ()), CANARY),
    ("process", _PICKLESCAN + "GHSA-q77w-mwjj-7mqx", "asyncio.unix_events",
     "_UnixSubprocessTransport._start", ({}, SHELL, True, None, None, None, 0), CANARY),
    ("process", _FICKLING + "GHSA-m6fh-58r7-x697", "_posixsubprocess", "fork_exec",
     ([b"echo"], [b"/bin/echo"]), ""),
    ("shell", "own", "mailcap", "findmatch",
     ({"a/b": [{"view": "x", "test": SHELL}]}, "a/b"), CANARY),
    ("process", "own", "distutils.spawn", "spawn", (["echo", CANARY],), CANARY),
    ("process", "own", "webbrowser", "GenericBrowser.open",
     (of("webbrowser", "GenericBrowser")(["echo", "%s"]), CANARY), CANARY),
    ("installs packages", _PICKLESCAN + "CVE-2025-1716", "pip", "main", (["--version"],),
     "pip "),
    ("installs packages", _PICKLESCAN + "GHSA-xp4f-hrf8-rxw7", "ensurepip", "_run_pip",
     (["--version"],), "audit:subprocess.Popen"),
    ("installs packages", _PICKLESCAN + "GHSA-655q-fx9r-782v", "venv", "create", ("absent",), ""),
    ("configures logging", "own", "logging.config", "dictConfig",
     ({"version": 1, "formatters": {"x": {"()": "subprocess.getoutput", "cmd": SHELL}}},),
     "audit:subprocess.Popen"),
    ("Python 2", _PICKLESCAN + "_unsafe_globals", "commands", "getoutput", (SHELL,), ""),
)  # fmt: skip

_FILES: Final[tuple[Row, ...]] = (
    ("opens a file", _PICKLESCAN + "_unsafe_globals", "builtins", "open", (MARKER, "w"), MARKER),
    ("opens a file", _PICKLESCAN + "CVE-2025-10155", "io", "FileIO", (MARKER, "w"), MARKER),
    ("opens a file", "own", "_io", "open", (MARKER, "w"), MARKER),
    ("opens a file", "own", "codecs", "open", (MARKER, "w"), MARKER),
    ("opens a file", "own", "gzip", "open", (MARKER, "w"), MARKER),
    ("opens a file", "own", "zipfile", "ZipFile", (MARKER, "w"), MARKER),
    ("opens a file", "own", "tarfile", "TarFile", (MARKER, "w"), MARKER),
    ("opens a file", _PICKLESCAN + "CVE-2026-56304", "logging", "FileHandler", (MARKER,), MARKER),
    ("opens a file", _FICKLING + "GHSA-mhc9-48gj-9gp3", "sqlite3", "connect", (":memory:",),
     "audit:sqlite3.connect"),
    ("opens a file", "own", "dbm.dumb", "open", (MARKER, "c"), f"{MARKER}.dat"),
    ("writes a file", _PICKLESCAN + "GHSA-m273-6v24-x4m4", "distutils.file_util", "write_file",
     (MARKER, ["x"]), MARKER),
    ("writes a file", "own", "pathlib", "Path.write_text",
     (of("pathlib", "Path")(MARKER), "x"), MARKER),
    ("writes a file", _PICKLESCAN + "_unsafe_globals", "shutil", "copyfile",
     ("/dev/null", MARKER), "audit:shutil.copyfile"),
    ("deletes files", _PICKLESCAN + "_unsafe_globals", "shutil", "rmtree",
     ("absent-everybit", True), "audit:shutil.rmtree"),
    ("deletes files", "own", "os", "remove", ("absent-everybit",), "audit:os.remove"),
    ("makes folders", "own", "os", "mkdir", (MARKER,), MARKER),
    ("lists files", "own", "os", "listdir", (".",), "audit:os.listdir"),
    ("reads a file", _PICKLESCAN + "CVE-2025-46417", "linecache", "getlines", ("/dev/null",),
     "audit:open"),
    ("runs hooks", _FICKLING + "GHSA-m6fh-58r7-x697", "site", "addsitedir", ("absent",), ""),
    ("runs hooks", _FICKLING + "GHSA-m6fh-58r7-x697", "atexit", "register",
     (of("builtins", "print"), CANARY), CANARY),
)  # fmt: skip

_OTHERS: Final[tuple[Row, ...]] = (
    ("network", _PICKLESCAN + "#1", "socket", "create_connection", (_NOBODY,),
     "audit:socket.connect"),
    ("network", _PICKLESCAN + "CVE-2025-46417", "ssl", "get_server_certificate", (_NOBODY,),
     "audit:socket.connect"),
    ("network", "picklescan GHSA-3329-ghmp-jmv5", "urllib.request", "urlopen", ("data:,x",),
     "audit:urllib.Request"),
    ("network", _PICKLESCAN + "#1", "http.client", "HTTPSConnection", _NOBODY, ""),
    ("network", _FICKLING + "GHSA-mhc9-48gj-9gp3", "smtplib", "SMTP", _NOBODY,
     "audit:socket.connect"),
    ("network", _FICKLING + "GHSA-mhc9-48gj-9gp3", "socketserver", "TCPServer",
     (("127.0.0.1", 0), None), "audit:socket.bind"),
    ("network", "own", "ftplib", "FTP", ("",), ""),
    ("native code", _FICKLING + "CVE-2026-22608", "ctypes", "CDLL", (None,),
     "audit:ctypes.dlopen"),
    ("native code", "own", "ctypes", "string_at", (0, 0), "audit:ctypes.string_at"),
    ("process state", _PICKLESCAN + "#1", "sys", "exit", (0,), "exit:0"),
    ("process state", "own", "os", "_exit", (7,), "exit:7"),
    ("process state", "own", "os", "putenv", ("EVERYBIT", "x"), "audit:os.putenv"),
    ("process state", _FICKLING + "GHSA-mhc9-48gj-9gp3", "signal", "raise_signal", (0,), ""),
    ("process state", "own", "sys", "setrecursionlimit", (2000,), ""),
    ("interpreter state", "own", "gc", "get_objects", (), "audit:gc.get_objects"),
)  # fmt: skip


def samples() -> Iterator[Sample]:
    """One file for each row, and those that need more than a call of one name."""
    rows = (("code", _CODE), ("process", _COMMANDS), ("file", _FILES), ("other", _OTHERS))
    for group, table in rows:
        for index, (kind, source, module, name, arguments, proof) in enumerate(table):
            yield Sample(
                name=f"stdlib-{group}-{index:02d}-{slug_of(module, name)}.pkl",
                kind=f"standard library: {kind}",
                source=source,
                write=write_bytes(whole(of(module, name)(*arguments))),
                # An import of a module that is not known is no more than naming one of its names.
                expect=UNKNOWN if name in ("__import__", "import_module") else RUNS,
                loader="pickle" if proof else "",
                proof=proof,
                needs=module,
            )
    yield from _code_objects()


def _code_objects() -> Iterator[Sample]:
    """Functions made of byte code and called: of the Python that writes the corpus."""
    code = compile(CODE, "<corpus>", "exec")
    function = of("types", "FunctionType")
    yield Sample(
        name="stdlib-marshal-function.pkl",
        kind="standard library: byte code",
        source="fickling GHSA-565g-hwwr-4pp3",
        write=write_bytes(
            whole(function(of("marshal", "loads")(marshal.dumps(code)), {})())
        ),
        loader="pickle",
    )  # fmt: skip
    parts: tuple[Any, ...] = (
        0, 0, 0, 0, code.co_stacksize, code.co_flags, code.co_code, code.co_consts,
        code.co_names, (), "<corpus>", "f", "f", 1, code.co_linetable, code.co_exceptiontable,
        (), (),
    )  # fmt: skip
    made = of("types", "CodeType")(*parts)
    yield Sample(
        name="stdlib-code-type-function.pkl",
        kind="standard library: byte code",
        source="picklescan types_CodeType",
        write=write_bytes(whole(function(made, {})())),
        loader="pickle",
    )
    yield Sample(
        name="cloudpickle-function-called.pkl",
        kind="standard library: byte code",
        source="picklescan cloudpickle_codeinjection",
        write=write_bytes(whole(Code(of("cloudpickle.cloudpickle", "_make_function")(
            of("cloudpickle.cloudpickle", "_builtin_type")("CodeType")(*parts), {}, None, (), {}
        ).opcodes)())),
        needs="cloudpickle",
    )  # fmt: skip
