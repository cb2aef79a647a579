#!/usr/bin/env python3
"""Compute precept's report again, from its coins and with nothing of precept.

    precept export --format experiment --tenant default | python3 recompute.py [--json]

For each lesson and for all together: told sessions with and without, the effect in units of reward (0.05 is +5 points),
and the 95% interval that holds however often one looks. docs/EXPERIMENT.md explains the formulas.
"""
import json
import math
import sys

ALPHA = 0.05
TIGHT = {"holdout": 1000, "control": 5000}  # at how many sessions the interval is tightest


def half_width(n, variance, tight):
    a = -2 * math.log(ALPHA)
    rho2 = (a + math.log(a) + 1) / tight
    return math.sqrt(variance * 2 * (n * rho2 + 1) / (n * n * rho2) * math.log(math.sqrt(n * rho2 + 1) / ALPHA))


def collect(lines):
    rows, closed = {}, [t for t in map(json.loads, lines) if t["closed"]]
    definition = max(((t["at"], t["reward_definition"]) for t in closed), default=("", ""))[1]  # the latest session's
    for t in closed:
        if t["reward_definition"] != definition or t["outcome"] is None or (t["coin"] == "control" and t["arm"]):
            continue
        row = rows.setdefault((t["coin"], t["arm"]), {"n": 0, "z": 0.0, "zz": 0.0, "with": 0, "without": 0})
        given = t["assigned"] in ("injected", "treated")
        row["with" if given else "without"] += 1
        if 0 < t["eps"] < 1:  # where no coin was flipped there is nothing to compare
            residual = t["outcome"] - t["center"]
            z = residual / (1 - t["eps"]) if given else -residual / t["eps"]
            row["n"] += 1
            row["z"] += z
            row["zz"] += z * z
    return rows


def judge(key, row):
    out = {"arm": key[1], "n_with": row["with"], "n_without": row["without"], "effect": None, "lo": None, "hi": None}
    if row["n"] >= 50 and min(row["with"], row["without"]) >= 5:
        effect = row["z"] / row["n"]
        variance = max(row["zz"] / row["n"] - effect * effect, 1e-9)
        half = half_width(row["n"], variance, TIGHT[key[0]])
        out.update(effect=effect, lo=effect - half, hi=effect + half)
    return out


results = [judge(key, row) for key, row in sorted(collect(sys.stdin).items())]
if "--json" in sys.argv:
    print(json.dumps(results))
else:
    for r in results:
        points = "not enough data" if r["effect"] is None else "%+5.1f [%+5.1f, %+5.1f]" % tuple(100 * r[k] for k in ("effect", "lo", "hi"))
        print("%-40s %6d/%-6d %s" % (r["arm"] or "all lessons together", r["n_with"], r["n_without"], points))
