package admin

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/store"
)

type compareView struct {
	comparison Comparison
	currency   string
	reading    bool // sessions are being read for the first time
}

// readComparison returns the comparison for a request; maxWait and old are as in cachedRecent.
func (s *Server) readComparison(c echo.Context, maxWait time.Duration) (x Comparison, old bool, err error) {
	q, err := s.sessionQuery(c)
	if err != nil {
		return x, false, err
	}
	p := params{c: c}
	by, a, b := p.oneOf("by", []string{"agent", "model"}), p.text("a"), p.text("b")
	if p.err != nil {
		return x, false, p.err
	}
	if by == "" {
		by = "agent"
	}
	if side := map[string]*string{"agent": &q.Agent, "model": &q.Model}[by]; *side != "" { // a filter by the compared agent would empty one side
		if a == "" && !strings.EqualFold(*side, b) {
			a = *side
		}
		*side = ""
	}
	recent, old, err := s.cachedRecent(c, &q, maxWait)
	if err != nil {
		return x, old, err
	}
	prices := s.options.Program.Prices()
	return compare(&recent, &q, &prices, by, a, b), old, nil
}

func (s *Server) apiCompare(c echo.Context) error {
	x, _, err := s.readComparison(c, waitForCurrent)
	return sendJSON(c, x, storeError(err))
}

func (s *Server) comparePage(c echo.Context) error {
	x, old, err := s.readComparison(c, maxPageWait)
	v := compareView{comparison: x, currency: s.options.Program.Prices().Currency, reading: errors.Is(err, errComputing) || err == nil && old && x.SessionsRead == 0}
	page := pageContent{Title: "compare", Main: v.html, Live: old}
	if err != nil && !v.reading {
		page.Err = storeError(err)
	}
	return s.show(c, page)
}

func (v *compareView) html(f frame) g.Node {
	c := &v.comparison
	other := ifElse(c.By == "model", "agent", "model")
	by := func(key, name string) g.Node {
		return h.A(h.Href(f.WithQuery("by", key, "a", "", "b", "")), g.If(c.By == key, h.Aria("current", "true")), g.Text(name))
	}
	switch {
	case f.page.Err != nil:
		return title("Compare")
	case v.reading:
		return g.Group{title("Compare"), emptyState("The stored sessions are being read", h.P(g.Text("The table then appears here.")))}
	case c.B.Value == "":
		return g.Group{
			title("Compare", h.Nav(h.Class("ways"), ariaLabel("Compare by"), by("agent", "Agents"), by("model", "Models"))),
			v.filters(f),
			emptyState(ifElse(c.A.Value == "", "No "+c.By+" yet", "There is only one "+c.By), h.P(
				g.Text("A comparison needs sessions from two "+c.By+"s. "), h.A(h.Href(f.WithQuery("by", other, "a", "", "b", "")), g.Text("Compare two "+other+"s")), g.Text(".")),
			),
		}
	}
	return g.Group{
		title("Compare", h.Nav(h.Class("ways"), ariaLabel("Compare by"), by("agent", "Agents"), by("model", "Models"))),
		v.form(f), v.filters(f),
		h.P(h.Class("warning"), g.Text("Exploratory: the "+c.By+"s are not assigned at random, so a difference may come from different tasks. "+
			"The 95% intervals are valid for a single evaluation.")),
		h.P(
			g.Text(ifElse(c.Complete, "From ", "Only from the newest ")+countNoun(c.SessionsRead, "session")+" since "), timeNode(c.OldestStart),
			g.If(!c.Complete, g.Text("; older sessions in the time range are not counted")), g.Text("."),
		),
		scrollRegion(ariaLabel("Measures"), v.measures(f)),
		g.If(len(c.Lessons) > 0, section("compare-lessons", "Lessons", scrollRegion(ariaLabelledBy("compare-lessons"), v.lessons(f)))),
	}
}

// filters names the filters that apply, and those that do not.
func (v *compareView) filters(f frame) g.Node {
	c, ignored := &v.comparison, []string{"words", "tool", "error", "session"}
	if value := f.query.Get(c.By); !strings.EqualFold(value, c.A.Value) && !strings.EqualFold(value, c.B.Value) {
		ignored = append(ignored, c.By)
	}
	return g.Group{
		filterChips(f, v.appliedFilters(f)),
		f.unappliedNote("A comparison is between two "+c.By+"s, and cannot search conversations.", ignored...),
	}
}

// appliedFilters returns the filters that apply but have no form field. A named range replaces since and until.
func (v *compareView) appliedFilters(f frame) []string {
	without := []string{"range", "words", "tool", "error", v.comparison.By}
	if f.query.Get("range") != "" {
		without = append(without, "since", "until")
	}
	return slices.DeleteFunc(sessionFilters(), func(key string) bool { return slices.Contains(without, key) })
}

func (v *compareView) form(f frame) g.Node {
	var all []choice
	for _, x := range v.comparison.Choices[:min(len(v.comparison.Choices), maxHiddenValues)] {
		all = append(all, choice{x.Value, shortenName(x.Value)})
	}
	ranges := append([]choice{{"", "all"}}, timeRanges()...)
	return h.Form(
		h.Method("get"), h.Action("/compare"), h.Class("filters"), ariaLabel("Select what to compare"),
		g.If(f.query.Get("tenant") != "", hiddenField("tenant", f.Tenant)), hiddenField("by", v.comparison.By),
		hiddenQueryFields(f, append(v.appliedFilters(f), "words", "tool", "error", "session", v.comparison.By, "order", "view")...),
		choiceField("First", "a", all, v.comparison.A.Value), choiceField("Second", "b", all, v.comparison.B.Value), choiceField("Started", "range", ranges, f.query.Get("range")),
		h.Div(h.Class("field"), h.Button(h.Class("main"), g.Text("Compare"))),
	)
}

