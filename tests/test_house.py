"""The house rules that a program can hold."""

from __future__ import annotations

import re
import resource
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import everybit
from everybit.cli import verbs

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "everybit"


def _loaded(code):
    """Return the names of the modules that are loaded after `code` in a fresh interpreter."""
    told = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print('LOADED', *sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(told.stdout.rpartition("LOADED ")[2].split())


def test_import_loads_neither_torch_nor_numpy():
    assert not _loaded("import everybit") & {"torch", "numpy", "click", "rich"}
    assert not _loaded("import everybit; everybit.Verdict") & {"torch", "numpy", "click", "rich"}


def test_help_loads_nothing_heavy():
    code = "from everybit.cli import main; assert main(['--help']) == 0"
    assert not _loaded(code) & {"torch", "numpy", "rich", "everybit.core.config", "everybit.api"}


@pytest.mark.parametrize("verb", ["verify", "seal", "repair", "diff", "report", "rule"])
def test_verbs_for_files_and_runs_load_no_torch(verb, tmp_path):
    # With input that each refuses: everything up to the reading of it was loaded.
    (tmp_path / "a").write_text("no model")
    words = ["MEM601"] if verb == "rule" else [str(tmp_path / "a")] * (2 if verb == "diff" else 1)
    code = f"from everybit.cli import main; main([{verb!r}, *{words!r}])"
    assert "torch" not in _loaded(code)


@pytest.mark.parametrize(
    "package",
    ["core", "ledger", "files", "host", "detect", "diff", "report", "sinks", "api", "cli"],
)
def test_torch_free_packages_load_no_torch(package):
    modules = [
        ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        for path in (SRC / package).rglob("*.py")
        if path.name != "__init__.py"
    ]
    loaded = _loaded("import " + ", ".join(modules or [f"everybit.{package}"]))
    assert "torch" not in loaded
    assert set(modules) <= loaded


def test_help_answers_at_once():
    def once():
        # Processor time, not the clock's: other tests run beside this one.
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "everybit", "--help"], check=True, capture_output=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    # 0.1 s on an idle machine; the best of several, since a busy one inflates this too.
    assert min(once() for _ in range(8)) < 0.2


def test_public_names_are_sorted_and_there():
    assert sorted(everybit.__all__) == everybit.__all__
    assert set(everybit.__all__) <= set(dir(everybit))
    for name in everybit.__all__:
        assert getattr(everybit, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = everybit.nonsense


def test_verbs_that_share_their_name_with_a_package_are_both():
    # Whatever was imported first, `everybit.diff(...)` is the verb.
    for first in ("", "import everybit.diff.environment, everybit.report.text;"):
        told = subprocess.run(
            [sys.executable, "-c", f"""
import everybit; {first}
import everybit.diff.environment as module
assert module.compare_environments({{}}, {{}}) == []
for verb in (everybit.diff, everybit.report):
    try:
        verb()
    except TypeError as error:
        print(error)
"""],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert "diff() missing 2 required positional arguments" in told.stdout
        assert "report() missing 1 required positional argument" in told.stdout


def test_version_and_changelog_agree():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[{re.escape(everybit.__version__)}\] - ", text, re.M)


def _tracked():
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    told = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    return [ROOT / name for name in told.stdout.decode().split("\0") if name]


def test_no_place_of_this_machine_and_no_index_address_is_tracked():
    places = [str(ROOT.parent), str(Path.home()), "index-url", "file://" + "/opt"]
    places = [place for place in places if len(place) > 4]  # `/` and `/root` say nothing
    for path in _tracked():
        if path.is_file() and path != Path(__file__):
            text = path.read_text(encoding="utf-8", errors="replace")
            assert not [place for place in places if f"{place}" in text], path


def test_no_file_is_long():
    for path in SRC.rglob("*.py"):
        lines = path.read_text(encoding="utf-8").count("\n")
        assert lines <= 400, f"{path.name} has {lines} lines; look for the second concept in it"


def test_no_drawer_modules():
    drawers = {"utils", "helpers", "common", "misc", "manager"}
    assert not [path for path in SRC.rglob("*.py") if drawers & set(path.stem.split("_"))]


def test_every_module_says_what_it_is_for():
    for path in SRC.rglob("*.py"):
        assert path.read_text(encoding="utf-8").lstrip("r").startswith('"""'), path


def test_the_lock_names_every_requirement_exactly():
    lock = {}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, version = re.fullmatch(r"([a-z0-9-]+)==([0-9][0-9a-z.]*)", line).groups()
            lock[name] = version
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
    ]
    names = {re.match(r"[A-Za-z0-9-]+", each)[0].lower() for each in wanted} - {"everybit"}
    assert names <= set(lock)
    assert lock["torch"] == "2.13.0"


def test_the_readme_sets_up_from_the_lock():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first, second = re.findall(r"^```(?:bash|console|sh|shell)\n(.*?)^```", text, re.M | re.S)[:2]
    assert "-c constraints.txt '.[torch]'" in first
    assert first.rstrip().endswith("/everybit demo")
    assert "-c constraints.txt -e '.[dev]'" in second
    test_command = second.rstrip().splitlines()[-1].rpartition("/")[2]
    assert test_command.split()[0] == "pytest"
    ran = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert test_command.replace("pytest ", 'pytest" ') in ran


def test_advice_names_verbs_that_exist():
    told = {
        (path.name, verb)
        for path in SRC.rglob("*.py")
        for verb in re.findall(r"`everybit ([a-z]+)", path.read_text(encoding="utf-8"))
    }
    assert len(told) > 50
    assert {each for each in told if each[1] not in verbs.VERBS} == set()


def test_verbs_of_the_table_are_files():
    files = {path.stem for path in (SRC / "cli").glob("*.py")}
    assert set(verbs.VERBS) <= files
