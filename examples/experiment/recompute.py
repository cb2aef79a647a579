#!/usr/bin/env python3
"""Compute precept's report again, from its coins and with nothing of precept.

    precept export --format experiment --tenant default | python3 recompute.py [--json]

For each lesson and for all together: told sessions with and without, the effect in units of reward (0.05 is +5 points),
the 95% interval that holds however often one looks, and the e-values of the two checks: do the coins fall as promised
(srm), and does having a lesson leave alone who reports, and how (reporting). For each planned trial: its one look, at the
first so many told picks in the order in which their sessions began. docs/EXPERIMENT.md explains the formulas.
"""
import json
import math
import statistics
import sys

ALPHA = 0.05
TIGHT = {"holdout": 1000, "control": 5000}  # at how many sessions the interval is tightest
CAP = math.log(1e12)  # evidence beyond it says nothing more
GIVEN = ("injected", "treated")


def half_width(n, variance, tight):
    a = -2 * math.log(ALPHA)
    rho2 = (a + math.log(a) + 1) / tight
    return math.sqrt(variance * 2 * (n * rho2 + 1) / (n * n * rho2) * math.log(math.sqrt(n * rho2 + 1) / ALPHA))


def millionths(x):
    """Precept adds whole millionths, halves away from 0, so that any order of feedback gives the same sums."""
    return int(math.copysign(math.floor(abs(x) * 1e6 + 0.5), x))


def read(lines):
    closed = [t for t in map(json.loads, lines) if t["closed"]]
    definition = max(((t["at"], t["reward_definition"]) for t in closed), default=("", ""))[1]  # the latest session's
    return [t for t in closed if t["reward_definition"] == definition]


def z_of(t, outcome):
    residual = outcome - t["center"]
    return residual / (1 - t["eps"]) if t["assigned"] in GIVEN else -residual / t["eps"]


def collect(trials):
    rows = {}
    for t in trials:
        if t["coin"] == "control" and t["arm"]:
            continue  # a control session's match: nothing was drawn for the lesson
        row = rows.setdefault((t["coin"], t["arm"]), {"n": 0, "z": 0, "zz": 0, "with": 0, "without": 0, "coins": {}})
        count(row["coins"], t["eps"], t["assigned"] in GIVEN, t)
        if t["outcome"] is None:
            continue
        given = t["assigned"] in GIVEN
        row["with" if given else "without"] += 1
        if 0 < t["eps"] < 1:  # where no coin was flipped there is nothing to compare
            z = z_of(t, t["outcome"])
            row["n"] += 1
            row["z"] += millionths(z)
            row["zz"] += millionths(z * z)
    return rows


def count(strata, eps, given, t):
    """One more coin of its propensity, and what was told of its session by the closing."""
    stratum = strata.setdefault(round(eps, 6), {"all": [0, 0], "told": {}})
    stratum["all"][given] += 1
    if t["outcome_at_closing"] is not None:
        stratum["told"].setdefault(t.get("tier_at_closing", 0), [0, 0])[given] += 1


def first_picks(trials):
    """Was any of a session's first picks injected? A coin, too: none is with the product of their chances."""
    sessions, strata = {}, {}
    for t in trials:
        if t["coin"] == "holdout" and t["slug"] != "loop-warning":
            sessions.setdefault(t["session"], []).append(t)
    for picks in sessions.values():
        first = [t for t in picks if t["turn"] == min(t["turn"] for t in picks)]
        if all(0 < t["eps"] < 1 for t in first):
            given = any(t["assigned"] == "injected" for t in first)
            count(strata, math.prod(t["eps"] for t in first), given, first[0])
    return strata


def log_mean(a, b):
    return max(a, b) + math.log((1 + math.exp(-abs(a - b))) / 2)


def together(logs):
    return sum(log_mean(0, x) for x in logs)


def log_beta(a, b):
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def log_ratio(without, given, eps):
    """ln of the e-value against "a coin falls on without with the chance eps": a Beta mixture of the alternatives."""
    if not 0 < eps < 1:
        return CAP if (without if eps <= 0 else given) else 0
    a, b = 100 * eps, 100 * (1 - eps)
    return log_beta(a + without, b + given) - log_beta(a, b) - without * math.log(eps) - given * math.log1p(-eps)


