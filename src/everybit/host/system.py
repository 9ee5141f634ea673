"""Operating system, container and mounts: what a job stands on beside its libraries."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_ROOT: Final = Path("/")
#: Options of a mount that bear on what a reader sees. Others may hold names, addresses, secrets.
_MOUNT_OPTIONS: Final = re.compile(
    r"(?:ro|rw|sync|async|noac|nocto|direct_io|noatime|relatime|dax|lookupcache=\w+|cache=\w+"
    r"|vers=[\d.]+|nfsvers=[\d.]+|actimeo=\d+|acregmin=\d+|acregmax=\d+|local_lock=\w+|soft|hard)"
)
#: File systems of the kernel itself: no data lie there.
_PSEUDO: Final = frozenset(
    {
        "autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts",
        "devtmpfs", "efivarfs", "fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore",
        "ramfs", "rpc_pipefs", "securityfs", "selinuxfs", "sysfs", "tracefs",
    }
)  # fmt: skip
_MAX_MOUNTS: Final = 64
_IMAGE_KEYS: Final = {"image": "image", "imageid": "image_id", "engine": "engine", "id": "id"}
#: Variables by which container systems tell their image.
_IMAGE_VARIABLES: Final = (
    "APPTAINER_CONTAINER",
    "SINGULARITY_CONTAINER",
    "SLURM_CONTAINER_IMAGE",
)
#: Versions that NVIDIA's images set.
_VERSION_VARIABLES: Final = ("NVIDIA_BUILD_ID", "NVIDIA_PYTORCH_VERSION", "CUDA_VERSION")


def read_system(root: Path = _ROOT) -> dict[str, Any]:
    """Return operating system, kernel and distribution."""
    told: dict[str, str] = {}
    for line in _lines(root / "etc/os-release"):
        key, _, value = line.partition("=")
        told[key] = value.strip().strip('"')
    return {
        "system": platform.system(),
        "kernel": platform.release(),
        "distribution": told.get("ID", ""),
        "release": told.get("VERSION_ID", ""),
    }


def read_container(root: Path = _ROOT, environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return which container this is: engine, image, id, as far as it is told inside."""
    variables = os.environ if environ is None else environ
    facts: dict[str, Any] = {}
    for line in _lines(root / "run/.containerenv"):  # Podman's; Docker tells no image inside.
        key, _, value = line.partition("=")
        if key in _IMAGE_KEYS:
            facts[_IMAGE_KEYS[key]] = value.strip().strip('"')
    if not facts and (root / ".dockerenv").exists():
        facts["engine"] = "docker"
    for name in _IMAGE_VARIABLES:
        if variables.get(name):
            facts.setdefault("engine", name.partition("_")[0].lower())
            # A path tells where it lies; its name tells which it is.
            facts.setdefault("image", Path(variables[name]).name)
    if not facts and "KUBERNETES_SERVICE_HOST" in variables:
        facts["engine"] = "kubernetes"
    if not facts:
        return {"absent": "not in a container, as far as it can be told"}
    for name in _VERSION_VARIABLES:
        if variables.get(name):
            facts[name.lower()] = variables[name]
    return facts


def read_mounts(
    folder: Path | None = None, mountinfo: Path = Path("/proc/self/mountinfo")
) -> dict[str, Any]:
    """Return the file system of the working directory, and those of other mounted data.

    Returns:
        `type` and `options` of the one that holds `folder`; `points`, which is not compared:
        `{mount point: type}`. Sources are left out: they hold addresses and names of users.
    """
    here = str((folder or Path.cwd()).resolve())
    points: dict[str, tuple[str, str]] = {}
    for line in _lines(mountinfo):
        before, _, after = line.partition(" - ")
        first, last = before.split(" "), after.split(" ")
        if len(first) > 5 and len(last) > 2:
            options = ",".join((first[5], last[2]))
            points[_plain(first[4])] = (last[0], options)
    if not points:
        return {"unknown": "the system lists no mounts"}
    holding = max((point for point in points if _holds(point, here)), key=len, default="/")
    kind, options = points.get(holding, ("", ""))
    listed = {
        point: kind for point, (kind, _) in points.items() if kind not in _PSEUDO and point != "/"
    }
    return {
        "type": kind,
        "options": sorted({each for each in options.split(",") if _MOUNT_OPTIONS.fullmatch(each)}),
        "points": dict(sorted(listed.items())[:_MAX_MOUNTS]),
    }


def _holds(point: str, path: str) -> bool:
    return point == "/" or path == point or path.startswith(f"{point}/")


def _plain(text: str) -> str:
    r"""Undo the kernel's octal escapes: `\040` is a space."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
