"""The training rules: their fixes, how grave they are, what they say, and time on large files."""

from __future__ import annotations

import time

import pytest

from everybit.api.lint import lint
from everybit.core.finding import Severity

DATASET = """\
import numpy as np
from torch.utils.data import DataLoader, Dataset


class Crops(Dataset):
    def __init__(self, x, path):
        self.x = x
        self.noise = np.random.default_rng(0)
        self.file = open(path, "rb")

    def __getitem__(self, i):
        self.file.seek(i)
        return self.x[i] + self.noise.normal(), self.file.read(1)
"""

CLIP = """\
import torch


def train(model, loader, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    for batch in loader:
        optimizer.zero_grad()
        scaler.scale(model(batch)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # keep
        scaler.step(optimizer)
        scaler.update()
"""

EPOCHS = """\
from torch.utils.data import DataLoader, DistributedSampler


def train(model, data, optimizer, epochs):
    sampler = DistributedSampler(data)
    loader = DataLoader(data, sampler=sampler)
    for epoch in range(epochs):
        # one epoch
        for batch in loader:
            optimizer.zero_grad()
            model(batch).backward()
            optimizer.step()
"""


def _findings(tmp_path, code):
    (tmp_path / "train.py").write_text(code)
    return lint(tmp_path).findings


@pytest.mark.parametrize(
    ("loader", "severity"),
    [
        ("", Severity.NOTE),
        ("\nloader = DataLoader(Crops(0, 0), num_workers=2)\n", Severity.WARNING),
        ("\nloader = DataLoader(Crops(0, 0), num_workers=some())\n", Severity.WARNING),
        ("\nloader = DataLoader(Crops(0, 0), num_workers=0)\n", None),
        ("\nloader = DataLoader([1], num_workers=2)\n", Severity.WARNING),
    ],
)
def test_workers_in_sight_make_a_warning(tmp_path, loader, severity):
    found = _findings(tmp_path, DATASET + loader)
    wanted = [] if severity is None else [("SRC304", severity), ("SRC315", severity)]
    assert [(each.rule, each.severity) for each in found] == wanted


def test_messages_name_the_users_own_code(tmp_path):
    found = _findings(tmp_path, DATASET)
    assert "`self.noise` of `Crops`" in found[0].message
    assert "`Crops.__init__`" in found[1].message
    assert "`self.file`" in found[1].message
    assert found[1].evidence["workers"] == "unknown"


@pytest.mark.parametrize(
    ("code", "line", "text"),
    [
        (CLIP, 9, "        scaler.unscale_(optimizer)\n"),
        (EPOCHS, 8, "        sampler.set_epoch(epoch)\n"),
    ],
)
def test_the_fix_is_one_line_and_ends_the_finding(tmp_path, code, line, text):
    pytest.importorskip("libcst")
    path = tmp_path / "train.py"
    path.write_text(code)
    assert len(lint(tmp_path).findings) == 1
    lint(tmp_path, fix=True)
    fixed = path.read_text()
    rest = fixed.replace(text, "", 1)
    assert text in fixed
    assert rest == code
    assert abs(fixed.splitlines().index(text.rstrip("\n")) + 1 - line) <= 1
    assert lint(tmp_path).findings == ()


STEP = "        scaler.step(optimizer)\n"
SAMPLER = "    sampler = DistributedSampler(data)\n"
EITHER = f"    if data:\n        sampler = Sampler()\n    else:\n    {SAMPLER}"


@pytest.mark.parametrize(
    "code",
    [
        CLIP.replace(STEP, f"{STEP}        scaler.step(other)\n"),  # whose gradients are clipped?
        EPOCHS.replace(SAMPLER, EITHER),  # the other sampler may have no set_epoch
    ],
)
def test_no_fix_where_it_is_not_certain(tmp_path, code):
    pytest.importorskip("libcst")
    path = tmp_path / "train.py"
    path.write_text(code)
    assert lint(tmp_path).findings
    lint(tmp_path, fix=True)
    assert path.read_text() == code


@pytest.mark.parametrize(
    "line",
    [
        "        model(b).backward()\n        optimizer.step()\n",
        "        h = b.to('cpu', non_blocking=True)\n        h.numpy()\n",
        "        model.load_state_dict(b, strict=False)\n",
        "        model.module(b).backward()\n",
        "        torch.nn.utils.clip_grad_norm_(model, 1)\n        scaler.step(optimizer)\n",
    ],
)
def test_long_files_take_seconds(tmp_path, line):
    head = (
        "import torch\n\n\ndef train(model, batches, optimizer, scaler):\n"
        "    model = torch.nn.parallel.DistributedDataParallel(model)\n    for b in batches:\n"
    )
    begin = time.process_time()
    _findings(tmp_path, head + line * 500)
    assert time.process_time() - begin < 10


@pytest.mark.parametrize(
    ("code", "severity"),
    [
        (
            "def f(p):\n    m = N()\n    m.load_state_dict(read(p), strict=False)\n",
            Severity.WARNING,
        ),
        ("def f(m, sd):\n    m.load_state_dict(sd, strict=False)\n", Severity.NOTE),
        (
            "# strict=False: the head is new\nm.load_state_dict(read(), strict=False)\n",
            Severity.NOTE,
        ),
        ("# the head is new\nm.load_state_dict(read(), strict=False)\n", Severity.WARNING),
    ],
)
def test_a_chosen_partial_load_is_a_note(tmp_path, code, severity):
    assert [each.severity for each in _findings(tmp_path, code)] == [severity]
