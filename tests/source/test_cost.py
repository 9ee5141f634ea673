"""What linting costs, counted in steps: no project makes them multiply."""

from __future__ import annotations

from pathlib import Path

from everybit.api.lint import lint
from everybit.source import entries, imports, leading, resolving

SNIPPETS = Path(__file__).parent / "snippets"


def counted(monkeypatch, owner, name):
    """Count the calls of a function; its name is looked up where it is called."""
    calls = []
    original = getattr(owner, name)

    def counting(*args, **kwargs):
        calls.append(args)
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, counting)
    return calls


def test_star_imports_in_circles_are_followed_once_for_a_name(tmp_path, monkeypatch):
    number = 10
    for this in range(number):
        stars = "".join(f"from m{other} import *\n" for other in range(number) if other != this)
        (tmp_path / f"m{this}.py").write_text(f"{stars}import torch\nnobody_{this}(torch.load)\n")
    asked = counted(monkeypatch, imports, "_source")
    assert lint(tmp_path).status == "clean"
    # A name asks each file for its star imports, once: that is all pairs, for each name.
    assert len(asked) <= 4 * number * number * number


def test_wrappers_are_read_once_and_not_for_each_of_their_callers(tmp_path, monkeypatch):
    lines = ["import torch", "def f0(p, **kw):", "    return torch.load(p, **kw)"]
    for number in range(1, 4):
        lines += [f"def f{number}(p, **kw):"] + [f"    f{number - 1}(p, **kw)"] * 3
    (tmp_path / "wrappers.py").write_text("\n".join(lines))
    (tmp_path / "callers.py").write_text(
        "from wrappers import f3\n" + "".join(f"f3({n})\n" for n in range(50))
    )
    read = counted(monkeypatch, leading.Leads, "_read")
    lint(tmp_path)
    assert 0 < len(read) <= 2 * 4  # each function once, for each kind of call that is looked for


def test_twice_the_calls_cost_twice_the_steps(tmp_path, monkeypatch):
    steps = {}
    for number in (40, 80):
        folder = tmp_path / str(number)
        folder.mkdir()
        inner = "".join(
            f"def g{n}(p, cb=None):\n    cb and cb(p)\n    return p\n" for n in range(9)
        )
        (folder / "inner.py").write_text(inner)
        (folder / "tests.py").write_text(
            "import inner, torch\ntorch.load\n"
            + "".join(f"inner.g{n % 9}(inner.g{(n + 1) % 9}({n}))\n" for n in range(number))
        )
        with monkeypatch.context() as patched:
            taken = counted(patched, resolving.Resolver, "meanings")
            lint(folder)
            steps[number] = len(taken)
    assert steps[80] <= 2.1 * steps[40]


def test_a_check_is_not_left_out_of_a_large_project_that_can_hit(tmp_path):
    """Files of a large project are chosen by their words: that loses no finding of one alone."""
    snippets = [path for path in SNIPPETS.rglob("*.py") if path.parent.parent == SNIPPETS]
    alone = {path: {f.rule for f in lint(path).findings} for path in snippets}
    for path in snippets:
        folder = tmp_path / path.parent.name
        folder.mkdir(exist_ok=True)
        (folder / path.name).write_bytes(path.read_bytes())
    together: dict[str, set[str]] = {}
    for finding in lint(tmp_path).findings:
        together.setdefault(finding.where.path, set()).add(finding.rule)
    for path, rules in alone.items():
        assert together.get(f"{path.parent.name}/{path.name}", set()) == rules, path


def test_functions_that_give_dictionaries_are_followed_once_for_a_depth(tmp_path, monkeypatch):
    lines = ["import torch", "def d0():", "    return {'weights_only': True}"]
    for number in range(1, 10):
        below = f"d{number - 1}()"
        lines += [f"def d{number}():", f"    return {below} or {below} or {below} or {below}"]
    lines += ["torch.load('a.pt', **d9())"]
    (tmp_path / "made.py").write_text("\n".join(lines))
    followed = counted(monkeypatch, entries, "_entries")
    assert lint(tmp_path).status == "clean"
    assert 0 < len(followed) < 2_000  # 4 to the power of 9 ways lead to the first of them
