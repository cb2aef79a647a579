#!/usr/bin/env python3
"""Compute the report of precept from exported coins, without using precept's code.

    precept export --format experiment --tenant default | python3 recompute.py [--json] [FILE...]

The output has:

- for each lesson and for all lessons together: the numbers of rewarded sessions with and without the lesson, the effect
  in units of reward (0.05 is +5 points), the 95% interval that is valid at any time, and the e-values of two checks:
  of the coins (srm), and of the shares and sources of rewards in both arms (reporting);
- for each planned trial: the evaluation (look) after the planned number of rewarded picks, in the order in which their
  sessions began;
- for each outcome of a lesson: the effect after the pick, the interval, and the e-values for a fall and a rise;
- for each lesson: the share of the variance that facts before the assignment explain (explained), the estimate from all
  sessions, rewarded or not (all_sessions), and the effects on the models, moved towards the lesson's effect (models).

docs/EXPERIMENT.md explains the terms and the formulas.
"""
import fileinput
import json
import math
import statistics
import sys

ALPHA = 0.05
PICKS = ("holdout", "rule")  # the coin of a lesson, and the coin of a section of a rules file
TIGHT = {"holdout": 1000, "rule": 1000, "control": 5000}  # number of sessions for which the interval is tightest
CAP = math.log(1e12)  # largest logarithm of an e-value in the output
GIVEN = ("injected", "treated")
OUTCOMES = ("recurrence", "errors", "loops", "corrections", "turns", "tokens", "seconds")
BETS = (0.03, 0.08, 0.18, 0.4)  # stakes of the e-values of outcomes: l_k of EXPERIMENT.md


def half_width(n, variance, tight):
    a = -2 * math.log(ALPHA)
    rho2 = (a + math.log(a) + 1) / tight
    return math.sqrt(variance * 2 * (n * rho2 + 1) / (n * n * rho2) * math.log(math.sqrt(n * rho2 + 1) / ALPHA))


def millionths(x):
    """Return x in millionths, rounded as in precept (halves away from 0). Sums then do not depend on the order."""
    return int(math.copysign(math.floor(abs(x) * 1e6 + 0.5), x))


def read(lines):
    closed = [t for t in map(json.loads, lines) if t["closed"]]
    definition = max(((t["at"], t["reward_definition"]) for t in closed), default=("", ""))[1]  # of the latest session
    return [t for t in closed if t["reward_definition"] == definition]  # other definitions of the reward are not comparable


def z_of(t, outcome):
    residual = outcome - t["center"]
    return residual / (1 - t["eps"]) if t["assigned"] in GIVEN else -residual / t["eps"]


def collect(trials):
    rows = {}
    for t in trials:
        if t["coin"] == "control" and t["arm"]:
            continue  # a match in a control session, for which the lesson has no coin
        row = rows.setdefault((t["coin"], t["arm"]), {"n": 0, "z": 0, "zz": 0, "with": 0, "without": 0, "coins": {}})
        count(row["coins"], t["eps"], t["assigned"] in GIVEN, t)
        if t["outcome"] is None:
            continue
        given = t["assigned"] in GIVEN
        row["with" if given else "without"] += 1
        if 0 < t["eps"] < 1:  # with a probability of 0 or 1 there was no coin, so there is no comparison
            z = z_of(t, t["outcome"])
            row["n"] += 1
            row["z"] += millionths(z)
            row["zz"] += millionths(z * z)
    return rows


def count(strata, eps, given, t):
    """Add a coin to its propensity's counts: of all coins, and of coins in sessions with a reward at closing, by source."""
    stratum = strata.setdefault(round(eps, 6), {"all": [0, 0], "rewarded": {}, "late": [0, 0]})
    stratum["all"][given] += 1
    if t["arm"] and t["outcome"] is not None and t["outcome_at_closing"] is None:
        stratum["late"][given] += 1
    if t["outcome_at_closing"] is not None:
        stratum["rewarded"].setdefault(t.get("tier_at_closing", 0), [0, 0])[given] += 1


