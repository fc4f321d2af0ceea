"""Runs the service on a real server, scrapes it, and compares it with what its callers saw:

    service_test.py <weir_observed_service> <docs/observability.md>

Also checks that the dashboard and the alerts ask for nothing that the service does not serve, and
that the document's table names what it serves. WEIR_REDIS_URL names the server.
"""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter

FOLDER = pathlib.Path(__file__).parent
PROGRAM, DOCUMENT = sys.argv[1:]

SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


def require(holds, what):
    if not holds:
        sys.exit(f"failed: {what}")


class Scrape:
    """The series of one scrape: {(name, labels): value}, without those of prometheus-cpp itself."""

    def __init__(self, port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        self.series, self.types = {}, {}
        for line in lines:
            if re.match("(# TYPE )?exposer_", line):
                continue
            if line.startswith("# TYPE "):
                name, kind = line.split()[2:]
                require(name not in self.types, f"{name} is served twice")
                self.types[name] = kind
            elif line and not line.startswith("#"):
                name, labels, value = SAMPLE.match(line).groups()
                key = name, tuple(sorted(LABEL.findall(labels or "")))
                require(key not in self.series, f"{key} is served twice")
                self.series[key] = float(value)

    def sum(self, name, **labels):
        """Of the series with these labels."""
        return sum(value for (n, own), value in self.series.items()
                   if n == name and labels.items() <= dict(own).items())

    def by(self, label, name, **labels):
        """The sums by the values of a label, zeros left out."""
        sums = Counter()
        for (n, own), value in self.series.items():
            if n == name and label in dict(own) and labels.items() <= dict(own).items():
                sums[dict(own)[label]] += value
        return +sums


def check_form(scrape, before):
    """The rules of names, labels and histograms; no counter falls."""
    for (name, labels), value in scrape.series.items():
        require(not any("account-" in text for _, text in labels), f"a subject in {name}")
        family = re.sub("_(bucket|sum|count)$", "", name)
        kind = scrape.types.get(name) or scrape.types[family]
        require((kind == "counter") == name.endswith("_total"), f"{name} is a {kind}")
        if kind != "gauge" and before is not None:
            require(value >= before.series.get((name, labels), 0), f"{name} fell")
        if name.endswith("_bucket"):
            of = {k: v for k, v in labels if k != "le"}
            if dict(labels)["le"] == "+Inf":
                require(value == scrape.sum(f"{family}_count", **of), f"{name}: +Inf is not all")


def scrape_until(port, condition):
    """Scrapes until the condition holds; ctest's time-out bounds it."""
    before = None
    while True:
        scrape = Scrape(port)
        check_form(scrape, before)
        if condition(scrape):
            return scrape
        before = scrape
        time.sleep(0.02)


def has_seen_all(scrape):
    """Whether each kind of call has happened."""
    return (len(scrape.by("tier", "weir_refusals_by_tier_total")) == 2
            and scrape.sum("weir_calls_total", source="deny_cache") > 0
            and scrape.sum("weir_call_errors_total", error="cost_exceeds_limit") > 0
            and scrape.sum("weir_calls_total", resource="partner", outcome="refused") > 0
            and scrape.sum("weir_calls_total", resource="partner-gate", outcome="allowed") > 0
            and scrape.sum("weir_refusals_by_cool_down_total") > 0
            and scrape.sum("weir_cool_downs_total", origin="here") > 0)


def break_connections():
    """Closes all connections of the server but this one."""
    host, port = re.match(r"redis://(.*):(\d+)$", os.environ["WEIR_REDIS_URL"]).groups()
    with socket.create_connection((host, int(port))) as server:
        server.sendall(b"CLIENT KILL TYPE normal SKIPME yes\r\n")
        answer = server.makefile("rb").readline()
    require(answer == b":1\r\n", f"CLIENT KILL answered {answer}")


def compare(scrape, seen):
    """What is served is what the callers saw."""
    outcomes = Counter()
    for resource, counts in seen.items():
        def served(name, resource=resource, **labels):
            return scrape.sum(name, resource=resource, **labels)

        def equal(what, served, seen, resource=resource):
            require(served == seen, f"{resource}, {what}: served {served}, seen {seen}")

        for outcome in ("allowed", "refused", "other", "cancelled"):
            equal(outcome, served("weir_calls_total", outcome=outcome), counts.get(outcome, 0))
            outcomes[outcome] += counts.get(outcome, 0)
        errors = {what[8:]: n for what, n in counts.items() if what.startswith("failed: ")}
        outcomes["failed"] += sum(errors.values())
        equal("failed", served("weir_calls_total", outcome="failed"), sum(errors.values()))
        equal("errors", scrape.by("error", "weir_call_errors_total", resource=resource), errors)
        tiers = {what[16:]: n for what, n in counts.items() if what.startswith("refused by tier ")}
        equal("tiers", scrape.by("tier", "weir_refusals_by_tier_total", resource=resource), tiers)
        equal("refused by cool-down", served("weir_refusals_by_cool_down_total"),
              counts.get("refused by cool-down", 0))
        equal("waited", served("weir_wait_seconds_count"), counts.get("waited", 0))
        equal("waits cancelled", served("weir_waits_cancelled_total"),
              counts.get("waits cancelled", 0))
        for gauge in ("weir_waiting", "weir_leases", "weir_leases_lost_total"):
            equal(gauge, served(gauge), 0)
    for outcome, count in outcomes.items():
        total = scrape.sum("weir_store_calls_total", outcome=outcome)
        require(total == count, f"the store's {outcome}: served {total}, seen {count}")
    require(scrape.sum("weir_requests_total") <= scrape.sum("weir_checks_total"), "checks")
    require(0 < scrape.sum("db_client_operation_duration_seconds_count", db_system_name="redis")
            <= scrape.sum("weir_requests_total"), "round trips")


def metrics_in(query):
    """The names in a query that are no functions, keywords or labels."""
    query = re.sub(r'"[^"]*"', "", query)
    query = re.sub(r"\{[^}]*\}|\[[^]]*\]|\b(by|without|on|ignoring)\s*\([^)]*\)", " ", query)
    query = re.sub(r"\boffset\s+\w+", " ", query)
    names = re.findall(r"(?<![\w.$])[a-zA-Z_]\w*(?!\w*\s*\()", query)
    return set(names) - {"or", "and", "unless", "bool"}


def queries():
    """Those of the dashboard and of the alerts, and the labels that they select by."""
    dashboard = json.loads((FOLDER / "dashboard.json").read_text())
    found = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    for variable in dashboard["templating"]["list"]:
        found += re.findall(r"label_values\((.*), \w+\)", variable["query"])
    alerts = (FOLDER / "alerts.yaml").read_text()
    rules = re.findall(r"^( +)expr:(.*(?:\n\1 +.*)*)", alerts, re.MULTILINE)
    require(len(rules) == alerts.count("alert: "), "an alert without a query")
    return found + [query.lstrip(" >-") for _, query in rules]


def check_names(scrape):
    """Queries and document name what is served."""
    served = {name for name, _ in scrape.series}
    labels = {label for _, own in scrape.series for label, _ in own} | {"instance", "job"}
    asked = 0
    for query in queries():
        names = metrics_in(query)
        require(names, f"no metric in {query}")
        require(names <= served, f"{names - served} is not served: {query}")
        used = set(re.findall(r"(\w+)\s*(?:=|!=|=~|!~)\"", query))
        for group in re.findall(r"\bby \(([^)]*)\)", query):
            used |= set(group.replace(",", " ").split())
        require(used <= labels, f"{used - labels} is no label: {query}")
        asked += len(names)
    print(f"{asked} names in the queries of the dashboard and the alerts")
    table = re.findall(r"^\| `(\w+)(?:\{[^`]*)?` \|", pathlib.Path(DOCUMENT).read_text(),
                       re.MULTILINE)
    documented = {name for name in table if name.startswith(("weir_", "db_"))}
    differing = documented ^ set(scrape.types)
    require(not differing, f"{DOCUMENT} and the service differ in {differing}")


def main():
    service = subprocess.Popen(
        [PROGRAM], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "METRICS_ADDRESS": "127.0.0.1:0",
             "STORE_URL": os.environ["WEIR_REDIS_URL"] + "?timeout=10s"})
    try:
        port = int(service.stdout.readline().removeprefix("serving port "))
        scrape_until(port, has_seen_all)
        break_connections()
        scrape_until(port, lambda s: s.sum("weir_connects_total") == 2)
        service.send_signal(signal.SIGUSR1)
        seen = json.loads(service.stdout.readline())
        scrape = scrape_until(port, lambda s: s.sum("weir_pending_calls") == 0)
        compare(scrape, seen)
        losses = scrape.by("cause", "weir_connection_losses_total")
        require(losses == {"closed_by_peer": 1}, f"losses: {losses}")
        check_names(scrape)
        service.send_signal(signal.SIGTERM)
        require(service.wait() == 0, f"the service ended with {service.returncode}")
        print(f"{len(scrape.series)} series; the callers saw {json.dumps(seen)}")
    finally:
        service.kill()
        service.wait()


main()
