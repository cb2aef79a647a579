package admin

import (
	"fmt"
	"time"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/store"
)

// sessionsView is the list of sessions.
type sessionsView struct {
	found    store.SessionList
	query    store.SessionQuery
	searched bool   // the query searches conversations
	data     string // where agents reach precept
}

// sessionsPage lists sessions.
func (s *Server) sessionsPage(c echo.Context) error {
	q, l, err := s.browse(c)
	v := sessionsView{l, q, q.Text.Words+q.Text.Tool+q.Text.Error != "", s.options.Address.Data}
	return s.show(c, shown{
		Title: "sessions", Main: v.html, Live: err == nil && q.After == "" && !v.searched, Err: err,
	})
}

func (v *sessionsView) html(f frame) g.Node {
	clear := f.clear("words", "tool", "error", "agent", "model", "lesson", "verdict", "session", "since", "until",
		"loops", "min_reward", "max_reward")
	back := timeOf(when(v.found.Back == nil, &time.Time{}, v.found.Back).UTC()) // range of the list that was searched
	return g.Group{
		title("Sessions", h.Form(
			h.Method("get"), h.Action("/sessions"), h.Class("jump"), h.Role("search"), labelled("Open a session"),
			hiddenField("tenant", f.Tenant),
			h.Label(h.For("session"), g.Text("Name or id")), entry("session", v.query.Session, "22"), h.Button(g.Text("Find")),
		)),
		v.filters(f, clear),
		g.Iff(f.page.Problem == "", func() g.Node { return v.list(f, clear != "", back) }),
		f.olderPager(g.If(v.found.Looked > 0, h.Span(
			g.Textf("%d shown", len(v.found.Sessions)),
			g.If(clear != "", g.Group{g.Textf(" of %d read, back to ", v.found.Looked), back}),
		)), v.query.After, v.found.Next),
		quiet(g.Text("Redacted and opted-out text is never stored.")),
	}
}

func (v *sessionsView) filters(f frame, clear string) g.Node {
	q := &v.query
	share := func(label, name string) g.Node {
		return field(label, name, h.Input(
			h.ID(name), h.Name(name), h.Type("number"), h.Min("0"), h.Max("1"), h.Step("any"), h.Value(visible(f.query.Get(name))),
		))
	}
	return filters(
		"/sessions", "Filter sessions", clear,
		g.If(!f.Viewer, g.Group{
			wordField("Words", "words", q.Text.Words, "18"),
			wordField("Tool called", "tool", q.Text.Tool, "10"),
			wordField("Error text", "error", q.Text.Error, "14"),
		}),
		wordField("Agent", "agent", q.Agent, "10"),
		wordField("Model", "model", q.Model, "12"),
		wordField("Lesson", "lesson", q.Lesson, "14"),
		choiceField("Verdict", "verdict", anyOf(store.Verdicts()...), q.Verdict),
		share("Reward from", "min_reward"), share("to", "max_reward"),
		dateField("Begun from (UTC)", "since", f.query.Get("since"), "2026-01-31"),
		dateField("before (UTC)", "until", f.query.Get("until"), "2026-02-28"),
		wordField("Tenant", "tenant", f.Tenant, "9"),
		tickField("with a loop", "loops", "true", q.Loops),
	)
}

// list returns the sessions, or the reason for an empty list.
func (v *sessionsView) list(f frame, filtered bool, back g.Node) g.Node {
	switch {
	case len(v.found.Sessions) > 0:
		searched := when(v.searched, "The search reads the sessions one by one.", "")
		return scroll(labelled("Sessions"), h.Table(
			h.Class("list cards"), h.Caption(g.Text("Newest first. "+searched)),
			columns(
				words("Session", "Begun", "Agent", "Model"), column(word("turns")), column(word("loops")),
				wordColumn(word("session-lessons")), column(word("session-reward")), wordColumn(word("session-verdict")),
			),
			h.TBody(g.Map(v.found.Sessions, func(x store.SessionItem) g.Node { return sessionRow(f, &x) })),
		))
	case !filtered:
		return empty("No session yet", h.P(
			g.Text("A session appears some seconds after the end of its first turn. "+
				"Point an agent at precept's data listener: "),
			code("OPENAI_BASE_URL="+v.data+"/v1"), g.Text("."),
		))
	case v.found.Next != "":
		return empty("No matching session", h.P(
			g.Textf("None of the %d sessions back to ", v.found.Looked), back,
			g.Text(" matches. There are older sessions."),
		))
	default:
		return empty("No matching session", h.P(g.Textf(
			"None of the %d sessions matches. Use fewer filters, or select another tenant.", v.found.Looked)))
	}
}

func sessionRow(f frame, x *store.SessionItem) g.Node {
	name := visible(short(nameOf(x)))
	return h.Tr(
		rowHead(
			h.Class("wrap name"),
			when(f.Viewer,
				h.Span(h.Title(name), g.Text(name)), h.A(h.Href(f.session(x.ID)), h.Title(name), g.Text(name))),
			g.Iff(x.Found != nil, func() g.Node {
				return h.Span(h.Class("hit"), quoted(fmt.Sprintf("turn %d, %s: %s", x.Found.Turn, x.Found.Role, x.Found.Text)))
			}),
		),
		cell("Begun", h.Class("text"), timeOf(x.Started)),
		cell("Agent", h.Class("text agent"), quoted(short(x.Agent))),
		cell("Model", h.Class("text agent"), quoted(short(x.Model))),
		cell("Turns", g.Text(count(x.Turns))),
		cell("Loops", g.If(x.Loops > 0, h.Class("warn")), g.Text(count(x.Loops))),
		cell("Lessons", h.Class("text wrap slugs"), lessonsOf(x)),
		cell("Reward", h.Class(toneOf(x.Verdict)), g.Text(fixed(x.Reward, 2))),
		cell("Verdict", h.Class("text "+toneOf(x.Verdict)), g.Text(x.Verdict)),
	)
}

// lessonsOf returns the lessons picked in a session.
func lessonsOf(x *store.SessionItem) g.Node {
	return g.Group{
		g.If(x.Control, h.Span(h.Class("slug control"), g.Text("control"))),
		some(x.Injected, h.Span, func(slug string) g.Node { return h.Span(h.Class("slug"), quoted(slug)) }),
		some(x.Withheld, h.Span, func(slug string) g.Node {
			return h.Span(h.Class("slug ghost"), h.Title("withheld by the coin"), quoted(slug))
		}),
		g.If(x.Excluded, h.Span(h.Class("quiet"), g.Text("outside of the experiment"))),
	}
}
