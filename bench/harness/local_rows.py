"""The rows about checks without a server: bench/*_bench.cpp, and Go's limiter."""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile

from report import Row

GO_ROW = "in process, token_bucket: golang x/time/rate"
KEY_COUNTS = (1000, 1_000_000)


def comparisons():
    """Name of the row, program, ours, theirs, the most that ours may be of theirs, and whether all
    cores are used."""
    for policy in ("token_bucket", "gcra", "fixed_window"):
        yield (f"in process, {policy}: bare GCRA loop, same clock", "policy_bench",
               f"local_word/{policy}", "bare/gcra", 1.3, False)
    for keys in KEY_COUNTS:
        yield (f"in process, gcra, {keys:,} keys: flat map behind a mutex", "keyed_bench",
               f"keyed/{keys}", f"bare/{keys}", 1.2, False)
    yield ("in process, gcra, 1,000,000 keys, 2 threads: flat map behind a mutex", "keyed_bench",
           "keyed/1000000/real_time/threads:2", "bare/1000000/real_time/threads:2", None, True)
    for keys in (1, *KEY_COUNTS):
        yield (f"memory store, gcra, {keys:,} key{'s' * (keys > 1)}: post() and a flat map",
               "policy_bench",
               f"memory/gcra/{keys}", f"bare_memory/gcra/{keys}", 1.5, False)


def google_benchmarks(machine, program, names, all_cores):
    """The median time of each benchmark, in ns, over interleaved repetitions."""
    done, _ = machine.run(
        machine.programs / program, f"--benchmark_filter=^({'|'.join(names)})$",
        "--benchmark_format=json", "--benchmark_enable_random_interleaving=true",
        f"--benchmark_repetitions={machine.rounds}",
        f"--benchmark_min_time={0.001 if machine.quick else 0.1}", all_cores=all_cores)
    found = {name: [] for name in names}
    for run in json.loads(done)["benchmarks"]:
        if run.get("error_occurred"):
            raise RuntimeError(f"{run['name']}: {run['error_message']}")
        if run["run_type"] == "iteration":
            found[run["run_name"]].append(run["real_time"])
    return [statistics.median(found[name]) for name in names]


def go_rate(machine):
    """ns per Allow() of golang.org/x/time/rate, or None where Go or that package is missing."""
    if shutil.which("go") is None:
        return None
    source = pathlib.Path(__file__).parent.parent / "go_rate" / "main.go"
    with tempfile.TemporaryDirectory(prefix="weir_go.") as folder:
        # Debian's golang-golang-x-time-dev is a tree of sources, not a module.
        environment = {"GOPATH": "/usr/share/gocode", **os.environ, "GO111MODULE": "off",
                       "GOCACHE": f"{folder}/cache"}
        built = subprocess.run(
            ["go", "build", "-o", f"{folder}/go_rate", str(source)],
            env=environment, stdin=subprocess.DEVNULL, capture_output=True)
        if built.returncode != 0:
            return None
        return statistics.median(
            float(machine.run(f"{folder}/go_rate", 20 if machine.quick else 300)[0])
            for _ in range(machine.rounds))


def rows(machine):
    for name, program, ours, theirs, floor, all_cores in comparisons():
        mine, other = google_benchmarks(machine, program, [ours, theirs], all_cores)
        yield Row(name, mine, other, "ns", floor=floor, less_is_better=True)
        if ours == "local_word/token_bucket":
            yield Row(GO_ROW, mine, go_rate(machine), "ns", less_is_better=True)
