"""Bytes made by the same function before they are loaded, and bytes that only look so."""

from __future__ import annotations

import ast

import pytest

from everybit.api.lint import lint

HEAD = "import io, os, pickle\nimport torch\n\n\ndef work(x, path, flag):\n"


def _rules(tmp_path, body):
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    code = f"{HEAD}{lines}\n"
    ast.parse(code)
    (tmp_path / "a.py").write_text(code)
    return [finding.rule for finding in lint(tmp_path).findings if finding.rule != "SRC308"]


@pytest.mark.parametrize(
    "body",
    [
        "return pickle.loads(pickle.dumps(x))",
        "data = pickle.dumps(x)\nreturn pickle.loads(data)",
        (
            "with open(path, 'wb') as f:\n    pickle.dump(x, f)\n"
            "with open(path, 'rb') as g:\n    return pickle.load(g)"
        ),
        "torch.save(x, path)\nreturn torch.load(path, weights_only=False)",
        (
            "b = io.BytesIO()\ntorch.save(x, b)\n"
            "return torch.load(io.BytesIO(b.getvalue()), weights_only=False)"
        ),
        "if flag:\n    torch.save(x, path)\n    return torch.load(path, weights_only=False)",
        "for _ in range(3):\n    torch.save(x, path)\n    x = torch.load(path, weights_only=False)",
    ],
)
def test_made_here(tmp_path, body):
    assert not _rules(tmp_path, body)


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ("y = torch.load(path, weights_only=False)\ntorch.save(x, path)", "SRC301"),
        ("torch.save(x, path + '.new')\nreturn torch.load(path, weights_only=False)", "SRC301"),
        (
            (
                "a = io.BytesIO()\ntorch.save(x, a)\nb = io.BytesIO()\nb.write(path)\n"
                "return torch.load(b, weights_only=False)"
            ),
            "SRC301",
        ),
        (
            "if flag:\n    torch.save(x, path)\nreturn torch.load(path, weights_only=False)",
            "SRC301",
        ),
        (
            (
                "if os.path.exists(path):\n    return pickle.load(open(path, 'rb'))\n"
                "with open(path, 'wb') as f:\n    pickle.dump(x, f)"
            ),
            "SRC302",
        ),
        (
            (
                "try:\n    pickle.dump(x, open(path, 'wb'))\nexcept OSError:\n"
                "    return pickle.load(open(path, 'rb'))"
            ),
            "SRC302",
        ),
        (
            "def later():\n    torch.save(x, path)\nreturn torch.load(path, weights_only=False)",
            "SRC301",
        ),
    ],
)
def test_from_elsewhere(tmp_path, body, rule):
    assert _rules(tmp_path, body) == [rule]
