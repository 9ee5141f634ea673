from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest
import torch
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from tests.files import makers

import everybit
from everybit.core.errors import PathError, UsageError
from everybit.core.verdict import Status
from everybit.files.seals.manifest import MANIFEST_NAME, SIGNATURE_NAME

PEM, SSH = serialization.Encoding.PEM, serialization.Encoding.OpenSSH
PKCS8, OPENSSH = serialization.PrivateFormat.PKCS8, serialization.PrivateFormat.OpenSSH
PLAIN = serialization.NoEncryption()


def write_pair(folder, key, *, form=PKCS8, lock=PLAIN, encoding=PEM):
    private, public = folder / "key.pem", folder / "key.pub"
    private.write_bytes(key.private_bytes(PEM, form, lock))
    kind = serialization.PublicFormat.SubjectPublicKeyInfo
    if encoding is SSH:
        kind = serialization.PublicFormat.OpenSSH
    public.write_bytes(key.public_key().public_bytes(encoding, kind))
    return private, public


@pytest.fixture
def pair(tmp_path):
    return write_pair(tmp_path, ed25519.Ed25519PrivateKey.generate())


@pytest.mark.parametrize("form", [PKCS8, OPENSSH], ids=["pkcs8", "openssh"])
@pytest.mark.parametrize("encoding", [PEM, SSH], ids=["pem", "ssh"])
@pytest.mark.parametrize("locked", [False, True])
def test_signed_files_are_clean_with_their_key(
    checkpoint, tmp_path, monkeypatch, form, encoding, locked
):
    lock = PLAIN
    if locked and form is OPENSSH:
        pytest.importorskip("bcrypt")
    if locked:
        monkeypatch.setenv("EVERYBIT_KEY_PASSWORD", "geheim")
        # Few rounds: the default takes half a second.
        lock = (
            form.encryption_builder().kdf_rounds(1).build(b"geheim")
            if form is OPENSSH
            else serialization.BestAvailableEncryption(b"geheim")
        )
    key = ed25519.Ed25519PrivateKey.generate()
    private, public = write_pair(tmp_path, key, form=form, lock=lock, encoding=encoding)
    everybit.seal(checkpoint.parent, sign=private)
    for target in (checkpoint, checkpoint.parent):
        verdict = everybit.verify(target, key=public)
        assert verdict.status is Status.CLEAN
        counted = {item.what for item in verdict.coverage.checked}
        assert {"signatures of manifests", "files by BLAKE3"} <= counted
    untested = everybit.verify(checkpoint)
    assert untested.status is Status.CLEAN
    assert [item.what for item in untested.coverage.skipped] == [SIGNATURE_NAME]
    if locked:
        monkeypatch.setenv("EVERYBIT_KEY_PASSWORD", "falsch")
        with pytest.raises(PathError, match="password"):
            everybit.seal(checkpoint, sign=private)
        monkeypatch.delenv("EVERYBIT_KEY_PASSWORD")
        with pytest.raises(PathError, match="EVERYBIT_KEY_PASSWORD"):
            everybit.seal(checkpoint, sign=private)
        assert everybit.verify(checkpoint, key=public).ok  # nothing was written


def rules(*paths, **options):
    return [(f.rule, f.where.path) for f in everybit.verify(*paths, **options).findings]


def test_a_changed_manifest_another_key_and_no_signature(checkpoint, pair, tmp_path):
    private, public = pair
    folder = checkpoint.parent
    assert rules(folder, key=public) == [("FIL110", "run")]  # nothing sealed, nothing signed
    everybit.seal(folder, sign=private)
    (tmp_path / "other").mkdir()
    _, other = write_pair(tmp_path / "other", ed25519.Ed25519PrivateKey.generate())
    (finding,) = everybit.verify(folder, key=other).findings
    assert (finding.rule, finding.where.path) == ("FIL110", SIGNATURE_NAME)
    assert "another key" in finding.message
    signature = (folder / SIGNATURE_NAME).read_bytes()
    # A forger seals other weights, and puts the old signature beside them.
    makers.save(makers.weights(seed=1), checkpoint)
    everybit.seal(folder)
    assert not (folder / SIGNATURE_NAME).exists()
    assert everybit.verify(folder).ok
    assert rules(folder, key=public) == [("FIL110", SIGNATURE_NAME)]
    (folder / SIGNATURE_NAME).write_bytes(signature)
    (finding,) = everybit.verify(folder, key=public).findings
    assert "was changed" in finding.message
    assert everybit.verify(folder, key=public).exit_code() == 1
    everybit.seal(folder, sign=private)
    assert everybit.verify(folder, key=public).ok


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[" * 50_000, b'{"schema": "x", "algorithm": 3}', b"\xff"]
)
def test_a_signature_that_is_none(checkpoint, pair, content):
    private, public = pair
    everybit.seal(checkpoint, sign=private)
    (checkpoint.parent / SIGNATURE_NAME).write_bytes(content)
    assert rules(checkpoint, key=public) == [("FIL110", SIGNATURE_NAME)]


def test_every_flip_in_a_signature_is_noticed(checkpoint, pair):
    private, public = pair
    everybit.seal(checkpoint, sign=private)
    place = checkpoint.parent / SIGNATURE_NAME
    clean = place.read_bytes()
    signature = json.loads(clean)["signature"]
    at = clean.index(signature.encode())
    for offset in (at, at + 20, at + 60):
        makers.flip(place, offset, 1)
        assert rules(checkpoint, key=public) == [("FIL110", SIGNATURE_NAME)]
        place.write_bytes(clean)


