"""The program's own code by digest: what it imports, and nothing that is installed."""

from __future__ import annotations

import sys

from everybit.host.code import read_code


def _program(folder, **files):
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path = path.with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(folder / "train.py")


def test_the_script_and_what_it_imports(tmp_path):
    script = _program(
        tmp_path,
        train="import torch, model\nfrom pkg import layers\ndef f():\n    import late\n",
        model="import numpy",
        late="",
        unused="",
        pkg__layers="from . import deep\nfrom .deep import x",
        pkg__deep="x = 1",
    )
    (tmp_path / "pkg" / "__init__.py").write_text("")
    found = read_code(script)
    assert list(found) == [
        "script", "late.py", "model.py", "pkg/__init__.py", "pkg/deep.py", "pkg/layers.py",
    ]  # fmt: skip
    (tmp_path / "pkg" / "deep.py").write_text("x = 2")
    changed = read_code(script)
    assert {name for name in found if found[name] != changed[name]} == {"pkg/deep.py"}


def test_neither_the_name_of_the_script_nor_line_ends_are_a_change(tmp_path):
    script = _program(tmp_path, train="a = 1\n", other="")
    (tmp_path / "other.py").write_bytes(b"a = 1\r\n")
    assert read_code(script) == read_code(str(tmp_path / "other.py"))


def test_a_script_within_a_package_is_read_from_the_root_of_it(tmp_path):
    script = _program(tmp_path / "pkg", train="from pkg.sub import f", sub__f="", __init__="")
    (tmp_path / "pkg" / "__init__.py").write_text("")
    (tmp_path / "pkg" / "sub" / "__init__.py").write_text("")
    assert list(read_code(script)) == [
        "script", "pkg/__init__.py", "pkg/sub/__init__.py", "pkg/sub/f.py",
    ]  # fmt: skip


def test_what_cannot_be_read_as_python_is_digested_all_the_same(tmp_path):
    script = _program(tmp_path, train="this is no python (")
    assert list(read_code(script)) == ["script"]


def test_no_script_is_absent(tmp_path, monkeypatch):
    for name in ("", "-c", str(tmp_path), str(tmp_path / "none.py"), sys.executable):
        assert "absent" in read_code(name)
    import numpy

    assert "absent" in read_code(numpy.__file__)


def test_files_that_import_each_other_end(tmp_path):
    script = _program(tmp_path, train="import a", a="import b", b="import a, train")
    assert list(read_code(script)) == ["script", "a.py", "b.py"]