def coins_fall(strata):
    return together(log_ratio(*s["all"], eps) for eps, s in strata.items())


def told_and_mute(eps, s):
    told = [sum(k[arm] for k in s["told"].values()) for arm in (0, 1)]
    return log_ratio(*told, eps), log_ratio(s["all"][0] - told[0], s["all"][1] - told[1], eps)


def who_reports(strata):
    logs = []
    for eps, s in strata.items():
        if 0 < eps < 1:
            told, mute = told_and_mute(eps, s)
            by_tier = [mute] + [log_ratio(*s["told"].get(tier, (0, 0)), eps) for tier in range(4)]
            logs.append(log_mean(together((told, mute)), together(by_tier)))
    return together(logs)


def checks(key, strata, trials):
    reporting = who_reports(strata)
    if key[0] == "control":  # few sessions are control, so the first picks are asked as well, where their coins are sound
        sound = {eps: s for eps, s in first_picks(trials).items() if coins_fall({eps: s}) < math.log(1000)}
        reporting = together((reporting, sum(sum(told_and_mute(eps, s)) for eps, s in sound.items())))
    return {"srm": math.exp(min(coins_fall(strata), CAP)), "reporting": math.exp(min(reporting, CAP))}


def judge(key, row):
    out = {"arm": key[1], "n_with": row["with"], "n_without": row["without"], "effect": None, "lo": None, "hi": None}
    if row["n"] >= 50 and min(row["with"], row["without"]) >= 5:
        effect = row["z"] / 1e6 / row["n"]
        variance = max(row["zz"] / 1e6 / row["n"] - effect * effect, 1e-9)
        half = half_width(row["n"], variance, TIGHT[key[0]])
        out.update(effect=effect, lo=effect - half, hi=effect + half)
    return out


def looks(trials):
    """Each planned trial, at its first N told picks: what was told later than a session's closing does not count."""
    plans = {}
    for t in trials:
        if t.get("trial") and t["outcome_at_closing"] is not None:
            plans.setdefault((t["arm"], t["trial"]), []).append(t)
    for (arm, trial), picks in sorted(plans.items()):
        planned = int(trial.split(".")[1])
        picks.sort(key=lambda t: (t["at"], t["session"][:8]))
        zs = [millionths(z_of(t, t["outcome_at_closing"])) / 1e6 for t in picks[:planned]]
        given = sum(t["assigned"] == "injected" for t in picks[:planned])
        out = {"arm": arm, "trial": trial, "planned": planned, "taken": len(picks) >= planned, "n_with": given, "n_without": len(zs) - given}
        out.update(effect=None, lo=None, hi=None, p=None)
        if len(zs) >= 50 and min(given, len(zs) - given) >= 5:
            effect = statistics.fmean(zs)
            error = math.sqrt(max(statistics.fmean(z * z for z in zs) - effect * effect, 1e-9) / len(zs))
            half = statistics.NormalDist().inv_cdf(1 - ALPHA / 2) * error
            out.update(effect=effect, lo=effect - half, hi=effect + half, p=math.erfc(abs(effect) / error / math.sqrt(2)))
        yield out


trials = read(sys.stdin)
results = [judge(key, row) | checks(key, row["coins"], trials) for key, row in sorted(collect(trials).items())]
results += looks(trials)
if "--json" in sys.argv:
    print(json.dumps(results))
else:
    for r in results:
        points = "not enough data" if r["effect"] is None else "%+5.1f [%+5.1f, %+5.1f]" % tuple(100 * r[k] for k in ("effect", "lo", "hi"))
        look = "  trial %s, %s" % (r["trial"], "one look" if r["taken"] else "does not count yet") if "trial" in r else ""
        look = look or "  coins e %.3g, reporting e %.3g" % (r["srm"], r["reporting"])
        print("%-40s %6d/%-6d %s%s" % (r["arm"] or "all lessons together", r["n_with"], r["n_without"], points, look))
