"""Package digests: another build shows, another place or installer does not."""

from __future__ import annotations

from everybit.host.packages import digest_of_record, read_packages

RECORD = b"""\
pkg/__init__.py,sha256=AAAA,120
pkg/kernel.so,sha256=BBBB,99999
pkg-1.0.dist-info/METADATA,sha256=CCCC,50
pkg-1.0.dist-info/INSTALLER,sha256=DDDD,4
pkg-1.0.dist-info/RECORD,,
../../../bin/pkg,sha256=EEEE,200
pkg/__pycache__/__init__.cpython-311.pyc,,
"""


def _install(folder, name, version, record=RECORD):
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "RECORD").write_bytes(record)
    return info


def test_a_swapped_build_of_the_same_version_changes_the_digest():
    swapped = RECORD.replace(b"sha256=BBBB", b"sha256=ZZZZ")
    assert digest_of_record(RECORD, "pkg-1.0.dist-info") != digest_of_record(
        swapped, "pkg-1.0.dist-info"
    )


def test_another_place_and_another_installer_do_not_change_the_digest():
    # A script's first line holds the environment's path; uv writes no byte code and other notes.
    other = b"""\
pkg-1.0.dist-info/INSTALLER,sha256=UUUU,2
pkg-1.0.dist-info/METADATA,sha256=CCCC,50
pkg-1.0.dist-info/RECORD,,
pkg-1.0.dist-info/REQUESTED,sha256=VVVV,0
pkg-1.0.dist-info/direct_url.json,sha256=WWWW,0
pkg-1.0.dist-info/uv_cache.json,sha256=XXXX,0
pkg/__init__.py,sha256=AAAA,120
pkg/kernel.so,sha256=BBBB,99999
../../../bin/pkg,sha256=FFFF,210
""".replace(b"\n", b"\r\n")
    assert digest_of_record(RECORD, "pkg-1.0.dist-info") == digest_of_record(
        other, "pkg-1.0.dist-info"
    )


def test_the_first_of_a_name_on_the_path_wins_and_names_are_normalised(tmp_path):
    _install(tmp_path / "a", "My_Pkg.Sub", "2.0")
    _install(tmp_path / "b", "my_pkg_sub", "1.0")
    found = read_packages([str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "missing")])
    assert {name: facts["version"] for name, facts in found.items()} == {"my-pkg-sub": "2.0"}


def test_an_editable_install_says_that_no_digest_covers_it(tmp_path):
    info = _install(tmp_path, "pkg", "1.0")
    (info / "direct_url.json").write_text('{"url": "file:///x", "dir_info": {"editable": true}}')
    assert read_packages([str(tmp_path)])["pkg"]["editable"] is True


def test_damaged_and_missing_notes_are_no_error(tmp_path):
    info = _install(tmp_path, "pkg", "1.0")
    (info / "RECORD").unlink()
    (info / "direct_url.json").write_bytes(b"[\xff")
    assert read_packages([str(tmp_path)]) == {"pkg": {"version": "1.0"}}


def test_this_environment_is_read():
    found = read_packages()
    assert found["click"]["version"]
    assert len(found["numpy"]["record"]) == 16
