"""Hostile files of torch's other formats: legacy, tar, DCP, TorchScript, and what fools a check."""

from __future__ import annotations

import io
import pickle
import tarfile
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from bench.scan_corpus.archives import Entry, archive, torch_entries, torch_zip
from bench.scan_corpus.assembling import (
    PROTO_2,
    STOP,
    Code,
    named,
    of,
    plain,
    put,
    shell,
    text,
    whole,
)
from bench.scan_corpus.sample import CANARY, MARKER, RUNS, TRICK, UNKNOWN, Sample, write_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_EVIL: Final = whole(shell(), proto=PROTO_2)
_MAGIC: Final = plain(0x1950A86A20F9469CFC6C)
_PROTOCOL: Final = plain(1001)
_SYSTEM: Final = plain({"protocol_version": 1001, "little_endian": True, "type_sizes": {}})
_VALUE: Final = plain({"epoch": 1})


def legacy(*, at: int) -> bytes:
    """The five pickles of the format before torch 1.6, one of them hostile."""
    parts = [_MAGIC, _PROTOCOL, _SYSTEM, _VALUE, plain([])]
    parts[at] = _EVIL
    return b"".join(parts)


def _tar(hostile: str, links: bool = False) -> bytes:
    """The format before torch 0.1.10: a tar of `storages`, `tensors` and `pickle`."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive_:
        for name, data in (
            ("sys_info", _SYSTEM), ("pickle", _VALUE), ("tensors", plain(0)),
            ("storages", plain(0) + plain([])),
        ):  # fmt: skip
            info = tarfile.TarInfo(name)
            data = _EVIL if name == hostile else data
            info.size = len(data)
            archive_.addfile(info, io.BytesIO(data))
        if links:
            info = tarfile.TarInfo("weights/link")
            info.type, info.linkname = tarfile.SYMTYPE, "/etc/hostname"
            archive_.addfile(info)
            info = tarfile.TarInfo("../../evil.txt")
            info.size = 1
            archive_.addfile(info, io.BytesIO(b"x"))
    return out.getvalue()


def _nemo(name: str) -> bytes:
    """A `.nemo` archive: a tar with a configuration and a torch checkpoint."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive_:
        for member, data in (("./model_config.yaml", b"a: 1\n"), (name, torch_zip(_EVIL))):
            info = tarfile.TarInfo(member)
            info.size = len(data)
            archive_.addfile(info, io.BytesIO(data))
    return out.getvalue()


class _Payload:
    """Pickles as a call that prints."""

    def __reduce__(self) -> tuple[Any, ...]:
        import os

        return os.system, (f"echo {CANARY}",)


def _saved(**options: Any) -> bytes:
    """`torch.save` of weights with a payload among them."""
    import torch

    out = io.BytesIO()
    value = {"weight": torch.arange(4.0), "note": _Payload(), "epoch": 3}
    torch.save(value, out, **options)
    return out.getvalue()


def _write_saved(path: Path) -> None:
    path.write_bytes(_saved())


def _write_saved_legacy(path: Path) -> None:
    path.write_bytes(_saved(_use_new_zipfile_serialization=False))


def _write_dcp(path: Path) -> None:
    """A real DCP folder whose `.metadata` was replaced."""
    _save_dcp(path, {"weight": None})
    (path / ".metadata").write_bytes(_EVIL)


def _write_dcp_planner(path: Path) -> None:
    """A real DCP folder with a payload inside its `.metadata`."""
    _save_dcp(path, {"weight": None})
    metadata = path / ".metadata"
    data = metadata.read_bytes()
    # In front of the last STOP: the metadata stays what is returned.
    metadata.write_bytes(data[:-1] + shell().opcodes + b"0" + STOP)


def _write_dcp_object(path: Path) -> None:
    """A real DCP folder in whose data file an object is hostile."""
    _save_dcp(path, {"weight": None, "note": _Payload()})


def _save_dcp(path: Path, value: dict[str, Any]) -> None:
    import torch
    import torch.distributed.checkpoint as dcp

    state = {name: torch.arange(4.0) if item is None else item for name, item in value.items()}
    dcp.save(state, storage_writer=dcp.FileSystemWriter(path, sync_files=False), no_dist=True)


