"""The rows of the table, and how they are written."""

import json
import math
import statistics

ABSENT = "not on this machine"


class Row:
    """One comparison. `floor` is what the ratio ours / theirs has to reach, or, for a row in which
    less is better, must not exceed. None: there is no such promise."""

    def __init__(self, name, ours, theirs, unit, floor=None, less_is_better=False, ours_run=None,
                 theirs_run=None):
        self.name, self.ours, self.theirs, self.unit = name, ours, theirs, unit
        self.floor, self.less_is_better = floor, less_is_better
        self.ours_run, self.theirs_run = ours_run, theirs_run

    @property
    def ratio(self):
        return None if self.ours is None or self.theirs is None else self.ours / self.theirs

    @property
    def met(self):
        if self.ratio is None or self.floor is None:
            return None
        return self.ratio <= self.floor if self.less_is_better else self.ratio >= self.floor

    @property
    def ratio_by_cpu(self):
        """What the ratio of two rates would be if each side had its busier core to itself."""
        if self.unit != "checks/s" or self.ratio is None:
            return None
        ours, theirs = (max(run["client_us"], run["server_us"])
                        for run in (self.ours_run, self.theirs_run))
        return theirs / ours

    def as_json(self):
        row = {"name": self.name, "ours": self.ours, "theirs": self.theirs, "unit": self.unit,
               "ratio": self.ratio, "floor": self.floor, "less_is_better": self.less_is_better,
               "met": self.met, "ratio_by_cpu": self.ratio_by_cpu}
        if self.ratio is None:
            row["note"] = ABSENT
        for side, run in (("ours", self.ours_run), ("theirs", self.theirs_run)):
            if run:
                row[f"{side}_run"] = run
        return row


def medians(runs):
    """The median of each figure over the rounds."""
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def number(x):
    if x is None:
        return ABSENT
    if x >= 1000:
        unit = 10 ** (math.floor(math.log10(x)) - 2)  # three digits are more than is known
        return f"{round(x / unit) * unit:,.0f}"
    return f"{x:.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}"


def ratio(x):
    return "" if x is None else f"{x:.1f}" if x >= 10 else f"{x:.2f}"


def latencies(run):
    return " / ".join(number(run[k]) for k in ("p50_us", "p99_us", "p999_us")) if run else ""


def cpu(run):
    return f"{run['client_us']:.2f} + {run['server_us']:.2f}" if run else ""


def markdown(rows):
    yield "| ours against theirs | ours | theirs | unit | ratio | floor | met | by CPU |" \
          " our p50 / p99 / p999 | theirs | our client + server CPU | theirs |"
    yield "|---|--:|--:|---|--:|--:|---|--:|--:|--:|--:|--:|"
    for row in rows:
        floor = "" if row.floor is None else f"{'<=' if row.less_is_better else '>='} {row.floor:g}"
        met = {None: "", True: "yes", False: "**no**"}[row.met]
        yield f"| {row.name} | {number(row.ours)} | {number(row.theirs)} | {row.unit} |" \
              f" {ratio(row.ratio)} | {floor} | {met} | {ratio(row.ratio_by_cpu)} |" \
              f" {latencies(row.ours_run)} | {latencies(row.theirs_run)} | {cpu(row.ours_run)} |" \
              f" {cpu(row.theirs_run)} |"


def write_json(path, rows, growth, about):
    with open(path, "w") as out:
        whole = {"about": about, "rows": [row.as_json() for row in rows], "growth": growth}
        json.dump(whole, out, indent=1)
        out.write("\n")
