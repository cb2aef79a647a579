package admin

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/inject/lesson"
)

type healthView struct{ health Health }

type healthLine struct {
	Name, Value, Tone string
	Help              string // help section that explains the line
	Indent            string // CSS class for a line that is part of the line above
}

func (s *Server) healthPage(c echo.Context) error {
	v := healthView{s.health(c)}
	problem := ""
	if v.health.ReloadError != "" {
		problem = "The changed configuration was rejected; the previous configuration stays in effect: " + v.health.ReloadError
	}
	return s.show(c, pageContent{Title: "health", Main: v.html, Live: true, Problem: problem})
}

func (v *healthView) html(frame) g.Node {
	about := "precept " + v.health.Version
	if v.health.Revision != "" {
		about += fmt.Sprintf(" (%.12s)", v.health.Revision)
	}
	about += ", " + v.health.Go + ", process " + strconv.Itoa(v.health.PID) + ", since "
	return g.Group{
		title("Health", mutedText(g.Text(about), timeNode(v.health.Started))),
		statList(v.topFigures()),
		v.problems(),
		h.Div(
			h.Class("columns"),
			h.Section(
				heading("account", "All exchanges"), linesTable("account", accountLines(&v.health.Account)),
				mutedText(g.Text("Counted since the data directory was created. An exchange is one request and the reply.")),
			),
			h.Section(heading("since", "Since this start"), linesTable("since", sinceStartLines(&v.health.SinceStart))),
			h.Section(heading("store", "In the store"), linesTable("store", storeLines(v.health.Store.Counts))),
			g.If(len(v.health.Figures) > 0, h.Section(heading("more", "Lessons"), figureTable("more", v.health.Figures))),
		),
		v.configuration(),
		heading("audit", "Audit log"),
		v.actions(),
	}
}

func (v *healthView) topFigures() []stat {
	lost := sum(v.health.Account.Dropped) - v.health.Account.Dropped["opted_out"]
	failing := !v.health.Store.Healthy || v.health.Store.Problem != ""
	outbox, limit := bytesText(v.health.Outbox.Bytes), "of "+bytesText(v.health.Outbox.Limit)
	if v.health.Outbox.Dir == "" {
		outbox, limit = noValue, "no outbox"
	}
	return []stat{
		newStat("store-state", ifElse(failing, "failing", "healthy"), v.health.Store.Kind, ifElse(failing, "bad", "good")),
		newStat("exchanges-kept", countText(v.health.Account.Stored), "of "+countText(v.health.Account.Admitted)+" admitted", ""),
		newStat("exchanges-dropped", countText(lost), "since the data directory was created", ifElse(lost > 0, "bad", "good")),
		newStat(
			"store-lag", fmt.Sprintf("%.1f", v.health.Outbox.Lag), "waiting: "+countText(v.health.Account.Spooled),
			ifElse(v.health.Outbox.Lag > 60, "bad", ""),
		),
		newStat("outbox", outbox, limit, ""),
	}
}

func (v *healthView) problems() g.Node {
	store, account := &v.health.Store, &v.health.Account
	trouble := func(before, text string) g.Node {
		return g.If(text != "", h.P(h.Class("problem"), untrustedText(before+text)))
	}
	return g.Group{
		trouble("The store cannot be read: ", store.Problem),
		trouble("", store.Notice),
		trouble("The exchange counts are incomplete: ", account.Problem),
		g.If(!account.Balanced, h.P(
			h.Class("problem"), g.Text("The exchange counts do not balance: admitted differs from stored + spooled + incomplete + dropped. Report this fault with the output from "),
			code("precept doctor --json"), g.Text("."),
		)),
	}
}

// helpAddress returns the address of a help section such as AGENTS#known-limits.
func helpAddress(section string) string {
	page, fragment, _ := strings.Cut(section, "#")
	address := url.URL{Path: "/help/" + page, Fragment: fragment}
	return address.String()
}

// linesTable returns a table labelled by the heading with this HTML id.
func linesTable(heading string, lines []healthLine) g.Node {
	return h.Table(h.Class("figures"), ariaLabelledBy(heading), h.TBody(g.Map(lines, func(l healthLine) g.Node {
		return h.Tr(rowHead(toneClass(l.Indent), g.Text(l.Name)), h.Td(toneClass(l.Tone), untrustedText(l.Value), g.If(l.Help != "", g.Group{space(), h.A(h.Href(helpAddress(l.Help)), g.Text("More"))})))
	})))
}

func figureTable(heading string, list []Figure) g.Node {
	lines := make([]healthLine, len(list))
	for i, x := range list {
		lines[i] = healthLine{Name: x.Name, Value: x.Value, Help: x.Help, Tone: ifElse(x.Bad, "text bad", "text")}
		if n, err := strconv.ParseInt(x.Value, 10, 64); err == nil {
			lines[i].Value, lines[i].Tone = countText(n), ifElse(x.Bad, "bad", "")
		}
	}
	return linesTable(heading, lines)
}

