"""The benchmark of scanners, in a slice that fits a test."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench import scan
from bench.scan_corpus import streams
from bench.scan_table import table


def _jobs(folder: Path, count: int) -> list[dict[str, str]]:
    samples = [sample for sample in streams.samples() if "size" not in sample.kind][:count]
    return scan.write_files(folder, samples)


def test_everybit_is_asked_as_the_peers_are(tmp_path):
    jobs = _jobs(tmp_path, 6)
    told = scan.ask(Path(sys.executable), "everybit", jobs)
    assert list(told) == [job["name"] for job in jobs]
    assert all(answer["unsafe"] and answer["flagged"] for answer in told.values())
    assert all(answer["seconds"] < 5 and answer["peak_kib"] > 0 for answer in told.values())


def test_a_file_that_ends_the_process_is_not_flagged_and_the_others_are_asked(tmp_path):
    jobs = _jobs(tmp_path, 3)
    # Stands in for a peer: an interpreter that dies at the second file.
    peer = tmp_path / "peer"
    peer.write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys\n"
        "jobs = json.load(open(sys.argv[3]))\n"
        "with open(sys.argv[4], 'a') as out:\n"
        "    for job in jobs:\n"
        f"        if job['name'] == {jobs[1]['name']!r}:\n"
        "            out.flush()\n"
        "            os._exit(9)\n"
        "        answer = {'name': job['name'], 'unsafe': True, 'flagged': True, 'seconds': 0.1}\n"
        "        out.write(json.dumps(answer) + '\\n')\n",
        encoding="utf-8",
    )
    peer.chmod(0o755)
    told = scan.ask(peer, "picklescan", jobs)
    assert [told[job["name"]]["flagged"] for job in jobs] == [True, False, True]
    assert told[jobs[1]["name"]]["error"] == "ended the process (9)"


def _answers(**flagged: tuple[bool, bool]) -> dict[str, object]:
    return {
        name: {"name": name, "unsafe": unsafe, "flagged": doubted, "seconds": 0.001}
        for name, (unsafe, doubted) in flagged.items()
    }


def test_what_must_not_be_is_told():
    result = {
        "files": {
            "a": {"kind": "ZIP: x", "source": "own", "hostile": True},
            "b": {"kind": "torch: x", "source": "own", "hostile": False},
        },
        "tools": {"everybit": _answers(a=(False, False), b=(True, True))},
    }
    assert scan.failures(result) == ["a is not flagged", "b is called unsafe"]
    result["tools"]["everybit"] = _answers(a=(False, True), b=(False, True))
    assert scan.failures(result) == []


def test_the_result_that_is_kept_holds_what_must_be_shown():
    path = Path(scan.__file__).parent / "results" / "scan.json"
    result = json.loads(path.read_text(encoding="utf-8"))
    assert scan.failures(result) == []
    hostile = [name for name, file in result["files"].items() if file["hostile"]]
    assert len(hostile) >= 150
    assert len(result["files"]) - len(hostile) >= 60
    assert max(result["large"]["everybit"]["first_s"]) < 1
    page = (path.parents[2] / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert table(result) in page


def test_answers_are_kept_for_the_same_bytes_and_version_only(tmp_path):
    answers = _answers(a=(True, True), b=(False, False))
    kept = {"versions": {"slow": "1", "picklescan": "1"}, "digests": {"a": "0", "b": "0"},
            "tools": {"slow": answers, "picklescan": answers}}  # fmt: skip
    result = {"versions": {"slow": "1", "picklescan": "1"}, "digests": {"a": "0", "b": "1"}}
    assert scan.known(kept, result, "slow") == {"a": answers["a"]}
    assert scan.known(kept, result, "picklescan") == {}
    assert scan.known(kept, {**result, "versions": {"slow": "2"}}, "slow") == {}
    assert scan.known({"tools": {}}, result, "slow") == {}
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "y").write_bytes(b"1")
    first = scan.digest(tmp_path / "x")
    (tmp_path / "x" / "y").write_bytes(b"2")
    assert scan.digest(tmp_path / "x") != first