def _script(method: str, statement: str) -> bytes:
    """A TorchScript archive as `torch.jit.save` writes it, with this statement in a method."""
    import torch

    source = f"""
import torch
class Scripted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(2))
    def forward(self, x: torch.Tensor):
        {statement if method == "forward" else "pass"}
        return x + self.weight
    @torch.jit.export
    def __getstate__(self):
        return (self.weight, self.training)
    @torch.jit.export
    def __setstate__(self, state: tuple[torch.Tensor, bool]):
        self.weight = state[0]
        self.training = state[1]
        {statement if method == "__setstate__" else "pass"}
"""
    import linecache

    name = f"<corpus {method} {statement}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    place: dict[str, Any] = {}
    exec(compile(source, name, "exec"), place)
    place["Scripted"].__module__ = "corpus"
    out = io.BytesIO()
    torch.jit.save(torch.jit.script(place["Scripted"]()), out)
    return out.getvalue()


def _write_script(method: str, statement: str) -> Any:
    return lambda path: path.write_bytes(_script(method, statement))


def _write_spaced(path: Path) -> None:
    """The names of a TorchScript archive's code, written with blanks, as its parser allows."""
    written = _script("__setstate__", f'torch.save(1, "{MARKER}")')
    with zipfile.ZipFile(io.BytesIO(written)) as made:
        entries = [Entry(name=item.filename, data=made.read(item)) for item in made.infolist()]
    spaced = [replace(entry, data=entry.data.replace(b"torch.save(", b"torch . save ("))
              if entry.name.endswith(".py") else entry for entry in entries]  # fmt: skip
    path.write_bytes(archive(spaced))


def _weights_only() -> Iterator[tuple[str, str, bytes, str, tuple[str, ...]]]:
    """What `weights_only=True` was told to stop, and where the order of checks matters."""
    rebuild = named("torch._utils", "_rebuild_tensor_v2")
    storage = named("torch", "FloatStorage")

    def tensor(key: Code | str, count: int, size: int) -> bytes:
        pid = put(("storage", Code(storage), key, "cpu", count)) + b"Q"
        hooks = named("collections", "OrderedDict") + b")R"
        return rebuild + b"(" + pid + put(0) + put((size,)) + put((1,)) + b"\x89" + hooks + b"tR"

    good = tensor("0", 4, 4)
    ordered = named("collections", "OrderedDict") + b")R"
    yield (
        "payload-in-storage-key",
        "own",
        torch_zip(PROTO_2 + tensor(of("builtins", "str")(shell()), 4, 4) + STOP),
        "torch",
        RUNS,
    )
    yield (
        "payload-behind-tensor",
        "own",
        torch_zip(PROTO_2 + good + b"0" + shell().opcodes + STOP),
        "torch",
        RUNS,
    )
    yield (
        "size-beyond-storage",
        "CVE-2026-24747",
        torch_zip(PROTO_2 + tensor("0", 4, 1 << 20) + STOP),
        "",
        ("FIL104", "PKL203", "PKL204", "FIL107"),
    )
    yield (
        "count-beyond-member",
        "CVE-2026-24747",
        torch_zip(PROTO_2 + tensor("0", 1 << 28, 4) + STOP),
        "",
        ("FIL104", "PKL203", "PKL204", "FIL107"),
    )
    yield (
        "setitems-on-tensor",
        "CVE-2026-24747",
        torch_zip(PROTO_2 + good + b"(" + put(0) + put(1.5) + b"u" + STOP),
        "",
        ("PKL203", "PKL204", *UNKNOWN),
    )
    yield (
        "rebuild-from-type",
        "own",
        torch_zip(
            PROTO_2
            + of("torch._tensor", "_rebuild_from_type_v2")(
                of("posix", "system"), of("builtins", "int"), (f"echo {CANARY}",), None
            ).opcodes
            + STOP
        ),
        "torch",
        RUNS,
    )
    yield (
        "parameter-hooks",
        "own",
        torch_zip(
            PROTO_2
            + of("torch._utils", "_rebuild_parameter")(
                Code(good), True, Code(ordered + text("h") + shell().opcodes + b"s")
            ).opcodes
            + STOP
        ),
        "torch",
        RUNS,
    )
    yield (
        "defaultdict-factory",
        "own",
        torch_zip(
            PROTO_2
            + of("collections", "defaultdict")(
                of("functools", "partial")(of("posix", "system"), "echo")
            ).opcodes
            + STOP
        ),
        "",
        RUNS,
    )
    yield (
        "state-dict-metadata",
        "own",
        torch_zip(
            PROTO_2
            + ordered
            + text("w")
            + good
            + b"s}"
            + text("_metadata")
            + shell().opcodes
            + b"sb"
            + STOP
        ),
        "torch",
        RUNS,
    )


