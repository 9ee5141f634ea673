"""Which constants a call passes, through dictionaries, partials, flags and wrappers."""

from __future__ import annotations

import pytest
from tests.source.reading_code import module_of

from everybit.source.calls import Argument
from everybit.source.wrapping import ANY_CODE

HEAD = "import torch, functools, copy\n"


def argument(text, *, wrapped=False):
    module = module_of(HEAD + text)
    sites = [
        s for s in module.calls(through=ANY_CODE if wrapped else None) if s.name == "torch.load"
    ]
    return sites[-1].argument("weights_only")


FALSE = {
    "keyword": "torch.load(p, weights_only=False)",
    "name": "w = False\ntorch.load(p, weights_only=w)",
    "not": "torch.load(p, weights_only=not True)",
    "bool": "torch.load(p, weights_only=bool(0))",
    "dictionary": "k = {'weights_only': False}\ntorch.load(p, **k)",
    "dict call": "k = dict(weights_only=False)\ntorch.load(p, **k)",
    "union": "k = {'a': 1} | {'weights_only': False}\ntorch.load(p, **k)",
    "unpacked": "a = {'weights_only': False}\nk = {'mmap': True, **a}\ntorch.load(p, **k)",
    "item": "k = {}\nk['weights_only'] = False\ntorch.load(p, **k)",
    "update": "k = {}\nk.update(weights_only=False)\ntorch.load(p, **k)",
    "update dict": "k = {}\nk.update({'weights_only': False})\ntorch.load(p, **k)",
    "in place": "k = {}\nk |= {'weights_only': False}\ntorch.load(p, **k)",
    "setdefault": "k = {}\nk.setdefault('weights_only', False)\ntorch.load(p, **k)",
    "copy": "k = {'weights_only': False}\nj = k.copy()\ntorch.load(p, **j)",
    "deepcopy": "k = {'weights_only': False}\ntorch.load(p, **copy.deepcopy(k))",
    "overwritten": "k = {'weights_only': True}\nk['weights_only'] = False\ntorch.load(p, **k)",
    "partial": "l = functools.partial(torch.load, weights_only=False)\nl(p)",
    "partial twice": "l = functools.partial(functools.partial(torch.load, weights_only=True),"
    " weights_only=False)\nl(p)",
    "class constant": "class C:\n  w = False\ntorch.load(p, weights_only=C.w)",
    "self": "class C:\n  def __init__(self):\n    self.w = False\n"
    "  def f(self):\n    torch.load(p, weights_only=self.w)",
    "self dictionary": "class C:\n  def __init__(self):\n    self.k = {'weights_only': False}\n"
    "  def f(self):\n    torch.load(p, **self.k)",
    "made by a function": "def k():\n  return {'weights_only': False}\ntorch.load(p, **k())",
    "subscript": "c = {'w': False}\ntorch.load(p, weights_only=c['w'])",
    "map": "list(map(functools.partial(torch.load, weights_only=False), ps))",
    "submit": "pool.submit(torch.load, p, weights_only=False)",
    "thread": "Thread(target=torch.load, args=(p,), kwargs={'weights_only': False})",
}


@pytest.mark.parametrize("text", FALSE.values(), ids=FALSE.keys())
def test_false_is_seen(text):
    assert argument(text).surely(False)


WRAPPERS = {
    "keyword": "def g(p, w=True):\n  return torch.load(p, weights_only=w)\ng(p, w=False)",
    "position": "def g(p, w=True):\n  return torch.load(p, weights_only=w)\ng(p, False)",
    "negated": "def g(p, trust=False):\n  return torch.load(p, weights_only=not trust)\n"
    "g(p, trust=True)",
    "kwargs": "def g(p, **k):\n  return torch.load(p, **k)\ng(p, weights_only=False)",
    "kwargs given": "def g(p, **k):\n  return torch.load(p, **k)\ng(p, **{'weights_only': False})",
    "twice": "def h(p, **k):\n  return torch.load(p, **k)\ndef g(p, **k):\n  return h(p, **k)\n"
    "g(p, weights_only=False)",
    "lambda": "g = lambda p, **k: torch.load(p, **k)\ng(p, weights_only=False)",
    "method": "class C:\n  def g(self, p, w):\n    return torch.load(p, weights_only=w)\n"
    "C().g(p, False)",
    "static": "class C:\n  @staticmethod\n  def g(p, w):\n"
    "    return torch.load(p, weights_only=w)\nC.g(p, False)",
    "constructor": "class C:\n  def __init__(self, p, w):\n"
    "    self.s = torch.load(p, weights_only=w)\nC(p, False)",
    "function given": "def g(load, p):\n  return load(p, weights_only=False)\ng(torch.load, p)",
}


@pytest.mark.parametrize("text", WRAPPERS.values(), ids=WRAPPERS.keys())
def test_a_wrapper_hands_its_arguments_on(text):
    assert argument(text, wrapped=True).surely(False)


def test_what_a_wrapper_is_given_counts_not_its_default():
    text = "def g(p, w=False):\n  return torch.load(p, weights_only=w)\ng(p, w=True)"
    assert argument(text, wrapped=True).surely(True)
    inner = argument("def g(p, w=False):\n  return torch.load(p, weights_only=w)")
    assert inner.may_be(False)
    assert inner.unknown


def test_a_conditional_flag_has_several_values():
    found = argument("w = False if c else True\ntorch.load(p, weights_only=w)")
    assert set(found.values) == {True, False}
    assert not found.unknown
    found = argument("w = True\nif c:\n  w = False\ntorch.load(p, weights_only=w)")
    assert set(found.values) == {True, False}


def test_what_is_not_known_is_said_to_be_so():
    assert argument("torch.load(p)") == Argument(absent=True)
    assert argument("torch.load(p, weights_only=w)").is_unknown
    assert argument("def f(**k):\n  torch.load(p, **k)") == Argument(unknown=True, absent=True)
    assert argument("k = read()\ntorch.load(p, **k)").unknown
    assert argument("k = {}\nif c:\n  k['weights_only'] = False\ntorch.load(p, **k)").absent
    popped = argument("k = {'weights_only': False}\nk.pop('weights_only')\ntorch.load(p, **k)")
    assert popped.is_absent
    assert argument("k = {'weights_only': False}\nk = {}\ntorch.load(p, **k)").is_absent


def test_false_and_0_are_told_apart():
    zero = argument("torch.load(p, weights_only=0)")
    assert zero.surely_falsy
    assert not zero.may_be(False)
    assert argument("torch.load(p, weights_only=False)").may_be(False)


def test_flags_of_the_script_itself_are_read():
    text = (
        "import argparse\nq = argparse.ArgumentParser()\n"
        "q.add_argument('--safe', action='store_true')\nq.add_argument('--n', default=True)\n"
        "a = q.parse_args()\n"
    )
    assert set(argument(text + "torch.load(p, weights_only=a.safe)").values) == {True, False}
    given = argument(text + "torch.load(p, weights_only=a.n)")
    assert given.may_be(True)
    assert given.unknown
    assert argument(text + "torch.load(p, weights_only=a.other)").is_unknown
