"""`matrix`: does it repeat, and where not; each run apart, used again, and compared."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import pytest

import everybit
from everybit.api.matrix_cell import Cell, Result
from everybit.api.matrix_compare import Answer, compare_cells
from everybit.api.matrix_install import CannotInstallError, PipInstaller
from everybit.cli import main
from everybit.core.errors import PathError, UsageError
from everybit.report.matrix_text import render_matrix

HERE = metadata.version("torch")

#: A small training; what is put in the places makes it repeat or not.
TRAIN = """
import os, sys, torch
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
torch.manual_seed({seed})
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = model(torch.ones(2, 4) * {factor}).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
torch.save(model.state_dict(), "model.pt")
print("loss", loss.item())
"""
RANDOM = {"seed": "int.from_bytes(os.urandom(4), 'big')", "factor": "1"}
BY_THREADS = {"seed": "0", "factor": "torch.get_num_threads()"}

#: A program without torch: quick, and compared by what it prints and writes.
PLAIN = """
import os, pathlib, sys
previous = pathlib.Path("out.npy").exists()
text = {text}
pathlib.Path("out.npy").write_text(text)
print({printed}, previous, *sys.argv[1:])
"""


class Fake:
    """An installer that hands out this interpreter, or refuses."""

    def __init__(self, *refused):
        self.refused, self.asked = refused, []

    def python(self, version):
        self.asked.append(version)
        if version in self.refused:
            raise CannotInstallError(f"no wheel of torch {version}")
        return Path(sys.executable)


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def _train(places):
    Path("train.py").write_text(TRAIN.format(**places))
    return "train.py"


def _plain(text="'same'", printed="'done'"):
    Path("plain.py").write_text(PLAIN.format(text=text, printed=printed))
    return "plain.py"


def _old(script, **options):
    """Run under two versions that are too old to be watched."""
    return everybit.matrix(script, torch=["2.4.0", "2.5.1"], installer=Fake(), **options)


def test_a_training_under_other_threads_parts_and_that_is_a_warning():
    matrix = everybit.matrix(_train(BY_THREADS), threads=[1, 2], repeat=1)
    (comparison,) = matrix.comparisons
    assert (comparison.answer, comparison.by) == (Answer.PARTS, "values on record")
    (finding,) = matrix.verdict.findings
    assert (finding.rule, finding.severity) == ("DIF181", "warning")
    assert finding.where.run == f"torch-{HERE}_threads-2_run-1"
    assert finding.where.step == 0
    assert matrix.verdict.exit_code() == 0
    entries = [each["entry"] for each in finding.evidence["explained_by"]]
    assert "threads.intra_op" in entries or "variables.OMP_NUM_THREADS" in entries
    assert "(the first)" in render_matrix(matrix.verdict)
    # What a run writes is kept apart, and not in the folder that it is run from.
    assert not Path("model.pt").exists()
    assert (matrix.folder / finding.where.run / "written" / "model.pt").is_file()
    # The look-alike: the same record once more. Equal values are equal; another file after them
    # is told all the same.
    cells = [Cell(torch=HERE, threads=1, repeat=n, guarded=True) for n in (1, 2)]
    again = matrix.folder / cells[1].name
    shutil.copytree(matrix.folder / cells[0].name, again)
    pairs = [(cell, matrix.results[cells[0]]) for cell in cells]
    found = compare_cells(*pairs, matrix.folder)
    assert (found.answer, found.why) == (Answer.SAME, "every value on record is equal")
    data = bytearray((again / "written" / "model.pt").read_bytes())
    place = data.index(b"loss") if b"loss" in data else len(data) // 2
    data[place] ^= 1
    (again / "written" / "model.pt").write_bytes(data)
    found = compare_cells(*pairs, matrix.folder)
    assert (found.answer, found.where.path) == (Answer.PARTS, "model.pt")


def test_a_training_that_does_not_repeat_is_an_error_on_the_command_line(capfd):
    code = main(["matrix", _train(RANDOM), "--out", "runs"])
    out, _ = capfd.readouterr()
    assert code == 1
    assert "does NOT repeat" in out
    assert "DIF181" in out
    # Asked again, the finished runs are used, and the answer is the same.
    before = {path: path.stat().st_mtime_ns for path in Path("runs").rglob("result.json")}
    assert main(["matrix", "train.py", "--out", "runs", "--json"]) == 1
    data = json.loads(capfd.readouterr()[0])
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert [run["exit_code"] for run in data["stats"]["matrix"]["runs"]] == [0, 0]
    assert data["stats"]["matrix"]["comparisons"][0]["kind"] == "init"


def test_old_versions_run_unguarded_and_are_compared_by_output_and_files():
    matrix = _old(_plain(), repeat=1)
    (comparison,) = matrix.comparisons
    assert (comparison.answer, comparison.by) == (Answer.SAME, "output and files")
    assert not (matrix.folder / "torch-2.4.0_run-1" / "run").exists()
    assert matrix.verdict.ok
    assert "2.4.0 (unguarded)" in render_matrix(matrix.verdict)
    assert "run once" in render_matrix(matrix.verdict)


def test_each_setting_is_held_against_the_first_and_against_its_own_first():
    matrix = everybit.matrix(
        _plain(printed="os.environ['OMP_NUM_THREADS']"), threads=[1, 2], torch=["2.5.1"],
        installer=Fake(),
    )  # fmt: skip
    answers = [(c.a[-15:], c.b[-15:], str(c.answer)) for c in matrix.comparisons]
    assert answers == [
        ("threads-1_run-1", "threads-1_run-2", "same"),
        ("threads-1_run-1", "threads-2_run-1", "parts"),
        ("threads-1_run-1", "threads-2_run-2", "parts"),
        ("threads-2_run-1", "threads-2_run-2", "same"),
    ]
    assert [finding.severity for finding in matrix.verdict.findings] == [
        "warning"
    ]  # once a setting
    assert render_matrix(matrix.verdict).count("repeats (2 runs)") == 2


def test_what_a_run_prints_or_writes_otherwise_is_told():
    printed = _old(_plain(printed="os.getpid()"), repeat=2)
    first = printed.verdict.findings[0]
    assert (first.severity, first.where.path) == ("error", "stdout.txt")
    assert "line 1 of what they print" in first.message
    written = _old(_plain(text="str(os.getpid())"), repeat=2)
    assert written.verdict.findings[0].where.path == "out.npy"


def test_a_log_that_differs_decides_nothing():
    Path("log.py").write_text(
        "import os, pathlib\npathlib.Path('run.log').write_text(str(os.getpid()))\nprint('x')\n"
    )
    matrix = _old("log.py", repeat=1)
    (comparison,) = matrix.comparisons
    assert comparison.answer is Answer.SAME
    assert comparison.beside == ("run.log: other bytes",)


def test_no_run_reads_what_another_wrote_unless_in_place():
    apart = _old(_plain(printed="'x'"), repeat=2)
    assert {c.answer for c in apart.comparisons} == {Answer.SAME}
    together = _old(_plain(printed="'x'"), repeat=2, in_place=True, out="here")
    assert Answer.PARTS in {c.answer for c in together.comparisons}
    assert Path("out.npy").is_file()


def test_a_program_that_shows_nothing_cannot_be_told_to_repeat():
    Path("mute.py").write_text("")
    matrix = _old("mute.py", repeat=1)
    assert matrix.comparisons[0].answer is Answer.UNKNOWN
    assert matrix.verdict.exit_code() == 3


def test_a_version_that_cannot_be_had_is_could_not_check():
    installer = Fake("0.9.9")
    matrix = everybit.matrix(_plain(), torch=["2.5.1", "0.9.9"], installer=installer)
    assert installer.asked == ["2.5.1", "0.9.9"]  # asked once, not once a run
    assert matrix.not_installed == {"0.9.9": "no wheel of torch 0.9.9"}
    assert matrix.verdict.status == "inconclusive"
    assert matrix.verdict.exit_code() == 3
    assert "not run" in render_matrix(matrix.verdict)


def test_the_installed_version_needs_no_installer():
    installer = Fake()
    version = HERE.partition("+")[0]
    matrix = everybit.matrix(_plain(), torch=[version], repeat=2, installer=installer)
    assert installer.asked == []
    # It trains nothing: there is no step on record, and what it prints and writes decides.
    assert {c.by for c in matrix.comparisons} == {"output and files"}
    assert (matrix.folder / f"torch-{version}_run-1" / "run").is_dir()
    assert matrix.verdict.ok


def test_a_run_that_ends_badly_is_not_compared():
    Path("ends.py").write_text(
        "import sys, os\nprint('x')\n"
        "sys.exit('no luck' if os.environ['OMP_NUM_THREADS'] == '2' else 0)\n"
    )
    matrix = everybit.matrix("ends.py", threads=[1, 2], torch=["2.5.1"], installer=Fake())
    assert len(matrix.comparisons) == 1
    assert matrix.verdict.exit_code() == 3
    assert "no luck" in matrix.verdict.coverage.skipped[0].why
    assert "exit 1" in render_matrix(matrix.verdict)
    with pytest.raises(UsageError, match="no luck"):
        everybit.matrix("ends.py", threads=[2], torch=["2.5.1"], installer=Fake(), out="two")


def test_another_program_or_argument_is_run_again():
    first = _old(_plain(), repeat=1)
    again = _old("plain.py", repeat=1)
    assert again.results == first.results
    other = _old("plain.py", repeat=1, args=["--lr", "1"])
    assert other.results != first.results
    assert (other.folder / "torch-2.4.0_run-1" / "stdout.txt").read_text() == "done False --lr 1\n"
    fresh = _old("plain.py", repeat=1, args=["--lr", "1"], fresh=True)
    assert fresh.results.keys() == other.results.keys()


def test_a_half_finished_run_is_removed_and_run_again():
    matrix = _old(_plain(), repeat=1)
    place = matrix.folder / "torch-2.5.1_run-1"
    (place / "result.json").unlink()
    (place / "left.txt").write_text("from before")
    _old("plain.py", repeat=1)
    assert (place / "result.json").is_file()
    assert not (place / "left.txt").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["none.py"], "none.py"),
        (["plain.py", "--repeat", "0"], "--repeat"),
        (["plain.py", "--repeat", "1"], "--repeat 2"),
        (["plain.py", "--threads", "1,x"], "1,x"),
        (["plain.py", "--threads", "0"], "--threads"),
        (["plain.py", "--torch", "newest"], "newest"),
        (["plain.py", "--out", "full"], "full"),
        (["plain.py", "--requirements", "none.txt"], "none.txt"),
    ],
)
def test_bad_requests_are_one_line_and_run_nothing(words, told, capfd):
    _plain()
    Path("full").mkdir()
    Path("full", "mine.txt").touch()
    assert main(["matrix", *words]) == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert told in err
    assert not list(Path().rglob("stdout.txt"))


def test_a_folder_too_large_to_copy_is_refused(monkeypatch):
    monkeypatch.setattr("everybit.api.matrix_cell.MAX_COPY_BYTES", 10)
    with pytest.raises(UsageError, match="--in-place"):
        _old(_plain(), repeat=1)


def test_caches_environments_and_runs_are_not_copied():
    for name, mark in ((".git", "HEAD"), ("env", "pyvenv.cfg"), ("old", "run.json")):
        Path(name).mkdir()
        Path(name, mark).touch()
    Path("data").mkdir()
    Path("data", "x.txt").touch()
    Path("list.py").write_text("import os\nprint(sorted(os.listdir()))\n")
    matrix = _old("list.py", repeat=1)
    shown = (matrix.folder / "torch-2.5.1_run-1" / "stdout.txt").read_text()
    assert shown == "['data', 'list.py']\n"


_SLOW = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open("started.txt", "w").write(str(child.pid))
time.sleep(60)
"""


