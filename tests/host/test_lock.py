"""`env lock`: exact, without addresses, and a file that pip reads."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import everybit
from everybit.host.lock import Pin, installed, lock_text, read_lock
from everybit.host.packages import read_packages

A = "a" * 64
B = "b" * 64


def test_every_package_is_pinned_as_the_environment_record_has_it():
    pins = installed()
    recorded = read_packages()
    assert {pin.name: pin.version for pin in pins} == {
        name: package["version"] for name, package in recorded.items()
    }
    for pin in pins:
        if "record" in recorded[pin.name]:
            assert pin.record == recorded[pin.name]["record"], pin.name


def test_what_is_written_is_read_back():
    text = everybit.env_lock()
    pins = [pin for pin in installed() if pin.direct in ("", "from a file")]
    assert read_lock(text) == {pin.name: pin.version for pin in pins}
    assert "numpy" in read_lock(text)


def test_no_address_is_in_it():
    assert not re.search(r"://|index|find-links|trusted-host|@", everybit.env_lock())


def test_hashes_are_pips_only_where_every_package_has_one():
    both = [Pin(name="a", version="1", sha256=A), Pin(name="b", version="2+cpu", sha256=B)]
    assert f"\na==1 --hash=sha256:{A}\n" in lock_text(both)
    one = lock_text([both[0], Pin(name="b", version="2", record="00ff")])
    assert "--hash" not in one
    assert f"\na==1  # sha256 {A}\n" in one
    assert "\nb==2  # record 00ff\n" in one


@pytest.mark.parametrize("origin", ["editable", "from a folder", "from a repository"])
def test_what_no_version_brings_back_is_a_comment(origin):
    text = lock_text([Pin(name="mine", version="1", direct=origin)])
    assert f"\n# mine==1  # {origin}\n" in text
    assert read_lock(text) == {}


def test_pip_takes_it_as_constraints_and_finds_it_met(tmp_path):
    lock = tmp_path / "constraints.txt"
    everybit.env_lock(lock)

    def pip(*words):
        return subprocess.run(
            [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", "--no-deps",
             "--disable-pip-version-check", *words],
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    told = pip("-c", str(lock), "numpy")
    assert told.returncode == 0, told.stderr
    assert "already satisfied" in told.stdout
    # The look-alike: a lock of another version is not met, so what is above can fail.
    lock.write_text(re.sub(r"(?m)^numpy==\S+", "numpy==0.0.1", lock.read_text()))
    assert pip("-c", str(lock), "numpy").returncode != 0
    everybit.env_lock(lock)
    told = pip("-r", str(lock))
    assert told.returncode == 0, told.stderr


def test_a_place_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(everybit.UsageError):
        everybit.env_lock(tmp_path / "no" / "where.txt")
