"""The machine that is measured on: its cores, the programs that put load on a server, servers."""

import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import resp

SCRIPTS = pathlib.Path(__file__).parent.parent / "scripts"


def free_port():
    """Below 50,000: a node of a cluster needs the port 10,000 above its own, too."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port < 50_000:
            return port


def children_cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Machine:
    """`quick` runs each row once, for a moment: to see that it runs."""

    def __init__(self, programs, quick, rounds=None):
        self.programs = pathlib.Path(programs)
        self.quick = quick
        self.rounds = rounds or (1 if quick else 5)
        self.warm_up = 0.01 if quick else 0.15
        self.seconds = 0.03 if quick else 0.6
        cores = sorted(os.sched_getaffinity(0))
        self.client_core, self.server_core = cores[-2:] if len(cores) > 1 else (None, None)

    def has(self, program):
        return (self.programs / program).exists()

    def on_core(self, core, words):
        return [*([] if core is None else ["taskset", "-c", str(core)]), *map(str, words)]

    def run(self, *words, timeout=120, all_cores=False):
        """Runs a program on the client's core; its output, and the CPU seconds that it took."""
        before = children_cpu_seconds()
        done = subprocess.run(
            self.on_core(None if all_cores else self.client_core, words),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)
        used = children_cpu_seconds() - before
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, words))[:300]}: {done.stderr or done.stdout}")
        return done.stdout, used

    def run_json(self, program, *words):
        return json.loads(self.run(self.programs / program, *words)[0])


class Server:
    """A redis-server on the server's core, on a Unix socket, without persistence. With `tcp`, it
    also listens on a port of the loopback interface. `options`: more of its command line."""

    def __init__(self, machine, tcp=False, options=()):
        self.port = free_port() if tcp else 0
        self._directory = tempfile.mkdtemp(prefix="weir_bench.", dir="/tmp")
        self.socket = f"{self._directory}/socket"
        program = os.environ.get("WEIR_REDIS_SERVER", "redis-server")
        words = [program, "--port", self.port, "--bind", "127.0.0.1", "--unixsocket", self.socket,
                 "--save", "", "--appendonly", "no", "--dir", self._directory, *options]
        self._log = open(f"{self._directory}/log", "w+")
        self._process = subprocess.Popen(
            machine.on_core(machine.server_core, words),
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT)
        self.pid = self._process.pid
        try:
            self._connection = self._connect(program)
        except Exception:
            self.close()
            raise

    def _connect(self, program):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                return resp.Connection(self.socket)
            except OSError:
                time.sleep(0.01)
        self._log.seek(0)
        raise RuntimeError(f"{program} does not start: {self._log.read()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._log.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def command(self, *words):
        return self._connection.command(*words)

    def connect(self):
        return resp.Connection(self.socket)

    def load(self, script):
        """Loads bench/scripts/<script>.lua and returns its SHA."""
        return self.command("SCRIPT", "LOAD", (SCRIPTS / f"{script}.lua").read_text())

    def version(self):
        return re.search(r"redis_version:(\S+)", self.command("INFO", "server")).group(1)

    def cpu_seconds(self):
        return time.clock_gettime((~self.pid << 3) | 2)  # what clock_getcpuclockid(3) returns

    def check_errors(self):
        """Fails if a script call got an error reply: redis-benchmark ignores them."""
        found = re.search(r"cmdstat_evalsha:.*rejected_calls=(\d+),failed_calls=(\d+)",
                          self.command("INFO", "commandstats"))
        if found is None or found.groups() != ("0", "0"):
            raise RuntimeError(f"script calls failed: {self.command('INFO', 'errorstats')}")
