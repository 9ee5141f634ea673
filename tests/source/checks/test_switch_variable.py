"""Where text other than Python sets the variable that switches `weights_only` off."""

from __future__ import annotations

import re

import pytest

from everybit.source.checks.switch_variable import VARIABLE, set_in_text
from everybit.source.texts import Kind, Text


def _lines(kind, text):
    written = re.sub(r"(?<![A-Z])V(?![A-Z])", VARIABLE, text)
    found = set_in_text(Text(path="a", kind=kind, text=written))
    return [line for line, _ in found]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Kind.SHELL, "export V=1"),
        (Kind.SHELL, "V='true' python a.py"),
        (Kind.SHELL, 'env A=b V="yes" python a.py'),
        (Kind.SHELL, "docker run -e V=1 image"),
        (Kind.SHELL, "docker run --env=V=1 image"),
        (Kind.SHELL, "setenv V 1"),
        (Kind.SHELL, "set -gx V 1"),
        (Kind.SHELL, "cd a && V=Y ./train"),
        (Kind.SHELL, "declare -x V=1  # for old files"),
        (Kind.DOCKERFILE, "ENV V=1"),
        (Kind.DOCKERFILE, "ENV V 1"),
        (Kind.DOCKERFILE, "ENV A=b \\\n    V=1"),
        (Kind.ENV, "V=1"),
        (Kind.ENV, "export V=true"),
        (Kind.YAML, "env:\n  V: '1'"),
        (Kind.YAML, "env:\n  V: true"),
        (Kind.YAML, "environment:\n  - V=1"),
        (Kind.YAML, "env: {V: 1, A: 2}"),
        (Kind.YAML, "- name: V\n  value: '1'"),
        (Kind.YAML, "- value: 'yes'\n  name: V"),
        (Kind.YAML, "- {name: V, value: '1'}"),
        (Kind.YAML, "run: V=1 python a.py"),
        (Kind.TOML, 'V = "1"'),
        (Kind.INI, "Environment=V=1"),
        (Kind.MAKEFILE, "export V = 1"),
        (Kind.MAKEFILE, "train:\n\tV=1 python a.py"),
    ],
)
def test_set(kind, text):
    (line,) = _lines(kind, text)
    assert "V" in text.splitlines()[line - 1]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Kind.SHELL, "# export V=1"),
        (Kind.SHELL, "unset V"),
        (Kind.SHELL, "export V=0"),
        (Kind.SHELL, "export V="),
        (Kind.SHELL, "export V=false"),
        (Kind.SHELL, "V=10 python a.py"),
        (Kind.SHELL, "MY_V=1 python a.py"),
        (Kind.SHELL, "echo V=1"),
        (Kind.SHELL, 'test "$V" = 1 && exit 2'),
        (Kind.SHELL, '[ -z "$V" ] || exit 2'),
        (Kind.DOCKERFILE, "# ENV V=1"),
        (Kind.DOCKERFILE, "ENV V=0"),
        (Kind.YAML, "# V: 1"),
        (Kind.YAML, "V: '0'"),
        (Kind.YAML, "- name: V\n  value: '0'"),
        (Kind.YAML, "- name: V\n- name: OTHER\n  other: 1"),
        (Kind.YAML, "description: never set V"),
    ],
)
def test_not_set(kind, text):
    assert _lines(kind, text) == []
