from __future__ import annotations

import hashlib
import shutil
import subprocess

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from tests.files import makers

import everybit
from everybit.core.errors import UsageError
from everybit.core.verdict import Status
from everybit.files.seals.manifest import MANIFEST_NAME, load_manifest
from everybit.files.signatures.sums import format_sums, parse_sums


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "m"
    folder.mkdir()
    torch.manual_seed(0)
    path = folder / "model.safetensors"
    save_file({"w": torch.randn(3000)}, path)
    return path


names = st.text(
    st.characters(exclude_characters="\0/", exclude_categories=["Cs"]), min_size=1
).filter(lambda name: name not in (".", "..", "-"))


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(names, st.binary(min_size=32, max_size=32).map(bytes.hex), max_size=5))
def test_reading_gives_what_was_written(digests):
    again = parse_sums(format_sums(digests))
    assert again.digests == digests
    assert not again.unread


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_read(data):
    parse_sums(data)


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="needs coreutils")
def test_what_is_written_passes_sha256sum_and_its_own_is_read(tmp_path):
    folder = tmp_path / "m"
    (folder / "sub").mkdir(parents=True)
    for name in ("a.txt", "back\\slash", "new\nline", "carriage\rreturn", "sub/ü b", "*star"):
        (folder / name).write_text(name)
    everybit.seal(folder, sha256=True)
    found = subprocess.run(
        ["sha256sum", "-c", "--strict", "SHA256SUMS"], cwd=folder, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout.count("OK") == 6
    listed = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    for flags in ([], ["--tag"], ["-b"]):
        done = subprocess.run(
            ["sha256sum", *flags, "--", *listed], cwd=folder, capture_output=True, check=True
        )
        sums = parse_sums(done.stdout)
        assert sorted(sums.digests) == listed
        assert all(sums.digests[name] == sha256(folder / name) for name in listed)


def test_the_manifest_records_sha256_and_keeps_to_it(model):
    everybit.seal(model.parent, sha256=True)
    entry = load_manifest(model.parent).files[model.name]
    assert entry.sha256.hex == sha256(model)
    everybit.seal(model.parent)  # a stale list would fail `sha256sum -c`
    other = model.with_name("other.safetensors")
    save_file({"w": torch.ones(3)}, other)
    everybit.seal(other)
    sums = parse_sums((model.parent / "SHA256SUMS").read_bytes())
    assert sums.digests == {path.name: sha256(path) for path in (model, other)}
    assert everybit.verify(model.parent).status is Status.CLEAN


def lines(model, kind):
    digest = sha256(model)
    return {
        "gnu": ("SHA256SUMS", f"{digest}  {model.name}\n"),
        "binary": ("sha256sums.txt", f"# made by hand\n\n{digest.upper()} *./{model.name}\r\n"),
        "bsd": ("SHA256SUMS", f"SHA256 ({model.name}) = {digest}\n"),
        "alone": (f"{model.name}.sha256", digest),
        "own": (f"{model.name}.sha256", f"{digest}  somewhere/else/{model.name}\n"),
        "pipe": (f"{model.name}.sha256", f"{digest}  -\n"),
    }[kind]


KINDS = ["gnu", "binary", "bsd", "alone", "own", "pipe"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_list_beside_a_file_is_its_manifest_of_last_resort(model, kind):
    assert everybit.verify(model).status is Status.INCONCLUSIVE
    name, text = lines(model, kind)
    (model.parent / name).write_text(text)
    for target in (model, model.parent):
        verdict = everybit.verify(target)
        assert verdict.status is Status.CLEAN
        counted = {item.what for item in verdict.coverage.checked}
        assert "files against a list of SHA-256 digests" in counted
    makers.flip(model, model.stat().st_size - 9)
    for target in (model, model.parent):
        (finding,) = everybit.verify(target).findings
        assert (finding.rule, finding.where.path) == ("FIL101", model.name)
        assert finding.evidence["expected_by"] == name
        assert finding.evidence["found"] == f"sha256:{sha256(model)}"
    assert everybit.verify(model, level="structure").ok


def test_damage_that_the_format_places_is_told_once(tmp_path):
    path = makers.save({"w": torch.randn(3000)}, tmp_path / "m.pt")
    (tmp_path / "SHA256SUMS").write_text(f"{sha256(path)}  m.pt\n")
    makers.flip(path, 6000)
    (finding,) = everybit.verify(tmp_path).findings
    assert finding.rule == "FIL108"
    assert finding.evidence["digest"]["expected_by"] == "SHA256SUMS"


def test_a_value_that_looks_odd_is_evidence_of_the_damage(model):
    (model.parent / "SHA256SUMS").write_text(f"{sha256(model)}  {model.name}\n")
    makers.flip(model, model.stat().st_size - 4 * 700 - 1, 6)  # the top bit of an exponent
    (finding,) = everybit.verify(model).findings
    assert finding.rule == "FIL101"
    assert "element" in finding.evidence["suspects"][0]


def test_other_files_of_a_list_are_checked_and_missed(model):
    config = model.with_name("config.json")
    config.write_text("{}")
    text = f"{sha256(model)}  {model.name}\n{sha256(config)}  config.json\n{'0' * 64}  gone.bin\n"
    (model.parent / "SHA256SUMS").write_text(text + "what is this\n" + "0" * 64 + "  ../x\n")
    verdict = everybit.verify(model.parent)
    assert [(f.rule, f.where.path) for f in verdict.findings] == [("FIL103", "gone.bin")]
    assert any("2 lines" in item.why for item in verdict.coverage.skipped)
    config.write_text("{ }")
    found = {(f.rule, f.where.path) for f in everybit.verify(model.parent).findings}
    assert found == {("FIL103", "gone.bin"), ("FIL101", "config.json")}


def test_a_list_that_is_named_means_its_folder(model):
    place = model.parent / "SHA256SUMS"
    place.write_text(f"{sha256(model)}  {model.name}\n")
    assert everybit.verify(place).status is Status.CLEAN
    makers.flip(model, model.stat().st_size - 9)
    (finding,) = everybit.verify(place).findings
    assert (finding.rule, finding.where.path) == ("FIL101", model.name)


def test_a_manifest_goes_before_a_list(model):
    everybit.seal(model)
    (model.parent / "SHA256SUMS").write_text(f"{'0' * 64}  {model.name}\n")
    assert everybit.verify(model).status is Status.CLEAN
    (model.parent / MANIFEST_NAME).unlink()
    assert [f.rule for f in everybit.verify(model).findings] == ["FIL101"]


def test_lines_of_others_are_kept_where_they_can_still_hold(model):
    notes = model.with_name("notes.txt")
    notes.write_text("kept")
    text = f"{sha256(notes)}  notes.txt\n{'0' * 64}  gone.bin\n{'0' * 64}  {MANIFEST_NAME}\n"
    (model.parent / "SHA256SUMS").write_text(text)
    everybit.seal(model, sha256=True)
    sums = parse_sums((model.parent / "SHA256SUMS").read_bytes())
    assert sums.digests == {path.name: sha256(path) for path in (model, notes)}


def test_a_list_in_the_folder_above(tmp_path):
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    path = folder / "m.safetensors"
    save_file({"w": torch.ones(9)}, path)
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  a/b/m.safetensors\n")
    (finding,) = everybit.verify(tmp_path).findings
    assert (finding.rule, finding.where.path) == ("FIL101", "a/b/m.safetensors")


@pytest.mark.parametrize("sealed", [False, True])
def test_an_expected_digest_is_held_against_one_file(model, sealed):
    if sealed:
        everybit.seal(model)
    digest = sha256(model)
    for text in (digest, f"sha256:{digest}", digest.upper()):
        verdict = everybit.verify(model, expect_sha256=text)
        assert verdict.status is Status.CLEAN
    for level in ("full", "structure"):
        (finding,) = everybit.verify(model, expect_sha256="0" * 64, level=level).findings
        assert (finding.rule, finding.evidence["found"]) == ("FIL101", f"sha256:{digest}")
    with pytest.raises(UsageError, match="no SHA-256"):
        everybit.verify(model, expect_sha256="abc")
    with pytest.raises(UsageError, match="one file"):
        everybit.verify(model.parent, expect_sha256=digest)
    with pytest.raises(UsageError, match="one file"):
        everybit.verify(model, model, expect_sha256=digest)


def git_sha1(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def test_a_hubs_cache_names_blobs_by_their_digest(tmp_path):
    blobs = tmp_path / "models--x--y" / "blobs"
    snapshot = tmp_path / "models--x--y" / "snapshots" / "abc"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    weights = blobs / "tmp"
    save_file({"w": torch.randn(3000)}, weights)
    weights = weights.rename(blobs / sha256(weights))
    (snapshot / "model.safetensors").symlink_to(weights)
    text = b'{"weight_map": {"w": "model.safetensors"}}'
    index = blobs / git_sha1(text)
    index.write_bytes(text)
    (snapshot / "index.safetensors").symlink_to(index)
    assert everybit.verify(snapshot / "model.safetensors").status is Status.CLEAN
    whole = everybit.verify(tmp_path)  # reached by two names, hashed once
    assert not [f for f in whole.findings if f.where.path.endswith("model.safetensors")]
    makers.flip(weights, 9000)
    (finding,) = everybit.verify(snapshot / "model.safetensors").findings
    assert finding.rule == "FIL101"
    assert finding.evidence["expected"] == f"sha256:{weights.name}"
    assert everybit.verify(snapshot / "index.safetensors").findings[0].rule == "FIL118"
    index.write_bytes(b"[]")
    assert "digest" in everybit.verify(snapshot / "index.safetensors").findings[0].evidence
    found = [f for f in everybit.verify(tmp_path).findings if f.rule == "FIL101"]
    assert {f.where.path.rpartition("/")[2] for f in found} >= {weights.name, "model.safetensors"}
    # A file that only has such a name is no blob of a cache.
    other = tmp_path / ("0" * 64)
    save_file({"w": torch.ones(3)}, other)
    assert not everybit.verify(other).findings
