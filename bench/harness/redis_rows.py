"""The rows about checks through one connection to a Redis server."""

import clients
from clients import RANDOM, Workload
from machine import Server
from report import Row, medians

HOUR_US = 3600 * 1_000_000
USUAL = "usual script by redis-benchmark"


class Group:
    """Runs that are compared with each other: interleaved, so that a disturbance hits all alike."""

    def __init__(self, machine, server, rounds=None):
        self._machine = machine
        self._server = server
        self._rounds = rounds or machine.rounds
        self._runs = {}
        self.before_each = lambda name: None

    def add(self, name, run, *arguments, **options):
        self._runs[name] = lambda: run(*arguments, **options)

    def add_weir(self, name, *arguments, **options):
        self.add(name, clients.weir, self._machine, self._server, *arguments, **options)

    def add_hiredis(self, name, *arguments, **options):
        self.add(name, clients.hiredis, self._machine, self._server, *arguments, **options)

    def measure(self):
        found = {name: [] for name in self._runs}
        for _ in range(self._rounds):
            for name, run in self._runs.items():
                self.before_each(name)
                found[name].append(run())
        self._server.check_errors()
        return {name: medians(runs) for name, runs in found.items()}


def row(runs, name, ours, theirs, figure="checks_per_s", **options):
    unit = {"checks_per_s": "checks/s", "client_us": "us of CPU"}.get(figure, "us")
    mine, other = runs.get(ours), runs.get(theirs)
    return Row(name, mine and mine[figure], other and other[figure], unit, ours_run=mine,
               theirs_run=other, **options)


def usual_bucket(server, work, key="usual:" + RANDOM):
    """The command of the usual token bucket, with the same capacity and refill."""
    sha = server.load("usual_token_bucket")
    return ["EVALSHA", sha, 1, key, work.limit, 1e6 * work.units / work.period_us, 1]


def lean_gcra(server, work, cost=1):
    sha = server.load("lean_gcra")
    return ["EVALSHA", sha, 1, "lean:" + RANDOM, work.period_us * cost, work.period_us * work.limit]


def bucket(policy, traffic, keys):
    """Busy keys have their TAT a day ahead of the clock. Idle ones are full again after 10 ms, long
    before they are checked again."""
    if traffic == "idle":
        return Workload(policy, 1000, 10_000, keys, fill_cost=1)
    return Workload(policy, 10_000_000, 1_000_000, keys, fill_cost=86_400)


def prepare(machine, server, group, traffic, work, lean, usual=None):
    """Writes all keys: busy ones once, idle ones before each run that uses them."""
    def fill(name):
        if name == "usual":
            clients.hiredis_fill(machine, server, usual, work.keys)
        elif name.startswith(("lean", "boost")):
            clients.hiredis_fill(machine, server, lean, work.keys)
        else:
            clients.weir_fill(machine, server, work)

    def clear_and_fill(name):
        server.command("FLUSHALL")
        fill(name)

    if traffic == "idle":
        group.before_each = clear_and_fill
    else:
        for name in ("ours",) + (("lean",) if lean else ()) + (("usual",) if usual else ()):
            fill(name)


def distinct_keys(machine, traffic):
    """token_bucket and gcra on 100,000 random keys, against three clients."""
    keys = 1000 if machine.quick else 100_000
    crowds = (1024, 10_000)
    policies = ("token_bucket", "gcra")
    works = {p: bucket(p, traffic, keys) for p in policies}
    with Server(machine) as server:
        # One script serves both policies; with the same prefix and constants, so does its command.
        same = clients.weir_command(machine, server, works["gcra"])
        lean = lean_gcra(server, works["gcra"])
        usual = usual_bucket(server, works["token_bucket"])
        group = Group(machine, server)
        first = lean_gcra(server, works["gcra"], works["gcra"].fill_cost)
        prepare(machine, server, group, traffic, works["gcra"], first, usual)
        group.add("usual", clients.RedisBenchmark(machine, server, usual, keys).run)
        for n in crowds:
            group.add_hiredis(f"lean {n}", lean, n, keys)
            group.add_hiredis(f"same {n}", same, n, keys)
            for p in policies:
                group.add_weir(f"{p} {n}", works[p], n)
                group.add_weir(f"{p} {n} single", works[p], n, keys_per_call=1)
            for threads in (2, 4):
                group.add_weir(f"token_bucket {n} pool {threads}", works["token_bucket"], n,
                               threads=threads)
        runs = group.measure()

    floor = 5 if traffic == "busy" else 4
    for p in policies:
        for n in crowds:
            name = f"{p}, {traffic} keys, {n:,} callers"
            single = f"{name}, one key to a script"
            ours = f"{p} {n}"
            yield row(runs, f"{name}: {USUAL}", ours, "usual", floor=floor)
            yield row(runs, f"{single}: {USUAL}", f"{ours} single", "usual", floor=1.5)
            yield row(runs, f"{name}: lean script by hiredis", ours, f"lean {n}", floor=3.5)
            yield row(runs, f"{single}: same script by hiredis", f"{ours} single", f"same {n}",
                      floor=1)
            if n == 1024:
                yield row(runs, f"{name}, client CPU: lean script by hiredis", ours, f"lean {n}",
                          "client_us", floor=0.6, less_is_better=True)
                yield row(runs, f"{single}, client CPU: same script by hiredis", f"{ours} single",
                          f"same {n}", "client_us", floor=1.2, less_is_better=True)
            if p == "token_bucket":
                for threads in (2, 4):
                    yield row(runs, f"{name}, pool of {threads} threads: {USUAL}",
                              f"{ours} pool {threads}", "usual", floor=floor)


