"""What names mean: every way to write `torch.load`, and what only looks like it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.source.reading_code import called, module_of

from everybit.source.wrapping import ANY_CODE

LOADS = {
    "plain": "import torch\ntorch.load(p)",
    "as": "import torch as t\nt.load(p)",
    "from": "from torch import load\nload(p)",
    "from as": "from torch import load as ld\nld(p)",
    "submodule": "import torch.serialization as ts\nts.load(p)",
    "re-export": "from torch.serialization import load\nload(p)",
    "assigned": "import torch\nx = torch.load\ny = x\ny(p)",
    "attribute chain": "import torch\nm = torch.serialization\nm.load(p)",
    "partial": "import torch, functools\nx = functools.partial(torch.load, mmap=True)\nx(p)",
    "partial as": "import torch\nfrom functools import partial as P\nP(torch.load)(p)",
    "getattr": "import torch\ngetattr(torch, 'load')(p)",
    "getattr added": "import torch\nw = 'lo'\ngetattr(torch, w + 'ad')(p)",
    "getattr f-string": "import torch\nw = 'lo'\ngetattr(torch, f'{w}ad')(p)",
    "import_module": "import importlib\nimportlib.import_module('torch').load(p)",
    "dunder import": "__import__('torch').load(p)",
    "star": "from torch import *\nload(p)",
    "in function": "def f():\n  from torch import load\n  return load(p)",
    "closure": "def f():\n  from torch import load\n  def g():\n    load(p)",
    "global after": "def f():\n  x(p)\nimport torch\nx = torch.load",
    "walrus": "import torch\nif (x := torch.load):\n  x(p)",
    "tuple": "import torch\na, b = torch.load, torch.save\na(p)",
    "table": "import torch\nt = {'pt': torch.load}\nt['pt'](p)",
    "sequence": "import torch\nt = [torch.save, torch.load]\nt[1](p)",
    "conditional": "import torch\nx = torch.load if c else other\nx(p)",
    "or": "import torch\nx = given or torch.load\nx(p)",
    "try import": "try:\n  import torch\nexcept ImportError:\n  torch = None\ntorch.load(p)",
    "default": "import torch\ndef f(load=torch.load):\n  load(p)",
    "self": "import torch\nclass A:\n  def __init__(self):\n    self.l = torch.load\n"
    "  def f(self):\n    self.l(p)",
    "class attribute": "import torch\nclass A:\n  l = torch.load\n  def f(self):\n    self.l(p)",
    "instance": "import torch\nclass A:\n  def __init__(self):\n    self.l = torch.load\n"
    "a = A()\na.l(p)",
    "property": "import torch\nclass A:\n  @property\n  def l(self):\n    return torch.load\n"
    "  def f(self):\n    self.l(p)",
    "returned": "import torch\ndef g():\n  return torch.load\ng()(p)",
    "with": "import torch\nwith no_grad():\n  x = torch.load\nx(p)",
    "global statement": "import torch\nx = None\ndef f():\n  global x\n  x = torch.load\n"
    "def g():\n  x(p)",
    "loop round": "import torch\nx = other\nfor i in r:\n  x(p)\n  x = torch.load",
    "loop over": "import torch\nfor x in (torch.save, torch.load):\n  x(p)",
    "lambda": "import torch\nx = lambda: torch.load\nx()(p)",
    "annotated": "import torch\nx: object = torch.load\nx(p)",
}

OTHERS = {
    "another library": "import yaml\nyaml.load(p)",
    "unknown name": "thing.load(p)",
    "parameter": "import torch\ndef f(torch):\n  torch.load(p)",
    "bound again": "import torch\nload = torch.load\nload = safe\nload(p)",
    "both branches": "import torch\nx = torch.load\nif c:\n  x = a\nelse:\n  x = b\nx(p)",
    "elif chain": "import torch\nx = torch.load\nif c:\n  x = a\nelif d:\n  x = b\nelse:\n  x = e\n"
    "x(p)",
    "other branch": "import torch\nif c:\n  x = torch.load\nelse:\n  x = b\n  x(p)",
    "branch that leaves": "import torch\ndef f():\n  x = b\n  if c:\n    x = torch.load\n"
    "    return x\n  x(p)",
    "try and handler": "import torch\nx = torch.load\ntry:\n  x = a\nexcept E:\n  x = b\nx(p)",
    "other handler": "import torch\ntry:\n  go()\nexcept A:\n  x = torch.load\nexcept B:\n  x(p)",
    "loop variable": "import torch\nfor torch in r:\n  torch.load(p)",
    "comprehension": "import torch\n[torch.load(p) for torch in r]",
    "class scope": "import torch\nclass A:\n  load = torch.load\n  def f(self):\n    load(p)",
    "own function": "import torch\ndef load(p): ...\nload(p)",
    "own class": "import torch\nclass torch:\n  load = own\ntorch.load(p)",
    "deleted": "import torch\nx = torch.load\ndel x\nx(p)",
    "caught": "import torch\ntry:\n  go()\nexcept E as torch:\n  torch.load(p)",
    "method of a result": "import torch\ntorch.nn.Linear(1, 1).load(p)",
    "json": "from json import load\nload(f)",
    "star of another": "from json import *\nload(f)",
    "getattr unknown": "import torch\ngetattr(torch, name)(p)",
    "self set twice": "import torch\nclass A:\n  def f(self):\n    self.l(p)\n  l = None",
    "argument before": "import torch\nx = f(torch.load)\nx(p)",
}  # fmt: skip


@pytest.mark.parametrize("text", LOADS.values(), ids=LOADS.keys())
def test_a_load_is_known_however_it_is_written(text):
    lines = text.split("\n")
    line = next(n for n in range(len(lines), 0, -1) if "(p)" in lines[n - 1])
    assert "torch.load" in called(text, line)


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS.keys())
def test_what_is_no_load_is_not_taken_for_one(text):
    assert "torch.load" not in called(text)


NAMES = {
    "result": ("import pickle\npickle.Unpickler(f).load()", "pickle.Unpickler().load"),
    "base": (
        "import pickle\nclass U(pickle.Unpickler): ...\nU(f).load()", "pickle.Unpickler().load"
    ),
    "super": (
        "import pickle\nclass U(pickle.Unpickler):\n  def load(self):\n    super().load()",
        "pickle.Unpickler().load"
    ),
    "made before": (
        "from torch.cuda.amp import GradScaler\ns = GradScaler()\ns.unscale_(o)",
        "torch.cuda.amp.GradScaler().unscale_"
    ),
    "annotation": (
        "import torch\ndef f(s: torch.amp.GradScaler):\n  s.step(o)", "torch.amp.GradScaler().step"
    ),
    "annotation in quotes": (
        "import torch\ndef f(s: 'torch.amp.GradScaler'):\n  s.step(o)",
        "torch.amp.GradScaler().step"
    ),
    "optional": (
        "import torch, typing as t\ndef f(s: t.Optional[torch.amp.GradScaler]):\n  s.step(o)",
        "torch.amp.GradScaler().step"
    ),
    "own": ("def f():\n  f()", "train.f"),
    "lightning": (
        "import pytorch_lightning as pl\npl.Trainer().fit(m)", "lightning.pytorch.Trainer().fit"
    ),
    "either import": (
        "try:\n  import cPickle as pickle\nexcept ImportError:\n  import pickle\npickle.load(f)",
        "pickle.load"
    ),
    "entered": ("with open(p) as f:\n  f.read()", "open().read"),
    "builtins": ("import builtins\nbuiltins.open(p)", "open"),
}  # fmt: skip


@pytest.mark.parametrize("case", NAMES.values(), ids=NAMES.keys())
def test_results_bases_and_aliases_have_one_name(case):
    text, name = case
    assert name in called(text)


def test_a_conditional_name_is_not_sure():
    module = module_of("import torch\nx = torch.load if c else other.load\nx(p)")
    (site,) = [site for site in module.calls() if site.name == "torch.load"]
    assert not site.sure
    module = module_of("import torch\ntorch.load(p)")
    assert module.calls()[0].sure


@given(st.recursive(
    st.sampled_from(["torch", "torch.load", "a", "b", "None", "1", "'load'", "d"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda t: f"({t[0]} or {t[1]})"),
        st.tuples(inner, inner).map(lambda t: f"({t[0]} if {t[1]} else {t[0]})"),
        inner.map(lambda t: f"(lambda x={t}: {t})"),
        st.tuples(inner, inner).map(lambda t: f"getattr({t[0]}, {t[1]})"),
        st.tuples(inner, inner).map(lambda t: f"{{'load': {t[0]}, **{t[1]}}}"),
        inner.map(lambda t: f"[{t} for a in {t}][0]"),
        st.tuples(inner, inner).map(lambda t: f"({t[0]})({t[1]}, **{t[1]})"),
    ),
    max_leaves=12,
), st.permutations(["a", "b", "d"]))  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_nothing_that_parses_raises_or_runs_on(expression, names):
    lines = ["import torch, functools"]
    lines += [f"{name} = {expression}" for name in names]
    lines += [f"def f(a, d={expression}, **b):\n  d.update(a)\n  return a({expression}, **b)"]
    lines += [f"f({expression}, d={expression})"]
    module = module_of("\n".join(lines))
    for site in module.calls(through=ANY_CODE):
        site.argument("weights_only", 3)
        module.definitions(site.node)
    assert module.resolve(module.call_nodes[0].func) != ""
