"""Measures limiter_options::subject_buckets on Redis Clusters of 1, 2 and 3 masters.

    python3 -B bench/harness/cluster.py build/bench/bench [--rounds N] [--callers N] ...
    python3 -B bench/harness/cluster.py build/bench/bench --memory

The clusters have no replicas, and all masters share the server's core: read the CPU time of a
check, not the rate. All runs are interleaved. docs/scaling.md has the tables. `--quick` runs a few
rows for a moment, to see that they run: ctest does so as bench.cluster."""

import argparse
import json
import re
import statistics
import time

import clients
import redis_rows
from machine import Machine, Server

SLOTS = 16_384


class Cluster:
    def __init__(self, machine, masters):
        self.nodes = []
        try:
            for _ in range(masters):
                self.nodes.append(Server(machine, tcp=True, options=["--cluster-enabled", "yes"]))
            self._join()
        except Exception:
            self.close()
            raise

    def _join(self):
        count = len(self.nodes)
        for i, node in enumerate(self.nodes):
            slots = range(SLOTS * i // count, SLOTS * (i + 1) // count)
            node.command("CLUSTER", "ADDSLOTS", *slots)
            node.command("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
        for node in self.nodes[1:]:
            self.nodes[0].command("CLUSTER", "MEET", "127.0.0.1", node.port)
        deadline = time.monotonic() + 60
        while not all(self._is_whole(node) for node in self.nodes):
            if time.monotonic() > deadline:
                raise RuntimeError("the nodes do not find each other")
            time.sleep(0.02)

    def _is_whole(self, node):
        info = node.command("CLUSTER", "INFO")
        return "cluster_state:ok" in info and f"cluster_known_nodes:{len(self.nodes)}\r" in info

    def url(self):
        return "redis-cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def close(self):
        for node in self.nodes:
            node.close()


class Alone(Cluster):
    """One server that is no cluster: all keys may share a call."""

    def __init__(self, machine):
        self.nodes = [Server(machine, tcp=True)]

    def url(self):
        return f"redis://127.0.0.1:{self.nodes[0].port}"


def calls(nodes, name):
    """How often the servers have run a command."""
    found = [re.search(rf"cmdstat_{name}:calls=(\d+)", node.command("INFO", "commandstats"))
             for node in nodes]
    return sum(int(match.group(1)) for match in found if match)


class Runs:
    """One cluster, and one number of buckets."""

    def __init__(self, machine, cluster, buckets, work, callers):
        self._machine, self._nodes = machine, cluster.nodes
        pids = ",".join(str(node.pid) for node in cluster.nodes)
        self._words = [f"--url={cluster.url()}", f"--server_pid={pids}", *work.words(),
                       f"--subject_buckets={buckets}"]
        machine.run(machine.programs / "weir_load", "--mode=fill", *self._words, "--callers=1024",
                    f"--cost={work.fill_cost}", timeout=600)
        self._words.append(f"--callers={callers}")
        self.found = []

    def run(self):
        before = [calls(self._nodes, name) for name in ("evalsha", "incrby")]
        found = self._machine.run_json(
            "weir_load", *self._words, f"--warm_up={self._machine.warm_up}",
            f"--seconds={self._machine.seconds}")
        after = [calls(self._nodes, name) for name in ("evalsha", "incrby")]
        # On the common path, each key of a call is one INCRBY.
        found["keys_per_call"] = (after[1] - before[1]) / (after[0] - before[0])
        self.found.append(found)

    def median(self, figure):
        return statistics.median(run[figure] for run in self.found)

    def ratio(self, figure, other):
        """The median over the rounds: the two runs of a round had the same disturbance."""
        return statistics.median(a[figure] / b[figure] for a, b in zip(self.found, other.found))


def memory(machine, keys):
    """The memory of a server over its keys: names, states, TTLs and tables."""
    print("| policy | buckets | bytes of a key |")
    print("|---|--:|--:|")
    for policy in ("gcra", "fixed_window", "sliding_window", "sliding_log"):
        for buckets in (0, 64):
            with Server(machine) as server:
                empty = int(re.search(r"used_memory:(\d+)", server.command("INFO", "memory"))[1])
                work = redis_rows.Workload(policy, 1000, redis_rows.HOUR_US, keys)
                machine.run(machine.programs / "weir_load", "--mode=fill", "--callers=1024",
                            f"--socket={server.socket}", *work.words(),
                            f"--subject_buckets={buckets}", timeout=600)
                full = int(re.search(r"used_memory:(\d+)", server.command("INFO", "memory"))[1])
                count = server.command("DBSIZE")
            print(f"| {policy} | {buckets} | {(full - empty) / count:.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.6)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--masters", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--buckets", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--callers", type=int, default=1024)
    parser.add_argument("--memory", action="store_true", help="measures that, and nothing else")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()

    if options.quick:
        options.rounds, options.keys, options.callers = 1, 1000, 256
        options.masters, options.buckets = [2], [16]
    machine = Machine(options.programs, quick=options.quick, rounds=options.rounds)
    if not options.quick:
        machine.seconds = options.seconds
    if options.memory:
        return memory(machine, options.keys)
    work = redis_rows.bucket("gcra", "busy", options.keys)
    clusters = {"one server": Alone(machine)}
    try:
        runs = {("one server", 0): Runs(machine, clusters["one server"], 0, work, options.callers)}
        for masters in options.masters:
            name = f"{masters} master" + ("s" if masters > 1 else "")
            clusters[name] = Cluster(machine, masters)
            for buckets in [0, *options.buckets]:
                runs[name, buckets] = Runs(machine, clusters[name], buckets, work, options.callers)
        for _ in range(options.rounds):
            for one in runs.values():
                one.run()
    finally:
        for cluster in clusters.values():
            cluster.close()

    print("| | buckets | keys per call | server us | ratio | client us | ratio | checks/s |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    rows = []
    for (name, buckets), one in runs.items():
        off = runs[name, 0]
        row = {"cluster": name, "buckets": buckets,
               "keys_per_call": one.median("keys_per_call"),
               "server_us": one.median("server_us"), "server_ratio": one.ratio("server_us", off),
               "client_us": one.median("client_us"), "client_ratio": one.ratio("client_us", off),
               "checks_per_s": one.median("checks_per_s")}
        rows.append(row)
        print(f"| {name} | {buckets} | {row['keys_per_call']:.1f} | {row['server_us']:.2f} |"
              f" {row['server_ratio']:.2f} | {row['client_us']:.2f} | {row['client_ratio']:.2f} |"
              f" {round(row['checks_per_s'], -2):,.0f} |")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)


main()
