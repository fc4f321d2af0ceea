"""The rows about the memory that a key takes in Redis: MEMORY USAGE, its name and TTL included."""

import clients
from clients import RANDOM, Workload
from machine import Server
from redis_rows import HOUR_US, fill_logs, lean_gcra
from report import Row

SUBJECT = "000000000000"


def used(server, *keys):
    return sum(server.command("MEMORY", "USAGE", key, "SAMPLES", 0) for key in keys)


def rows(machine):
    with Server(machine) as server:
        def ours(policy, limit, period_us):
            work = Workload(policy, limit, period_us, 1)
            key = clients.weir_command(machine, server, work)[3].replace(RANDOM, SUBJECT)
            machine.run_json("weir_load", "--mode=once", f"--socket={server.socket}", *work.words(),
                             f"--subject={SUBJECT}")
            return used(server, key)

        def usual(script, *words, keys=1):
            """In fresh keys. Of two, the second is the counter of the window before."""
            server.command("FLUSHALL")
            names = [f"usual:bench:{SUBJECT}{suffix}" for suffix in ("", ":before")[:keys]]
            for name in names:
                server.command("EVALSHA", server.load(script), keys, name, *names[1:], *words)
            return used(server, *names)

        bucket = usual("usual_token_bucket", 100, 10, 1)
        lean = lean_gcra(server, Workload("gcra", 100, 100_000, 1))
        key = f"usual:bench:{SUBJECT}"
        server.command("DEL", key)
        server.command(*[str(word).replace("lean:" + RANDOM, key) for word in lean])
        number = used(server, key)
        forms = [
            ("token_bucket", 100, 100_000, "a hash", bucket),
            ("gcra", 100, 100_000, "a number", number),
            ("leaky_bucket", 100, 100_000, "a hash", bucket),
            ("fixed_window", 100, HOUR_US, "a counter",
             usual("usual_fixed_window", 100, HOUR_US // 1000, 1)),
            ("sliding_window", 100, HOUR_US, "two counters",
             usual("usual_sliding_window", 100, HOUR_US // 1000, 1, keys=2)),
        ]
        for policy, limit, period_us, form, theirs in forms:
            yield memory_row(policy, ours(policy, limit, period_us), form, theirs)

        for entries in (100, 5000):
            work = Workload("sliding_log", 2 * entries, HOUR_US, 1)
            commands = fill_logs(machine, server, work, entries)
            sizes = [used(server, command[3].replace(RANDOM, SUBJECT)) for command in commands]
            yield memory_row(f"sliding_log of {entries:,} entries", sizes[0], "a sorted set",
                             sizes[1])


def memory_row(policy, ours, form, theirs):
    name = f"memory of a key, {policy}: {form}"
    return Row(name, ours, theirs, "bytes", floor=1, less_is_better=True)
