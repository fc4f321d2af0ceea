"""The rows about checks without a server: bench/*_bench.cpp, and Go's limiter."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from report import Row

# Name of the row, ours, theirs, and the most that ours may be of theirs.
ROWS = [
    (f"in process, {policy}: bare GCRA loop, same clock", f"local_word/{policy}", "bare/gcra", 1.3)
    for policy in ("token_bucket", "gcra", "fixed_window")
]
GO_ROW = "in process, token_bucket: golang x/time/rate"


def google_benchmarks(machine, program, names):
    """The median time of each benchmark, in ns, over interleaved repetitions."""
    done, _ = machine.run(
        machine.programs / program, f"--benchmark_filter=^({'|'.join(sorted(names))})$",
        "--benchmark_format=json", "--benchmark_enable_random_interleaving=true",
        "--benchmark_report_aggregates_only=true",
        f"--benchmark_repetitions={max(3, machine.rounds)}",
        f"--benchmark_min_time={0.001 if machine.quick else 0.1}")
    found = {}
    for run in json.loads(done)["benchmarks"]:
        if run.get("error_occurred"):
            raise RuntimeError(f"{run['name']}: {run['error_message']}")
        if run.get("aggregate_name") == "median":
            found[run["run_name"]] = run["real_time"]
    return found


def go_rate(machine):
    """ns per Allow() of golang.org/x/time/rate, or None where Go or that package is missing."""
    if shutil.which("go") is None:
        return None
    source = pathlib.Path(__file__).parent.parent / "go_rate" / "main.go"
    with tempfile.TemporaryDirectory(prefix="weir_go.") as folder:
        # Debian's golang-golang-x-time-dev is a tree of sources, not a module.
        environment = {**os.environ, "GO111MODULE": "off", "GOCACHE": f"{folder}/cache",
                       "GOPATH": os.environ.get("GOPATH", "/usr/share/gocode")}
        built = subprocess.run(
            ["go", "build", "-o", f"{folder}/go_rate", str(source)],
            env=environment, stdin=subprocess.DEVNULL, capture_output=True)
        if built.returncode != 0:
            return None
        times = [float(machine.run(f"{folder}/go_rate", 20 if machine.quick else 300)[0])
                 for _ in range(machine.rounds)]
    return sorted(times)[len(times) // 2]


def rows(machine):
    found = google_benchmarks(machine, "policy_bench", {name for row in ROWS for name in row[1:3]})
    for name, ours, theirs, floor in ROWS:
        yield Row(name, found[ours], found[theirs], "ns", floor=floor, less_is_better=True)
    yield Row(GO_ROW, found["local_word/token_bucket"], go_rate(machine), "ns", less_is_better=True)
