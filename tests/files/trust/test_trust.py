"""Recorded origins, trust policies and FIL117."""

from __future__ import annotations

import hashlib
import json
from types import SimpleNamespace

import numpy as np
import pytest

import everybit
from everybit.cli import main
from everybit.core.errors import PathError, UsageError
from everybit.files.seals.manifest import load_manifest
from everybit.files.trust.policy import load_policy

SOURCE = "https://huggingface.co/org/tiny@0123abc"


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    np.save(folder / "a.npy", np.arange(64, dtype=np.float32))
    np.save(folder / "b.npy", np.ones(64, dtype=np.float32))
    return folder


def write_key_pair(folder, name):
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    pair = SimpleNamespace(private=folder / f"{name}.pem", public=folder / f"{name}.pub")
    pair.private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    pair.public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return pair


def write_policy(folder, text):
    path = folder / "trust.toml"
    path.write_text(text)
    return path


def untrusted(verdict):
    return {f.where.path: f.evidence["missing"] for f in verdict.findings if f.rule == "FIL117"}


def test_what_is_said_at_sealing_stands_in_the_manifest(model):
    everybit.seal(model, source=SOURCE, license="MIT")
    entry = load_manifest(model).files["a.npy"]
    assert (entry.origin.source, entry.origin.license) == (SOURCE, "MIT")
    text = (model / "MANIFEST.everybit.json").read_text()
    assert json.loads(text)["files"]["a.npy"]["source"] == SOURCE


def test_an_origin_is_kept_with_the_same_bytes_and_lost_with_others(model):
    everybit.seal(model, source=SOURCE, license="MIT")
    np.save(model / "b.npy", np.zeros(64, dtype=np.float32))
    everybit.seal(model)
    files = load_manifest(model).files
    assert files["a.npy"].origin.source == SOURCE
    assert not files["b.npy"].origin


def test_one_file_gets_an_origin_of_its_own(model):
    everybit.seal(model, source=SOURCE)
    everybit.seal(model / "b.npy", source="run 12 of our own", license="CC0-1.0")
    files = load_manifest(model).files
    assert files["a.npy"].origin.source == SOURCE
    assert files["b.npy"].origin.source == "run 12 of our own"


@pytest.mark.parametrize("text", ["", "  ", "two\nlines", "x" * 3000, "a\x1b[31m"])
def test_an_origin_is_one_line_of_text(model, text):
    with pytest.raises(UsageError):
        everybit.seal(model, source=text)
    assert not (model / "MANIFEST.everybit.json").exists()


def test_without_a_policy_no_origin_is_asked_for(model):
    everybit.seal(model)
    assert everybit.verify(model).ok


def test_an_empty_policy_asks_for_any_source(model, tmp_path):
    policy = write_policy(tmp_path, "")
    everybit.seal(model)
    found = untrusted(everybit.verify(model, trust=policy))
    assert found == {name: ["no source of it is recorded"] for name in ("a.npy", "b.npy")}
    everybit.seal(model, source=SOURCE)
    assert everybit.verify(model, trust=policy).ok


def test_a_file_that_nobody_sealed_has_no_origin(model, tmp_path):
    everybit.seal(model / "a.npy", source=SOURCE)
    found = untrusted(everybit.verify(model, trust=write_policy(tmp_path, "")))
    assert list(found) == ["b.npy"]


@pytest.mark.parametrize(
    ("pattern", "trusted"),
    [
        (SOURCE, True),
        ("https://huggingface.co/org/*", True),
        ("https://huggingface.co/other/*", False),
        ("huggingface.co", False),
    ],
)
def test_sources_are_patterns(model, tmp_path, pattern, trusted):
    everybit.seal(model, source=SOURCE)
    policy = write_policy(tmp_path, f'sources = ["{pattern}"]')
    assert everybit.verify(model, trust=policy).ok is trusted


def test_licences_are_held_against_the_list(model, tmp_path):
    policy = write_policy(tmp_path, 'licenses = ["apache-2.0"]')
    everybit.seal(model, source=SOURCE)
    assert untrusted(everybit.verify(model, trust=policy))["a.npy"] == [
        "no licence of it is recorded"
    ]
    everybit.seal(model, license="CC-BY-NC-4.0")
    assert "CC-BY-NC-4.0" in untrusted(everybit.verify(model, trust=policy))["a.npy"][0]
    everybit.seal(model, license="Apache-2.0")
    assert everybit.verify(model, trust=policy).ok


