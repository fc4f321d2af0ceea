"""Runs a benchmark that prints one table for a page of docs, for a moment, and fails unless it
produced exactly the rows below, with finite figures, and with the counts that do not depend on
time. ctest runs it as bench.cluster and bench.local_units.

    python3 bench/table_test.py cluster|local_units DIRECTORY_OF_PROGRAMS JSON_FILE
"""

import json
import math
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
CLUSTER = ["one server, 0 buckets", "2 masters, 0 buckets", "2 masters, 16 buckets"]
LOCAL_UNITS = [
    "1,000,000: weir", "1,000,000: weir, local units",
    "10,000,000: weir", "10,000,000: weir, local units",
    "as fast as they can: one script call per check",
    "as fast as they can: weir", "as fast as they can: weir, local units",
    "as fast as they can, 10^5/s pass: weir",
    "as fast as they can, 10^5/s pass: weir, local units"]


def cluster(programs, json_file):
    words = [HERE / "harness" / "cluster.py", programs]
    rows = run(words, json_file)
    return {f"{row.pop('cluster')}, {row.pop('buckets')} buckets": row for row in rows}, CLUSTER


def local_units(programs, json_file):
    rows = run([HERE / "local_units.py", "--programs", programs], json_file)
    return {row.pop("name"): row for row in rows}, LOCAL_UNITS


def run(words, json_file):
    subprocess.run([sys.executable, "-B", *words, "--quick", "--json", json_file], check=True)
    return json.loads(pathlib.Path(json_file).read_text())


def faults_of(name, row):
    for figure, value in row.items():
        # The server's CPU time can be too short for its clock.
        least = 0 if figure == "server_cores" else 1e-9
        if not (math.isfinite(value) and value >= least):
            yield f"{name}: {figure} is {value}"
    calls = row.get("calls_per_check", 0)
    if "one script call" in name and calls != 1:
        yield f"{name}: {calls} script calls per check"
    if "weir" in name and calls >= 1:
        yield f"{name}: {calls} script calls per check: the checks did not travel together"
    keys = row.get("keys_per_call")
    if keys is not None and (keys == 1) != (name == "2 masters, 0 buckets"):
        yield f"{name}: {keys} keys per call"


def main(table, programs, json_file):
    rows, expected = {"cluster": cluster, "local_units": local_units}[table](programs, json_file)
    faults = [f"missing: {name}" for name in expected if name not in rows]
    faults += [f"not expected: {name}" for name in rows if name not in expected]
    faults += [fault for name, row in rows.items() for fault in faults_of(name, row)]
    if faults:
        sys.exit("\n".join(faults))
    print(f"{len(rows)} rows, all there")


main(*sys.argv[1:])