def test_files_that_are_not_sealed_are_not_vouched_for(checkpoint, pair):
    private, public = pair
    everybit.seal(checkpoint, sign=private)
    other = makers.save({"w": torch.ones(3)}, checkpoint.with_name("other.pt"))
    verdict = everybit.verify(checkpoint.parent, key=public)
    assert verdict.status is Status.INCONCLUSIVE
    assert any(other.name in item.what for item in verdict.coverage.skipped)


def test_sealing_one_more_file_drops_the_signature_or_renews_it(checkpoint, pair):
    private, public = pair
    everybit.seal(checkpoint.parent, sign=private)
    other = makers.save({"w": torch.ones(3)}, checkpoint.with_name("other.pt"))
    from everybit.api.seal import seal_verdict

    verdict, _ = seal_verdict(other)
    assert any("sign again" in item.why for item in verdict.coverage.skipped)
    assert not (checkpoint.parent / SIGNATURE_NAME).exists()
    everybit.seal(other, sign=private)
    assert everybit.verify(checkpoint.parent, key=public).ok


@pytest.mark.parametrize("kind", ["rsa", "ecdsa", "text", "public", "missing"])
def test_a_key_that_cannot_sign_is_one_line_and_nothing_is_written(
    checkpoint, pair, tmp_path, kind
):
    place = tmp_path / "bad.pem"
    if kind in ("rsa", "ecdsa"):
        key = (
            rsa.generate_private_key(65537, 1024)
            if kind == "rsa"
            else ec.generate_private_key(ec.SECP256R1())
        )
        place.write_bytes(key.private_bytes(PEM, PKCS8, PLAIN))
    elif kind == "text":
        place.write_text("hello")
    elif kind == "public":
        place = pair[1]
    with pytest.raises(PathError) as caught:
        everybit.seal(checkpoint, sign=place)
    assert "\n" not in caught.value.line()
    assert not (checkpoint.parent / MANIFEST_NAME).exists()


def test_a_private_key_is_no_key_to_verify_with(checkpoint, pair):
    everybit.seal(checkpoint, sign=pair[0])
    with pytest.raises(PathError, match="private key"):
        everybit.verify(checkpoint, key=pair[0])
    checkpoint.with_name("x.pub").write_text("ssh-rot13 AAAA")
    with pytest.raises(PathError, match="no public key"):
        everybit.verify(checkpoint, key=checkpoint.with_name("x.pub"))


def test_without_the_package_one_line_says_what_to_install(checkpoint, pair, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(UsageError, match="everybit\\[sign\\]"):
        everybit.seal(checkpoint, sign=pair[0])
    with pytest.raises(UsageError, match="everybit\\[sign\\]"):
        everybit.verify(checkpoint, key=pair[1])
    assert not (checkpoint.parent / MANIFEST_NAME).exists()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl 3")
def test_openssl_verifies_the_documented_bytes(checkpoint, pair, tmp_path):
    import base64

    private, public = pair
    everybit.seal(checkpoint, sign=private)
    folder = checkpoint.parent
    document = json.loads((folder / SIGNATURE_NAME).read_text())
    signature, message = tmp_path / "s", tmp_path / "m"
    signature.write_bytes(base64.b64decode(document["signature"]))
    message.write_bytes(b"everybit.signature/1\0" + (folder / MANIFEST_NAME).read_bytes())
    done = subprocess.run(
        ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin", "-in", message,
         "-sigfile", signature],
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    der = subprocess.run(
        ["openssl", "pkey", "-pubin", "-in", public, "-outform", "DER"],
        capture_output=True,
        check=True,
    ).stdout
    import hashlib

    assert document["key_id"] == hashlib.sha256(der).hexdigest()


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs OpenSSH")
def test_keys_that_openssh_made(checkpoint, tmp_path, monkeypatch):
    for name, password in (("plain", ""), ("locked", "geheim")):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", password, "-f", tmp_path / name]
        subprocess.run(command, check=True)
    everybit.seal(checkpoint, sign=tmp_path / "plain")
    assert everybit.verify(checkpoint, key=tmp_path / "plain.pub").ok
    monkeypatch.setenv("EVERYBIT_KEY_PASSWORD", "geheim")
    monkeypatch.setitem(sys.modules, "bcrypt", None)
    with pytest.raises(PathError) as caught:
        everybit.seal(checkpoint, sign=tmp_path / "locked")
    assert "\n" not in caught.value.line()


@pytest.fixture
def run(capfd, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")

    def call(*args):
        from everybit.cli import main

        code = main([str(arg) for arg in args])
        out, err = capfd.readouterr()
        return code, out, err

    return call


def test_the_command_line(run, checkpoint, pair):
    private, public = pair
    folder = checkpoint.parent
    code, out, _ = run("seal", folder, "--sign", private, "--sha256", "--parity", "10%")
    assert (code, "manifests signed" in out) == (0, True)
    code, out, _ = run("verify", folder, "--key", public)
    assert (code, "CLEAN" in out) == (0, True)
    digest = dict(
        reversed(line.split("  ")) for line in (folder / "SHA256SUMS").read_text().splitlines()
    )["model.pt"]
    assert run("verify", checkpoint, "--expect-sha256", digest)[0] == 0
    assert run("verify", checkpoint, "--expect-sha256", "0" * 64)[0] == 1
    for bad in (
        ("verify", folder, "--key", private),
        ("verify", folder, "--key", "missing.pub"),
        ("verify", folder, "--expect-sha256", digest),
        ("verify", checkpoint, "--expect-sha256", "abc"),
        ("seal", folder, "--sign", public),
        ("seal", folder, "--parity", "lots"),
    ):
        code, out, err = run(*bad)
        assert (code, out, err.count("\n")) == (2, "", 1), bad
    run("seal", checkpoint)
    code, out, _ = run("verify", folder, "--key", public)
    assert (code, "FIL110" in out) == (1, True)
