"""The rows about instructions per check: bench/server_instructions.sh, client_instructions.sh."""

import pathlib
import subprocess

from report import Row

BENCH = pathlib.Path(__file__).parent.parent

# What this project wants a check to cost the server at most, on busy keys: with one key to a
# script, and with 64; and the client.
SERVER_TARGETS = {
    "token_bucket": {1: 45_000, 64: 12_000},
    "fixed_window": {1: 38_000, 64: 11_000},
    "sliding_window": {1: 54_000, 64: 15_000},
    "sliding_log": {1: 60_000, 64: 30_000},
}
# How long a script call may hold the server.
MOST_USUAL = 12
CLIENT_TARGETS = {"distinct": 1800, "hot": 900}


def counts(script, build):
    """The lines of the log that the script leaves beside its program."""
    subprocess.run([BENCH / f"{script}.sh", build], stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, check=True)
    log = build / "bench" / f"{script}.log"
    return [line.split() for line in log.read_text().splitlines()]


def rows(machine):
    build = machine.programs.resolve().parent
    lines = counts("server_instructions", build)
    server = {(policy, traffic, int(keys)): int(count)
              for policy, traffic, keys, count in (line for line in lines if line[0] != "hold")}
    for (policy, traffic, keys), count in server.items():
        if policy == "usual":
            continue
        name = f"server instructions, {policy}, {traffic}, keys to a script: {keys}"
        yield Row(f"{name}: usual token bucket", count, server["usual", traffic, keys],
                  "instructions", less_is_better=True)
        if traffic == "busy" and policy in SERVER_TARGETS:
            yield Row(f"{name}: target", count, SERVER_TARGETS[policy][keys], "instructions",
                      floor=1, less_is_better=True)
    for _, policy, traffic, keys, count in (line for line in lines if line[0] == "hold"):
        usual = server["usual", "busy" if traffic == "one_leaves" else traffic, 1]
        yield Row(f"server instructions, {policy}, {traffic}, the largest call: "
                  f"{MOST_USUAL} usual scripts", int(count), MOST_USUAL * usual, "instructions",
                  floor=1, less_is_better=True)
    for traffic, count, *_ in counts("client_instructions", build):
        if traffic in CLIENT_TARGETS:
            yield Row(f"client instructions, {traffic} keys, 1,024 callers: target", int(count),
                      CLIENT_TARGETS[traffic], "instructions", floor=1, less_is_better=True)