def first_picks(trials):
    """Count one coin per session: whether any first pick was injected. Its propensity is the product of the first picks' ones."""
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
    """Return ln of the e-value against a coin that withholds with probability eps: a Beta mixture of the alternatives."""
    if not 0 < eps < 1:
        return CAP if (without if eps <= 0 else given) else 0
    a, b = 100 * eps, 100 * (1 - eps)
    return log_beta(a + without, b + given) - log_beta(a, b) - without * math.log(eps) - given * math.log1p(-eps)


def log_srm(strata):
    return together(log_ratio(*s["all"], eps) for eps, s in strata.items())


def log_ratios_by_reward(eps, s):
    rewarded = [sum(k[arm] for k in s["rewarded"].values()) for arm in (0, 1)]
    return log_ratio(*rewarded, eps), log_ratio(s["all"][0] - rewarded[0], s["all"][1] - rewarded[1], eps)


def log_reporting(strata):
    logs = []
    for eps, s in strata.items():
        if 0 < eps < 1:
            rewarded, unrewarded = log_ratios_by_reward(eps, s)
            by_tier = [unrewarded] + [log_ratio(*s["rewarded"].get(tier, (0, 0)), eps) for tier in range(4)]
            logs.append(log_mean(together((rewarded, unrewarded)), together(by_tier)))
    return together(logs)


def checks(key, strata, trials):
    reporting = log_reporting(strata)
    if key[0] == "control":  # few sessions are control sessions, so the check also uses first picks with sound coins
        sound = {eps: s for eps, s in first_picks(trials).items() if log_srm({eps: s}) < math.log(1000)}
        reporting = together((reporting, sum(sum(log_ratios_by_reward(eps, s)) for eps, s in sound.items())))
    late = together(log_ratio(*s["late"], eps) for eps, s in strata.items() if 0 < eps < 1)
    return {"srm": math.exp(min(log_srm(strata), CAP)), "reporting": math.exp(min(reporting, CAP)), "late": math.exp(min(late, CAP))}


def judge(key, row):
    out = {"arm": key[1], "n_with": row["with"], "n_without": row["without"], "effect": None, "lo": None, "hi": None}
    if row["n"] >= 50 and min(row["with"], row["without"]) >= 5:
        effect = row["z"] / 1e6 / row["n"]
        variance = max(row["zz"] / 1e6 / row["n"] - effect * effect, 1e-9)
        half = half_width(row["n"], variance, TIGHT[key[0]])
        out.update(effect=effect, lo=effect - half, hi=effect + half)
    return out


def looks(trials):
    """Yield the look of each planned trial, over its first N picks with a reward at closing. Later rewards do not count."""
    plans = {}
    for t in trials:
        if not t.get("trial"):
            continue
        outcome = (t["trial"].split(".") + [""])[2]
        for o in t.get("outcomes") or ():
            if o["name"] == outcome:
                plans.setdefault((t["arm"], t["trial"]), []).append(t | {"outcome_at_closing": o["y"], "center": o["center"]})
        if not outcome and t["outcome_at_closing"] is not None:
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


