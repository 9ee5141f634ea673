"""Secrets stay out, whatever they are called; what bears on numbers stays in."""

from __future__ import annotations

import pytest

from everybit.host.argv import hide_secrets, looks_secret, read_argv
from everybit.host.variables import read_variables


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY", "NCCL_AUTH", "TORCH_PASSWORD",
        "--api-key", "--hf-token", "--db.password", "CUDA_PRIVATE_KEY",
    ],
)  # fmt: skip
def test_secret_names(name):
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name",
    ["OMP_NUM_THREADS", "--num-tokens", "--tokenizer", "TOKENIZERS_PARALLELISM", "--key-dim"],
)
def test_harmless_names(name):
    assert not looks_secret(name)


def test_only_listed_variables_are_recorded():
    found = read_variables(
        {
            "OMP_NUM_THREADS": "2",
            "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
            "NCCL_TOKEN": "hush",
            "HOME": "/home/me",
            "RANK": "3",
            "MY_FLAG": "1",
            "MY_SECRET": "hush",
            "TORCH_MIRROR": "https://me:hush@example.org/simple",
        },
        extra=["MY_FLAG", "MY_SECRET"],
    )
    assert found == {
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "MY_FLAG": "1",
        "OMP_NUM_THREADS": "2",
        "TORCH_MIRROR": "https://<hidden>@example.org/simple",
        "recorded": {"RANK": "3"},
    }
    assert "hush" not in str(found)


def test_values_of_secret_flags_are_hidden():
    shown = hide_secrets(
        ["--lr", "3e-4", "--token", "hush", "--password=hush", "--token", "--fast",
         "s3://key:hush@bucket/x"]
    )  # fmt: skip
    assert "hush" not in " ".join(shown)
    assert shown[:2] == ["--lr", "3e-4"]
    assert shown[-2:] == ["--fast", "s3://<hidden>@bucket/x"]


def test_paths_are_recorded_and_not_compared():
    a = read_argv(["/home/a/train.py", "--seed", "1", "--out=/home/a/runs", "data/train.bin"])
    b = read_argv(["/mnt/b/train.py", "--seed", "1", "--out=/mnt/b/runs", "/data/train.bin"])
    assert a["arguments"] != b["arguments"]
    assert a["options"] == b["options"] == ["--seed", "1", "--out=<path>", "<path>"]
