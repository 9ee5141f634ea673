"""Fixes of unsafe loads and saves: only where they are certain, and nothing else is touched."""

from __future__ import annotations

import pytest

from everybit.api.lint import lint

pytest.importorskip("libcst")


def _fixed(tmp_path, code, **files):
    path = tmp_path / "a.py"
    path.write_text(code)
    for name, text in files.items():
        (tmp_path / name.replace("_", ".")).write_text(text)
    lint(tmp_path, fix=True)
    return path.read_text()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "model.load_state_dict(torch.load(p, 'cpu', weights_only=False))  # old",
            "model.load_state_dict(torch.load(p, 'cpu', weights_only=True))  # old",
        ),
        (
            "state = torch.load(p, weights_only=False)\nself.model.load_state_dict(state)",
            "state = torch.load(p, weights_only=True)\nself.model.load_state_dict(state)",
        ),
        (
            "net.load_state_dict(torch.hub.load_state_dict_from_url(p))",
            "net.load_state_dict(torch.hub.load_state_dict_from_url(p, weights_only=True))",
        ),
        (
            "x = torch.from_numpy(np.load(p, allow_pickle=True))",
            "x = torch.from_numpy(np.load(p, allow_pickle=False))",
        ),
    ],
)
def test_certain(tmp_path, before, after):
    head = "import numpy as np\nimport torch\n\n"
    assert _fixed(tmp_path, f"{head}{before}\n") == f"{head}{after}\n"


@pytest.mark.parametrize(
    "code",
    [
        "both = torch.load(p, weights_only=False)\nmodel.load_state_dict(both['model'])",
        "model = torch.load(p, weights_only=False)",
        "scheduler.load_state_dict(torch.load(p, weights_only=False))",
        "model.load_state_dict(torch.load(p, **OPTIONS))",
        "x = np.load(p, allow_pickle=True).item()",
        "x = torch.load(p, pickle_module=pickle)",
        "torch.save(net, 'net.pt')",
    ],
)
def test_uncertain_ones_are_left(tmp_path, code):
    head = (
        "import pickle\nimport numpy as np\nimport torch\nfrom torch import nn\n\n"
        "net = nn.Linear(2, 2)\nOPTIONS = {'weights_only': False}\n"
    )
    assert _fixed(tmp_path, f"{head}{code}\n") == f"{head}{code}\n"


def test_a_whole_module_with_its_load_in_sight(tmp_path):
    before = (
        "import torch\nfrom torch import nn\n\nPATH = 'net.pt'\nnet = nn.Linear(2, 2)\n"
        "torch.save(net, PATH)\n"
        "net.load_state_dict(torch.load(PATH, 'cpu', weights_only=False).state_dict())\n"
    )
    after = before.replace("save(net,", "save(net.state_dict(),").replace(
        "weights_only=False).state_dict()", "weights_only=True)"
    )
    assert _fixed(tmp_path, before) == after


def test_a_whole_module_whose_load_wants_a_module_is_left(tmp_path):
    code = (
        "import torch\nfrom torch import nn\n\nnet = nn.Linear(2, 2)\n"
        "torch.save(net, 'net.pt')\nother = torch.load('net.pt')\nother.eval()\n"
    )
    assert _fixed(tmp_path, code) == code


def test_an_old_torch_gets_the_argument(tmp_path):
    code = "import torch\n\nmodel.load_state_dict(torch.load(p))\nother = torch.load(p)\n"
    fixed = _fixed(tmp_path, code, requirements_txt="torch>=1.13\n")
    assert fixed == code.replace("dict(torch.load(p))", "dict(torch.load(p, weights_only=True))")


def test_what_was_fixed_is_gone(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("import torch\nmodel.load_state_dict(torch.load(p, weights_only=False))\n")
    assert [f.rule for f in lint(path).findings] == ["SRC301"]
    lint(path, fix=True)
    assert not lint(path).findings