def outcomes(trials):
    """Yield a row for each lesson and outcome, from all closed picks with a coin, rewarded or not."""
    rows = {}
    for t in trials:
        for o in t.get("outcomes") or () if t["coin"] in PICKS and 0 < t["eps"] < 1 else ():
            row = rows.setdefault((t["arm"], OUTCOMES.index(o["name"])), {"n": [0, 0], "y": [0, 0], "z": 0, "zz": 0, "up": [0] * 4, "down": [0] * 4})
            given, z = t["assigned"] == "injected", z_of(t | {"center": o["center"]}, o["y"])
            row["n"][given] += 1
            row["y"][given] += millionths(o["y"])
            row["z"] += millionths(z)
            row["zz"] += millionths(z * z)
            if o["width"] > 0:
                u = z_of(t | {"center": 0}, max(-1, min(1, (o["y"] - o["center"]) / o["width"])))
                for k, bet in enumerate(BETS):
                    bet = min(bet, 0.9 * min(t["eps"], 1 - t["eps"]))
                    row["up"][k] += millionths(math.log1p(bet * u))
                    row["down"][k] += millionths(math.log1p(-bet * u))
    for (arm, place), row in sorted(rows.items()):
        percent = place >= OUTCOMES.index("turns")
        if percent and sum(row["y"]) == 0:
            continue
        shown = (lambda y: 100 * (2 ** (24 * y) - 1)) if percent else (lambda y: y)
        mean = [(2 ** (24 * y / 1e6 / n) - 1 if percent else y / 1e6 / n) if n else None for y, n in zip(row["y"], row["n"])]
        out = {"arm": arm, "name": OUTCOMES[place], "n_with": row["n"][1], "n_without": row["n"][0], "mean_with": mean[1], "mean_without": mean[0]}
        e = judge(("holdout", arm), {"n": sum(row["n"]), "z": row["z"], "zz": row["zz"], "with": row["n"][1], "without": row["n"][0]})
        out.update({k: None if e[k] is None else shown(e[k]) for k in ("effect", "lo", "hi")})
        for name, bets in (("e_fewer", row["down"]), ("e_more", row["up"])):
            top = max(bets) / 1e6
            out[name] = math.exp(min(CAP, top + math.log(sum(math.exp(w / 1e6 - top) for w in bets) / len(bets))))
        yield out


def moments(n, z, zz):
    return z / n, max(zz / n - (z / n) ** 2, 1e-9)


def explained(picks, row):
    """Return the share of the variance of z that the centres remove, compared with one centre for each propensity."""
    strata = {}
    for t in picks:
        if t.get("graded") and t["outcome"] is not None and 0 < t["eps"] < 1:
            s = strata.setdefault(round(t["eps"], 6), {"n": [0, 0], "y": [0, 0], "graded": [0, 0]})
            given, y = t["assigned"] == "injected", t["outcome"]
            s["n"][given] += 1
            s["y"][given] += millionths(y) / 1e6
            s["graded"][given] += millionths(y * (1 - y)) / 1e6
    n = z = zz = 0
    for eps, s in strata.items():
        centre = eps * s["y"][1] / max(s["n"][1], 1) + (1 - eps) * s["y"][0] / max(s["n"][0], 1)
        for given, weight in ((1, 1 / (1 - eps)), (0, -1 / eps)):
            k, y = s["n"][given], s["y"][given]
            n += k
            z += weight * (y - k * centre)
            zz += weight * weight * (y - s["graded"][given] - 2 * centre * y + k * centre * centre)
    return 1 - moments(row["n"], row["z"] / 1e6, row["zz"] / 1e6)[1] / moments(n, z, zz)[1] if n >= 50 else None


def all_sessions(picks, row):
    """Return the effect on the reward from all closed picks. Outcomes predict the missing rewards."""
    s = dict.fromkeys(("n", "m", "with", "g", "gg", "gr", "d", "dd", "dg"), 0)
    for t in picks:
        seen = {o["name"]: o for o in t.get("outcomes") or ()}
        trouble = [seen[name] for name in ("errors", "loops", "corrections") if name in seen]
        if not t.get("graded") or not trouble or not 0 < t["eps"] < 1:
            continue
        good = t | {"center": 1 - min(1, sum(o["center"] for o in trouble))}
        zs = z_of(good, 1 - min(1, sum(o["y"] for o in trouble)))
        g = t.get("weight", 0) * zs
        s["n"] += 1
        s["g"] += millionths(g)
        s["gg"] += millionths(g * g)
        if t["outcome"] is not None:
            rest = z_of(t, t["outcome"]) - g
            s["m"] += 1
            s["with"] += t["assigned"] == "injected"
            for key, v in (("gr", g), ("d", rest), ("dd", rest * rest), ("dg", rest * g)):
                s[key] += millionths(v)
    n, m = s["n"], s["m"]
    if s["gg"] <= 0 or n <= m:
        return None
    out = {"sessions": n, "rewarded": m, "effect": None, "lo": None, "hi": None, "gain": 0}
    if m >= 50 and min(s["with"], m - s["with"]) >= 5:
        g, gg, gr, d, dd, dg = (s[key] / 1e6 for key in ("g", "gg", "gr", "d", "dd", "dg"))
        share, effect = m / n, d / m + g / n
        total = (dd - d * d / m) / share**2 + gg - g * g / n + 2 * (dg - d / m * gr) / share
        variance = max(total / n * share, 1e-9)
        half = half_width(m, variance, TIGHT["holdout"])
        out.update(effect=effect, lo=effect - half, hi=effect + half)
        out["gain"] = 1 - variance / m / (moments(row["n"], row["z"] / 1e6, row["zz"] / 1e6)[1] / row["n"])
    return out


