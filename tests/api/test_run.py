"""`everybit run` from the command line, on scripts as people write and end them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING

import pytest

import everybit

if TYPE_CHECKING:
    from pathlib import Path

TRAIN = """
    import ctypes
    import os
    import sys

    import torch


    def main(how, flip_at=-1, steps=4):
        torch.manual_seed(0)
        layers = torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 40)
        model = torch.nn.Sequential(*layers)
        optimizer = torch.optim.AdamW(model.parameters())
        for step in range(steps):
            if step == flip_at:
                byte = ctypes.c_ubyte.from_address(model[2].weight.data_ptr() + 4 * 700 + 3)
                byte.value ^= 0x40
            loss = model(torch.randn(4, 8)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print("loss", loss.item().hex(), flush=True)
        if how == "raise":
            raise ValueError("boom")
        if how == "exit":
            sys.exit(3)
        if how == "text":
            sys.exit("what went wrong")
        if how == "os-exit":
            os._exit(5)
        if how == "wait":
            import time
            time.sleep(60)


    if __name__ == "__main__":
        main(sys.argv[1], *map(int, sys.argv[2:]))
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(textwrap.dedent(TRAIN))
    return tmp_path


def start(place: Path, *args: str, everybit: bool = True) -> subprocess.Popen[str]:
    program = ["-m", "everybit", "run", "--run", "r"] if everybit else []
    return subprocess.Popen(
        [sys.executable, *program, *args],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def together(*processes: subprocess.Popen[str]) -> list[tuple[int, str, str]]:
    return [finish(process) for process in processes]


def verdict(place: Path) -> dict:
    return json.loads((place / "r" / "verdict.json").read_text())


def test_output_exit_code_and_traceback_are_the_scripts_own(place: Path) -> None:
    bare, watched = together(
        start(place, "train.py", "raise", everybit=False), start(place, "train.py", "raise")
    )
    assert watched[:2] == bare[:2]
    assert bare[0] == 1
    assert bare[2] in watched[2]
    assert "everybit/" not in bare[2]
    found = verdict(place)
    assert [finding["rule"] for finding in found["findings"]] == ["RUN151"]
    assert found["findings"][0]["evidence"]["detail"] == "ValueError: boom"


@pytest.mark.parametrize(
    ("how", "code", "last"), [("exit", 3, ""), ("text", 1, "what went wrong"), ("fine", 0, "")]
)
def test_exit_codes(place: Path, how: str, code: int, last: str) -> None:
    got, out, err = finish(start(place, "train.py", how))
    assert got == code
    assert out.count("loss") == 4
    assert last in err
    end = everybit.open_run(place / "r").log().end
    assert end is not None
    assert end.code == code


def test_a_fault_is_found_and_stops_heals_or_fails_as_asked(place: Path) -> None:
    script = ("train.py", "fine", "2")
    clean = finish(start(place, "train.py", "fine", everybit=False))
    stopped = finish(start(place, "--on-finding", "stop", *script))
    assert stopped[0] == 1
    assert stopped[1].count("loss") == 2
    assert "Traceback" not in stopped[2]
    assert verdict(place)["stats"]["stopped"] is True
    assert [f["rule"] for f in verdict(place)["findings"]] == ["MEM601"]
    where = verdict(place)["findings"][0]["where"]
    assert (where["step"], where["parameter"], where["elements"]) == (2, "2.weight", [700])
    warned, failed, healed = together(
        start(place, "--run", "w", *script),
        start(place, "--run", "f", "--fail-on", "error", *script),
        start(place, "--run", "h", "--on-finding", "heal", *script),
    )
    assert (warned[0], failed[0], healed[0]) == (0, 1, 0)
    assert healed[1] == clean[1] != warned[1]
    assert "MEM601 2.weight" in healed[2]


def test_a_second_run_appends_an_attempt(place: Path) -> None:
    finish(start(place, "train.py", "exit"))
    assert finish(start(place, "train.py", "fine"))[0] == 0
    logs = everybit.open_run(place / "r").logs(0)
    assert [log.attempt for log in logs] == [0, 1]
    assert [log.end.code for log in logs] == [3, 0]


@pytest.mark.parametrize(
    ("number", "reason"), [(signal.SIGTERM, "signal"), (signal.SIGKILL, None), (0, None)]
)
def test_ended_from_outside(place: Path, number: int, reason: str | None) -> None:
    process = start(place, "train.py", "wait" if number else "os-exit")
    if number:
        assert process.stdout is not None
        for _ in range(4):
            process.stdout.readline()
        time.sleep(0.2)
        process.send_signal(number)
    code = finish(process)[0]
    assert code == (-number if number else 5)
    log = everybit.open_run(place / "r").log()
    assert log.num_steps == 4
    assert (log.end.reason if log.end else None) == reason


def test_the_script_sees_what_it_would_under_python(place: Path) -> None:
    (place / "pkg").mkdir()
    (place / "pkg" / "__init__.py").write_text("")
    (place / "helper.py").write_text("NAME = __name__\n")
    script = textwrap.dedent(
        """
        import multiprocessing, os, pickle, sys
        import helper

        class Thing:
            pass

        def double(x):
            return 2 * x

        if __name__ == "__main__":
            print(__name__, __file__, sys.argv, helper.NAME, __spec__ is None)
            print(sys.modules["__main__"].Thing is Thing)
            print(type(pickle.loads(pickle.dumps(Thing()))) is Thing)
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(double, [1, 2]))
            sys.stdout.buffer.write(b"\\xff\\n")
            sys.stderr.write("to stderr\\n")
        """
    )
    (place / "main.py").write_text(script)
    (place / "pkg" / "train.py").write_text(script.replace("__spec__ is None", "__spec__.name"))
    args = ["--run", "x", "--every", "2"]
    processes = [
        subprocess.Popen(
            [sys.executable, *program, *args],
            cwd=place,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for program in (
            ["main.py"],
            ["-m", "everybit", "run", "-q", "--run", "r1", "main.py"],
            ["-m", "pkg.train"],
            ["-m", "everybit", "run", "-q", "--run", "r2", "-m", "pkg.train"],
        )
    ]
    outs = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, outs
    assert outs[0][0] == outs[1][0]
    assert outs[2][0] == outs[3][0]
    # No optimizer stepped: that is told, and does not fail the script.
    found = json.loads((place / "r1" / "verdict.json").read_text())
    assert found["status"] == "inconclusive"


def test_bad_requests_are_one_line_and_exit_with_2(place: Path) -> None:
    (place / "a-file").write_text("")
    (place / "broken.py").write_text("def (:\n")
    missing, module, in_file, broken = together(
        start(place, "missing.py"),
        start(place, "-m", "no.such.module"),
        start(place, "--run", "a-file/r", "train.py", "fine"),
        start(place, "--run", "b", "broken.py"),
    )
    for code, out, err in (missing, module, in_file):
        assert code == 2
        assert out == ""
        assert len(err.strip().splitlines()) == 1
        assert err.startswith("everybit: ")
    assert "missing.py: no such file" in missing[2]
    assert "no.such.module" in module[2]
    assert not (place / "r").exists()
    assert broken[0] == 1
    assert "SyntaxError" in broken[2]


def test_a_disk_that_fills_up_never_stops_the_job(place: Path) -> None:
    # RLIMIT_FSIZE: writes past 24 KiB fail with EFBIG, as ENOSPC does on a full disk.
    (place / "limited.py").write_text(
        "import resource, runpy, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (24576, 24576))\n"
        "sys.argv = ['everybit', 'run', '--run', 'r', 'train.py', 'fine', '-1', '60']\n"
        "runpy.run_module('everybit', run_name='__main__')\n"
    )
    code, out, err = finish(start(place, "limited.py", everybit=False))
    assert code == 0
    assert out.count("loss") == 60
    assert err.count("records no more of this run") == 1
    assert "INCONCLUSIVE" in err
    log = everybit.open_run(place / "r").log()
    assert 0 < log.num_steps < 60
    assert log.end is None
