package admin

import (
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/bandit/report"
	"precept/store"
)

// netResult is the result of lessons in the last seven days: the value of the prevented failures minus the
// cost of the inserted tokens.
type netResult struct {
	sessions int64   // treated sessions
	effect   *effect // of all lessons together; nil: counting, or not reliable
	invalid  bool    // the coins or the reporting are off
	tokens   int64   // inserted, in as many sessions
	prices   Prices
	mean     meanPrice // of the input of the sessions with a lesson
}

func netOf(r *report.Report, p Prices, m meanPrice) netResult {
	lately := lastWeek(r.Global.Days, r.GeneratedAt)
	tokens := lately.TokensAdded
	if all := lately.Treated.Sessions; all > lately.NTreated { // the gain counts rewarded sessions alone
		tokens = tokens * lately.NTreated / all
	}
	return netResult{lately.NTreated, globalOf(&r.Global), r.Global.Verdict == report.Invalid, tokens, p, m}
}

// cost returns the cost of the inserted tokens without a prompt cache.
func (n netResult) cost() float64 { return float64(n.tokens) * n.mean.price.Input / 1e6 }

// of returns the net for an effect.
func (n netResult) of(effect float64) float64 {
	return effect*float64(n.sessions)*n.prices.Session - n.cost()
}

// amount formats money with its sign and currency.
func (n netResult) amount(x float64) string {
	text := withSign(x, 2)
	if n.prices.Currency != "" {
		text += "\u00a0" + n.prices.Currency
	}
	return text
}

// html returns the net as the first figure of the overview, with its parts.
func (n netResult) html(f frame) g.Node {
	priced := n.prices.Session > 0 && n.mean.known // no net without a cost
	missing := when(n.invalid, none, stillCounting)
	key, value, note := when(priced, "net", "gain"), missing, when(n.invalid, "not reliable", "too few control sessions")
	gained, between := missing, ""
	tone := n.effect.tone()
	if n.effect != nil {
		e, treated := n.effect, float64(n.sessions)
		gained, between = signed(e.size*treated), signed(e.lo*treated)+" to "+signed(e.hi*treated)
		value, note = gained+" sessions", between+", with 95% confidence"
		if priced {
			tone = (&effect{lo: n.of(e.lo), hi: n.of(e.hi)}).tone()
			value, note = n.amount(n.of(e.size)), n.amount(n.of(e.lo))+" to "+n.amount(n.of(e.hi))+", with 95% confidence"
		}
	}
	part := func(name string, detail g.Node, sum string) g.Node {
		return h.Tr(rowHead(g.Text(name)), wordCells(detail), numberCells(sum))
	}
	treated := g.Node(g.Text(countOf(n.sessions, "treated session")))
	if n.sessions > 0 {
		treated = h.A(h.Href(f.week(store.ArmTreated)), treated)
	}
	prevented, inserted := none, none
	if priced && n.effect != nil {
		prevented = n.amount(n.effect.size * float64(n.sessions) * n.prices.Session)
	}
	if n.mean.known {
		inserted = n.amount(-n.cost())
	}
	each := ""
	if priced {
		each = " × " + strconv.FormatFloat(n.prices.Session, 'f', 2, 64)
	}
	rate := ""
	if n.mean.known {
		rate = " × " + strconv.FormatFloat(n.mean.price.Input, 'g', 4, 64) + " a million"
	}
	hint := ""
	if !priced {
		hint = when(n.mean.reading, "The prices of the models are being counted …", "Set admin.session_value and prices to see the net in money.")
	}
	return h.Section(
		h.Class("net"), labelledBy("net"),
		h.Div(
			h.H2(h.ID("net"), word(key)),
			h.P(h.Class("value "+tone), g.Text(value)), h.P(h.Class("quiet"), g.Text(note)),
		),
		h.Div(
			h.Table(h.Class("figures"), h.TBody(
				part("Prevented failures", g.Group{g.Text(gained + " of "), treated, g.Text(each)}, prevented),
				part("Inserted tokens", g.Text(count(n.tokens)+rate), inserted),
			)),
			g.If(hint != "", quiet(g.Text(hint))),
			n.mean.note(&n.prices),
		),
	)
}
