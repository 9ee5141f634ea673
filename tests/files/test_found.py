"""Faults that the campaigns of `bench` found, each held by a test."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import save_file

import everybit
from everybit.core.verdict import Status


@pytest.mark.parametrize(
    "name",
    ["x" * 3000, "a/" * 3000 + "b", "\ud800", "\0", "../up"],
    ids=["long", "deep", "surrogate", "zero", "up"],
)
def test_an_index_names_what_no_file_can_be_called(tmp_path, name):
    save_file({"w": torch.ones(3)}, tmp_path / "model-1.safetensors")
    index = {"metadata": {}, "weight_map": {"w": "model-1.safetensors", "v": name}}
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps(index), encoding="utf-8")
    verdict = everybit.verify(tmp_path)
    assert verdict.status is not Status.CLEAN
    assert json.dumps(verdict.to_json()).encode()