def samples() -> Iterator[Sample]:
    """One file or folder for each."""
    for at, part in enumerate(("magic", "protocol", "system", "value", "keys")):
        yield Sample(
            name=f"legacy-{part}.pt", kind="torch formats: legacy",
            source="picklescan pytorch_magic_bypass" if at == 0 else "own",
            write=write_bytes(legacy(at=at)), loader="torch",
        )  # fmt: skip
    for part in ("storages", "tensors", "pickle"):
        yield Sample(
            name=f"tar-{part}.pt", kind="torch formats: tar",
            source="Liu et al. 2025 (arXiv 2508.19774)", write=write_bytes(_tar(part)),
            loader="torch",
        )  # fmt: skip
    yield Sample(
        name="tar-links.pt", kind="torch formats: tar", source="CWE-59",
        write=write_bytes(_tar("", links=True)), expect=("PKL203",),
    )  # fmt: skip
    for name in ("model_weights.ckpt", "../model_weights.ckpt"):
        slug = "escaping" if name.startswith("..") else "plain"
        yield Sample(
            name=f"nemo-{slug}.nemo", kind="torch formats: tar", source="CVE-2025-23304",
            write=write_bytes(_nemo(name)),
        )  # fmt: skip
    for name, writer in (("zip", _write_saved), ("legacy", _write_saved_legacy)):
        yield Sample(
            name=f"saved-{name}.pt", kind="torch formats: torch.save of an object",
            source="pickle documentation", write=writer, loader="torch", needs="torch",
        )  # fmt: skip
    for name, folder in (
        ("metadata", _write_dcp), ("metadata-behind", _write_dcp_planner),
        ("object", _write_dcp_object),
    ):  # fmt: skip
        yield Sample(
            name=f"dcp-{name}", kind="torch formats: DCP", source="own", write=folder,
            loader="dcp" if name != "object" else "", needs="torch",
        )  # fmt: skip
    for name, method, statement in (
        ("load-save", "__setstate__", f'torch.save(1, "{MARKER}")'),
        ("load-from-file", "__setstate__",
         f'self.weight = torch.from_file("{MARKER}", True, 8)'),
        ("forward-save", "forward", f'torch.save(1, "{MARKER}")'),
    ):  # fmt: skip
        yield Sample(
            name=f"torchscript-{name}.pt", kind="torch formats: TorchScript",
            source="CVE-2025-32434", write=_write_script(method, statement),
            expect=TRICK, loader="torch.jit" if method != "forward" else "", proof=MARKER,
            needs="torch",
        )  # fmt: skip
    yield Sample(
        name="torchscript-spaced.pt", kind="torch formats: TorchScript", source="own",
        write=_write_spaced, expect=TRICK, loader="torch.jit", proof=MARKER, needs="torch",
    )  # fmt: skip
    for name, source, data, loader, expect in _weights_only():
        yield Sample(
            name=f"weights-only-{name}.pt", kind="torch formats: weights_only",
            source=source, write=write_bytes(data), expect=expect, loader=loader, needs="torch",
        )  # fmt: skip
    package = archive([
        Entry(name="pkg/.data/version", data=b"6"),
        Entry(name="pkg/models/model.pkl", data=_EVIL),
        Entry(name="pkg/models/__init__.py", data=b"import os\nos.getcwd()\n"),
    ])  # fmt: skip
    yield Sample(
        name="torch-package.pt", kind="torch formats: torch.package", source="own",
        write=write_bytes(package),
    )  # fmt: skip
    extra = torch_entries(pickle.dumps({"a": 1}, 2))
    extra.append(Entry(name="archive/code/__torch__.py", data=b"import os\n"))
    extra.append(Entry(name="archive/constants.pkl", data=_EVIL))
    yield Sample(
        name="torchscript-constants.pt", kind="torch formats: TorchScript", source="own",
        write=write_bytes(archive(extra)),
    )  # fmt: skip
