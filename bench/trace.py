"""What tracing costs, by step, by module and by operation, beside torch's own and other tools.

    python bench/trace.py [--rounds 12] [--steps 2]

As bench/guard.py: the same GPT, every variant once a round in an order that rotates, ratios to the
bare step of the same process and round, medians and quartiles. Block sums are taken at the first
steps and at every 64th: here at none, and at every step in a variant of its own, from which their
share at the default is worked out. TrainCheck's collector runs scripts itself, in a virtual
environment of its own that is made here (`.venv-traincheck`): it is measured once, against the same
script without it; where it does not install, the table says so.
"""  # noqa: A005 - named as the others are, by what it measures

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from textwrap import fill

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

from everybit.guard.trace.schedule import EVERY
from guard import (
    QUIET,
    ROOT,
    Variant,
    Workers,
    options_of,
    results_of,
    rows_of,
    spread,
    table,
)
from kept import commit
from table import write_section

RESULTS = ROOT / "bench" / "results" / "trace.json"
PEER = "traincheck==0.2.0"
PEER_HOME = ROOT / ".venv-traincheck"
#: Nothing is computed twice: that is measured elsewhere.
BASE = {"replay_every": 0}
VARIANTS = [
    Variant(name="bare", what="the loop as it is"),
    Variant(name="guard", what='`Guard`, `trace="step"` (the default)', settings=BASE),
    Variant(
        name="record",
        what="the same: within what puts a step on record",
        settings=BASE,
        timed="record",
    ),
    Variant(name="module", what='`trace="module"`', settings={**BASE, "trace": "module"}),
    Variant(
        name="sums",
        what='`trace="module"`, a step with block sums of everything',
        settings={**BASE, "trace": "module", "trace_sums": "*"},
    ),
    Variant(name="op", what='`trace="op"`', settings={**BASE, "trace": "op"}),
    Variant(name="debugmode", what="torch's DebugMode with `log_tensor_hashes`"),
    Variant(name="hooks", what="hooks by hand: a norm of each output, gradient and parameter"),
]


class TraceWorkers(Workers):
    """The process that trains under each level in turn."""

    script = "trace_worker.py"


def make_peer_home():
    """Make the environment of TrainCheck, with the same torch; return its folder and why not."""
    if not (PEER_HOME / "bin" / "python").exists():
        venv.create(PEER_HOME, with_pip=True)
    release = torch.__version__.partition("+")[0]
    command = [PEER_HOME / "bin" / "python", "-m", "pip", "install", "-q", PEER, "xxhash"]
    done = subprocess.run(
        [*command, f"torch=={release}"], capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["?"])[-1]


def measure_peer(num_steps, place):
    """Return a step's CPU and wall time under TrainCheck's collector over that without; or why not.

    Its defaults: every call of torch is recorded, and the state of each parameter at each step, as
    hashes.
    """
    why = make_peer_home()
    if why:
        return {"why": f"it does not install beside this torch ({why})"}
    # A copy: the collector writes beside the script.
    script = Path(shutil.copy(ROOT / "bench" / "trace_script.py", place))
    home = PEER_HOME / "bin"
    plain, traced = place / "plain.json", place / "traced.json"
    path = os.pathsep.join((str(ROOT / "bench"), str(ROOT / "src")))
    environment = {**os.environ, **QUIET, "PLACES": path, "STEPS": str(num_steps)}
    collect = [home / "traincheck-collect", "--pyscript", script, "--models-to-track", "model"]
    collect += ["--output-dir", place / "traincheck"]
    try:
        for command, out in (([home / "python", script], plain), (collect, traced)):
            subprocess.run(
                command,
                env={**environment, "OUT": str(out)},
                cwd=place,
                check=True,
                capture_output=True,
                text=True,
                timeout=1800,
            )
        bare, slow = (json.loads(path.read_text()) for path in (plain, traced))
    except (subprocess.SubprocessError, OSError, ValueError) as error:
        told = getattr(error, "stderr", None) or str(error)
        return {"why": f"its collector does not run this script ({told.strip().splitlines()[-1]})"}
    size = sum(p.stat().st_size for p in (place / "traincheck").rglob("*") if p.is_file())
    return {
        "cpu": slow["cpu"] / bare["cpu"],
        "wall": slow["wall"] / bare["wall"],
        "bytes": size / (num_steps + 1),
    }


