"""Names of Python's standard library that are dangerous in a pickle, and what each would do.

Sources: the modules' own code in CPython 2.7 and 3.8 to 3.14; the payloads of published advisories
against picklescan (up to 1.0), modelscan (up to 0.8) and fickling (up to 0.1).
"""

from __future__ import annotations

from typing import Final

from everybit.files.policy import effects

#: `{what it does: modules}`: every name in these modules, and in the modules below them.
MODULES: Final = {
    effects.PROCESS: (
        "os posix nt subprocess _posixsubprocess _winapi pty popen2 commands multiprocessing "
        "_multiprocessing concurrent.futures.process asyncio asyncore asynchat ptyprocess _pyrepl "
        "_osx_support _aix_support mailcap _bootsubprocess _android_support _ios_support"
    ),
    effects.CODE: (
        "code codeop runpy timeit doctest idlelib lib2to3 exec rlcompleter compileall py_compile "
        "test unittest wsgiref.handlers cgi cgitb turtledemo __main__.__builtins__ _testcapi "
        "_testinternalcapi _xxsubinterpreters _xxinterpchannels _interpreters concurrent."
        "interpreters new"
    ),
    effects.DEBUGGER: (
        "pdb bdb trace cProfile profile _lsprof pstats hotshot pydoc pydoc_data tracemalloc "
        "faulthandler sys.monitoring"
    ),
    effects.IMPORTS: (
        "importlib imp _imp pkgutil zipimport zipapp modulefinder ihooks imputil pyclbr "
        "_frozen_importlib _frozen_importlib_external"
    ),
    effects.INSTALLS: "ensurepip venv distutils site sysconfig _sysconfig",
    effects.LOADS: (
        "pickle _pickle cPickle marshal shelve dbm anydbm dumbdbm whichdb pickletools plistlib"
    ),
    effects.FILES: (
        "shutil pathlib tempfile glob fileinput io _io _pyio zipfile tarfile gzip bz2 lzma "
        "linecache filecmp mmap fcntl netrc mailbox posixfile macpath ntpath posixpath genericpath "
        "sqlite3 _sqlite3 readline dircache statcache _bootlocale tokenize wave aifc sndhdr "
        "_dbm _gdbm"
    ),
    effects.NETWORK: (
        "socket _socket socketserver SocketServer ssl _ssl http httplib urllib urllib2 urlparse "
        "ftplib smtplib smtpd poplib imaplib nntplib telnetlib xmlrpc xmlrpclib wsgiref "
        "SimpleHTTPServer BaseHTTPServer CGIHTTPServer cookielib Cookie"
    ),
    effects.NATIVE: "ctypes _ctypes dl cffi _cffi_backend winreg _winreg msvcrt",
    effects.BROWSER: "webbrowser antigravity tkinter Tkinter turtle _tkinter",
    effects.SYSTEM: "sys gc signal _signal resource logging warnings inspect dis ast symtable "
    "atexit syslog termios tty curses select selectors builtins.__dict__ contextvars "
    "contextlib abc _abc",
    effects.THREADS: "threading _thread thread dummy_thread sched concurrent queue weakref",
}

