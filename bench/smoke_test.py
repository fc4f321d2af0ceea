"""Runs all of scripts/bench for a moment, and fails unless it produced exactly the rows of
bench/rows.txt, with finite figures. Times are not checked. ctest runs it as bench.rows.

    python3 bench/smoke_test.py DIRECTORY_OF_PROGRAMS JSON_FILE [--write]
"""

import json
import math
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
# Rows that need what most machines do not have.
MAY_BE_ABSENT = ("Boost.Redis", "golang")


def faults_of(row):
    for side in ("ours", "theirs", "ratio"):
        value = row[side]
        if value is None:
            absent = row.get("note") == "not on this machine"
            if not (absent and any(name in row["name"] for name in MAY_BE_ABSENT)):
                yield f"{row['name']}: no {side}"
        elif not (math.isfinite(value) and value > 0):
            yield f"{row['name']}: {side} is {value}"


def main(programs, json_file, *options):
    subprocess.run(
        [sys.executable, "-B", str(HERE / "harness"), "--programs", programs, "--quick",
         "--json", json_file, "--plot", json_file + ".svg"], check=True)
    found = json.loads(pathlib.Path(json_file).read_text())
    names = [row["name"] for row in found["rows"]] + [g["title"] for g in found["growth"]]
    if "--write" in options:
        (HERE / "rows.txt").write_text("".join(name + "\n" for name in names))
    expected = (HERE / "rows.txt").read_text().splitlines()

    faults = [f"missing: {name}" for name in expected if name not in names]
    faults += [f"not in bench/rows.txt: {name}" for name in names if name not in expected]
    faults += [fault for row in found["rows"] for fault in faults_of(row)]
    for panel in found["growth"]:
        for name, values in panel["lines"].items():
            if len(values) != len(panel["sizes"]) or not all(v > 0 for v in values):
                faults.append(f"{panel['title']}: {name} is {values}")
    if faults:
        sys.exit("\n".join(faults))
    print(f"{len(names)} rows, all there")


main(*sys.argv[1:])
