"""Any bytes in the place of a bundle, a signature or a list: an answer, and no crash."""

from __future__ import annotations

import json
import random

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from tests.files.signatures.bundles import resources, sign_folder, statement

import everybit
from everybit.files.signatures.bundle import BundleError, read_bundle


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"x" * 900)
    (folder / "b.txt").write_bytes(b"y" * 90)
    return folder


def test_damaged_bundles_are_refused_or_read(model):
    key = ec.generate_private_key(ec.SECP256R1())
    place = sign_folder(model, key, shard_size=400)
    clean, rng = place.read_bytes(), random.Random(0)
    outcomes = set()
    for _ in range(400):
        data = bytearray(clean)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        if rng.random() < 0.2:
            del data[rng.randrange(len(data)) :]
        place.write_bytes(data)
        try:
            outcomes.add(type(read_bundle(place, "model.sig")).__name__)
        except BundleError:
            outcomes.add("BundleError")
    assert outcomes == {"Bundle", "BundleError", "NoneType"}


class Any:
    """Values of every kind that JSON knows."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def value(self, depth=0):
        kinds = [None, True, -1, 1e308, "x" * 9, "../..", "a.txt:0:4", 1 << 70, [], {}]
        found = self.rng.choice(kinds)
        if depth < 3 and found == []:
            return [self.value(depth + 1) for _ in range(self.rng.randrange(3))]
        return found


@pytest.mark.parametrize("seed", range(60))
def test_a_statement_with_any_value_in_any_field(model, seed):
    key = ec.generate_private_key(ec.SECP256R1())
    document = statement(resources(model, "sha256", 400), "sha256", 400)
    rng, values = random.Random(seed), Any(seed)
    places = [(document, k) for k in document]
    places += [(document["predicate"], k) for k in document["predicate"]]
    places += [(document["predicate"]["serialization"], "method"), (document["subject"], 0)]
    places += [(document["predicate"]["serialization"], "ignore_paths")]
    places += [(item, k) for item in document["predicate"]["resources"] for k in item]
    holder, field = rng.choice(places)
    holder[field] = values.value()
    from tests.files.signatures.bundles import envelope

    (model / "model.sig").write_text(json.dumps(envelope(document, key)))
    verdict = everybit.verify(model)
    assert verdict.findings or verdict.coverage.checked