def boost_redis(machine, traffic):
    """Over TCP: older versions of Boost.Redis know nothing else."""
    keys = 1000 if machine.quick else 100_000
    work = bucket("gcra", traffic, keys)
    crowds = (1024, 10_000)
    runs = {}
    if machine.has("boost_redis_load"):
        with Server(machine, tcp=True) as server:
            lean = lean_gcra(server, work)
            group = Group(machine, server)
            prepare(machine, server, group, traffic, work, lean_gcra(server, work, work.fill_cost))
            for n in crowds:
                group.add_weir(f"ours {n}", work, n)
                group.add(f"boost {n}", clients.boost_redis, machine, server, lean, n, keys)
            runs = group.measure()
    for n in crowds:
        name, theirs = f"gcra, {traffic} keys, {n:,} callers, TCP", "lean script by Boost.Redis"
        yield row(runs, f"{name}: {theirs}", f"ours {n}", f"boost {n}", floor=3.5)
        yield row(runs, f"{name}, client CPU: {theirs}", f"ours {n}", f"boost {n}", "client_us",
                  floor=0.5, less_is_better=True)


def busy_buckets(machine, name, single, work, usual_of):
    """Buckets beside the usual script, whose command is usual_of(server)."""
    with Server(machine) as server:
        usual = usual_of(server)
        group = Group(machine, server)
        prepare(machine, server, group, "busy", work, None, usual)
        group.add("usual", clients.RedisBenchmark(machine, server, usual, work.keys).run)
        group.add_weir("ours", work, 1024)
        group.add_weir("single", work, 1024, keys_per_call=1)
        runs = group.measure()
    name += ", busy keys, 1,024 callers"
    yield row(runs, f"{name}: {USUAL}", "ours", "usual")
    yield row(runs, f"{name}, {single}: {USUAL}", "single", "usual")


def rate_in_parts(machine):
    """A bucket whose T, the time of one unit, is not a whole number of microseconds."""
    keys = 1000 if machine.quick else 100_000
    work = Workload("token_bucket", 10_000_000, 3_000_000, keys, fill_cost=200_000, units=7)
    yield from busy_buckets(machine, "token_bucket, 7 units in 3 s", "one key to a script", work,
                            lambda server: usual_bucket(server, work))


def several_keys(machine):
    """A bucket with a window of a day as a second tier, and one with cool-downs, of which there are
    none: each check has two keys."""
    keys = 1000 if machine.quick else 100_000
    for name, option, script, key, more in (
            ("token_bucket and fixed_window", "--per_day=1000000000", "usual_tiers", "day:",
             (10**9, 24 * 3600_000)),
            ("token_bucket with cool_downs", "--cool_downs=1", "usual_cool_down", "until:", ())):
        work = Workload("token_bucket", 10_000_000, 1_000_000, keys, 86_400, options=(option,))

        def usual(server):
            bucket_only = usual_bucket(server, work)
            return ["EVALSHA", server.load(script), 2, bucket_only[3], key + RANDOM,
                    *bucket_only[4:], *more]

        yield from busy_buckets(machine, name, "one check to a script", work, usual)


def requests(machine):
    """acquire() on buckets that let each request go out at once."""
    keys = 1000 if machine.quick else 100_000
    work = Workload("token_bucket", 10_000_000, 1_000_000, keys, 86_400, options=("--acquires=1",))
    yield from busy_buckets(machine, "token_bucket, acquire", "one request to a script", work,
                            lambda server: usual_bucket(server, work))


def hot_key(machine):
    work = bucket("token_bucket", "hot", 1)
    with Server(machine) as server:
        group = Group(machine, server)
        usual = usual_bucket(server, work, "usual:hot")
        group.add("usual", clients.RedisBenchmark(machine, server, usual, 1).run)
        for n in (1024, 10_000):
            group.add_weir(str(n), work, n)
        group.before_each = lambda name: server.command("FLUSHALL")  # a full bucket again
        runs = group.measure()
    for n in (1024, 10_000):
        yield row(runs, f"token_bucket, one hot key, {n:,} callers: {USUAL}", str(n), "usual",
                  floor=40)


