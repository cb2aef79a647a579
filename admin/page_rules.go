package admin

import (
	"context"
	"errors"
	"strings"
	"unicode"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/bandit/report"
	"precept/bandit/trial"
	"precept/inject/rules"
)

// RulesReader reads agents' rules files.
type RulesReader interface {
	// Rules returns the registered sections in effect.
	Rules() *rules.Registry
	// ScanRules finds the rules files in the newest captured sessions. It can take seconds, so pages share the result.
	ScanRules(ctx context.Context, tenant string) (*rules.Scan, error)
}

type rulesView struct {
	sessions      int  // captured sessions searched
	reading       bool // sessions are being read, and no earlier scan found a file
	files         []rules.SeenFile
	registered    []rules.RegisteredSection
	rows          map[string]*report.Row // measurements by arm
	usedIDs       map[string]bool        // HTML ids rendered by html
	prices        Prices
	shownSections map[trial.Arm]bool // registered sections rendered by html
}

// rulesPage lists the rules files. Viewers see registered sections only, because the names of other sections come
// from conversations.
func (s *Server) rulesPage(c echo.Context) error {
	r, err := s.readReport(c)
	if err != nil {
		return err
	}
	v := rulesView{prices: s.options.Program.Prices(), registered: s.options.Read.Rules.Rules().Sections, rows: map[string]*report.Row{}, usedIDs: map[string]bool{}, shownSections: map[trial.Arm]bool{}}
	for i := range r.report.Lessons {
		v.rows[r.report.Lessons[i].Arm] = &r.report.Lessons[i]
	}
	page := pageContent{Title: "Rules", Main: v.html, Live: r.asOf.Old, Counted: r.asOf, Problem: r.problem}
	if requestHolder(c).role != viewer {
		scan, old, err := s.scans.get(c.Request().Context(), r.key.Tenant, maxPageWait)
		switch v.reading = errors.Is(err, errComputing); {
		case v.reading:
			page.Live = true
		case err != nil:
			s.log(c).Error("the captured sessions cannot be read for the rules files; to check the store, run `precept doctor`", "tenant", r.key.Tenant, "error", err)
			page.Problem = "The captured sessions cannot be read; the log has the reason. Requests are not affected."
		default:
			v.sessions, v.files, page.Live = scan.Sessions, scan.Files(), page.Live || old
			v.reading = old && len(v.files) == 0 // the newer scan may have files
		}
	}
	return s.show(c, page)
}

func (v *rulesView) html(f frame) g.Node {
	files := make(g.Group, len(v.files))
	for i := range v.files {
		files[i] = v.file(&v.files[i])
	}
	return g.Group{
		title("Rules", mutedText(g.Text("Sections in the CLAUDE.md, AGENTS.md and similar files that agents send, with estimated tokens and effect. "),
			h.A(h.Href(f.helpHref("RULES")), g.Text("How to measure a section")), g.Text("."))),
		windowNote(f),
		files,
		v.unlistedSections(),
		g.Iff(len(v.files) == 0 && len(v.registered) == 0 && f.page.Problem == "", func() g.Node {
			if v.reading {
				return emptyState("The captured sessions are being read", h.P(g.Text("The first time takes a few seconds. The files then appear here.")))
			}
			return emptyState("No rules file was found", h.P(g.Text("precept searched "+countNoun(v.sessions, "captured session")+
				" for the rules files of known agents. Sessions are captured only with learning.enabled: true.")))
		}),
	}
}

func (v *rulesView) file(s *rules.SeenFile) g.Node {
	depth := map[string]int{}
	rows := make(g.Group, len(s.Sections))
	for i := range s.Sections {
		x := &s.Sections[i]
		if x.Parent != "" {
			depth[x.Section] = depth[x.Parent] + 1
		}
		name := rules.RegisteredSection{File: rules.Base(s.File), Section: x.Section, Hash: x.Hash}
		rows[i] = h.Tr(
			v.anchor(name.Slug()), rowHead(g.Text(strings.Repeat("\u2003", min(depth[x.Section], 5))), untrustedText(x.Section)),
			cell("Tokens a request", g.Text(countText(x.TokensPerRequest))), cell("Tokens a session", g.Text(countText(x.TokensPerSession))),
			cell("Sessions", g.Text(countText(x.Sessions))), cell("Share of input", g.Text(shareText(x.InputShare))),
			h.Td(h.Class("text wrap"), v.state(&name, x)),
		)
	}
	return h.Section(
		ariaLabel(s.File), h.H2(untrustedText(s.File)),
		h.P(untrustedText(s.Agent), g.If(s.Agent != "", g.Text(": ")), g.Text(countNoun(s.Sessions, "session")+", "+countNoun(s.TokensPerRequest, "token")+" a request, "+
			countNoun(s.TokensPerSession, "token")+" a session, "+shareText(s.InputShare)+" of input tokens."), g.If(s.Problem != "", g.Text(" In this file "+s.Problem+"."))),
		cards(ariaLabel("Sections in "+s.File), headingRow(wordColumns("Section"), numberColumns("Tokens a request", "Tokens a session", "Sessions", "Share of input"), wordColumns("State")), rows...),
	)
}

