"""Which torch a project admits, and what that makes of loads that give no `weights_only`."""

from __future__ import annotations

import pytest

from everybit.api.lint import lint
from everybit.source.checks.torch_requirement import Admits, read_requirement

LOAD = 'import torch\n\nstate = torch.load("a.pt")\n'


@pytest.mark.parametrize(
    ("text", "admits"),
    [
        ('dependencies = ["numpy", "torch>=1.8"]', Admits.BOTH),
        ('dependencies = ["torch>=2.6"]', Admits.NEW),
        ('"torch<2.6"', Admits.OLD),
        ("torch==2.4.1", Admits.OLD),
        ("torch==2.7.0+cu126", Admits.NEW),
        ("torch==2.5.*", Admits.OLD),
        ("torch<=2.5", Admits.OLD),
        ("torch>=2.0,<2.6", Admits.OLD),
        ("torch~=2.1.0", Admits.OLD),
        ("torch~=2.1", Admits.BOTH),
        ('torch = "^2.1"', Admits.BOTH),
        ('torch = {version = "^2.0", source = "x"}', Admits.BOTH),
        ("  - pytorch=1.13", Admits.OLD),
        ("  - pytorch>=2.7", Admits.NEW),
        ("Requires-Dist: torch (>=1.10)", Admits.BOTH),
        ('install_requires=["torch[opt] >= 2.2, < 3"]', Admits.BOTH),
        ("torch", None),
        ("torch<3", None),
        ("torch!=2.0.1", None),
        ("torchvision>=0.3\ntorchaudio==0.13", None),
        ("my-torch>=1.0", None),
        ("", None),
    ],
)
def test_what_a_requirement_admits(text, admits):
    found = read_requirement(text)
    assert (found[1] if found else None) == admits


def _project(tmp_path, name, text, code=LOAD):
    (tmp_path / name).write_text(text)
    folder = tmp_path / "src" / "package"
    folder.mkdir(parents=True)
    (folder / "load.py").write_text(code)
    return lint(tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "severity"),
    [
        ("pyproject.toml", '[project]\ndependencies = ["torch>=1.8"]\n', "note"),
        ("requirements.txt", "torch==2.1.2\n", "warning"),
        ("setup.py", 'setup(install_requires=["torch<2.6"])\n', "warning"),
        ("environment.yml", "dependencies:\n  - pytorch=1.13\n", "warning"),
    ],
)
def test_an_old_torch_makes_the_default_a_finding(tmp_path, name, text, severity):
    (finding,) = _project(tmp_path, name, text).findings
    assert finding.rule == "SRC301"
    assert finding.severity == severity
    assert finding.where.line == 3
    assert finding.evidence["file"] == name
    assert finding.evidence["lines"] == [3]
    assert "weights_only=False`" not in finding.remedy


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", '[project]\ndependencies = ["torch>=2.6"]\n'),
        ("requirements.txt", "# torch==1.13\ntorch\n"),
        ("requirements.txt", "numpy\n"),
        ("pyproject.toml", "not toml at all [[["),
    ],
)
def test_a_new_or_unsaid_torch_makes_none(tmp_path, name, text):
    assert not _project(tmp_path, name, text).findings


def test_the_nearest_metadata_speaks(tmp_path):
    (tmp_path / "requirements.txt").write_text("torch==1.13\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "pyproject.toml").write_text('[project]\ndependencies = ["torch>=2.8"]\n')
    (inner / "load.py").write_text(LOAD)
    assert not lint(tmp_path).findings


def test_an_installed_package_is_judged_by_its_metadata(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "load.py").write_text(LOAD)
    for name, wanted in (("package-1.0", "torch<2.6"), ("other-2.0", "torch>=2.8")):
        (tmp_path / f"{name}.dist-info").mkdir()
        (tmp_path / f"{name}.dist-info" / "METADATA").write_text(f"Requires-Dist: {wanted}\n")
    (finding,) = lint(tmp_path).findings
    assert finding.evidence["requirement"] == "torch<2.6"


def test_one_finding_tells_all_loads_of_a_file(tmp_path):
    code = LOAD + 'more = torch.load("b.pt", "cpu")\nsafe = torch.load("c.pt", weights_only=True)\n'
    (finding,) = _project(tmp_path, "requirements.txt", "torch>=1.8\n", code).findings
    assert finding.evidence["lines"] == [3, 4]


def test_a_load_for_versions_without_the_argument_is_none(tmp_path):
    code = (
        "import torch\n\n\ndef load(path):\n    try:\n"
        "        return torch.load(path, weights_only=True)\n"
        "    except TypeError:\n        return torch.load(path)\n"
    )
    assert not _project(tmp_path, "requirements.txt", "torch>=1.10\n", code).findings
