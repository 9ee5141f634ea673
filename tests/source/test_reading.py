"""Files as they come: encodings, notebooks, hostile ones; never a crash, never silently clean."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import everybit
from everybit.source.notebook import read_notebook
from everybit.source.reading import Refused, decode

UNSAFE = b"import torch\ntorch.load(p, weights_only=False)\n"

UNREADABLE = {
    "open bracket": b"import torch\nx = (\n",
    "python 2": b"import torch\nprint 'x'\n",
    "null": b"import torch\x00\n",
    "not utf-8": b"import torch\n# \xe4\n",
    "utf-16": "import torch\n".encode("utf-16"),
    "no such encoding": b"# coding: nonsense\nimport torch\n",
    "brackets": b"import torch\nx = " + b"(" * 50_000 + b")" * 50_000,
    "attributes": b"import torch\nx = torch" + b".a" * 20_000,
    "sum": b"import torch\nx = " + b"+".join([b"1"] * 50_000),
    "too large": b"import torch\n#" + b"a" * (9 * 1024**2),
}


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_cannot_be_parsed_is_not_clean(tmp_path, data):
    (tmp_path / "a.py").write_bytes(data)
    (tmp_path / "b.py").write_bytes(UNSAFE)
    verdict = everybit.lint(tmp_path)
    assert [item.what for item in verdict.coverage.skipped] == ["a.py"]
    assert verdict.coverage.skipped[0].promised
    assert [(f.where.path, f.where.line) for f in verdict.findings] == [("b.py", 2)]
    assert everybit.lint(tmp_path / "a.py").status == "inconclusive"


READABLE = {
    "bom": b"\xef\xbb\xbf" + UNSAFE,
    "latin-1": b"# -*- coding: latin-1 -*-\n# \xe4\n" + UNSAFE,
    "crlf": UNSAFE.replace(b"\n", b"\r\n"),
    "cr": UNSAFE.replace(b"\n", b"\r"),
    "no last newline": UNSAFE.rstrip(),
}


@pytest.mark.parametrize("data", READABLE.values(), ids=READABLE.keys())
def test_encodings_and_line_ends(tmp_path, data):
    (tmp_path / "a.py").write_bytes(data)
    verdict = everybit.lint(tmp_path)
    assert not verdict.coverage.skipped
    assert verdict.findings[-1].where.line == len(data.splitlines())


def test_the_column_is_counted_in_characters(tmp_path):
    text = "import torch\nx = 'äöü'; torch.load(p, weights_only=False)\n"
    (tmp_path / "a.py").write_text(text, encoding="utf-8")
    (finding,) = everybit.lint(tmp_path).findings
    assert text.splitlines()[1][finding.where.column - 1 :].startswith("torch.load")


HOSTILE = {
    "many loads": b"import torch\n" + b"torch.load(p, weights_only=False)\n" * 500,
    "elif": b"import torch\nif a:\n  pass\n"
    + b"".join(b"elif torch.load(%d):\n  x=%d\n" % (i, i) for i in range(150))
    + b"torch.load(x)\n",
    "doubling": b"import torch\na0=torch\n"
    + b"".join(b"a%d = a%d if c else a%d\n" % (i + 1, i, i) for i in range(200))
    + b"a200.load(p)\n",
    "doubling dictionaries": b"import torch\nd0={'weights_only':False}\n"
    + b"".join(b"d%d = {**d%d, **d%d}\n" % (i + 1, i, i) for i in range(60))
    + b"torch.load(p, **d60)\n",
    "wrappers of wrappers": b"import torch\n"
    + b"".join(b"def f%d(p, **k):\n" % i + b"  f%d(p, **k)\n" % (i + 1) * 10 for i in range(12))
    + b"def f12(p, **k): torch.load(p, **k)\nf0(1, weights_only=False)\n",
    "bound again": b"import torch\n" + b"torch = f(torch)\n" * 500 + b"torch.load(p)\n",
    "changes": b"import torch\nkw={}\n"
    + b"".join(b"kw['a%d']=1\n" % i for i in range(500))
    + b"torch.load(p, **kw)\n" * 50,
    "classes in a circle": b"import torch\nclass A(B): pass\nclass B(A): pass\n"
    b"class A(A):\n  def f(self): return self.load(torch.load)\n",
    "self in a circle": b"import torch\nclass A:\n  def f(self):\n"
    + b"".join(b"    self.a%d = self.a%d\n" % (i, (i + 1) % 300) for i in range(300)),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_code_is_read_in_bounded_time(tmp_path, data):
    (tmp_path / "a.py").write_bytes(data)
    began = time.process_time()
    everybit.lint(tmp_path)
    assert time.process_time() - began < 10


def test_a_folder_that_is_no_project_is_left_out(tmp_path):
    for name in (".git/a.py", "node_modules/a.py", "env/a.py", "__pycache__/a.py", "vendor/a.py",
                 "x/a_pb2.py"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(UNSAFE)
    (tmp_path / "env" / "pyvenv.cfg").write_text("")
    (tmp_path / "circle").symlink_to(tmp_path, target_is_directory=True)
    verdict = everybit.lint(tmp_path, exclude=["vendor", "*_pb2.py"])
    assert not verdict.findings
    assert len(everybit.lint(tmp_path).findings) == 2


def _notebook(*cells, kind="code"):
    return json.dumps({"cells": [{"cell_type": kind, "source": cell} for cell in cells]})


def test_hits_in_a_notebook_name_the_cell_and_its_line():
    read = read_notebook(_notebook("import torch\n%time x\n!ls\n", ["y = 1\n", "torch.load(p)"]))
    assert [(place.cell, place.line) for place in read.cells[-2:]] == [(2, 1), (2, 2)]
    assert [text for _, text in read.magics] == ["%time x", "!ls"]


MAGICS = [
    "%%bash\nif [ x ]; then",
    "%matplotlib inline",
    "x = !ls",
    "x = %env A",
    "?torch",
    "torch.load?",
    "if x:\n    %time y",
    "!pip install \\\n  torch",
    "%%time\nimport os",
    "%%writefile a.py\nx = (",
]


@pytest.mark.parametrize("cell", MAGICS)
def test_magics_are_blanked(cell):
    read = read_notebook(_notebook(cell, "import torch"))
    assert not read.unread
    assert len(read.text.splitlines()) == len(cell.split("\n")) + 1


def test_a_broken_cell_is_told_and_the_others_are_read(tmp_path):
    (tmp_path / "a.ipynb").write_text(_notebook("import torch", "x = (", UNSAFE.decode()))
    verdict = everybit.lint(tmp_path)
    assert [item.what for item in verdict.coverage.skipped] == ["a.ipynb, cell 2"]
    assert [(f.where.member, f.where.line) for f in verdict.findings] == [("cell 3", 2)]


@given(st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=12)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(
        st.sampled_from(["cells", "cell_type", "source", "worksheets", "input"]), inner,
        max_size=4)),
    max_leaves=12,
))  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_any_json_is_a_notebook_or_refused(value):
    read = read_notebook(json.dumps(value))
    assert isinstance(read, Refused) or read.cells is not None


@given(st.binary(max_size=60))
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_text_or_refused(data):
    assert isinstance(decode(data), Refused | tuple)