def one_caller(machine):
    """A round trip at a time: hiredis sends the same script and blocks until the reply; Asio alone
    sends it and awaits what the socket brings. In "spin_time", our store polls for 50 us."""
    work = bucket("token_bucket", "busy", 1000)
    seconds = machine.seconds if machine.quick else 1.5
    with Server(machine) as server:
        same = clients.weir_command(machine, server, work)
        clients.weir_fill(machine, server, work)
        group = Group(machine, server)
        group.add_weir("ours", work, 1, seconds=seconds)
        group.add_weir("spin_time", work, 1, seconds=seconds, spin_us=50)
        group.add_hiredis("theirs", same, 1, work.keys, seconds=seconds)
        group.add("asio", clients.asio, machine, server, same, work.keys, seconds)
        runs = group.measure()
    for figure, name, floor in (("p50_us", "median", 1.10), ("p99_us", "99 %", 1.25)):
        yield row(runs, f"token_bucket, one caller, round trip, {name}: same script by hiredis",
                  "ours", "theirs", figure, floor=floor, less_is_better=True)
        yield row(runs, f"token_bucket, one caller, round trip, {name}: same script by Asio alone",
                  "ours", "asio", figure, less_is_better=True)
        yield row(runs, f"token_bucket, one caller, spin_time, round trip, {name}: same script by"
                  " hiredis", "spin_time", "theirs", figure, floor=floor, less_is_better=True)


def windows(machine):
    """fixed_window and sliding_window against their usual forms."""
    keys = 1000 if machine.quick else 100_000
    for policy, first_keys in (("fixed_window", ["usual:" + RANDOM]),
                               ("sliding_window", ["now:" + RANDOM, "before:" + RANDOM])):
        work = Workload(policy, 1_000_000, HOUR_US, keys, fill_cost=1)
        with Server(machine) as server:
            usual = ["EVALSHA", server.load(f"usual_{policy}"), len(first_keys), *first_keys,
                     work.limit, work.period_us // 1000, 1]
            clients.weir_fill(machine, server, work)
            clients.hiredis_fill(machine, server, usual, keys)
            group = Group(machine, server)
            group.add("usual", clients.RedisBenchmark(machine, server, usual, keys).run)
            group.add_weir("ours", work, 1024)
            runs = group.measure()
        yield row(runs, f"{policy}, busy keys, 1,024 callers: {USUAL}", "ours", "usual", floor=3)


LOG_SPAN_US = 120 * 1_000_000


def fill_logs(machine, server, work, entries):
    """Logs of so many entries, spread over the window, in ours and in the usual form. The two
    commands that check them."""
    ours = clients.weir_command(machine, server, work)
    usual = ["EVALSHA", server.load("usual_sliding_log"), 1, "usual:" + RANDOM, work.limit,
             work.period_us // 1000, 1, RANDOM]
    at_once = max(1, min(1000, 200_000 // entries))
    for script, key in (("fill_sliding_log", ours[3]), ("fill_usual_log", usual[3])):
        sha = server.load(script)
        for first in range(0, work.keys, at_once):
            names = [key.replace(RANDOM, f"{i:012d}")
                     for i in range(first, min(first + at_once, work.keys))]
            server.command("EVALSHA", sha, len(names), *names, entries, work.period_us)
    used = clients.weir_fetch(machine, server, work, 0)["used"]
    if not 0.5 * entries <= used <= entries:
        raise RuntimeError(f"a log was filled with {entries} entries, and the library reads {used}")
    return ours, usual


def logs(machine):
    """sliding_log against the sorted set, both with half of what the limit allows in the window."""
    for limit, keys in ((100, 50_000), (10_000, 1024)):
        keys = 100_000 // limit if machine.quick else keys
        work = Workload("sliding_log", limit, LOG_SPAN_US, keys)
        with Server(machine) as server:
            _, usual = fill_logs(machine, server, work, limit // 2)
            group = Group(machine, server)
            group.add("usual", clients.RedisBenchmark(machine, server, usual, keys).run)
            group.add_weir("ours", work, 1024, may_refuse=machine.quick)
            runs = group.measure()
        yield row(runs, f"sliding_log, limit {limit:,}, 1,024 callers: {USUAL}", "ours", "usual",
                  floor=2.5)


def all_rows(machine):
    yield "busy keys", lambda: distinct_keys(machine, "busy")
    yield "idle keys", lambda: distinct_keys(machine, "idle")
    yield "Boost.Redis, busy keys", lambda: boost_redis(machine, "busy")
    yield "Boost.Redis, idle keys", lambda: boost_redis(machine, "idle")
    yield "rate in parts of a microsecond", lambda: rate_in_parts(machine)
    yield "several keys", lambda: several_keys(machine)
    yield "requests of acquire", lambda: requests(machine)
    yield "hot key", lambda: hot_key(machine)
    yield "one caller", lambda: one_caller(machine)
    yield "windows", lambda: windows(machine)
    yield "logs", lambda: logs(machine)
