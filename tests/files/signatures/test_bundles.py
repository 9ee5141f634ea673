from __future__ import annotations

import base64
import json

import pytest
import torch
from cryptography.hazmat.primitives.asymmetric import ec
from safetensors.torch import save_file
from tests.files import makers
from tests.files.signatures.bundles import envelope, public_pem, sign_folder

import everybit
from everybit.core.verdict import Status


@pytest.fixture
def key():
    return ec.generate_private_key(ec.SECP256R1())


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "m"
    (folder / "sub").mkdir(parents=True)
    torch.manual_seed(0)
    save_file({"w": torch.randn(5000)}, folder / "sub" / "w.safetensors")
    (folder / "config.json").write_text('{"hidden": 8}')
    (folder / "empty").write_bytes(b"")
    return folder


@pytest.fixture
def public(tmp_path, key):
    place = tmp_path / "key.pub"
    place.write_bytes(public_pem(key))
    return place


CHOICES = [
    ("sha256", None), ("blake2b", None), ("blake3", None), ("sha256", 7000), ("blake2b", 7000),
]  # fmt: skip


@pytest.mark.parametrize(("algorithm", "shard_size"), CHOICES)
def test_a_signed_model_is_clean_and_its_damage_is_found(model, key, public, algorithm, shard_size):
    sign_folder(model, key, algorithm=algorithm, shard_size=shard_size)
    verdict = everybit.verify(model, key=public)
    assert verdict.status is Status.CLEAN
    counted = {item.what: item.count for item in verdict.coverage.checked}
    assert counted["signatures of bundles"] == 1
    assert counted["files against a model-signing bundle"] == (3 if shard_size is None else 2)
    assert everybit.verify(model).status is Status.CLEAN
    weights = model / "sub" / "w.safetensors"
    makers.flip(weights, 9000)
    for options in ({}, {"key": public}):
        (finding,) = everybit.verify(model, **options).findings
        assert (finding.rule, finding.where.path) == ("FIL101", "sub/w.safetensors")
        assert finding.evidence["expected_by"] == "model.sig"
        expected = (7000, 14000) if shard_size else (0, weights.stat().st_size)
        assert finding.where.byte_range == expected
    makers.flip(weights, 9000)
    (model / "config.json").write_text('{"hidden": 9}')
    (finding,) = everybit.verify(model).findings
    assert (finding.rule, finding.where.path) == ("FIL101", "config.json")


def test_a_file_of_the_bundle_that_is_gone_and_one_that_grew(model, key):
    sign_folder(model, key, shard_size=7000)
    (model / "config.json").unlink()
    with (model / "sub" / "w.safetensors").open("ab") as file:
        file.write(b"more")
    found = {f.where.path: f for f in everybit.verify(model).findings}
    assert found["config.json"].rule == "FIL103"
    assert found["config.json"].evidence["listed_by"] == "model.sig"
    # The format sees the bytes behind its end too, and places them.
    assert found["sub/w.safetensors"].evidence["digest"]["expected_by"] == "model.sig"
    assert len(found) == 2


def test_a_single_file_is_held_against_the_bundle_beside_it(model, key, public):
    save_file({"w": torch.ones(5)}, model / "top.safetensors")
    sign_folder(model, key)
    assert everybit.verify(model / "top.safetensors", key=public).status is Status.CLEAN
    makers.flip(model / "top.safetensors", (model / "top.safetensors").stat().st_size - 5)
    (finding,) = everybit.verify(model / "top.safetensors").findings
    assert finding.rule == "FIL101"


def test_a_seal_beside_the_bundle_does_not_silence_it(model, key):
    sign_folder(model, key)
    makers.flip(model / "sub" / "w.safetensors", 9000)
    everybit.seal(model)  # sealed when it was damaged already
    (finding,) = everybit.verify(model).findings
    assert (finding.rule, finding.evidence["expected_by"]) == ("FIL101", "model.sig")


def test_another_key_and_changed_bundles_are_not_believed(model, key, public, tmp_path):
    place = sign_folder(model, key)
    other = tmp_path / "other.pub"
    other.write_bytes(public_pem(ec.generate_private_key(ec.SECP256R1())))
    (finding,) = everybit.verify(model, key=other).findings
    assert (finding.rule, finding.where.path) == ("FIL110", "model.sig")
    document = json.loads(place.read_text())
    payload = base64.b64decode(document["dsseEnvelope"]["payload"])
    changed = payload.replace(b"config.json", b"conf1g.json")
    document["dsseEnvelope"]["payload"] = base64.b64encode(changed).decode()
    place.write_text(json.dumps(document))
    assert [f.rule for f in everybit.verify(model, key=public).findings] == ["FIL110"]
    # A digest that is changed with the list's own digest left as it was does not hold at all.
    old = json.loads(payload)["predicate"]["resources"][0]["digest"].encode()
    document["dsseEnvelope"]["payload"] = base64.b64encode(payload.replace(old, b"0" * 64)).decode()
    place.write_text(json.dumps(document))
    (finding,) = everybit.verify(model).findings
    assert (finding.rule, finding.where.path) == ("FIL110", "model.sig")
    place.unlink()
    (finding,) = everybit.verify(model, key=public).findings
    assert finding.rule == "FIL110"
    assert "no signed manifest" in finding.message


