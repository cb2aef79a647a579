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

// healthView is the data of the health page.
type healthView struct{ health Health }

// line is a row of a table, with a name and a value.
type line struct {
	Name, Value, Tone string
	Help              string // section of the help that explains the line; empty: none
	Indent            string // CSS class of a line that is a part of a line above; empty: none
}

// healthPage shows the state of precept.
func (s *Server) healthPage(c echo.Context) error {
	v := healthView{s.health(c)}
	problem := ""
	if v.health.Fault != "" {
		problem = "The changed configuration was rejected; the previous configuration stays in effect: " + v.health.Fault
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
		title("Health", mutedText(g.Text(about), timeOf(v.health.Started))),
		figures(v.topFigures()),
		v.troubles(),
		h.Div(
			h.Class("columns"),
			h.Section(
				heading("account", "All exchanges"), linesTable("account", accountLines(&v.health.Account)),
				mutedText(g.Text("Counted since the data directory was created. An exchange is one request and its reply.")),
			),
			h.Section(heading("since", "Since this start"), linesTable("since", sinceLines(&v.health.Since))),
			h.Section(heading("store", "In the store"), linesTable("store", storeLines(v.health.Store.Counts))),
			g.If(len(v.health.Figures) > 0, h.Section(heading("more", "Lessons"), figureTable("more", v.health.Figures))),
		),
		v.configuration(),
		heading("audit", "Audit log"),
		v.actions(),
	}
}

// topFigures returns the most important figures.
func (v *healthView) topFigures() []stat {
	lost := sum(v.health.Account.Dropped) - v.health.Account.Dropped["opted_out"]
	failing := !v.health.Store.Healthy || v.health.Store.Trouble != ""
	outbox, limit := bytesOf(v.health.Spool.Bytes), "of "+bytesOf(v.health.Spool.Limit)
	if v.health.Spool.Dir == "" {
		outbox, limit = none, "no outbox"
	}
	return []stat{
		statOf("store-state", ifElse(failing, "failing", "healthy"), v.health.Store.Kind, ifElse(failing, "bad", "good")),
		statOf("exchanges-kept", count(v.health.Account.Stored), "of "+count(v.health.Account.Admitted)+" admitted", ""),
		statOf("exchanges-dropped", count(lost), "since the data directory was created", ifElse(lost > 0, "bad", "good")),
		statOf(
			"store-lag", fmt.Sprintf("%.1f", v.health.Spool.Lag), "waiting: "+count(v.health.Account.Spooled),
			ifElse(v.health.Spool.Lag > 60, "bad", ""),
		),
		statOf("outbox", outbox, limit, ""),
	}
}

// troubles returns the problems of the store and of the counts of exchanges.
func (v *healthView) troubles() g.Node {
	store, account := &v.health.Store, &v.health.Account
	trouble := func(before, text string) g.Node {
		return g.If(text != "", h.P(h.Class("problem"), quoted(before+text)))
	}
	return g.Group{
		trouble("The store cannot be read: ", store.Trouble),
		trouble("", store.Notice),
		trouble("The counts of exchanges are incomplete: ", account.Trouble),
		g.If(!account.Balanced, h.P(
			h.Class("problem"), g.Text("The counts of exchanges do not balance: admitted differs from stored + spooled + incomplete + dropped. Report this fault with the output of "),
			code("precept doctor --json"), g.Text("."),
		)),
	}
}

// helpAddress returns the address of a section of the help, such as AGENTS#known-limits.
func helpAddress(section string) string {
	page, fragment, _ := strings.Cut(section, "#")
	address := url.URL{Path: "/help/" + page, Fragment: fragment}
	return address.String()
}

// linesTable returns a table of lines. heading is the HTML id of the heading that labels the table.
func linesTable(heading string, lines []line) g.Node {
	return h.Table(h.Class("figures"), labelledBy(heading), h.TBody(g.Map(lines, func(l line) g.Node {
		return h.Tr(rowHead(toned(l.Indent), g.Text(l.Name)), h.Td(toned(l.Tone), quoted(l.Value), g.If(l.Help != "", g.Group{space(), h.A(h.Href(helpAddress(l.Help)), g.Text("Which APIs"))})))
	})))
}

// figureTable returns a table of figures. heading is the HTML id of the heading that labels the table.
func figureTable(heading string, list []Figure) g.Node {
	lines := make([]line, len(list))
	for i, x := range list {
		lines[i] = line{Name: x.Name, Value: x.Value, Help: x.Help, Tone: ifElse(x.Bad, "text bad", "text")}
		if n, err := strconv.ParseInt(x.Value, 10, 64); err == nil {
			lines[i].Value, lines[i].Tone = count(n), ifElse(x.Bad, "bad", "")
		}
	}
	return linesTable(heading, lines)
}

