"""One subject of `bench/files.py`: runs once for each line on its input, and tells the seconds.

    python bench/files_worker.py NAME FOLDER PEERS

Imports nothing of the project for a peer, since the peer's own environment runs it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 1 << 20
BARE = ("read in 1 MiB pieces",)
OURS = (
    "everybit: verify, sealed",
    "everybit: verify --strong",
    "everybit: verify, CRCs of torch zip",
    "everybit: verify, safetensors unsealed",
    "everybit: seal",
    "everybit: parity alone, 5 %",
    "everybit: structure and CRCs alone",
)
PEERS = (
    "b3sum",
    "blake3 (Python), all threads",
    "sha256sum",
    "model-signing: sign",
    "torch.load",
    "safetensors.load_file, every page touched",
    "par2 create -r5",
)


def read_bare(path: Path) -> None:
    """Read a file in pieces into one buffer."""
    buffer = bytearray(MIB)
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def choose(name: str, folder: Path, peers: Path) -> Callable[[], Any]:
    """Return what a subject does."""
    plain = folder / "plain" / "model.safetensors"
    if name in BARE:
        return lambda: read_bare(plain)
    if name in OURS:
        return _ours(name, folder)
    if name == "b3sum":
        return lambda: _run([str(peers / "usr" / "bin" / "b3sum"), str(plain)])
    if name == "sha256sum":
        return lambda: _run(["sha256sum", str(plain)])
    if name == "par2 create -r5":
        return lambda: _par2(folder / "par2", peers)
    if name == "blake3 (Python), all threads":
        from blake3 import blake3

        return lambda: blake3(max_threads=blake3.AUTO).update_mmap(plain).digest()
    if name == "torch.load":
        import torch

        return lambda: torch.load(folder / "torch" / "model.pt", weights_only=True)
    if name.startswith("safetensors.load_file"):
        return lambda: _load_safetensors(plain)
    return _model_signing(folder / "signing")


def _ours(name: str, folder: Path) -> Callable[[], Any]:
    import everybit

    def check(path: Path, status: str, **options: Any) -> None:
        verdict = everybit.verify(path, **options)
        assert str(verdict.status) == status, verdict.to_json()

    if name == OURS[0]:
        return lambda: check(folder / "sealed", "clean")
    if name == OURS[1]:
        return lambda: check(folder / "sealed", "clean", strong=True)
    if name == OURS[2]:
        return lambda: check(folder / "torch", "clean")
    if name == OURS[3]:
        return lambda: check(folder / "plain", "inconclusive")
    if name == OURS[4]:
        return lambda: everybit.seal(folder / "seal")
    if name == OURS[6]:
        return lambda: _check_members(folder / "torch" / "model.pt")
    from everybit.files.parity.writing import write_parity
    from everybit.files.seals.manifest import load_manifest

    manifest = load_manifest(folder / "parity")
    assert manifest is not None
    return lambda: write_parity(folder / "parity", manifest, redundancy=0.05)


def _check_members(path: Path) -> None:
    """Do what `verify` does with an unsealed archive, and leave its values alone."""
    from everybit.files.checks.checksums import check_members
    from everybit.files.passes import no_progress
    from everybit.files.reading import read_structure
    from everybit.files.source import ByteSource

    with ByteSource(path) as source:
        structure = read_structure(source)
        found = check_members(source, structure, [], full=True, progress=no_progress)
    assert found.num_checked == len(structure.members), found
    assert not found.failed, found


def _load_safetensors(path: Path) -> None:
    import torch
    from safetensors.torch import load_file

    # It maps the file: nothing is read before a page is touched.
    for tensor in load_file(path).values():
        tensor.reshape(-1).view(torch.uint8)[::4096].max()


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _par2(folder: Path, peers: Path) -> None:
    for old in folder.glob("*.par2"):
        old.unlink()
    tool = str(peers / "usr" / "bin" / "par2")
    _run(
        [
            tool,
            "create",
            "-q",
            "-q",
            "-r5",
            str(folder / "set.par2"),
            str(folder / "model.safetensors"),
        ]
    )


def _model_signing(folder: Path) -> Callable[[], Any]:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from model_signing import signing

    key = folder.parent / "key.pem"
    key.write_bytes(
        ec.generate_private_key(ec.SECP256R1()).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    config = signing.Config().use_elliptic_key_signer(private_key=key)
    return lambda: config.sign(folder, folder.parent / "model.sig")


class Sampler:
    """The most anonymous memory that this process had while something ran, in MiB."""

    def __init__(self) -> None:
        self.peak = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._look()

    def _sample(self) -> None:
        while not self._ended.wait(0.005):
            self._look()

    def _look(self) -> None:
        status = Path("/proc/self/status")
        for line in status.read_text(encoding="ascii").splitlines():
            if line.startswith("RssAnon"):
                self.peak = max(self.peak, int(line.split()[1]) / 1024)


def main() -> None:
    """Serve rounds until the input ends."""
    name, folder, peers = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    call = choose(name, folder, peers)
    for line in sys.stdin:
        told: dict[str, float] = {}
        if line.strip() == "memory":
            with Sampler() as sampler:
                call()
            told["anonymous_mib"] = sampler.peak
        else:
            began = time.perf_counter()
            call()
            told["seconds"] = time.perf_counter() - began
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