def test_ctrl_c_ends_the_run_and_all_that_it_started(tmp_path):
    Path("slow.py").write_text(_SLOW)
    code = (
        "import sys; from tests.api.test_matrix import Fake; import everybit;"
        "from everybit.cli import main; import everybit.api.matrix as m;"
        "m.PipInstaller = lambda *_: Fake();"
        "sys.exit(main(['matrix', 'slow.py', '--torch', '2.4.0,2.5.1', '--out', 'runs']))"
    )
    root = Path(__file__).parent.parent.parent
    process = subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(root)}
    )
    mark = tmp_path / "runs" / "torch-2.4.0_run-1" / "work" / "started.txt"
    for _ in range(600):
        if mark.is_file() and mark.read_text():
            break
        time.sleep(0.1)
    child = int(mark.read_text())
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    state = Path(f"/proc/{child}/stat")
    assert not state.exists() or state.read_text().split()[2] == "Z"
    assert not list(tmp_path.rglob("result.json"))


def test_pip_is_asked_for_the_version_and_an_environment_is_kept(tmp_path, monkeypatch):
    asked = []

    def run(command, **_):
        asked.append(command)
        if "venv" in command:
            Path(command[-1], "bin").mkdir(parents=True)
        library = tmp_path / "library"
        return subprocess.CompletedProcess(command, 0, stdout=f"{library}\n", stderr="")

    monkeypatch.setattr(subprocess, "run", run)
    needed = tmp_path / "needed.txt"
    needed.write_text("pillow\n")
    installer = PipInstaller(needed, tmp_path / "environments")
    python = installer.python("2.6.0")
    (install,) = [command for command in asked if "pip" in command]
    assert "torch==2.6.0" in install
    assert install[-2:] == ["-r", str(needed)]
    assert any(word.startswith("xxhash") for word in install)
    assert not any("://" in word or "index" in word for word in install)
    assert (tmp_path / "library" / "everybit" / "__init__.py").is_file()
    asked.clear()
    assert installer.python("2.6.0") == python
    assert asked == []
    # Of another everybit than this one the copy is made anew, and nothing is installed again.
    monkeypatch.setattr("everybit.api.matrix_install._stamp", lambda: "another")
    (tmp_path / "library" / "everybit" / "old.py").touch()
    assert installer.python("2.6.0") == python
    assert not any("pip" in command for command in asked)
    assert not (tmp_path / "library" / "everybit" / "old.py").exists()
    asked.clear()
    old = PipInstaller(None, tmp_path / "environments").python("2.2.0")
    (install,) = [command for command in asked if "pip" in command]
    assert install[-2:] == ["torch==2.2.0", "numpy<2"]
    assert old != python