// configuration lists the configuration keys. Keys that differ from their defaults come first, and the others are
// folded.
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
		mutedText(g.Text("Hash "), code(v.health.Hash), g.Textf(". %d of %d keys differ from their defaults; secrets are hidden.", len(changed), len(v.health.Config))),
		scroll(labelledBy("config"), table(columns(words("Key", "Value", "Default")), h.TBody(changed))),
		folded("Keys with default values", scroll(labelled("Keys with default values"), table(h.TBody(rest)))),
	}
}

// actions lists the newest entries of the audit log.
func (v *healthView) actions() g.Node {
	if len(v.health.Audit) == 0 {
		return mutedText(g.Text("No entries. Approvals, trials, feedback and deletions are logged here."))
	}
	return g.Group{
		scroll(labelledBy("audit"), h.Table(
			columns(words("When", "What"), numbers("Answer")),
			h.TBody(g.Map(v.health.Audit, func(n AuditEntry) g.Node {
				return h.Tr(
					h.Td(h.Class("text when"), timeOf(n.At)), h.Td(h.Class("text wrap"), h.Title(n.Action), h.Strong(quoted(n.Who)), quoted(" "+n.words())),
					h.Td(h.Class(ifElse(n.Status >= 400, "bad", "")), g.Text(strconv.Itoa(n.Status))),
				)
			})),
		)),
		mutedText(g.Text("The newest actions. All actions are in "), code(auditFile), g.Text(" of the data directory.")),
	}
}

// words describes the action without its author, such as approved the lesson NAME.
func (e *AuditEntry) words() string {
	slug, act, _ := strings.Cut(e.Detail, " ")
	what := ifElse(e.Detail == "", "sent "+e.Action, e.Detail)
	if a := lesson.Action(act); a.Valid() {
		what = pastTense(a) + " the lesson " + slug
	}
	if e.Status >= 400 {
		return what + " (refused)"
	}
	return what
}

// accountLines returns the lines with the counts of exchanges.
func accountLines(a *Account) []line {
	out := []line{
		{Name: "Admitted", Value: count(a.Admitted)},
		{Name: "Stored", Value: count(a.Stored), Indent: "indent"},
		{Name: "In the outbox, or in progress", Value: count(a.Spooled), Indent: "indent"},
		{Name: "In progress at a crash", Value: count(a.Incomplete), Indent: "indent"},
		{Name: "Dropped", Value: count(sum(a.Dropped)), Indent: "indent"},
	}
	for _, reason := range slices.Sorted(maps.Keys(a.Dropped)) {
		out = append(out, line{Name: strings.ReplaceAll(reason, "_", " "), Value: count(a.Dropped[reason]), Indent: "indent more"})
	}
	return append(out,
		line{Name: "Stored, not yet in a sample", Value: count(a.Unsampled)},
		line{Name: "Set aside after a panic", Value: count(a.SetAside), Tone: ifElse(a.SetAside > 0, "bad", "")})
}

// sinceLines returns the lines with the counts since the start of the server.
func sinceLines(n *Since) []line {
	out := []line{
		{Name: "Exchanges stored", Value: count(n.Exchanges)},
		{Name: "Samples written, rewrites included", Value: count(n.Samples)},
		{Name: "Sessions closed, each session of a run counted", Value: count(n.Closed)},
		{Name: "with a reward of their own; the report counts a run once", Value: count(n.Rewarded), Indent: "indent", Help: "EXPERIMENT#runs"},
		{Name: "Exchanges that opted out", Value: count(n.OptedOut)},
		{Name: "Texts redacted", Value: count(n.Redactions)},
		{Name: "Replies cut, aborted or failed", Value: count(n.Incomplete)},
		{Name: "Failed writes to the store", Value: count(n.WriteErrors), Tone: ifElse(n.WriteErrors > 0, "warn", "")},
		{Name: "Sessions and runs in memory", Value: count(n.InMemory)},
	}
	for _, reason := range slices.Sorted(maps.Keys(n.Dropped)) {
		if d := n.Dropped[reason]; d > 0 {
			out = append(out, line{Name: "Dropped: " + strings.ReplaceAll(reason, "_", " "), Value: count(d), Tone: "bad"})
		}
	}
	return out
}

// storeLines returns the lines with the content of the store.
func storeLines(counts map[string]int64) (out []line) {
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		l := line{
			Name:  strings.ToUpper(name[:1]) + strings.ReplaceAll(name[1:], "_", " "),
			Value: count(counts[name]),
		}
		switch name {
		case "bytes":
			l.Name, l.Value = "On disk", bytesOf(counts[name])
		case "parked":
			l.Name = "Feedback waiting for its session"
		case "sessions":
			l.Name = "Sessions and runs"
		}
		out = append(out, l)
	}
	return out
}