#: `{module: {what it does: names}}`
NAMES: Final = {
    "builtins": {
        effects.CODE: "eval exec execfile compile",
        effects.FILES: "open file input raw_input",
        effects.IMPORTS: "__import__ reload",
        effects.ATTRIBUTES: "getattr setattr delattr hasattr vars globals locals dir __dict__",
        effects.CALLS: (
            "apply map filter reduce sorted max min iter next property classmethod staticmethod "
            "super __build_class__ callable"
        ),
        effects.DEBUGGER: "breakpoint help exit quit copyright credits license __loader__ __spec__",
        effects.BUILDS_CODE: "type",
        effects.SYSTEM: "memoryview id",
    },
    "object": {
        effects.MEMORY: "__array_interface__ __array_struct__ __cuda_array_interface__",
    },
    "operator": {
        effects.ATTRIBUTES: "setitem delitem __setitem__ __delitem__ iadd iconcat __iconcat__",
        effects.CALLS: "call __call__ methodcaller",
    },
    "functools": {
        effects.CALLS: "reduce partialmethod singledispatch cached_property lru_cache wraps",
        effects.ATTRIBUTES: "update_wrapper",
    },
    "itertools": {
        effects.CALLS: (
            "starmap accumulate takewhile dropwhile filterfalse groupby imap ifilter ifilterfalse"
        ),
    },
    "types": {
        effects.BUILDS_CODE: "CodeType FunctionType LambdaType new_class prepare_class",
        effects.CALLS: "MethodType coroutine DynamicClassAttribute",
        effects.SYSTEM: "ModuleType FrameType TracebackType CellType",
    },
    "typing": {
        effects.EXPRESSIONS: "get_type_hints ForwardRef ForwardRef._evaluate evaluate_forward_ref",
    },
    "annotationlib": {effects.EXPRESSIONS: "ForwardRef ForwardRef.evaluate get_annotations"},
    "dataclasses": {effects.CODE: "make_dataclass _create_fn dataclass replace"},
    "collections": {effects.CODE: "namedtuple"},
    "copyreg": {effects.SYSTEM: "add_extension pickle constructor clear_extension_cache"},
    "codecs": {effects.FILES: "open EncodedFile", effects.SYSTEM: "register register_error"},
    "_codecs": {effects.SYSTEM: "register register_error"},
    "copy": {effects.CALLS: "_reconstruct"},
    "argparse": {effects.FILES: "FileType open"},
    "platform": {effects.PROCESS: "popen _syscmd_ver _syscmd_file architecture libc_ver"},
    "uuid": {effects.PROCESS: "_get_command_stdout _ifconfig_getter _find_mac getnode uuid1"},
    "getpass": {effects.FILES: "getpass unix_getpass win_getpass"},
    "gettext": {effects.FILES: "find translation install"},
    "locale": {effects.SYSTEM: "setlocale"},
    "configparser": {effects.FILES: "ConfigParser RawConfigParser"},
    "json": {effects.FILES: "load dump"},
    "csv": {effects.FILES: "reader writer"},
    "xml.sax": {effects.NETWORK: "parse make_parser"},
    "xml.etree.ElementTree": {effects.FILES: "parse ElementTree iterparse"},
    "xml.dom.minidom": {effects.FILES: "parse"},
    "decimal": {effects.SYSTEM: "setcontext"},
    "random": {effects.FILES: "SystemRandom"},
    "email.message": {effects.CALLS: "Message"},
    "encodings": {effects.IMPORTS: "search_function"},
    "string": {effects.ATTRIBUTES: "Formatter"},
    "_operator": {effects.CALLS: "call methodcaller", effects.ATTRIBUTES: "setitem delitem"},
    "_functools": {effects.CALLS: "reduce"},
}

#: Attributes through which any object leads on to anything else.
INTERNAL_ATTRIBUTES: Final = frozenset({
    "__globals__", "__builtins__", "__subclasses__", "__code__", "__closure__", "__import__",
    "__loader__", "__spec__", "__mro__", "__bases__", "__base__", "mro", "__dict__", "__class__",
    "__reduce__", "__reduce_ex__", "__init_subclass__", "__subclasshook__", "__self__", "__func__",
    "f_globals", "f_locals", "f_builtins", "gi_frame", "cr_frame", "tb_frame", "func_globals",
    "__getattribute__", "__getattr__", "__setattr__", "__delattr__", "__wrapped__", "__call__",
})  # fmt: skip

#: Methods of arrays and storages that open or write a file.
FILE_METHODS: Final = frozenset({
    "from_file", "tofile", "dump", "_write_file", "_new_shared_filename_cpu",
    "_new_using_filename_cpu", "_new_shared_fd_cpu",
})  # fmt: skip

#: Function names that mean the same wherever they live; told where such a name is called.
TELLING_NAMES: Final = {
    effects.CODE: "exec eval execfile exec_code run_code runcode runsource run_string runstring "
    "run_cell exec_module execWrapper",
    effects.PROCESS: "system popen spawn execv execve execvp execl execlp check_output check_call "
    "getoutput getstatusoutput run_command run_cmd exec_command Popen fork_exec",
    effects.IMPORTS: "__import__ import_module import_string import_from_string load_module",
    effects.LOADS: "loads load_pickle read_pickle unpickle",
    effects.DOWNLOADS: "urlopen urlretrieve download_url_to_file",
}
