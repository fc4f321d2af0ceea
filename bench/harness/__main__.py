"""Measures weir beside other clients and scripts. scripts/bench builds all, and runs this."""

import argparse
import sys
import time

import growth
import instruction_rows
import local_rows
import memory_rows
import plot
import redis_rows
import report
from machine import Machine, Server


def arguments():
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measures weir beside other clients and scripts, and prints tables in Markdown."
        " docs/benchmarks.md says what each row means.",
    )
    parser.add_argument("--programs", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="a moment for each row: does it run?")
    parser.add_argument("--json", metavar="FILE", help="also writes the rows to this file")
    parser.add_argument("--instructions", action="store_true",
                        help="also counts instructions, with valgrind: two minutes more")
    parser.add_argument("--plot", metavar="FILE", help="also draws the growth tables, as an SVG")
    parser.add_argument("--only", metavar="WORD", help="only the groups with this in their name")
    parser.add_argument("--keys", type=int, metavar="N", default=10_000_000,
                        help="the most keys in the growth table (default: 10,000,000, which need"
                        " 4 GB of memory and some minutes)")
    parser.add_argument("--rounds", type=int, help="medians are over so many rounds (default: 5)")
    return parser.parse_args()


def all_rows(machine, instructions):
    yield from redis_rows.all_rows(machine)
    yield "in process", lambda: local_rows.rows(machine)
    yield "memory", lambda: memory_rows.rows(machine)
    if instructions:
        yield "instructions", lambda: instruction_rows.rows(machine)


def measure(groups, only):
    """What each of these groups yields."""
    for name, measured in groups:
        if only and only not in name:
            continue
        started = time.monotonic()
        yield from measured()
        print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr)


def main():
    options = arguments()
    machine = Machine(options.programs, options.quick, options.rounds)
    if not machine.has("hiredis_load"):
        sys.exit("hiredis_load is not built: install hiredis (libhiredis-dev), and configure again")
    if machine.client_core is None:
        print("Only one core: client and server share it.", file=sys.stderr)
    with Server(machine) as server:
        about = {"server": server.version(), "rounds": machine.rounds, "quick": machine.quick}

    rows = list(measure(all_rows(machine, options.instructions), options.only))
    panels = list(measure(growth.panels(machine, options.keys), options.only))
    for line in report.markdown(rows):
        print(line)
    for panel in panels:
        print(f"\n{panel.title}\n")
        for line in panel.markdown():
            print(line)
    if options.json:
        report.write_json(options.json, rows, [panel.as_json() for panel in panels], about)
    if options.plot and panels:
        plot.write(options.plot, panels)


main()