// configuration lists the changed keys first, and puts the others into a collapsible part.
func (v *healthView) configuration() g.Node {
	var changed, rest g.Group
	for _, k := range v.health.Config {
		name := rowHead(h.Title(k.Usage), g.Text(k.Path))
		value := cell("Value", h.Class("text wrap"), code(k.Value))
		if k.Changed {
			changed = append(changed, h.Tr(h.Class("changed"), name, value, cell("Default", h.Class("text wrap quiet"), code(k.Default))))
		} else {
			rest = append(rest, h.Tr(name, value))
		}
	}
	table := func(rows ...g.Node) g.Node { return h.Table(h.Class("config cards"), g.Group(rows)) }
	return g.Group{
		heading("config", "Configuration"),
		mutedText(g.Text("Hash "), code(v.health.Hash), g.Textf(". %d of %d keys differ from the defaults; secrets are hidden.", len(changed), len(v.health.Config))),
		scrollRegion(ariaLabelledBy("config"), table(headingRow(wordColumns("Key", "Value", "Default")), h.TBody(changed))),
		collapsible("Keys with default values", scrollRegion(ariaLabel("Keys with default values"), table(h.TBody(rest)))),
	}
}

func (v *healthView) actions() g.Node {
	if len(v.health.Audit) == 0 {
		return mutedText(g.Text("No entries. Approvals, trials, feedback and deletions are logged here."))
	}
	return g.Group{
		scrollRegion(ariaLabelledBy("audit"), h.Table(
			headingRow(wordColumns("When", "What"), numberColumns("Answer")),
			h.TBody(g.Map(v.health.Audit, func(n AuditEntry) g.Node {
				return h.Tr(
					h.Td(h.Class("text when"), timeNode(n.At)), h.Td(h.Class("text wrap"), h.Title(n.Action), h.Strong(untrustedText(n.Actor)), untrustedText(" "+n.description())),
					h.Td(h.Class(ifElse(n.Status >= 400, "bad", "")), g.Text(strconv.Itoa(n.Status))),
				)
			})),
		)),
		mutedText(g.Text("The newest actions. All actions are in "), code(auditFile), g.Text(" in the data directory.")),
	}
}

// description describes an action, such as "approved the lesson NAME". An action without details is described by the
// request: "sent POST /api/feedback".
func (e *AuditEntry) description() string {
	slug, act, _ := strings.Cut(e.Detail, " ")
	text := ifElse(e.Detail == "", "sent "+e.Action, e.Detail)
	if a := lesson.Action(act); a.Valid() {
		text = pastTense(a) + " the lesson " + slug
	}
	if e.Status >= 400 {
		return text + " (refused)"
	}
	return text
}

func accountLines(a *Account) []healthLine {
	out := []healthLine{
		{Name: "Admitted", Value: countText(a.Admitted)},
		{Name: "Stored", Value: countText(a.Stored), Indent: "indent"},
		{Name: "In the outbox, or in progress", Value: countText(a.Spooled), Indent: "indent"},
		{Name: "Interrupted by a crash", Value: countText(a.Incomplete), Indent: "indent"},
		{Name: "Dropped", Value: countText(sum(a.Dropped)), Indent: "indent"},
	}
	for _, reason := range slices.Sorted(maps.Keys(a.Dropped)) {
		out = append(out, healthLine{Name: strings.ReplaceAll(reason, "_", " "), Value: countText(a.Dropped[reason]), Indent: "indent more"})
	}
	return append(out,
		healthLine{Name: "Stored, not yet in a sample", Value: countText(a.Unsampled)},
		healthLine{Name: "Left unprocessed after a panic", Value: countText(a.SetAside), Tone: ifElse(a.SetAside > 0, "bad", "")})
}

func sinceStartLines(n *SinceStart) []healthLine {
	out := []healthLine{
		{Name: "Exchanges stored", Value: countText(n.Exchanges)},
		{Name: "Samples written, including rewrites", Value: countText(n.Samples)},
		{Name: "Sessions closed (in a run, each session counts)", Value: countText(n.Closed)},
		{Name: "with a reward for the session itself (the report counts a run once)", Value: countText(n.Rewarded), Indent: "indent", Help: "EXPERIMENT#runs"},
		{Name: "Exchanges that opted out", Value: countText(n.OptedOut)},
		{Name: "Texts redacted", Value: countText(n.Redactions)},
		{Name: "Replies cut off, aborted or failed", Value: countText(n.Incomplete)},
		{Name: "Failed writes to the store", Value: countText(n.WriteErrors), Tone: ifElse(n.WriteErrors > 0, "warn", "")},
		{Name: "Sessions and runs in memory", Value: countText(n.InMemory)},
	}
	for _, reason := range slices.Sorted(maps.Keys(n.Dropped)) {
		if d := n.Dropped[reason]; d > 0 {
			out = append(out, healthLine{Name: "Dropped: " + strings.ReplaceAll(reason, "_", " "), Value: countText(d), Tone: "bad"})
		}
	}
	return out
}

func storeLines(counts map[string]int64) (out []healthLine) {
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		l := healthLine{
			Name:  strings.ToUpper(name[:1]) + strings.ReplaceAll(name[1:], "_", " "),
			Value: countText(counts[name]),
		}
		switch name {
		case "bytes":
			l.Name, l.Value = "On disk", bytesText(counts[name])
		case "parked":
			l.Name = "Feedback waiting for the session"
		case "sessions":
			l.Name = "Sessions and runs"
		}
		out = append(out, l)
	}
	return out
}