// sessionsWithoutSearch returns a link to the sessions page with this page's filters, without a text search. query adds
// keys and values; an empty value removes the key.
func sessionsWithoutSearch(f frame, query ...string) string {
	q := maps.Clone(f.query)
	for _, key := range []string{"by", "a", "b", "words", "tool", "error", "session", "view", "tenants"} {
		q.Del(key)
	}
	for i := 0; i+1 < len(query); i += 2 {
		q.Set(query[i], query[i+1])
		if query[i+1] == "" {
			q.Del(query[i])
		}
	}
	return address("/sessions", q)
}

func (v *compareView) measures(f frame) g.Node {
	c := &v.comparison
	link := func(side *ComparedSide) g.Node {
		return g.Group{
			untrustedText(shortenName(side.Value)),
			smallLine(h.A(h.Href(sessionsWithoutSearch(f, c.By, side.Value)), g.Text(countNoun(side.Sessions, "session")))),
		}
	}
	names := map[string]string{
		"success": "Success, mean reward", "tokens": "Tokens a session", "cost": "Cost a session", "seconds": "Duration, seconds", "turns": "Turns a session",
		"errors": "Errors a session", "loops": "Loops a session",
	}
	if v.currency != "" {
		names["cost"] += ", " + v.currency
	}
	return h.Table(
		h.Class("figures compared cards"),
		headingRow(wordColumns("Measure"), numberColumn(link(&c.A)), numberColumn(link(&c.B)), numberColumn(g.Text("Difference"))),
		h.TBody(g.Map(c.Measures, func(m ComparedMeasure) g.Node {
			digits, ok := map[string]int{"success": 3, "tokens": 0, "cost": 4}[m.Name]
			if !ok {
				digits = 2
			}
			return h.Tr(rowHead(g.Text(names[m.Name])),
				m.A.cell(c.A.label(), digits, false, v.basis(f, &m, &m.A, &c.A)),
				m.B.cell(c.B.label(), digits, false, v.basis(f, &m, &m.B, &c.B)),
				m.Difference.cell("Difference", digits, true, nil),
			)
		})),
	)
}

// basis states the number of sessions behind a mean if some sessions lack the value. For success, basis states the
// number of rewarded sessions, and the number of rewards if sessions in a run share one.
func (v *compareView) basis(f frame, m *ComparedMeasure, e *Estimate, side *ComparedSide) g.Node {
	switch {
	case m.Name == "success" && side.Rewarded > 0:
		note := g.Group{g.Text("of "), h.A(h.Href(sessionsWithoutSearch(f, v.comparison.By, side.Value, "min_reward", "0")), g.Text(countNoun(side.Rewarded, "session"))), g.Text(" with a reward")}
		if e.Sessions < side.Rewarded {
			note = append(note, g.Text(", each run once: "+countNoun(e.Sessions, "reward")))
		}
		return note
	case e.Sessions < side.Sessions && e.Sessions > 0:
		return g.Text("of " + countText(e.Sessions) + " of " + countNoun(side.Sessions, "session") + ifElse(m.Name == "cost", "; no price or no tokens for the others", ""))
	}
	return nil
}

func (c *ComparedSide) label() string { return escapeHidden(shortenName(c.Value)) }

// cell returns an estimate with the interval and basis. If signs is true, a mean is bold if its interval excludes 0.
func (e *Estimate) cell(label string, digits int, signs bool, basis g.Node) g.Node {
	if e.Mean == nil {
		return cell(label, g.Text(noValue))
	}
	format := func(x float64) string {
		if signs {
			return withSign(x, digits)
		}
		return strings.Replace(strconv.FormatFloat(x, 'f', digits, 64), "-", "−", 1)
	}
	interval := "too few for an interval"
	if e.Low != nil {
		interval = format(*e.Low) + " to " + format(*e.High)
	}
	excludesZero := signs && e.Low != nil && (*e.Low > 0 || *e.High < 0)
	return cell(label, ifElse(excludesZero, g.Node(h.Strong(g.Text(format(*e.Mean)))), g.Text(format(*e.Mean))), smallLine(g.Text(interval)), g.If(basis != nil, smallLine(basis)))
}

func (v *compareView) lessons(f frame) g.Node {
	c := &v.comparison
	side := func(slug string, compared *ComparedSide, injected *InjectedSide) g.Node {
		value := compared.Value
		if injected.Sessions == 0 {
			return cell(compared.label(), g.Text("0"))
		}
		return cell(
			compared.label(), h.A(h.Href(sessionsWithoutSearch(f, c.By, value, "lesson", slug, "arm", store.FateInjected)), g.Text(countText(injected.Sessions))),
			smallLine(
				g.Text("mean reward "+decimalText(injected.Reward, 2)),
				g.If(injected.Rewarded > 0, g.Group{
					g.Text(" of "),
					h.A(h.Href(sessionsWithoutSearch(f, c.By, value, "lesson", slug, "arm", store.FateInjected, "min_reward", "0")), g.Text(countNoun(injected.Rewarded, "session"))),
				})),
		)
	}
	return h.Table(
		h.Class("figures compared cards"),
		headingRow(wordColumns("Injected lesson"), numberColumn(untrustedText(shortenName(c.A.Value))), numberColumn(untrustedText(shortenName(c.B.Value)))),
		h.TBody(limitedList(c.Lessons, lastRow, func(l ComparedLesson) g.Node {
			return h.Tr(rowHead(h.A(h.Href(f.lessonHref(l.Slug)), untrustedText(l.Slug))), side(l.Slug, &c.A, &l.A), side(l.Slug, &c.B, &l.B))
		})),
	)
}
