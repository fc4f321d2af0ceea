"""What a check costs as the work grows. Each panel is a table, and a part of the plot."""

import clients
from machine import Server
from redis_rows import LOG_SPAN_US, Group, Workload, bucket, fill_logs, lean_gcra, usual_bucket
from report import number

ROUNDS = 3


class Panel:
    """`lines` maps a name to the microseconds per check at each of `sizes`."""

    def __init__(self, title, axis, sizes, lines):
        self.title, self.axis, self.sizes, self.lines = title, axis, sizes, lines

    def markdown(self):
        yield f"| {self.axis} | " + " | ".join(f"{size:,}" for size in self.sizes) + " |"
        yield "|---|" + "--:|" * len(self.sizes)
        for name, values in self.lines.items():
            yield f"| {name} | " + " | ".join(number(v) for v in values) + " |"

    def as_json(self):
        return {"title": self.title, "axis": self.axis, "sizes": self.sizes, "lines": self.lines}


def powers(first, last):
    return [10**i for i in range(first, last + 1)]


def measured(machine, server, runs, figure):
    """The medians of these runs, interleaved: run 0 is ours, run 1 theirs."""
    group = Group(machine, server, rounds=min(machine.rounds, ROUNDS))
    for i, (run, *words) in enumerate(runs):
        group.add(i, run, machine, server, *words)
    found = group.measure()
    return [figure(found[i]) for i in range(len(runs))]


def time_per_check(run):
    return 1e6 / run["checks_per_s"]


def server_time(run):
    return run["server_us"]


def panel(title, axis, sizes, names, measure):
    lines = {name: [] for name in names}
    for size in sizes:
        for name, value in zip(names, measure(size)):
            lines[name].append(value)
    return Panel(title, axis, sizes, lines)


def over_keys(machine, most_keys):
    def measure(keys):
        work = bucket("token_bucket", "busy", keys)
        with Server(machine) as server:
            usual = usual_bucket(server, work)
            clients.weir_fill(machine, server, work)
            clients.hiredis_fill(machine, server, usual, keys)
            runs = [(clients.weir, work, 1024), (clients.hiredis, usual, 1024, keys)]
            return measured(machine, server, runs, time_per_check)

    return panel("Keys: us per check, 1,024 callers", "keys",
                 [n for n in powers(2, 3 if machine.quick else 7) if n <= most_keys],
                 ("weir", "usual script, hiredis"), measure)


def over_callers(machine):
    work = bucket("token_bucket", "busy", 1000 if machine.quick else 100_000)
    with Server(machine) as server:
        lean = lean_gcra(server, work)
        clients.weir_fill(machine, server, work)
        clients.hiredis_fill(machine, server, lean_gcra(server, work, work.fill_cost), work.keys)

        def measure(callers):
            runs = [(clients.weir, work, callers), (clients.hiredis, lean, callers, work.keys)]
            return measured(machine, server, runs, time_per_check)

        return panel("Callers: us per check, 100,000 keys", "callers",
                     powers(0, 2 if machine.quick else 5), ("weir", "lean script, hiredis"),
                     measure)


def over_limits(machine):
    entries = 20_000 if machine.quick else 2_000_000  # in all logs together, of each form

    def measure(limit):
        work = Workload("sliding_log", limit, LOG_SPAN_US, max(2, 2 * entries // limit))
        with Server(machine) as server:
            ours, usual = fill_logs(machine, server, work, limit // 2)
            runs = [(clients.hiredis, form, 1024, work.keys) for form in (ours, usual)]
            return measured(machine, server, runs, server_time)

    return panel("Limit of a log, half full: server us per check", "limit",
                 powers(1, 3 if machine.quick else 6),
                 ("weir's script alone", "sorted set"), measure)


def panels(machine, most_keys):
    yield "growth keys", lambda: [over_keys(machine, most_keys)]
    yield "growth callers", lambda: [over_callers(machine)]
    yield "growth limits", lambda: [over_limits(machine)]