@pytest.mark.parametrize(
    "material", [{"x509CertificateChain": {"certificates": []}}, {"certificate": {"rawBytes": ""}}]
)
def test_who_signed_without_a_key_is_skipped_and_digests_are_checked(model, key, public, material):
    sign_folder(model, key, material=material)
    verdict = everybit.verify(model)
    assert verdict.status is Status.CLEAN
    (skipped,) = [s for s in verdict.coverage.skipped if "signature" in s.what]
    assert "offline" in skipped.why
    asked = everybit.verify(model, key=public)
    assert [f.rule for f in asked.findings] == ["FIL110"]
    assert any(item.promised and "offline" in item.why for item in asked.coverage.skipped)
    makers.flip(model / "sub" / "w.safetensors", 9000)
    assert [f.rule for f in everybit.verify(model).findings] == ["FIL101"]


def test_a_model_that_was_slipped_in_is_not_vouched_for(model, key, public):
    sign_folder(model, key)
    makers.save({"w": torch.ones(3)}, model / "sub" / "extra.pt")
    (model / "notes.txt").write_text("added later")
    for _ in range(2):
        for options in ({}, {"key": public}):
            (finding,) = everybit.verify(model, **options).findings
            assert (finding.rule, finding.where.path) == ("FIL109", "sub/extra.pt")
            assert finding.evidence["bundle"] == "model.sig"
        everybit.seal(model / "sub" / "w.safetensors")  # a manifest that lists another file
    document = json.loads((model / "model.sig").read_text())
    payload = json.loads(base64.b64decode(document["dsseEnvelope"]["payload"]))
    payload["predicate"]["serialization"]["ignore_paths"].append("sub/extra.pt")
    (model / "model.sig").write_text(json.dumps(envelope(payload, key)))
    assert not everybit.verify(model, key=public).findings


def test_a_bundle_of_release_0_2(model, key):
    listed = [
        {"name": "config.json", "digest": {"sha256": "0" * 64}},
    ]
    document = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": listed,
        "predicateType": "https://model_signing/Digests/v0.1",
        "predicate": {"unused": "Unused, just passed due to API requirements"},
    }
    (model / "model.sig").write_text(json.dumps(envelope(document, key)))
    found = {(f.rule, f.where.path) for f in everybit.verify(model).findings}
    assert found == {("FIL101", "config.json"), ("FIL109", "sub/w.safetensors")}


@pytest.mark.parametrize(
    "content", [b"", b"-----BEGIN PGP SIGNATURE-----\n", b"[" * 100_000, b"{}", b"\xff\xfe\x00"]
)
def test_another_kind_of_signature_is_no_damage(model, content):
    (model / "model.sig").write_bytes(content)
    verdict = everybit.verify(model)
    assert not verdict.findings
    assert any(s.what == "model.sig" and not s.promised for s in verdict.coverage.skipped)


def _broken(document, kind):
    listed = document["predicate"]["resources"]
    if kind == "climbs":
        listed[0]["name"] = "../../etc/passwd"
    elif kind == "type":
        document["predicateType"] = "https://example.com/x"
    elif kind == "subject":
        document["subject"] = []
    elif kind == "digest":
        listed[0]["digest"] = "zz"
    elif kind == "numbers":
        listed[0]["name"] = 3
        listed[0]["digest"] = ["x"]
    return document


@pytest.mark.parametrize("kind", ["climbs", "type", "subject", "digest", "numbers"])
def test_a_bundle_made_to_deceive_is_refused(model, key, kind):
    from tests.files.signatures.bundles import resources, statement

    document = _broken(statement(resources(model, "sha256", None), "sha256", None), kind)
    (model / "model.sig").write_text(json.dumps(envelope(document, key)))
    found = everybit.verify(model).findings
    assert [(f.rule, f.where.path) for f in found] == [("FIL110", "model.sig")]


def test_shards_that_leave_a_gap_are_refused(model, key):
    from tests.files.signatures.bundles import resources, statement

    listed = resources(model, "sha256", 7000)
    del listed[-2]
    (model / "model.sig").write_text(json.dumps(envelope(statement(listed, "sha256", 7000), key)))
    assert [f.rule for f in everybit.verify(model).findings] == ["FIL110"]