def test_an_installation_that_fails_leaves_nothing_and_tells_no_address(tmp_path, monkeypatch):
    def run(command, **_):
        if "venv" in command:
            Path(command[-1]).mkdir(parents=True)
            return subprocess.CompletedProcess(command, 0, stdout="", stderr="")
        told = (
            "Looking in https://me:secret@host/simple\nERROR: No match at https://me:secret@h/x\n"
        )
        return subprocess.CompletedProcess(command, 1, stdout="", stderr=told)

    monkeypatch.setattr(subprocess, "run", run)
    installer = PipInstaller(None, tmp_path / "environments")
    with pytest.raises(CannotInstallError) as error:
        installer.python("2.6.0")
    assert str(error.value) == "ERROR: No match at <address>"
    assert list((tmp_path / "environments").iterdir()) == []


def test_runs_equal_on_record_with_other_files_are_told(tmp_path):
    cells = [Cell(torch="2.4.0", threads=None, repeat=n, guarded=False) for n in (1, 2)]
    result = Result(key="", exit_code=0, seconds=0.0, written=("a.npz",))
    for number, cell in enumerate(cells):
        (tmp_path / cell.name / "written").mkdir(parents=True)
        (tmp_path / cell.name / "stdout.txt").touch()
        (tmp_path / cell.name / "written" / "a.npz").write_bytes(bytes([number]))
    found = compare_cells((cells[0], result), (cells[1], result), tmp_path)
    assert (found.answer, found.where.path) == (Answer.PARTS, "a.npz")
    gone = Result(key="", exit_code=0, seconds=0.0, written=())
    found = compare_cells((cells[0], result), (cells[1], gone), tmp_path)
    assert "the second wrote no such file" in found.why


def test_a_requirements_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(PathError):
        PipInstaller(tmp_path / "none.txt")
