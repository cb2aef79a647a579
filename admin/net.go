package admin

import (
	"math"
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/bandit/report"
	"precept/store"
)

// netResult is the lessons' net result in the last seven days: the value of prevented failures minus the cost of
// inserted tokens.
type netResult struct {
	sessions int64   // rewarded sessions that were allowed to get lessons (treated); a run counts once
	effect   *effect // effect of all lessons together; nil: too little data, or an invalid report
	invalid  bool    // the report found a fault in the assignment or the rewards
	tokens   int64   // estimated tokens inserted in these sessions
	prices   Prices
	mean     meanPrice // mean input price
}

// newNetResult returns a report's net result. The report counts inserted tokens over all treated sessions, but the
// result covers only rewarded sessions. newNetResult therefore multiplies the tokens by the share of rewarded sessions.
func newNetResult(r *report.Report, p Prices, m meanPrice) netResult {
	sum := lastWeek(r.Global.Days, r.GeneratedAt)
	tokens := sum.TokensAdded
	if all := sum.Treated.Sessions; all > sum.NTreated {
		tokens = tokens * sum.NTreated / all
	}
	return netResult{sum.NTreated, globalEffect(&r.Global), r.Global.Verdict == report.Invalid, tokens, p, m}
}

// cost returns what the inserted tokens cost at the mean uncached input price.
func (n netResult) cost() float64 { return float64(n.tokens) * n.mean.price.Input / 1e6 }

// netAtEffect returns the net result in money for a given effect of the lessons.
func (n netResult) netAtEffect(effect float64) float64 {
	return effect*float64(n.sessions)*n.prices.SuccessValue - n.cost()
}

func (n netResult) amount(x float64) string {
	text := withSign(x, ifElse(x != 0 && math.Abs(x) < 0.1, 4, 2)) // the first injections cost less than a cent
	if n.prices.Currency != "" {
		text += "\u00a0" + n.prices.Currency
	}
	return text
}

// failuresText formats a number of prevented failures with at most three decimals. It shows just enough decimals that
// the number times the session value is the amount on the page.
func (n netResult) failuresText(x float64) string {
	for digits := range 3 {
		scale := math.Pow10(digits)
		if withSign(math.Round(x*scale)/scale*n.prices.SuccessValue, 2) == withSign(x*n.prices.SuccessValue, 2) {
			return ifElse(digits == 0, signedText(x), withSign(x, digits))
		}
	}
	return withSign(x, 3)
}

// html returns the net result in money, split into parts, or the number of prevented failures if a price is missing.
func (n netResult) html(f frame) g.Node {
	priced := n.prices.SuccessValue > 0 && n.mean.known // needs a session's value and the tokens' cost
	missing := ifElse(n.invalid, noValue, stillCounting)
	key, value, note := ifElse(priced, "net", "gain"), missing, ifElse(n.invalid, "not reliable", "too few control sessions")
	gained, between := missing, ""
	tone := n.effect.tone()
	if n.effect != nil {
		e, sessions := effect{n.effect.size, max(n.effect.lo, -1), min(n.effect.hi, 1)}, float64(n.sessions) // a session gains or loses at most 1
		gained, between = signedText(e.size*sessions), signedText(e.lo*sessions)+" to "+signedText(e.hi*sessions)
		value, note = gained+" sessions", between+", with 95% confidence"
		if priced {
			tone = (&effect{lo: n.netAtEffect(e.lo), hi: n.netAtEffect(e.hi)}).tone()
			value, note = n.amount(n.netAtEffect(e.size)), n.amount(n.netAtEffect(e.lo))+" to "+n.amount(n.netAtEffect(e.hi))+", with 95% confidence"
			if tone == "" { // the interval contains 0, so the sign is unknown
				value, note = "not known yet", n.amount(n.netAtEffect(e.lo))+" to "+n.amount(n.netAtEffect(e.hi))+", with 95% confidence; best estimate "+n.amount(n.netAtEffect(e.size))
			}
		}
	}
	part := func(name string, detail g.Node, sum string) g.Node {
		return h.Tr(rowHead(g.Text(name)), wordCells(detail), numberCells(sum))
	}
	treatedLink := g.Node(g.Text(countNoun(n.sessions, "treated session")))
	if n.sessions > 0 {
		treatedLink = h.A(h.Href(f.sessionsInWeek(store.FateTreated, "min_reward", "0")), treatedLink)
	}
	prevented, inserted := noValue, noValue
	if priced && n.effect != nil {
		gained = n.failuresText(n.effect.size * float64(n.sessions))
		prevented = n.amount(n.effect.size * float64(n.sessions) * n.prices.SuccessValue)
	}
	if n.mean.known {
		inserted = n.amount(-n.cost())
	}
	sessionRate := ""
	if priced {
		sessionRate = " × " + strconv.FormatFloat(n.prices.SuccessValue, 'f', 2, 64)
	}
	tokenRate := ""
	if n.mean.known {
		tokenRate = " × " + strconv.FormatFloat(n.mean.price.Input, 'g', 4, 64) + " a million"
	}
	hint := ""
	if !priced {
		hint = ifElse(n.mean.reading, "The mean input price is being computed …", "Set admin.session_value and prices to see the net result in money.")
	}
	return h.Section(
		h.Class("net"), ariaLabelledBy("net"),
		h.Div(
			h.H2(h.ID("net"), termButton(key)),
			h.P(h.Class("value "+tone), g.Text(value)), h.P(h.Class("quiet"), g.Text(note)),
		),
		h.Div(
			h.Table(h.Class("figures"), h.TBody(
				part("Prevented failures", g.Group{g.Text(gained + " of "), treatedLink, g.Text(" with a reward (a run counts once)" + sessionRate)}, prevented),
				part("Inserted tokens", g.Text(countText(n.tokens)+tokenRate), inserted),
			)),
			g.If(hint != "", mutedText(g.Text(hint))),
			n.mean.note(&n.prices),
		),
	)
}