@pytest.mark.parametrize("kind", ["sha256", "blake3"])
def test_a_digest_is_trusted_whatever_else_is_known(model, tmp_path, kind):
    import blake3

    data = (model / "a.npy").read_bytes()
    hexed = (
        hashlib.sha256(data).hexdigest() if kind == "sha256" else blake3.blake3(data).hexdigest()
    )
    policy = write_policy(tmp_path, f'digests = ["{kind}:{hexed}"]')
    found = untrusted(everybit.verify(model, trust=policy, level="structure"))
    assert list(found) == ["b.npy"]
    assert "digest" in found["b.npy"][0]


def test_publishers_have_to_sign(model, tmp_path):
    ours, theirs = write_key_pair(tmp_path, "ours"), write_key_pair(tmp_path, "theirs")
    policy = write_policy(tmp_path, f'[[publishers]]\nname = "us"\nkey = "{ours.public.name}"')
    everybit.seal(model)
    verdict = everybit.verify(model, trust=policy)
    assert untrusted(verdict)["a.npy"] == ["its seal is signed by no publisher allowed"]
    everybit.seal(model, sign=theirs.private)
    assert untrusted(everybit.verify(model, trust=policy))
    everybit.seal(model, sign=ours.private)
    verdict = everybit.verify(model, trust=policy)
    assert verdict.ok
    # XXH3 is no match for malice: what publishers signed is held by BLAKE3.
    assert any(item.what == "files by BLAKE3" for item in verdict.coverage.checked)


def test_a_signed_manifest_that_was_changed_is_signed_by_nobody(model, tmp_path):
    ours = write_key_pair(tmp_path, "ours")
    policy = write_policy(tmp_path, f'[[publishers]]\nname = "us"\nkey = "{ours.public.name}"')
    everybit.seal(model, sign=ours.private)
    signature = (model / "MANIFEST.everybit.sig").read_bytes()
    np.save(model / "b.npy", np.zeros(64, dtype=np.float32))
    everybit.seal(model)
    (model / "MANIFEST.everybit.sig").write_bytes(signature)
    assert set(untrusted(everybit.verify(model, trust=policy))) == {"a.npy", "b.npy"}


def test_a_single_file_finds_its_seal_above(model, tmp_path):
    everybit.seal(tmp_path / "models", source=SOURCE)
    policy = write_policy(tmp_path, 'sources = ["https://*"]')
    assert everybit.verify(model / "a.npy", trust=policy).ok
    everybit.seal(model, source="elsewhere")
    assert untrusted(everybit.verify(model / "a.npy", trust=policy))


def test_nested_manifests_speak_for_their_own_folder(tmp_path):
    for name, source in (("one", SOURCE), ("two", "elsewhere")):
        (tmp_path / "all" / name).mkdir(parents=True)
        np.save(tmp_path / "all" / name / "m.npy", np.ones(8))
        everybit.seal(tmp_path / "all" / name, source=source)
    policy = write_policy(tmp_path, 'sources = ["https://*"]')
    assert list(untrusted(everybit.verify(tmp_path / "all", trust=policy))) == ["two/m.npy"]


def test_a_missing_file_is_missing_and_not_untrusted(model, tmp_path):
    everybit.seal(model)
    (model / "a.npy").unlink()
    verdict = everybit.verify(model, trust=write_policy(tmp_path, ""))
    assert {f.rule for f in verdict.findings if f.where.path == "a.npy"} == {"FIL103"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sources = 3", "sources is not a list"),
        ("source = []", "did you mean 'sources'"),
        ("digests = ['md5:12']", "is none"),
        ("[[publishers]]\nname = 'x'", "no name or no key"),
        ("publishers = 'x'", "no list of tables"),
        ("sources = [", "not valid TOML"),
    ],
)
def test_a_policy_that_cannot_be_right_is_refused(model, tmp_path, text, says, capsys):
    policy = write_policy(tmp_path, text)
    with pytest.raises(UsageError):
        load_policy(policy)
    assert main(["verify", str(model), "--trust", str(policy)]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_a_policy_that_is_not_there_is_one_line(model, tmp_path):
    with pytest.raises(PathError):
        everybit.verify(model, trust=tmp_path / "no.toml")


def test_the_command_line_seals_and_asks(model, tmp_path, capsys):
    policy = write_policy(tmp_path, 'licenses = ["MIT"]')
    assert main(["seal", str(model), "--source", SOURCE, "--license", "MIT"]) == 0
    assert main(["verify", str(model), "--trust", str(policy)]) == 0
    policy.write_text('licenses = ["Apache-2.0"]')
    assert main(["verify", str(model), "--trust", str(policy)]) == 1
    assert "FIL117" in capsys.readouterr().out
