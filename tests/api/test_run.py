"""`everybit run` from the command line, on scripts as people write and end them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from tests.forked import Job, run_forked

import everybit

TRAIN = """
    import ctypes
    import os
    import sys
    import threading

    os.environ["OMP_NUM_THREADS"] = "1"  # counts only before torch is imported

    import torch


    def main(how, flip_at=-1, steps=4):
        assert torch.get_num_threads() == 1
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
        if how == "os-exit":
            os._exit(5)
        if how == "wait":
            import time
            time.sleep(60)


    if __name__ == "__main__":
        thread = threading.Thread(target=main, args=(sys.argv[1], *map(int, sys.argv[2:])))
        if sys.argv[1] == "thread":
            thread.start()  # and the script comes to its end
        else:
            thread.run()
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(textwrap.dedent(TRAIN))
    return tmp_path


def start(
    place: Path, *args: str, watched: bool = True, run: str = "r", prefix: tuple[str, ...] = ()
) -> subprocess.Popen[bytes]:
    program = ["-m", "everybit", "run", "--run", run] if watched else []
    environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    return subprocess.Popen(
        [*prefix, sys.executable, *program, *args],
        cwd=place,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )


def finish(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    out, err = process.communicate(b"typed in\n", timeout=120)
    return process.returncode, out.decode(errors="surrogateescape"), err.decode()


def together(*processes: subprocess.Popen[bytes]) -> list[tuple[int, str, str]]:
    return [finish(process) for process in processes]


def verdict(place: Path, run: str = "r") -> dict[str, Any]:
    return json.loads((place / run / "verdict.json").read_text())


def end_of(place: Path, run: str = "r") -> Any:
    return everybit.open_run(place / run).log().end


# --- scripts without torch: what python shows, everybit shows


ENDINGS = {
    "raises": "def deep():\n    raise ValueError('boom')\ndeep()",
    "raises from": "try:\n    1 / 0\nexcept ArithmeticError as e:\n    raise KeyError('x') from e",
    "raises a group": "raise ExceptionGroup('both', [ValueError(1), TypeError(2)])",
    "own hook": "import sys\nsys.excepthook = lambda *e: print(e[0], file=sys.stderr)\n1/0",
    "syntax": "x = 1\ndef broken(:\n",
    "null byte": "x = 1\0",
    "encoding": "# coding: no-such-codec\nx = 1",
    "import": "import no_such_module_at_all",
    "exit 3": "import sys; sys.exit(3)",
    "exit text": "import sys; print('out'); sys.exit('what went wrong')",
    "exit none": "import sys; sys.exit()",
    "exit true": "raise SystemExit(True)",
    "exit 256": "raise SystemExit(256)",
    "exit -1": "raise SystemExit(-1)",
    "exit object": "raise SystemExit(['a', 1])",
    "interrupt": "raise KeyboardInterrupt",
    "base exception": "class Odd(BaseException): pass\nraise Odd('odd')",
    "os exit": "import os; os._exit(5)",
    "killed": "import os; os.kill(os.getpid(), 9)",
    "terminated": "import os; os.kill(os.getpid(), 15)",
    "stdin": "print(input())",
    "bytes": "import sys; sys.stdout.buffer.write(b'\\xff\\xfe\\n')",
    "unprintable": "print('\\ud800')",
    "closed": "import sys; print('last'); sys.stdout.close()",
    "moves": "import os; os.chdir('/'); print(os.getcwd())",
    "atexit": "import atexit; atexit.register(print, 'bye'); print('main')",
    "threads": (
        "import threading, time\n"
        "def late():\n    time.sleep(0.2); print('late')\n"
        "threading.Thread(target=late).start(); print('main')"
    ),
    "forks": (
        "import os, sys\n"
        "if os.fork() == 0:\n    print('child'); sys.exit(4)\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]))"
    ),
    "forks, child raises": (
        "import os, sys\n"
        "if os.fork() == 0:\n    raise RuntimeError('child')\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]))"
    ),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_a_script_ends_as_under_python(name: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_bytes(ENDINGS[name].encode())
    bare, watched = together(
        start(tmp_path, "script.py", watched=False), start(tmp_path, "script.py")
    )
    assert watched[0] == bare[0]
    assert watched[1] == bare[1]
    if name in ("null byte", "encoding"):  # python itself words these by where it reads from
        assert "SyntaxError: " in watched[2]
    else:
        assert watched[2].startswith(bare[2])
    assert "everybit/" not in bare[2]
    if name in ("killed", "os exit"):
        return
    end = end_of(tmp_path)
    log = everybit.open_run(tmp_path / "r").log()
    assert len(everybit.open_run(tmp_path / "r").logs(0)) == 1
    assert log.coverage.skipped[0].promised
    assert end is not None
    if name == "terminated":
        assert (end.reason, end.code, end.detail) == ("signal", 15, "SIGTERM")
        return
    code = bare[0] if bare[0] >= 0 else 1
    assert (end.code & 0xFF) == code
    wanted = {"interrupt": "exception", "base exception": "exception"}
    if "Error" in bare[2] and name not in ("forks, child raises",):
        assert end.reason == "exception"
    elif name in wanted:
        assert end.reason == wanted[name]
    else:
        assert end.reason == ("exit" if code else "clean")
    found = verdict(tmp_path)
    assert found["status"] == ("findings" if found["findings"] else "inconclusive")
    if end.reason == "exception":
        assert [finding["rule"] for finding in found["findings"]] == ["RUN151"]


FACTS = '''
"""A docstring."""
import dis, inspect, multiprocessing, os, pickle, sys, warnings
import helper

class Thing:
    pass

def double(x):
    return 2 * x

if __name__ == "__main__":
    names = sorted(globals())
    print(names, __name__, __file__, __doc__, __package__, type(__loader__), type(__builtins__))
    print(__spec__ and (__spec__.name, __spec__.origin), globals().get("__cached__"))
    print(sys.argv, sys.path, sys.flags, helper.NAME)
    print(sys.stdout.errors, sys.stderr.errors, sys.stdout.encoding)
    print(sys.modules["__main__"].Thing is Thing)
    print(type(pickle.loads(pickle.dumps(Thing()))) is Thing, inspect.getsource(double))
    if "package" not in __file__:  # whose `__main__` python does not import in a spawned process
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(pool.map(double, [1, 2]))
    warnings.warn("theirs")
    sys.stderr.write("to stderr\\n")
'''


@pytest.mark.parametrize(
    "target", [("sub/main.py",), ("-m", "sub.main"), ("-m", "package")], ids=" ".join
)
def test_a_script_sees_what_it_would_under_python(target: tuple[str, ...], tmp_path: Path) -> None:
    for file in ("sub/main.py", "package/__main__.py"):
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).write_text(FACTS)
    (tmp_path / "sub" / "helper.py").write_text("NAME = __name__\n")
    (tmp_path / "helper.py").write_text("NAME = __name__ + ' beside'\n")
    (tmp_path / "package" / "__init__.py").write_text("print('init', __name__)\n")
    args = ["--run", "x", "--every", "2", "-q", "--", "-m"]
    bare, watched = together(
        start(tmp_path, *target, *args, watched=False), start(tmp_path, "-q", *target, *args)
    )
    assert bare[0] == watched[0] == 0, watched
    assert watched[1] == bare[1]
    assert watched[2] == bare[2]


def test_bad_requests_are_one_line_and_exit_with_2(place: Path) -> None:
    (place / "a-file").write_text("")
    (place / "notes.yaml").write_text("")
    (place / "broken").mkdir()
    (place / "broken" / "__init__.py").write_text("1 / 0\n")
    asked = {
        "missing.py: no such file": start(place, "missing.py"),
        "no module named 'no.such.module'": start(place, "-m", "no.such.module"),
        "not a directory": start(place, "train.py", "fine", run="a-file/r"),
        "a-file": start(place, "train.py", "fine", run="a-file"),
        "is a directory": start(place, "."),
        "not a Python script": start(place, "notes.yaml"),
        "ZeroDivisionError": start(place, "-m", "broken.train"),
        "every must be 1 or more": start(place, "--every", "0", "train.py"),
        "Missing argument": start(place),
    }
    if Path("/proc").is_dir():  # no folder can be made there, by root either
        asked["/proc/nothing"] = start(place, "train.py", "fine", run="/proc/nothing/r")
    for words, process in asked.items():
        code, out, err = finish(process)
        assert code == 2, (words, err)
        assert out == ""
        assert len(err.strip().splitlines()) == 1, err
        assert err.startswith("everybit: ")
        assert words.lower() in err.lower()
    assert not (place / "r").exists()


def test_a_second_run_appends_an_attempt(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys; sys.exit(int(sys.argv[1]))")
    for code in (3, 0):
        assert finish(start(tmp_path, "script.py", str(code)))[0] == code
    logs = everybit.open_run(tmp_path / "r").logs(0)
    assert [log.attempt for log in logs] == [0, 1]
    assert [log.end.code for log in logs] == [3, 0]


def test_the_default_folder_is_named_after_the_script(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("")
    process = subprocess.Popen(
        [sys.executable, "-m", "everybit", "run", "script.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    code, _, err = finish(process)
    assert code == 0
    (folder,) = (tmp_path / "everybit-runs").iterdir()
    assert folder.name.endswith("-script")
    assert str(folder.relative_to(tmp_path)) in err
    assert folder.stat().st_mode & 0o777 == 0o700


# --- training


def test_a_fault_is_found_and_stops_heals_or_fails_as_asked(place: Path) -> None:
    bare, clean = together(
        start(place, "train.py", "thread", watched=False),
        start(place, "train.py", "thread", run="c"),
    )
    assert clean[:2] == bare[:2]
    assert "CLEAN" in clean[2]
    assert verdict(place, "c")["stats"]["steps"] == 4

    def job(name: str, *options: str) -> Job:
        options = ("run", "--run", name, *options)
        return Job(name=name, options=list(options), script=["train.py", "fine", "2"])

    ended = run_forked(
        place,
        [job("s", "--on-finding", "stop"), job("w")],
        [job("f", "--fail-on", "error"), job("h", "--on-finding", "heal")],
    )
    stopped, warned, failed, healed = ended.values()
    assert stopped[0] == 1
    assert stopped[1].count("loss") == 2
    assert "Traceback" not in stopped[2]
    found = verdict(place, "s")
    assert found["stats"]["stopped"] is True
    assert [f["rule"] for f in found["findings"]] == ["MEM601"]
    where = found["findings"][0]["where"]
    assert (where["step"], where["parameter"], where["elements"]) == (2, "2.weight", [700])
    assert end_of(place, "s").reason == "stopped"
    assert (warned[0], failed[0], healed[0]) == (0, 1, 0)
    assert healed[1] == bare[1] != warned[1]
    for run, out in (("w", warned), ("h", healed)):
        assert out[2].count("everybit: MEM601 2.weight") == 1
        assert verdict(place, run)["status"] == "findings"


def test_ended_from_outside(place: Path) -> None:
    numbers = {"t": signal.SIGTERM, "k": signal.SIGKILL, "x": 0}
    processes = {
        run: start(place, "train.py", "wait" if number else "os-exit", run=run)
        for run, number in numbers.items()
    }
    for run, number in numbers.items():
        process = processes[run]
        if number:
            assert process.stdout is not None
            for _ in range(4):
                process.stdout.readline()
            time.sleep(0.1)
            process.send_signal(number)
        assert finish(process)[0] == (-number if number else 5)
        log = everybit.open_run(place / run).log()
        assert log.num_steps == 4
        assert not log.damage
        assert (log.end.reason if log.end else None) == ("signal" if run == "t" else None)


def test_a_disk_that_fills_up_never_stops_the_job(place: Path) -> None:
    # RLIMIT_FSIZE: writes past 24 KiB fail with EFBIG, as ENOSPC does on a full disk.
    (place / "limited.py").write_text(
        "import resource, runpy, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (24576, 24576))\n"
        "sys.argv = ['everybit', 'run', '--run', 'r', 'train.py', 'fine', '-1', '60']\n"
        "runpy.run_module('everybit', run_name='__main__')\n"
    )
    code, out, err = finish(start(place, "limited.py", watched=False))
    assert code == 0
    assert out.count("loss") == 60
    assert err.count("records no more of this run") == 1
    assert "INCONCLUSIVE" in err, err
    log = everybit.open_run(place / "r").log()
    assert 0 < log.num_steps < 60
    assert log.end is None


def mounts(*command: str) -> tuple[str, ...]:
    """A prefix that runs a shell line in a mount namespace of its own; skips where root may not."""
    prefix = ("unshare", "--mount", "sh", "-c", f'{" ".join(command)} && exec "$@"', "sh")
    if shutil.which("unshare") is None or subprocess.run([*prefix, "true"], check=False).returncode:
        pytest.skip("no mounts may be made here")
    return prefix


def test_a_place_mounted_read_only(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("print('ran')")
    (tmp_path / "ro").mkdir()
    prefix = mounts(
        f"mount --bind {tmp_path}/ro {tmp_path}/ro && mount -o remount,bind,ro {tmp_path}/ro"
    )
    code, out, err = finish(start(tmp_path, "script.py", run="ro/r", prefix=prefix))
    assert (code, out) == (2, "")
    assert "read-only file system" in err
    assert len(err.strip().splitlines()) == 1


def test_a_disk_that_is_full(place: Path) -> None:
    (place / "small").mkdir()
    prefix = mounts(f"mount -t tmpfs -o size=32k tmpfs {place}/small")
    code, out, err = finish(
        start(place, "train.py", "fine", "-1", "60", run="small/r", prefix=prefix)
    )
    assert code == 0
    assert out.count("loss") == 60
    assert err.count("records no more of this run") == 1
    assert "INCONCLUSIVE" in err, err