// state returns how far the measurement is, or why the section is not measured.
func (v *rulesView) state(name *rules.RegisteredSection, x *rules.SeenSection) g.Node {
	edited := false
	for i := range v.registered {
		r := &v.registered[i]
		if r.Arm() == name.Arm() {
			v.shownSections[r.Arm()] = true
			return v.measurement(r)
		}
		edited = edited || r.Slug() == name.Slug()
	}
	switch {
	case x.Problem != "":
		return g.Group{g.Text("not measurable"), smallLine(untrustedText(x.Problem))}
	case edited:
		return g.Group{g.Text("not measured"), smallLine(g.Text("edited since the registration: register the section again"))}
	case x.Forbids != "":
		return g.Group{g.Text("not measured"), smallLine(untrustedText("the section forbids something (" + x.Forbids + "): `precept rules measure` needs --force"))}
	}
	return g.Text("not measured")
}

func (v *rulesView) measurement(r *rules.RegisteredSection) g.Node {
	state := string(r.State)
	if r.Verdict != "" {
		state += ": " + r.Verdict
	}
	row := v.rows[string(r.Arm())]
	if row == nil || r.State == rules.Queued && row.NInjected+row.NWithheld == 0 {
		return untrustedText(state)
	}
	a := advise(row)
	value, note := effectText(row)
	for i := range row.PlannedTrials { // a planned measurement has a narrower interval
		if l := &row.PlannedTrials[i]; l.Evaluated && l.Outcome == "" && l.Effect != nil && l.Lo != nil && l.Hi != nil {
			e := effect{*l.Effect, *l.Lo, *l.Hi}
			value, note = e.points(), e.interval()
		}
	}
	return g.Group{
		h.Strong(toneClass(a.Tone), untrustedText(state)),
		smallLine(g.Text("effect " + value + " " + note)),
		smallLine(g.Text(countText(row.NInjected) + " sessions with the section, " + countText(row.NWithheld) + " without")),
		g.Iff(row.InputWith != nil, func() g.Node { return smallLine(g.Text(v.prices.CompareSection(row))) }),
	}
}

// unlistedSections returns the registered sections that are in no file.
func (v *rulesView) unlistedSections() g.Node {
	var rows g.Group
	for i := range v.registered {
		if r := &v.registered[i]; !v.shownSections[r.Arm()] {
			rows = append(rows, h.Tr(v.anchor(r.Slug()), rowHead(untrustedText(r.File+": "+r.Section)),
				cell("Tokens a request", g.Text(countText(rules.Tokens(r.Text)))), h.Td(h.Class("text wrap"), v.measurement(r))))
		}
	}
	return g.Iff(len(rows) > 0, func() g.Node {
		return section("registered", "Other registered sections", cards(ariaLabelledBy("registered"), headingRow(wordColumns("Section"), numberColumns("Tokens a request"), wordColumns("State")), rows...))
	})
}

// anchor returns a section's HTML id for its first row only, because an id must be unique.
func (v *rulesView) anchor(slug string) g.Node {
	id := sectionAnchor(slug)
	if v.usedIDs[id] {
		return nil
	}
	v.usedIDs[id] = true
	return h.ID(id)
}

// sectionAnchor returns a section's HTML id; characters that need escapes become -.
func sectionAnchor(slug string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || r == '.' {
			return unicode.ToLower(r)
		}
		return '-'
	}, strings.TrimPrefix(truncateChars(slug, 200), rules.ArmPrefix))
}

// shareText formats a share of the input as a percentage; below 1% it is "< 1%".
func shareText(x float64) string {
	if x > 0 && x < 0.01 {
		return "< 1%"
	}
	return percent(x)
}