def over(workers, name, base):
    """Return what a variant's own CPU time adds to another's, over the bare step, by round."""
    pairs = zip(workers.ratios(name, "own_cpu"), workers.ratios(base, "own_cpu"), strict=True)
    return [more - less for more, less in pairs]


def size_of(workers, name):
    """Return what is recorded of a step: values, and bytes a value."""
    row = workers.rows[name][-1]
    return row.get("observations"), row.get("bytes")


def text_of(workers, options, peer):
    """Return the page's section, with what was measured."""
    facts = workers.facts
    lines = rows_of(workers)
    if "why" in peer:
        lines.append(f"| TrainCheck's collector ({PEER.replace('==', ' ')}): {peer['why']} | | | |")
    else:
        lines.append(
            f"| TrainCheck's collector ({PEER.replace('==', ' ')}), once "
            f"| {peer['cpu']:.1f} | {peer['wall']:.1f} | |"
        )
    sums = statistics.median(over(workers, "sums", "module"))
    told = {name: int(size_of(workers, name)[0]) for name in ("guard", "module", "op", "debugmode")}
    size = {name: size_of(workers, name)[1] for name in ("guard", "module", "op")}
    text = f"""## Tracing

`python bench/trace.py --rounds {options.rounds} --steps {options.steps}`, commit {commit()},
torch {torch.__version__}. Medians over {options.rounds} interleaved rounds, quartiles in brackets.

A GPT of {facts["parameters"] / 1e6:.1f} million parameters in float32 (6 layers, width 384, context
256, batch 8, AdamW), {facts["modules"]} modules, {facts["threads"]} threads; every step is traced.

{table(lines, "the Guard's own CPU time")}

To put the digests of a step on record, which are taken to test what lies at rest anyway, takes
{spread([100 * each for each in workers.ratios("record", "own_cpu", "cpu")], 2)} % of a bare step.
Over the Guard without it, tracing by module adds
{spread([100 * each for each in over(workers, "module", "guard")], 2)} % of a bare step to the
Guard's own CPU time, and in all
{spread([100 * each for each in _added(workers, "module", "guard")], 2)} %; tracing by operation
multiplies the bare step by {spread(workers.ratios("op", "cpu"), 2)}. A step at which block sums of
everything are taken costs {100 * sums:.0f} % of a bare step more; at the default, one step in
{EVERY} behind the first four, that is {100 * sums / EVERY:.2f} % of the run.

On record are {told["guard"]} values a step, {told["module"]} by module and {told["op"]} by
operation; {size["guard"] / told["guard"]:.0f}, {size["module"] / told["module"]:.0f} and
{size["op"] / told["op"]:.0f} bytes a value in these runs of {options.steps + 1} steps (names,
environment and settings of the run included, without block sums). DebugMode keeps
{told["debugmode"]} calls a step in memory."""
    blocks = text.split("\n\n")
    return "\n\n".join(
        block if block.lstrip().startswith(("#", "|")) else fill(block, 100) for block in blocks
    )


def _added(workers, name, base):
    pairs = zip(workers.ratios(name, "cpu"), workers.ratios(base, "cpu"), strict=True)
    return [more - less for more, less in pairs]


def main():
    workers = TraceWorkers(VARIANTS)
    options = options_of(__doc__.splitlines()[0], {"float32": workers, "peer": None}, rounds=12)
    wanted = options.only or ["float32", "peer"]
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        peer = {"why": "left out"}
        if "peer" in wanted:
            peer = measure_peer(options.steps, place)
            print(peer, file=sys.stderr)
        if "float32" in wanted:
            try:
                workers.start("float32")
                for number in range(options.rounds):
                    workers.measure(number, options.steps, place)
                    print(f"round {number + 1}/{options.rounds}", file=sys.stderr)
            finally:
                workers.close()
    if "float32" not in wanted:
        return
    text = text_of(workers, options, peer)
    print(text)
    if options.only:
        return
    write_section("trace", text)
    values = {"cpu": "cpu", "wall": "wall", "own_cpu": "cpu", "own_wall": "wall"}
    results = results_of({"float32": workers}, options, values) | {"peer": {PEER: peer}}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
