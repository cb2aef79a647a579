package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"precept/lesson"
	"precept/report"
)

// overviewView is what the first page shows.
type overviewView struct {
	Tenant, Window, Price string
	Provisional           bool
	Needs                 []need   // what needs a person
	Warnings              []string // what makes the table doubtful
	Notes                 []string // what it leaves out
	Stats                 []stat
	Effects, Means        string // JSON for chart.js
	Days                  []report.Day
	Bands                 []report.Band
	Since                 bool // the chart is of what was shown since the start
	Table                 table
	Lessons               int // in all; the table holds the first
	Definition            string
	Figures               []Figure
	Configured            Prices
}

// need is something that needs a person, with the way there.
type need struct{ Text, Href, Tone string }

// overviewRows is how many lessons the first page shows.
const overviewRows = 25

const week = 7 * 24 * time.Hour

// overview is the first page.
func (s *Server) overview(c echo.Context) error {
	q, err := query(c)
	if err != nil {
		return err
	}
	f := s.frame(c, shown{})
	v := overviewView{Tenant: q.Tenant, Window: c.QueryParam("window"), Provisional: q.Provisional, Price: c.QueryParam("price")}
	if s.options.Prices != nil {
		v.Configured = s.options.Prices()
	}
	if s.options.Figures != nil {
		v.Figures = s.options.Figures(c.Request().Context())
	}
	r, at, problem := s.readReport(c, q)
	if problem == "" {
		v.fill(&r, s, f)
		if len(v.Table.Rows) > 0 {
			v.gains(&r)
		}
	}
	v.attention(&r, s, f)
	return s.show(c, shown{Title: "which lesson helped", Main: v.html, Head: charts(), Live: true, Counted: at, Problem: problem})
}

// fill lays a report out.
func (v *overviewView) fill(r *report.Report, s *Server, f frame) {
	v.Definition, v.Notes = r.RewardDefinition, leftOut(r)
	if len(r.Lessons) == 0 && r.Global.NTreated+r.Global.NControl == 0 {
		return
	}
	v.Warnings = doubts(r)
	rows := make([]*report.Row, 0, len(r.Lessons))
	for i := range r.Lessons { // what was put away before anybody got it has nothing to tell
		if l := &r.Lessons[i]; l.Picked > 0 || lesson.State(l.State).Fires() {
			rows = append(rows, l)
		}
	}
	slices.SortStableFunc(rows, byEffect)
	v.Lessons = len(rows)
	v.Table = tableOf(r, rows[:min(len(rows), overviewRows)], true, 0, s.options.Truth, f.lesson)
	v.Days, v.Bands = r.Global.Days, r.Global.Bands
	v.Means = meansChart(r.Global.Days)
	if v.Effects = effectsChart(r.Global.Bands); v.Effects == "" && v.Window == "" && !v.Provisional {
		v.Effects = looksChart("All lessons together", s.history.of(historyKey{Tenant: v.Tenant}))
		v.Since = v.Effects != ""
	}
}

// lastWeek adds up the last seven days, or the window where that is shorter.
func lastWeek(days []report.Day, now time.Time) (sum report.Day) {
	from := now.Add(-week).UTC().Format(time.DateOnly)
	for _, d := range days {
		if d.Date < from {
			continue
		}
		sum.NTreated += d.NTreated
		sum.TokensAdded += d.TokensAdded
		sum.Treated.Add(d.Treated)
		sum.Control.Add(d.Control)
	}
	return sum
}

// gains are the figures on top.
func (v *overviewView) gains(r *report.Report) {
	of := func(key, value, note, tone string) stat {
		return stat{Term: find(key), Value: value, Note: note, Tone: tone}
	}
	g, lately := r.Global, lastWeek(r.Global.Days, r.GeneratedAt)
	if g.Verdict == report.Invalid {
		g.Effect, g.Lo, g.Hi = nil, nil, nil
	}
	gained, note := none, "not enough control sessions yet to say"
	if g.Effect != nil && g.Lo != nil && g.Hi != nil {
		n := float64(lately.NTreated)
		gained = signed(*g.Effect * n)
		note = fmt.Sprintf("%s to %s, of %s treated", signed(*g.Lo*n), signed(*g.Hi*n), count(lately.NTreated))
	}
	helps, harms := 0, 0
	for i := range r.Lessons {
		switch r.Lessons[i].Verdict {
		case report.ProvenHelps, report.TrialHelps:
			helps++
		case report.ProvenHarms, report.TrialHarms:
			harms++
		default:
		}
	}
	v.Stats = []stat{
		of("gain", gained, note, tone(g.Lo, g.Hi)),
		of("together", points(g.Effect), interval(g.Effect, g.Lo, g.Hi), tone(g.Lo, g.Hi)),
		of("treated", count(g.NTreated), "mean reward "+mean(g.MeanTreated), ""),
		of("control", count(g.NControl), "mean reward "+mean(g.MeanControl), ""),
		of("proven", count(helps), fmt.Sprintf("to help; %d proven to harm", harms), ""),
	}
	v.costs(&lately, of)
}

