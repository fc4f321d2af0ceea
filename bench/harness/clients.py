"""What one run of each client measures. All return the same figures: checks_per_s, the latencies
p50_us, p99_us and p999_us, and client_us and server_us, the CPU time of one check."""

import re

import resp

RANDOM = "__rand_int__"  # a random number of 12 digits, as redis-benchmark writes it


class Workload:
    """A policy, as weir_load takes it, and how many keys it is checked on."""

    def __init__(self, policy, limit, period_us, keys, fill_cost=None, units=1, options=()):
        self.policy = policy
        self.limit = limit
        self.period_us = period_us  # of a window, or of so many units of a bucket
        self.units = units
        self.keys = keys
        self.fill_cost = fill_cost  # None: the keys are not there at the beginning
        self.options = options  # further ones of weir_load

    def words(self):
        return [f"--policy={self.policy}", f"--limit={self.limit}", f"--period_us={self.period_us}",
                f"--units={self.units}", f"--keys={self.keys}", *self.options]


def weir(
    machine, server, work, callers, keys_per_call=64, threads=0, may_refuse=False, seconds=None,
    spin_us=0,
):
    return machine.run_json(
        "weir_load", reach(server), f"--server_pid={server.pid}", *work.words(),
        f"--callers={callers}", f"--keys_per_call={keys_per_call}", f"--threads={threads}",
        f"--spin_us={spin_us}", f"--may_refuse={int(may_refuse)}", f"--warm_up={machine.warm_up}",
        f"--seconds={seconds or machine.seconds}")


def reach(server):
    """Over TCP where the server listens on a port."""
    return f"--port={server.port}" if server.port else f"--socket={server.socket}"


def weir_fill(machine, server, work):
    machine.run(machine.programs / "weir_load", "--mode=fill", f"--socket={server.socket}",
                *work.words(), "--callers=1024", f"--cost={work.fill_cost}", timeout=600)


def weir_command(machine, server, work):
    """The very command that the library sends for one check, with RANDOM in its subject."""
    once = ("weir_load", "--mode=once", f"--socket={server.socket}", *work.words(),
            f"--subject={RANDOM}")
    machine.run_json(*once)  # the first call carries the script
    monitor = server.connect()
    monitor.command("MONITOR")
    machine.run_json(*once)
    words = monitor.monitored("EVALSHA")
    monitor.close()
    server.command("FLUSHALL")
    return words


def weir_fetch(machine, server, work, number):
    return machine.run_json("weir_load", "--mode=fetch", f"--socket={server.socket}", *work.words(),
                            f"--subject={number:012d}")


def escaped(word):
    """As bench/support/escaped_word.h reads it: bytes that an argument cannot have as \\xHH."""
    return "".join(c if " " <= c <= "~" and c != "\\" else f"\\x{ord(c):02x}" for c in str(word))


def hiredis(machine, server, command, callers, keys, seconds=None):
    return machine.run_json("hiredis_load", server.socket, keys, callers, server.pid,
                            machine.warm_up, seconds or machine.seconds, *map(escaped, command))


def hiredis_fill(machine, server, command, keys):
    machine.run(machine.programs / "hiredis_load", server.socket, keys, 1024, "fill",
                *map(escaped, command), timeout=600)


def asio(machine, server, command, keys, seconds):
    """One caller on a bare Asio socket."""
    request = escaped(resp.encoded(command).decode("latin-1"))
    return machine.run_json("asio_load", server.socket, keys, server.pid, machine.warm_up, seconds,
                            request)


def boost_redis(machine, server, command, callers, keys):
    return machine.run_json("boost_redis_load", server.port, keys, callers, server.pid,
                            machine.warm_up, machine.seconds, *command)


# Connections and the commands in each one's pipeline.
SHAPES = [(1, 64), (1, 256), (1, 1024), (4, 64), (8, 16), (8, 128), (32, 32), (50, 16), (128, 64)]


class RedisBenchmark:
    """redis-benchmark, at the best of SHAPES for one command."""

    def __init__(self, machine, server, command, keys):
        self._machine, self._server = machine, server
        self._command, self._keys = command, keys
        # The time of a first run says how many requests a try takes, and the best try how many a
        # measurement takes.
        rate = self._run(SHAPES[0], 2000)["checks_per_s"]
        trial = machine.seconds / 3
        tried = {shape: self._run(shape, rate * trial)["checks_per_s"]
                 for shape in (SHAPES[:2] if machine.quick else SHAPES)}
        self.shape = max(tried, key=tried.get)
        self._requests = tried[self.shape] * machine.seconds

    def run(self):
        return self._run(self.shape, self._requests)

    def _run(self, shape, requests):
        connections, depth = shape
        # Whole pipelines: redis-benchmark may abort when it has sent more than it was asked to. And
        # enough of them: it measures in milliseconds.
        requests = max(connections, max(int(requests), 2000) // depth + 1) * depth
        before = self._server.cpu_seconds()
        text, client = self._machine.run(
            "redis-benchmark", "-s", self._server.socket, "--precision", 3, "-c", connections,
            "-P", depth, "-n", requests, "-r", self._keys, *self._command)
        server = self._server.cpu_seconds() - before
        rate = float(re.search(r"throughput summary: ([\d.]+)", text).group(1))
        summary = re.search(r"latency summary.*\n.*\n\s*([\d. ]+)", text).group(1).split()
        spectrum = re.findall(r"([\d.]+)% <= ([\d.]+) milliseconds \(cum", text)
        tail = [float(ms) for part, ms in spectrum if float(part) >= 99.9]
        return {"checks_per_s": rate, "p50_us": float(summary[2]) * 1e3,
                "p99_us": float(summary[4]) * 1e3, "p999_us": tail[0] * 1e3,
                "client_us": client / requests * 1e6, "server_us": server / requests * 1e6}
