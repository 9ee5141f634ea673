"""Which names a `find_class` lets through."""

from __future__ import annotations

import ast

import pytest

from everybit.source.checks.unpickler import Lets, judge_find_class


def _judge(body):
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    (function,) = ast.parse(f"def find_class(self, module, name):\n{lines}").body
    return judge_find_class(function)


@pytest.mark.parametrize(
    "body",
    [
        "raise pickle.UnpicklingError(name)",
        "return SAFE[(module, name)]",
        "return Placeholder",
        "if (module, name) in SAFE:\n    return super().find_class(module, name)\nraise KeyError",
        "if name not in SAFE:\n    raise KeyError\nreturn super().find_class(module, name)",
        (
            "if not (module == 'torch' and name in SAFE):\n    raise KeyError\n"
            "return super().find_class(module, name)"
        ),
        (
            "if module != 'collections' or name not in SAFE:\n    raise KeyError\n"
            "return getattr(collections, name)"
        ),
        "assert name in SAFE\nreturn super().find_class(module, name)",
        (
            "if not self.is_allowed(module, name):\n    raise KeyError\n"
            "return super().find_class(module, name)"
        ),
        (
            "if name in SAFE:\n    return getattr(importlib.import_module(module), name)\n"
            "else:\n    raise KeyError"
        ),
        "return super().find_class(module, name) if name in SAFE else Placeholder",
        (
            "try:\n    if name not in SAFE:\n        raise KeyError\n"
            "    return super().find_class(module, name)\nfinally:\n    self.count += 1"
        ),
    ],
)
def test_only_listed_names(body):
    assert _judge(body) is Lets.LISTED


@pytest.mark.parametrize(
    "body",
    [
        "return super().find_class(module, name)",
        "return getattr(__import__(module), name)",
        "module = RENAMED.get(module, module)\nreturn super().find_class(module, name)",
        "if name == 'Old':\n    name = 'New'\nreturn super().find_class(module, name)",
        "if name in SAFE:\n    return SAFE[name]\nreturn super().find_class(module, name)",
        (
            "try:\n    return super().find_class(module, name)\nexcept AttributeError:\n"
            "    return Placeholder"
        ),
        "if name not in SAFE:\n    log(name)\nreturn super().find_class(module, name)",
    ],
)
def test_all_names(body):
    assert _judge(body) is Lets.ALL


@pytest.mark.parametrize(
    "body",
    [
        "if module in BAD:\n    raise KeyError\nreturn super().find_class(module, name)",
        (
            "if module == 'os' or name == 'eval':\n    raise KeyError\n"
            "return super().find_class(module, name)"
        ),
        (
            "if any(bad in module for bad in BAD):\n    raise KeyError\n"
            "return super().find_class(module, name)"
        ),
        "if module not in BAD:\n    return super().find_class(module, name)\nraise KeyError",
    ],
)
def test_all_but_forbidden_names(body):
    assert _judge(body) is Lets.NOT_FORBIDDEN
