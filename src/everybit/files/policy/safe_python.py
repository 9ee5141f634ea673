"""Names of Python's standard library that are known safe in a pickle.

Source: the pickled forms of these classes in CPython 3.8 to 3.14 (`copyreg`, `collections`,
`datetime`, `decimal`, `enum`, `fractions`, `pathlib`, `uuid`), made with every protocol, and Python
2.7's names for them. Each builds a value and does nothing else, whatever its arguments.
"""

from __future__ import annotations

from typing import Final

VERSIONS: Final = "CPython 2.7, 3.8 to 3.14"

_EXCEPTIONS: Final = (
    "ArithmeticError AssertionError AttributeError BaseException EOFError Exception "
    "FileNotFoundError FloatingPointError ImportError IndexError KeyError KeyboardInterrupt "
    "LookupError MemoryError ModuleNotFoundError NameError NotImplementedError OSError "
    "OverflowError PermissionError RecursionError RuntimeError StopIteration SyntaxError "
    "SystemError TimeoutError TypeError UnboundLocalError UnicodeDecodeError UnicodeEncodeError "
    "UnicodeError UserWarning ValueError Warning ZeroDivisionError"
)

#: `{module: names}` of what is a value in a pickle, and called by none: `Enum("Name", members)`
#: makes a class with whatever attributes it is given.
NAMED: Final = {"enum": "Enum IntEnum Flag IntFlag StrEnum", "abc": "ABC ABCMeta"}

#: `{module: names}`
NAMES: Final = {
    "builtins": (
        "set frozenset list dict tuple bytearray bytes complex int float str bool slice range "
        f"object object.__new__ NoneType Ellipsis NotImplemented ellipsis {_EXCEPTIONS}"
    ),
    "__builtin__": (
        "set frozenset list dict tuple bytearray complex int long float str unicode bool slice "
        "xrange object buffer bytes"
    ),
    "abc": "ABC ABCMeta",
    "collections": "OrderedDict Counter defaultdict deque ChainMap UserDict UserList UserString",
    "_collections": "deque defaultdict OrderedDict",
    "_codecs": "encode",
    "copyreg": "_reconstructor __newobj__ __newobj_ex__",
    "copy_reg": "_reconstructor __newobj__",
    "array": "array _array_reconstructor",
    "argparse": "Namespace",
    "datetime": "datetime date time timedelta timezone",
    "decimal": "Decimal",
    "_decimal": "Decimal",
    "_pydecimal": "Decimal",
    "enum": "Enum Enum.__new__ IntEnum Flag IntFlag StrEnum auto",
    "fractions": "Fraction",
    "pathlib": "Path PosixPath WindowsPath PurePath PurePosixPath PureWindowsPath",
    "pathlib._local": "Path PosixPath WindowsPath PurePath PurePosixPath PureWindowsPath",
    "types": "NoneType SimpleNamespace",
    "functools": "partial",
    "_functools": "partial",
    "typing": "Any Optional Union List Dict Tuple Sequence Callable",
    "uuid": "UUID SafeUUID",
    "random": "Random",
    "ipaddress": "IPv4Address IPv6Address IPv4Network IPv6Network",
    "time": "struct_time",
    "zoneinfo": "ZoneInfo._unpickle",
}
