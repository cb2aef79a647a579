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

// RulesReader reads the rules files of agents, for the page that lists their sections.
type RulesReader interface {
	// Rules returns the registered sections that are in effect.
	Rules() *rules.Registry
	// ScanRules finds the rules files in the newest captured sessions of a tenant. A scan may take seconds, so pages
	// share the result.
	ScanRules(ctx context.Context, tenant string) (*rules.Scan, error)
}

// rulesView is the data of the page of rules files.
type rulesView struct {
	sessions   int  // number of captured sessions that were searched
	reading    bool // the sessions are being read, and no earlier scan found a file
	files      []rules.SeenFile
	registered []rules.Registered
	rows       map[string]*report.Row // measurements by arm
	listed     map[string]bool        // HTML ids of the rows that html has rendered; html fills the map
	prices     Prices
	shown      map[trial.Arm]bool // registered sections that the tables of files contain; html fills the map
}

// rulesPage lists the rules files with their sections. A viewer sees registered sections only, because the
// names of the other sections come from conversations.
func (s *Server) rulesPage(c echo.Context) error {
	r, err := s.readReport(c)
	if err != nil {
		return err
	}
	v := rulesView{prices: s.options.Program.Prices(), registered: s.options.Read.Rules.Rules().Sections, rows: map[string]*report.Row{}, listed: map[string]bool{}, shown: map[trial.Arm]bool{}}
	for i := range r.report.Lessons {
		v.rows[r.report.Lessons[i].Arm] = &r.report.Lessons[i]
	}
	page := pageContent{Title: "Rules", Main: v.html, Live: r.asOf.Old, Counted: r.asOf, Problem: r.problem}
	if holderOf(c).role != viewer {
		scan, old, err := s.scans.get(c.Request().Context(), r.key.Tenant, maxPageWait)
		switch v.reading = errors.Is(err, errComputing); {
		case v.reading:
			page.Live = true
		case err != nil:
			s.log(c).Error("the captured sessions cannot be read for the rules files; precept doctor checks the store", "tenant", r.key.Tenant, "error", err)
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
		title("Rules", mutedText(g.Text("The sections of CLAUDE.md, AGENTS.md and similar files that agents send, their tokens (estimates), and their effect. "),
			h.A(h.Href(f.help("RULES")), g.Text("How to measure a section")), g.Text("."))),
		windowNote(f),
		files,
		v.others(),
		g.Iff(len(v.files) == 0 && len(v.registered) == 0 && f.page.Problem == "", func() g.Node {
			if v.reading {
				return empty("The captured sessions are being read", h.P(g.Text("The first time takes some seconds. The files then appear here.")))
			}
			return empty("No rules file was found", h.P(g.Text("precept searches the captured sessions ("+countOf(v.sessions, "session")+
				" read) for the files of known agents. Learning must be enabled.")))
		}),
	}
}

// file returns the heading, the totals and the table of sections of a rules file.
func (v *rulesView) file(s *rules.SeenFile) g.Node {
	depth := map[string]int{}
	rows := make(g.Group, len(s.Sections))
	for i := range s.Sections {
		x := &s.Sections[i]
		if x.Parent != "" {
			depth[x.Section] = depth[x.Parent] + 1
		}
		name := rules.Registered{File: rules.Base(s.File), Section: x.Section, Hash: x.Hash}
		rows[i] = h.Tr(
			v.anchor(name.Slug()), rowHead(g.Text(strings.Repeat("\u2003", min(depth[x.Section], 5))), quoted(x.Section)),
			cell("Tokens a request", g.Text(count(x.TokensPerRequest))), cell("Tokens a session", g.Text(count(x.TokensPerSession))),
			cell("Sessions", g.Text(count(x.Sessions))), cell("Share of input", g.Text(share(x.InputShare))),
			h.Td(h.Class("text wrap"), v.state(&name, x)),
		)
	}
	return h.Section(
		labelled(s.File), h.H2(quoted(s.File)),
		h.P(quoted(s.Agent), g.If(s.Agent != "", g.Text(": ")), g.Text(countOf(s.Sessions, "session")+", "+countOf(s.TokensPerRequest, "token")+" a request, "+
			countOf(s.TokensPerSession, "token")+" a session, "+share(s.InputShare)+" of the input tokens."), g.If(s.Problem != "", g.Text(" In this file "+s.Problem+"."))),
		cards(labelled("Sections of "+s.File), columns(words("Section"), numbers("Tokens a request", "Tokens a session", "Sessions", "Share of input"), words("State")), rows...),
	)
}

// state returns the state of the measurement of a section, or the reason why the section is not measured.
func (v *rulesView) state(name *rules.Registered, x *rules.SeenSection) g.Node {
	edited := false
	for i := range v.registered {
		r := &v.registered[i]
		if r.Arm() == name.Arm() {
			v.shown[r.Arm()] = true
			return v.measurement(r)
		}
		edited = edited || r.Slug() == name.Slug()
	}
	switch {
	case x.Problem != "":
		return g.Group{g.Text("not measurable"), small(quoted(x.Problem))}
	case edited:
		return g.Group{g.Text("not measured"), small(g.Text("edited since the registration: register the section again"))}
	case x.Forbids != "":
		return g.Group{g.Text("not measured"), small(quoted("forbids something (" + x.Forbids + "): needs --force"))}
	}
	return g.Text("not measured")
}

// measurement returns the state, the verdict and the effect of a registered section.
func (v *rulesView) measurement(r *rules.Registered) g.Node {
	state := string(r.State)
	if r.Verdict != "" {
		state += ": " + r.Verdict
	}
	row := v.rows[string(r.Arm())]
	if row == nil || r.State == rules.Queued && row.NInjected+row.NWithheld == 0 {
		return quoted(state)
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
		h.Strong(toned(a.Tone), quoted(state)),
		small(g.Text("effect " + value + " " + note)),
		small(g.Text(count(row.NInjected) + " sessions with the section, " + count(row.NWithheld) + " without")),
		g.Iff(row.InputWith != nil, func() g.Node { return small(g.Text(v.prices.Section(row))) }),
	}
}

// others returns the table of the registered sections that no table of a file contains.
func (v *rulesView) others() g.Node {
	var rows g.Group
	for i := range v.registered {
		if r := &v.registered[i]; !v.shown[r.Arm()] {
			rows = append(rows, h.Tr(v.anchor(r.Slug()), rowHead(quoted(r.File+": "+r.Section)),
				cell("Tokens a request", g.Text(count(rules.Tokens(r.Text)))), h.Td(h.Class("text wrap"), v.measurement(r))))
		}
	}
	return g.Iff(len(rows) > 0, func() g.Node {
		return section("registered", "Other registered sections", cards(labelledBy("registered"), columns(words("Section"), numbers("Tokens a request"), words("State")), rows...))
	})
}

// anchor returns the HTML id of a section for the first row with this id; nil for further rows, because an id must be
// unique.
func (v *rulesView) anchor(slug string) g.Node {
	place := sectionAnchor(slug)
	if v.listed[place] {
		return nil
	}
	v.listed[place] = true
	return h.ID(place)
}

// sectionAnchor returns the HTML id of the section with this slug. Characters that would need escapes in an address
// become -.
func sectionAnchor(slug string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || r == '.' {
			return unicode.ToLower(r)
		}
		return '-'
	}, strings.TrimPrefix(truncateChars(slug, 200), rules.ArmPrefix))
}

// share formats a share of the input tokens in per cent. A share between 0 and 1% becomes "< 1%".
func share(x float64) string {
	if x > 0 && x < 0.01 {
		return "< 1%"
	}
	return percent(x)
}
