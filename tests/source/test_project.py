"""Names that come from other files of the project, and what is told once."""

from __future__ import annotations

import pytest
from tests.source.reading_code import written

import everybit

WRAPPER = "import torch\ndef get(p, safe=True):\n    return torch.load(p, weights_only=safe)\n"
UNSAFE = "get('x', safe=False)\n"


def told(folder, *names, rule="SRC301"):
    verdict = everybit.lint(*(folder / name for name in names) if names else (folder,))
    assert not verdict.coverage.skipped
    return sorted(
        (f.where.path.rpartition("/")[2], f.where.line) for f in verdict.findings if f.rule == rule
    )


PROJECTS = {
    "beside": {"util.py": WRAPPER, "main.py": "from util import get\n" + UNSAFE},
    "module": {"util.py": WRAPPER, "main.py": "import util as u\nu." + UNSAFE},
    "package": {
        "pkg/__init__.py": "", "pkg/util.py": WRAPPER,
        "main.py": "from pkg.util import get\n" + UNSAFE,
    },
    "package re-exports": {
        "pkg/__init__.py": "from .util import get\n", "pkg/util.py": WRAPPER,
        "main.py": "from pkg import get\n" + UNSAFE,
    },
    "star": {"util.py": WRAPPER, "main.py": "from util import *\n" + UNSAFE},
    "relative": {
        "pkg/__init__.py": "", "pkg/a/__init__.py": "", "pkg/util.py": WRAPPER,
        "pkg/a/main.py": "from ..util import get\n" + UNSAFE,
    },
    "folder without init": {
        "tools/util.py": WRAPPER, "main.py": "from tools.util import get\n" + UNSAFE,
    },
    "src": {
        "src/pkg/__init__.py": "", "src/pkg/util.py": WRAPPER,
        "scripts/main.py": "from pkg.util import get\n" + UNSAFE, "pyproject.toml": "",
    },
    "twice": {
        "util.py": WRAPPER, "more.py": "from util import get as inner\n"
        "def get(p, **k):\n    return inner(p, **k)\n",
        "main.py": "from more import get\n" + UNSAFE,
    },
    "method": {
        "util.py": "import torch\nclass IO:\n    def get(self, p, safe=True):\n"
        "        return torch.load(p, weights_only=safe)\n",
        "main.py": "from util import IO\nIO()." + UNSAFE,
    },
}  # fmt: skip


@pytest.mark.parametrize("files", PROJECTS.values(), ids=PROJECTS.keys())
@pytest.mark.parametrize("whole", [True, False], ids=["the folder", "the one file"])
def test_a_wrapper_in_another_file_is_followed(tmp_path, files, whole):
    folder = written(tmp_path, files)
    name = next(name for name in files if name.endswith("main.py"))
    assert told(folder, *([] if whole else [name])) == [("main.py", 2)]


def test_a_wrapper_that_is_hit_itself_is_told_once(tmp_path):
    unsafe = "import torch\ndef get(p):\n    return torch.load(p, weights_only=False)\n"
    written(tmp_path, {"util.py": unsafe, "main.py": "from util import get\nget('x')\nget('y')\n"})
    assert told(tmp_path) == [("util.py", 3)]


def test_a_library_of_that_name_is_not_the_projects(tmp_path):
    # Somebody's own `torch.py` beside the script is no reason to lose sight of torch.
    written(tmp_path, {
        "torch.py": "def load(p, weights_only): ...\n",
        "main.py": "import torch\ntorch.load('x', weights_only=False)\n",
    })  # fmt: skip
    assert told(tmp_path) == [("main.py", 2)]


def test_files_that_import_each_other_end(tmp_path):
    written(tmp_path, {
        "a.py": "from b import *\nfrom b import x\ndef f(p, **k):\n    return x(p, **k)\n",
        "b.py": "from a import *\nfrom a import f as x\nimport torch\n"
        "x('p', weights_only=False)\ntorch.load('p', weights_only=False)\n",
    })  # fmt: skip
    assert told(tmp_path) == [("b.py", 5)]


def test_of_many_files_those_that_call_a_wrapper_are_read(tmp_path):
    files = {f"other{n}.py": "import os\nx = 1\n" for n in range(60)}
    files |= {"util.py": WRAPPER, "more.py": "from util import get\n" + UNSAFE}
    files |= {
        "deep.py": "from more2 import fetch\nfetch('x', safe=False)\n",
        "more2.py": "import util\ndef fetch(p, **k):\n    return util.get(p, **k)\n",
    }
    assert told(written(tmp_path, files)) == [("deep.py", 2), ("more.py", 2)]


HANDED_ON = {
    "by name": ("from .files import get\n", "from pkg import get\n"),
    "in brackets": (
        "from .files import (\n    get,  # ours\n)\n", "from pkg import (\n    get,\n)\n",
    ),
    "over two lines": ("from .files import \\\n    get\n", "from pkg import get\n"),
    "under another name": ("from .files import get as fetch\n", "from pkg import fetch as get\n"),
    "with a star": ("from .files import *\n", "from pkg import get\n"),
    "by the module": ("from . import files\n", "import pkg\nget = pkg.files.get\n"),
    "by the module's other name": (
        "from . import files as f\n", "from pkg import f\nget = f.get\n",
    ),
    "where loads stand beside": (
        "import json\nfrom .files import get\nx = json.load\n", "from pkg import get\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("package", "start"), HANDED_ON.values(), ids=HANDED_ON.keys())
@pytest.mark.parametrize("deep", [False, True], ids=["one package", "two packages"])
def test_of_many_files_those_that_take_a_wrapper_from_a_package_are_read(
    tmp_path, package, start, deep
):
    files = {f"other{n}.py": "import os\nx = 1\n" for n in range(60)}
    inner = "outer/pkg" if deep else "pkg"
    files |= {f"{inner}/__init__.py": package, f"{inner}/files.py": WRAPPER}
    if deep:
        files["outer/__init__.py"] = "from . import pkg\nfrom .pkg import *\n"
        start = start.replace("from pkg", "from outer.pkg")
        start = start.replace("import pkg\n", "from outer import pkg\n")
    files["main.py"] = start + UNSAFE
    line = len(start.splitlines()) + 1
    assert told(written(tmp_path, files)) == [("main.py", line)]


def test_of_many_files_one_that_calls_something_harmless_is_not_parsed(tmp_path, monkeypatch):
    from everybit.source import choosing

    files = {f"other{n}.py": "from pkg import harmless\nharmless()\n" for n in range(60)}
    files |= {
        "pkg/__init__.py": "from .files import get, harmless\n",
        "pkg/files.py": WRAPPER + "\ndef harmless():\n    pass\n",
    }
    chosen = []
    choose = choosing.choose_checks
    monkeypatch.setattr(
        "everybit.source.linting.choose_checks",
        lambda given, checks: chosen.append((given, choose(given, checks))) or chosen[0][1],
    )
    assert told(written(tmp_path, files)) == []
    ((given, checks),) = chosen
    loads = {path.name for (path, _), each in zip(given, checks, strict=True)
             if any(check.rule == "SRC301" for check in each)}  # fmt: skip
    assert "files.py" in loads
    assert not any(name.startswith("other") for name in loads)
