"""Writes the figures of a run, from the file of --json, as the narrow tables of docs/benchmarks.md:

    python3 -B bench/harness/page.py FILE
"""

import json
import sys

from report import number, ratio

MEMORY, PROCESS = "Memory in Redis, bytes: the usual form", "In this process, ns"


def table_of(row):
    """The title of the row's table, and its name there."""
    name, _, peer = row["name"].rpartition(": ")
    if row["unit"] == "bytes":
        return MEMORY, row["name"].removeprefix("memory of a key, ")
    if row["unit"] == "ns":
        return PROCESS, row["name"].replace("in process, ", "")
    return f"Beside {peer}", short(name)


def short(name):
    for long, brief in ((" keys, ", ", "), ("one key to a script", "unbatched"), ("pool of ", ""),
                        ("client CPU", "CPU")):
        name = name.replace(long, brief)
    return name


def comparison(row, name, with_cpu):
    floor = "" if row["floor"] is None else f"{'<=' if row['less_is_better'] else '>='} " \
                                            f"{row['floor']:g}"
    times = ratio(row["ratio"])
    if row["met"] is False:
        times = f"**{times}**"
    unit = " us" if row["unit"].startswith("us") else ""
    line = f"| {name} | {number(row['ours'])}{unit} | {number(row['theirs'])}{unit} | {times} |" \
           f" {floor} |"
    return f"{line} {ratio(row['ratio_by_cpu'])} |" if with_cpu else line


def comparisons(rows):
    tables = {}
    for row in rows:
        if row["ratio"] is not None:
            title, name = table_of(row)
            tables.setdefault(title, []).append((row, name))
    for title, lines in tables.items():
        with_cpu = any(row["ratio_by_cpu"] for row, _ in lines)
        yield f"### {title}\n"
        yield "| | ours | theirs | ratio | floor |" + (" by CPU |" if with_cpu else "")
        yield "|---|--:|--:|--:|--:|" + ("--:|" if with_cpu else "")
        for row, name in lines:
            yield comparison(row, name, with_cpu)
        yield ""


def runs_of(row):
    """The runs that the row compares, each with a name."""
    name, _, peer = row["name"].rpartition(": ")
    name = short(name).replace(", CPU", "").replace(", median", "")
    yield name, row.get("ours_run")
    for long, brief in (("lean script by Boost", "Boost"),
                        ("usual script by redis-benchmark", "usual script"), (" script by", ",")):
        peer = peer.replace(long, brief)
    traffic = name.replace(", unbatched", "").split(", ", 1)[-1]
    if peer == "usual script" and not name.startswith(("fixed", "sliding")):
        traffic = traffic.split(", 1,024")[0].split(", 10,000")[0]
    elif peer == "usual script":
        traffic = name.split(", 1,024")[0]
    yield f"*{peer}*, {traffic}", row.get("theirs_run")


def latencies(rows):
    yield "### Latencies and CPU time of one check, us\n"
    yield "| | p50 | p99 | p999 | client | server |"
    yield "|---|--:|--:|--:|--:|--:|"
    seen = []
    for row in rows:
        for name, run in runs_of(row):
            if not run or run in seen:
                continue
            seen.append(run)
            yield f"| {name} | {number(run['p50_us'])} | {number(run['p99_us'])} |" \
                  f" {number(run['p999_us'])} | {run['client_us']:.2f} | {run['server_us']:.2f} |"
    yield ""


def growth(panels):
    for panel in panels:
        yield f"### {panel['title']}\n"
        yield f"| {panel['axis']} | " + " | ".join(f"{size:,}" for size in panel["sizes"]) + " |"
        yield "|---|" + "--:|" * len(panel["sizes"])
        for name, values in panel["lines"].items():
            yield f"| {name} | " + " | ".join(number(value) for value in values) + " |"
        yield ""


with open(sys.argv[1]) as file:
    found = json.load(file)
for part in (comparisons(found["rows"]), latencies(found["rows"]), growth(found["growth"])):
    for line in part:
        print(line)
