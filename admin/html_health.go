package admin

import (
	"fmt"
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

func (v *healthView) html(frame) g.Node {
	about := "precept " + v.Version
	if v.Revision != "" {
		about += fmt.Sprintf(" (%.12s)", v.Revision)
	}
	about += ", " + v.Go + ", process " + strconv.Itoa(v.PID) + ", since "
	return g.Group{
		title("Health", quiet(g.Text(about), timeOf(v.Started))),
		figures(v.Top),
		v.troubles(),
		h.Div(
			h.Class("columns"),
			h.Section(
				heading("account", "What became of every exchange"), linesTable("account", v.Account),
				quiet(g.Text("Exchanges over the life of the data directory. An exchange is one request and its reply.")),
			),
			h.Section(heading("since", "Since this start"), linesTable("since", v.Since)),
			h.Section(heading("store", "In the store"), linesTable("store", v.Store)),
			g.Iff(len(v.Figures) > 0, func() g.Node {
				return h.Section(heading("more", "Lessons"), h.Table(h.Class("figures"), labelledBy("more"), h.TBody(g.Map(v.Figures, figureRow))))
			}),
		),
		v.configuration(),
		v.actions(),
	}
}

// troubles are what a person should look at first.
func (v *healthView) troubles() g.Node {
	store, account := &v.Health.Store, &v.Health.Account
	trouble := func(before, text string) g.Node {
		return g.If(text != "", h.P(h.Class("problem"), quoted(before+text)))
	}
	return g.Group{
		trouble("The store cannot be read: ", store.Trouble),
		trouble("", store.Notice),
		trouble("There is no whole account: ", account.Trouble),
		g.If(!account.Balanced, h.P(
			h.Class("problem"), g.Text("The account does not balance: admitted is not stored + spooled + incomplete + dropped. Please report it, with the output of "),
			h.Code(g.Text("precept doctor --json")), g.Text("."),
		)),
	}
}

// linesTable is a table of figures below the heading that names it.
func linesTable(heading string, lines []line) g.Node {
	return h.Table(h.Class("figures"), labelledBy(heading), h.TBody(g.Map(lines, func(l line) g.Node {
		return h.Tr(rowHead(toned(l.Indent), g.Text(l.Name)), h.Td(toned(l.Tone), g.Text(l.Value)))
	})))
}

// configuration lists the keys, those that somebody has set first.
func (v *healthView) configuration() g.Node {
	var changed, rest g.Group
	for _, k := range v.Config {
		name := h.Th(h.Scope("row"), h.Title(k.Usage), g.Text(k.Path))
		value := h.Td(h.Class("text wrap"), code(k.Value))
		if k.Changed {
			changed = append(changed, h.Tr(h.Class("changed"), name, value, h.Td(h.Class("text wrap quiet"), code(k.Default))))
		} else {
			rest = append(rest, h.Tr(name, value))
		}
	}
	return g.Group{
		heading("config", "Configuration"),
		quiet(g.Text("Hash "), code(v.Hash), g.Textf(". %d of %d keys are not at their defaults; secrets are hidden.", len(changed), len(v.Config))),
		scroll(labelledBy("config"), h.Table(
			h.Class("config"), columns(wordColumn(g.Text("Key")), wordColumn(g.Text("Value")), wordColumn(g.Text("Default"))), h.TBody(changed),
		)),
		h.Details(
			h.Class("rest"), h.Summary(g.Text("The keys that are at their defaults")),
			scroll(labelled("Keys at their defaults"), h.Table(h.Class("config"), h.TBody(rest))),
		),
	}
}

// actions are what people and programs did here.
func (v *healthView) actions() g.Node {
	if len(v.Audit) == 0 {
		return g.Group{heading("audit", "What was done here"), quiet(g.Text("Nothing yet. Approvals, trials, feedback and deletions are noted here."))}
	}
	return g.Group{
		heading("audit", "What was done here"),
		scroll(labelledBy("audit"), h.Table(
			columns(wordColumn(g.Text("When")), wordColumn(g.Text("Who")), wordColumn(g.Text("Action")), wordColumn(g.Text("To what")), column(g.Text("Answer"))),
			h.TBody(g.Map(v.Audit, func(n Noted) g.Node {
				return h.Tr(
					h.Td(h.Class("text"), timeOf(n.At)), h.Td(h.Class("text"), quoted(n.Who)), h.Td(h.Class("text"), code(n.Action)),
					h.Td(h.Class("text wrap"), quoted(n.Detail)), h.Td(h.Class(when(n.Status >= 400, "bad", "")), g.Textf("%d", n.Status)),
				)
			})),
		)),
		quiet(g.Text("The newest actions; all of them stand in "), h.Code(g.Text(AuditFile)), g.Text(" of the data directory.")),
	}
}
