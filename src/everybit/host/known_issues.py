"""Known issues that give wrong results without an error, held against an environment record.

The list is data: `known_issues.toml` beside this file, each entry with the source it was read at.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Finding, Location, Severity
from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.host.versions import clauses, entry, in_range, libraries, version_of

if TYPE_CHECKING:
    from collections.abc import Mapping

DEVICES: Final = ("", "cpu", "cuda", "mps", "rocm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """One known issue.

    Attributes:
        id: Its name here.
        library: Whose version decides: `torch`, `cudnn`, `nccl`, `mkl` ...
        affected: Ranges of versions, of which one has to hold.
        wrong: What goes wrong.
        source: Where it is told.
        remedy: What helps.
        fixed: First version without it, "" where the source tells none.
        device: Only where the machine has such a device; "" for any.
        capabilities: Only on GPUs of these compute capabilities.
        gpu_names: Only on GPUs whose name holds one of these.
        several_gpus: Only where there are several.
        cpu_flags: Only on processors with all of these instruction sets.
        machines: Only on these architectures.
        systems: Only on these operating systems.
        needs: Entries of the record that have to have these values.
        avoided_by: Entries of the record that, with these values, avoid it; one is enough.
        ops: The operations.
        dtypes: The dtypes, where it depends on them.
        when: What else it takes, which a record does not tell.
    """

    id: str
    library: str
    affected: tuple[str, ...]
    wrong: str
    source: str
    remedy: str
    fixed: str = ""
    device: str = ""
    capabilities: tuple[str, ...] = ()
    gpu_names: tuple[str, ...] = ()
    several_gpus: bool = False
    cpu_flags: tuple[str, ...] = ()
    machines: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    needs: Mapping[str, Any] | None = None
    avoided_by: Mapping[str, Any] | None = None
    ops: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    when: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """An issue that a record falls under.

    Attributes:
        issue: Which.
        version: The version found, as text.
        entry: Where in the record it stands.
        unsure: Conditions that the record does not tell: "" where all of them hold.
    """

    issue: Issue
    version: str
    entry: str
    unsure: str = ""

    def finding(self, side: str = "") -> Finding:
        """Return the ENV903 finding.

        Args:
            side: Which record it is of, where there are two: `A`, `B`.
        """
        issue = self.issue
        what = ", ".join((*issue.ops, *issue.dtypes))
        fixed = f"; fixed in {issue.fixed}" if issue.fixed else ""
        message = f"{issue.library} {self.version}{f' of {side}' if side else ''}: {issue.wrong}"
        told = [part for part in (what, issue.when, self.unsure) if part]
        return rule("ENV903").finding(
            f"{message} ({'; '.join(told)}{fixed})",
            where=Location(link=Link.ENVIRONMENT, entry=self.entry),
            evidence={
                "issue": issue.id,
                "library": issue.library,
                "version": self.version,
                "affected": " or ".join(issue.affected),
                "fixed": issue.fixed,
                "ops": list(issue.ops),
                "dtypes": list(issue.dtypes),
                "source": issue.source,
                **({"side": side} if side else {}),
            },
            remedy=f"{_sentence(issue.remedy)}. Source: {issue.source}",
            severity=Severity.NOTE if self.unsure else None,
        )


def _sentence(text: str) -> str:
    """Begin with a capital, unless it begins with code."""
    return f"{text[0].upper()}{text[1:]}" if text.split()[0].isalpha() else text


@cache
def known_issues() -> tuple[Issue, ...]:
    """Return every known issue, in the order of the file.

    Raises:
        ValueError: An entry of the file is not of the form that `Issue` tells.
    """
    text = resources.files("everybit.host").joinpath("known_issues.toml").read_bytes()
    return tuple(_issue(data) for data in tomllib.loads(text.decode())["issue"])


def issues_of(record: Mapping[str, Any]) -> list[Match]:
    """Return the known issues that an environment record falls under.

    Silent where a version is not told, or lies outside the range, or a condition does not hold. A
    condition that the record cannot tell (the driver could not be asked) is named in `unsure`.
    """
    found = []
    for issue in known_issues():
        place, version = version_of(record, issue.library)
        if not version or not any(in_range(version, each) for each in issue.affected):
            continue
        answers = [_device(record, issue), *_details(record, issue)]
        if any(answer is False for answer in answers):
            continue
        unsure = "; ".join(answer for answer in answers if isinstance(answer, str))
        text = ".".join(map(str, version))
        found.append(Match(issue=issue, version=text, entry=place, unsure=unsure))
    return found


def _device(record: Mapping[str, Any], issue: Issue) -> bool | str:
    """Whether the machine has the device; a text where the record does not tell."""
    gpu, cuda = record.get("gpu") or {}, record.get("cuda") or {}
    match issue.device:
        case "" | "cpu":
            return True
        case "mps":
            return _system(record) == "Darwin" and entry(record, "cpu.machine") in (None, "arm64")
        case "rocm":
            return bool(cuda.get("hip"))
    if "absent" in cuda or cuda.get("hip"):
        return False
    if "absent" in gpu:
        return False
    if "unknown" in gpu or not gpu:
        return "whether there is such a GPU is not on record"
    return bool(gpu.get("num_devices", 0) != 0)


def _details(record: Mapping[str, Any], issue: Issue) -> list[bool | str]:
    answers: list[bool | str] = []
    devices = entry(record, "gpu.devices")
    devices = list(devices.values()) if isinstance(devices, dict) else []
    devices = [device for device in devices if isinstance(device, dict)]
    if issue.capabilities and devices:
        answers.append(any(device.get("capability") in issue.capabilities for device in devices))
    if issue.gpu_names and devices:
        names = [str(device.get("name")) for device in devices]
        answers.append(any(part in name for part in issue.gpu_names for name in names))
    if issue.several_gpus:
        answers.append(len(devices) != 1 or _world_size(record) > 1)
    if issue.cpu_flags:
        flags = entry(record, "cpu.kernel_flags")
        answers.append(isinstance(flags, list) and set(issue.cpu_flags) <= set(flags))
    if issue.machines:
        answers.append(entry(record, "cpu.machine") in issue.machines)
    if issue.systems:
        answers.append(_system(record) in issue.systems)
    answers += [entry(record, path) == value for path, value in (issue.needs or {}).items()]
    avoided = issue.avoided_by or {}
    answers.append(not any(entry(record, path) == value for path, value in avoided.items()))
    return answers


def _world_size(record: Mapping[str, Any]) -> int:
    told = entry(record, "variables.recorded.WORLD_SIZE")
    return int(told) if isinstance(told, str) and told.isdecimal() else 1


def _system(record: Mapping[str, Any]) -> Any:
    return entry(record, "host.system")


def _issue(data: Mapping[str, Any]) -> Issue:
    known = {field.name for field in fields(Issue)}
    name = data.get("id", "an entry without id")
    if unknown := sorted(set(data) - known):
        raise ValueError(f"{name}: unknown keys {', '.join(unknown)}")
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in data.items()
    }
    try:
        issue = Issue(**values)
    except TypeError as error:
        raise ValueError(f"{name}: {error}") from error
    if issue.library not in libraries() or issue.device not in DEVICES or not issue.affected:
        raise ValueError(f"{name}: library, device or range")
    try:
        for text in issue.affected:
            clauses(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    if not issue.source.startswith("https://"):
        raise ValueError(f"{name}: no source")
    return issue
