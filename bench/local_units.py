#!/usr/bin/env python3
"""One key, checked by several processes at once: one script call for each check (hiredis, with the
library's own script), weir, and weir with local units. Prints a table for docs/local_answers.md.

    python3 -B bench/local_units.py [--programs build/bench/bench] [--seconds 3] [--processes 4]

`--quick` runs each row for a moment, to see that it runs: ctest does so as bench.local_units."""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent / "harness"))
import clients  # noqa: E402
from machine import Machine, Server  # noqa: E402

LOCAL_UNITS = 10_000
CALLERS = 64  # in each process
HOUR_US = 3_600_000_000


def script_calls(server):
    found = re.search(r"cmdstat_evalsha:calls=(\d+)", server.command("INFO", "commandstats"))
    return int(found.group(1)) if found else 0


def measure(server, programs, warm_up, seconds):
    """Runs the programs at once. Script calls and checks are counted from the first to the last;
    the server's CPU time is that of the middle of the run."""
    calls = script_calls(server)
    running = [subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, text=True) for words in programs]
    time.sleep(warm_up + seconds / 4)
    begin = time.monotonic(), server.cpu_seconds()
    time.sleep(seconds / 2)
    end = time.monotonic(), server.cpu_seconds()
    results = [json.loads(one.communicate()[0]) for one in running]
    if any(one.returncode != 0 for one in running):
        raise RuntimeError("a program failed")
    rate = sum(one["checks_per_s"] for one in results)
    return {
        "checks_per_s": rate,
        "calls_per_check": (script_calls(server) - calls) / sum(one["answered"] for one in results),
        "client_us": sum(one["client_us"] * one["checks_per_s"] for one in results) / rate,
        "server_cores": (end[1] - begin[1]) / (end[0] - begin[0]),
        "p50_us": sorted(one["p50_us"] for one in results)[len(results) // 2],
        "p99_us": max(one["p99_us"] for one in results),
    }


def weir(asked, server, work, *options):
    return [asked.programs / "weir_load", f"--socket={server.socket}", *work.words(),
            f"--callers={CALLERS}", f"--warm_up={asked.warm_up}", f"--seconds={asked.seconds}",
            *options]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=pathlib.Path, default=pathlib.Path("build/bench/bench"))
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    asked = parser.parse_args()
    asked.warm_up = 1
    if asked.quick:
        asked.warm_up, asked.seconds, asked.processes = 0.05, 0.1, 2
    machine = Machine(asked.programs, quick=asked.quick)
    found = []
    n = asked.processes
    local = f"--local_units={LOCAL_UNITS}"
    plenty = clients.Workload("fixed_window", 10**12, HOUR_US, 1)
    scarce = clients.Workload("token_bucket", 100_000, 10, 1)  # 100,000 per second
    print(f"{n} processes of {CALLERS} callers, one key, local_units = {LOCAL_UNITS}\n")
    print("| offered | client | checks/s | script calls per check | client us per check "
          "| server's core | p50 us | p99 us |")
    print("|---|---|---|---|---|---|---|---|")
    for offered, work, more in ((10**6, plenty, []), (10**7, plenty, []), (0, plenty, []),
                                (0, scarce, ["--may_refuse=1"])):
        pace = [f"--offered={offered // n}", *more]
        rows = [("weir", lambda s: weir(asked, s, work, *pace)),
                ("weir, local units", lambda s: weir(asked, s, work, local, *pace))]
        if machine.has("hiredis_load") and offered == 0 and work is plenty:
            rows.insert(0, ("one script call per check", lambda s: [
                asked.programs / "hiredis_load", s.socket, 1, CALLERS, s.pid, asked.warm_up,
                asked.seconds, *map(clients.escaped, clients.weir_command(machine, s, work))]))
        for name, command in rows:
            with Server(machine) as server:
                got = measure(server, [command(server) for _ in range(n)], asked.warm_up,
                              asked.seconds)
            text = f"{offered:,}" if offered else "as fast as they can"
            if work is scarce:
                text += ", 10^5/s pass"
            found.append({"name": f"{text}: {name}", **got})
            print(f"| {text} | {name} | {got['checks_per_s']:,.0f} | {got['calls_per_check']:.6f} "
                  f"| {got['client_us']:.2f} | {100 * got['server_cores']:.0f} % "
                  f"| {got['p50_us']:.1f} | {got['p99_us']:.0f} |", flush=True)
    if asked.json:
        pathlib.Path(asked.json).write_text(json.dumps(found, indent=1))


main()