// costs are what lessons took in the week, in tokens and, where prices are known, in money, and
// whether the provider's prompt cache was kept.
func (v *overviewView) costs(lately *report.Day, of func(key, value, note, tone string) stat) {
	price, priced := v.price()
	note := "admin.price_input puts a price on them"
	if priced {
		note = "cost " + money(float64(lately.TokensAdded)*price.Input) + " before any cache"
	}
	v.Stats = append(v.Stats, of("spent", count(lately.TokensAdded), note, ""))
	with, without := lately.Treated, lately.Control
	if with.Sessions == 0 {
		return
	}
	key, session := "session-input", func(s report.Spent) string { return count(s.Input / s.Sessions) }
	if priced {
		key, session = "session-cost", func(s report.Spent) string {
			return money((float64(s.Input-s.Cached)*price.Input + float64(s.Cached)*price.Cached) / float64(s.Sessions))
		}
	}
	cached := func(s report.Spent) string { return percent(new(float64(s.Cached)/float64(s.Input))) + " cached" }
	note = "treated, " + cached(with)
	if without.Sessions > 0 {
		note += "; control " + session(without) + ", " + cached(without)
	}
	v.Stats = append(v.Stats, of(key, session(with), note, ""))
}

// price reads what a million tokens cost: what the query says goes before the configuration. ok
// says that it is known.
func (v *overviewView) price() (p Prices, ok bool) {
	p = v.Configured
	if asked, err := strconv.ParseFloat(v.Price, 64); err == nil && asked > 0 && asked < 1e6 {
		p.Input = asked
	}
	p.Cached = min(cmp.Or(p.Cached, p.Input), p.Input)
	return p, p.Input > 0
}

// money writes a price of tokens, of which a million are the unit.
func money(millionth float64) string {
	x := millionth / 1e6
	places := 2
	if x < 1 {
		places = 4
	}
	return strconv.FormatFloat(x, 'f', places, 64)
}

// signed writes a number of sessions.
func signed(x float64) string {
	text := strconv.FormatFloat(x, 'f', 0, 64)
	switch {
	case x <= -0.5:
		return "−" + text[1:]
	case x >= 0.5:
		return "+" + text
	}
	return "0"
}

// attention collects what needs a person, the worst first.
func (v *overviewView) attention(r *report.Report, s *Server, f frame) {
	for _, x := range v.Figures {
		if x.Bad {
			v.Needs = append(v.Needs, need{x.Name + ": " + x.Value, "#health", "bad"})
		}
	}
	invalid, harm := 0, 0
	for i := range r.Lessons {
		l := &r.Lessons[i]
		a := advise(l)
		inForce := lesson.State(l.State).Fires()
		if a.Group == "invalid" {
			invalid++
		}
		if a.Group == "harms" && inForce {
			harm++
		}
	}
	add := func(n int, one, many, href, tone string) {
		switch {
		case n == 1:
			v.Needs = append(v.Needs, need{one, href, tone})
		case n > 1:
			v.Needs = append(v.Needs, need{count(n) + " " + many, href, tone})
		}
	}
	add(invalid, "A lesson has numbers that cannot be trusted", "lessons have numbers that cannot be trusted", f.Link("/lessons", "verdict", "invalid"), "bad")
	add(harm, "A lesson in force harms", "lessons in force harm", f.Link("/lessons", "verdict", "harms"), "bad")
	add(s.waiting(), "A lesson waits for approval", "lessons wait for approval", f.Link("/queue"), "warn")
}
