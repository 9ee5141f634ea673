"""Versions of libraries out of an environment record, and ranges of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Release = tuple[int, ...]

_RELEASE: Final = re.compile(r"[^0-9]*([0-9]+(?:\.[0-9]+)*)")
_CLAUSE: Final = re.compile(r"(>=|<=|==|<|>)([0-9]+(?:\.[0-9]+)*)")


def release(text: str) -> Release:
    """Return the numbers at the head of a version; () where there is none.

    What follows them (`+cu128`, `rc1`, `-Product Build 20240605`) is left out.

    >>> release("2.13.0+cpu"), release("v3.7.1 (Git Hash 8d26)"), release("none")
    ((2, 13, 0), (3, 7, 1), ())
    """
    match = _RELEASE.match(text)
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def clauses(text: str) -> list[tuple[str, Release]]:
    """Return the parts of a range such as `>=2.6,<2.8`.

    Raises:
        ValueError: A part is no such clause.
    """
    found = []
    for part in text.split(","):
        match = _CLAUSE.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"{part!r} is no clause of a version range")
        found.append((match[1], release(match[2])))
    return found


def in_range(version: Release, text: str) -> bool:
    """Whether a version lies in a range; `==2.5` holds for every 2.5.x, `==2.5.0` for that one.

    >>> in_range((2, 5, 1), "==2.5"), in_range((2, 5, 1), "==2.5.0"), in_range((9, 13), "<9.13")
    (True, False, False)
    """
    return all(_holds(version, sign, wanted) for sign, wanted in clauses(text))


def _holds(version: Release, sign: str, wanted: Release) -> bool:
    if sign == "==":
        padded = version + (0,) * (len(wanted) - len(version))
        return padded[: len(wanted)] == wanted
    length = max(len(version), len(wanted))
    here = version + (0,) * (length - len(version))
    there = wanted + (0,) * (length - len(wanted))
    match sign:
        case ">=":
            return here >= there
        case "<=":
            # `<=9.15` means every 9.15.x.
            return here[: len(wanted)] <= wanted
        case ">":
            return here > there
        case _:
            return here < there


def entry(record: Mapping[str, Any], path: str) -> Any:
    """Return the value at a dotted path of a record; None where there is none."""
    value: Any = record
    for key in path.split("."):
        if not hasattr(value, "get"):
            return None
        value = value.get(key)
    return value


def version_of(record: Mapping[str, Any], library: str) -> tuple[str, Release]:
    """Return where in the record a library's version stands, and the version; ("", ()) for none."""
    for path, read in _PLACES.get(library, ()):
        found = read(entry(record, path))
        if found:
            return path, found
    if library in _PACKAGES:
        return _packaged(record, _PACKAGES[library])
    return "", ()


def libraries() -> Iterable[str]:
    """Return the libraries whose versions can be asked."""
    return sorted({*_PLACES, *_PACKAGES})


def _text(value: Any) -> Release:
    return release(value) if isinstance(value, str) else ()


def _cudnn(value: Any) -> Release:
    """Read cuDNN's number: 8907 is 8.9.7, 91002 is 9.10.2."""
    if not isinstance(value, int) or isinstance(value, bool):
        return _text(value)
    major = 10_000 if value >= 90_000 else 1_000
    return value // major, value % major // 100, value % 100


def _openblas(value: Any) -> Release:
    pools = [str(pool) for pool in value] if isinstance(value, list) else []
    found = [pool.partition(" ")[2] for pool in pools if pool.startswith("openblas ")]
    return release(found[0]) if found else ()


_PLACES: Final[dict[str, tuple[tuple[str, Callable[[Any], Release]], ...]]] = {
    "cudnn": (("cuda.cudnn", _cudnn),),
    "driver": (("gpu.driver", _text),),
    "hip": (("cuda.hip", _text),),
    "mkl": (("blas.mkl", _text),),
    "nccl": (("cuda.nccl", _text),),
    "numpy": (("packages.numpy.version", _text),),
    "onednn": (("torch.onednn", _text),),
    "openblas": (("blas.pools", _openblas),),
    "torch": (("torch.version", _text), ("packages.torch.version", _text)),
}
# Libraries that come as packages, named for the CUDA release that they are for.
_PACKAGES: Final = {"cublas": "nvidia-cublas", "cudnn": "nvidia-cudnn", "nccl": "nvidia-nccl"}


def _packaged(record: Mapping[str, Any], stem: str) -> tuple[str, Release]:
    packages = record.get("packages")
    if not isinstance(packages, dict):
        return "", ()
    for name in sorted(packages, reverse=True):
        if name == stem or name.startswith(f"{stem}-cu"):
            path = f"packages.{name}.version"
            # Not by the dotted path: names of packages may hold dots in old records.
            found = _text(packages[name].get("version") if packages[name] else None)
            if found:
                return path, found
    return "", ()