def models(picks, row):
    """Return the effect on each model, as measured, and moved towards the lesson's effect (shrunken). Exploratory."""
    cells = {}
    for t in picks:
        if t.get("model") and 0 < t["eps"] < 1:
            c = cells.setdefault(t["model"], {"picks": 0, "rewarded": [0, 0], "z": 0, "zz": 0})
            c["picks"] += 1
            if t["outcome"] is not None:
                z = z_of(t, t["outcome"])
                c["rewarded"][t["assigned"] == "injected"] += 1
                c["z"] += millionths(z)
                c["zz"] += millionths(z * z)
    out, shown = [], []
    for name, c in sorted(cells.items(), key=lambda x: (-x[1]["picks"], x[0])):
        e = {"model": name, "picks": c["picks"], "n_with": c["rewarded"][1], "n_without": c["rewarded"][0], "effect": None, "shrunken": None}
        n = sum(c["rewarded"])
        if n >= 50 and min(c["rewarded"]) >= 5:
            e["effect"], variance = moments(n, c["z"] / 1e6, c["zz"] / 1e6)
            shown.append((e, variance / n))
        out.append(e)
    if shown:
        own, k = row["z"] / 1e6 / row["n"], len(shown)
        w = [1 / v for _, v in shown]
        mean = sum(x * e["effect"] for x, (e, _) in zip(w, shown)) / sum(w)
        q = sum(x * (e["effect"] - mean) ** 2 for x, (e, _) in zip(w, shown))
        between = max(0, (q - (k - 1)) / (sum(w) - sum(x * x for x in w) / sum(w))) if k > 1 else 0
        between = (max(own * own, 0.03**2) + (k - 1) * between) / k
        for e, variance in shown:
            keep = between / (between + variance)
            e["shrunken"] = keep * e["effect"] + (1 - keep) * own
    return out


def further(key, row, trials):
    """Return the columns of a lesson that no verdict uses."""
    if key[0] not in PICKS:
        return {}
    picks = [t for t in trials if (t["coin"], t["arm"]) == key]
    shown = row["n"] >= 50 and min(row["with"], row["without"]) >= 5
    return {"explained": explained(picks, row) if shown else None, "all_sessions": all_sessions(picks, row), "models": models(picks, row)}


trials = read(fileinput.input([a for a in sys.argv[1:] if a != "--json"]))
results = [judge(key, row) | checks(key, row["coins"], trials) | further(key, row, trials) for key, row in sorted(collect(trials).items())]
results += looks(trials)
results += outcomes(trials)
if "--json" in sys.argv:
    print(json.dumps(results))
else:
    for r in results:
        scale = 1 if r.get("name") in OUTCOMES[4:] else 100
        points = "not enough data" if r["effect"] is None else "%+5.1f [%+5.1f, %+5.1f]" % tuple(scale * r[k] for k in ("effect", "lo", "hi"))
        look = "  trial %s, %s" % (r["trial"], "one look" if r["taken"] else "does not count yet") if "trial" in r else ""
        look = look or "name" in r and "  %s, e-values %.3g for a fall, %.3g for a rise" % (r["name"], r["e_fewer"], r["e_more"])
        look = look or "  assignment e %.3g, reporting e %.3g" % (r["srm"], r["reporting"])
        print("%-40s %6d/%-6d %s%s" % (r["arm"] or "all lessons together", r["n_with"], r["n_without"], points, look))
