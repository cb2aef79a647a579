package admin

import (
	"fmt"
	"strconv"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/sample"
	"precept/store"
)

// sessionsView is the list of sessions.
type sessionsView struct {
	store.SessionList
	Query store.SessionQuery
}

// sessionsPage lists sessions.
func (s *Server) sessionsPage(c echo.Context) error {
	var v sessionsView
	var err error
	v.Query, v.SessionList, err = s.browse(c)
	return s.show(c, shown{
		Title: "sessions", Main: v.html, Live: err == nil && v.Query.After == "" && !v.searched(), Err: err,
	})
}

// searched says that something is looked for in what was said.
func (v *sessionsView) searched() bool { return v.Query.Words+v.Query.Tool+v.Query.Error != "" }

// filtered says that something is asked for.
func (v *sessionsView) filtered(f frame) bool {
	q := &v.Query
	return v.searched() || q.Agent+q.Model+q.Lesson+q.Verdict+q.Session != "" || f.asked("since", "until") ||
		q.Loops || q.MinReward != nil || q.MaxReward != nil
}

func (v *sessionsView) html(f frame) g.Node {
	return g.Group{
		title("Sessions", h.Form(
			h.Method("get"), h.Action("/sessions"), h.Class("jump"), h.Role("search"), labelled("Open a session"),
			hiddenField("tenant", f.Tenant),
			h.Label(h.For("session"), g.Text("Name or id")),
			entryOf("session", v.Query.Session, "22"),
			h.Button(g.Text("Find")),
		)),
		v.filters(f),
		v.list(f),
		f.olderPager(v.counts(f), v.Query.After, v.Next),
		quiet(g.Text("What was redacted or opted out is not here: it was never stored.")),
	}
}

func (v *sessionsView) filters(f frame) g.Node {
	q := &v.Query
	return h.Form(
		h.Method("get"), h.Action("/sessions"), h.Class("filters"), h.Role("search"),
		labelled("Filter sessions"),
		g.If(!f.Viewer, g.Group{
			wordField("Words said", "words", q.Words, "18"),
			wordField("Tool called", "tool", q.Tool, "10"),
			wordField("Error text", "error", q.Error, "14"),
		}),
		wordField("Agent", "agent", q.Agent, "10"),
		wordField("Model", "model", q.Model, "12"),
		wordField("Lesson", "lesson", q.Lesson, "14"),
		choiceField("Verdict", "verdict", store.Verdicts(), q.Verdict),
		shareField("Reward from", "min_reward", q.MinReward),
		shareField("to", "max_reward", q.MaxReward),
		dateField("Begun from (UTC)", "since", f.query.Get("since"), "2026-01-31"),
		dateField("before (UTC)", "until", f.query.Get("until"), "2026-02-28"),
		wordField("Tenant", "tenant", f.Tenant, "9"),
		tickField("with a loop", "loops", "true", q.Loops),
		showButton(v.filtered(f), f.Link("/sessions")),
	)
}

func (v *sessionsView) list(f frame) g.Node {
	if len(v.Sessions) == 0 {
		return g.If(f.Problem == "", v.none(f))
	}
	searched := when(v.searched(), "Sessions are read one by one for what was said in them.", "")
	return scroll(labelled("Sessions"), h.Table(
		h.Class("list cards"), h.Caption(g.Text("Newest first. "+searched)),
		columns(
			wordColumn(g.Text("Session")), wordColumn(g.Text("Begun")), wordColumn(g.Text("Agent")),
			wordColumn(g.Text("Model")), column(word("turns")), column(word("loops")),
			wordColumn(word("session-lessons")), column(word("session-reward")),
			wordColumn(word("session-verdict")),
		),
		h.TBody(g.Map(v.Sessions, func(x store.SessionItem) g.Node { return sessionRow(f, &x) })),
	))
}

func sessionRow(f frame, x *store.SessionItem) g.Node {
	name := visible(short(nameOf(x)))
	return h.Tr(
		rowHead(
			h.Class("wrap name"),
			when(f.Viewer,
				h.Span(h.Title(name), g.Text(name)), h.A(h.Href(f.session(x.ID)), h.Title(name), g.Text(name))),
			foundAt(x.Found),
		),
		cell("Begun", h.Class("text"), timeOf(x.Started)),
		cell("Agent", h.Class("text agent"), quoted(short(x.Agent))),
		cell("Model", h.Class("text agent"), quoted(short(x.Model))),
		cell("Turns", g.Text(strconv.Itoa(x.Turns))),
		cell("Loops", g.If(x.Loops > 0, h.Class("warn")), g.Text(strconv.Itoa(x.Loops))),
		cell("Lessons", h.Class("text wrap slugs"), lessonsOf(x)),
		cell("Reward", h.Class(toneOf(x.Verdict)), g.Text(reward(x.Reward))),
		cell("Verdict", h.Class("text "+toneOf(x.Verdict)), g.Text(x.Verdict)),
	)
}

// foundAt is where a search hit.
func foundAt(hit *store.Found) g.Node {
	if hit == nil {
		return nil
	}
	return h.Span(h.Class("hit"), quoted(fmt.Sprintf("turn %d, %s: %s", hit.Turn, hit.Role, hit.Text)))
}

// lessonsOf are the lessons that were picked in a session.
func lessonsOf(x *store.SessionItem) g.Node {
	return g.Group{
		g.If(x.Control, h.Span(h.Class("slug control"), g.Text("control"))),
		g.Map(x.Injected, func(slug string) g.Node { return h.Span(h.Class("slug"), quoted(slug)) }),
		g.Map(x.Withheld, func(slug string) g.Node {
			return h.Span(h.Class("slug ghost"), h.Title("withheld by a coin"), quoted(slug))
		}),
		g.If(x.Excluded, h.Span(h.Class("quiet"), g.Text("not in the experiment"))),
	}
}

// none says why there are no sessions to show.
func (v *sessionsView) none(f frame) g.Node {
	switch {
	case !v.filtered(f):
		return empty("No session yet", h.P(
			g.Text("A session appears when its first turn is over and stored, within some seconds. "+
				"Point an agent at precept's data listener: "),
			h.Code(g.Text("OPENAI_BASE_URL=http://127.0.0.1:8080/v1")), g.Text("."),
		))
	case v.Next != "":
		return empty("No session here", h.P(
			g.Textf("None of the %d sessions back to ", v.Looked), v.back(),
			g.Text(" fits. There are older ones."),
		))
	default:
		return empty("No session here", h.P(g.Textf(
			"None of %d sessions fits what is asked for. Ask for less, or look at another tenant.", v.Looked)))
	}
}

// back is how far the list was looked through.
func (v *sessionsView) back() g.Node {
	if v.Back == nil {
		return g.Text(none)
	}
	return timeOf(*v.Back)
}

// counts says how many are shown.
func (v *sessionsView) counts(f frame) g.Node {
	if v.Looked == 0 {
		return nil
	}
	return h.Span(
		g.Textf("%d shown", len(v.Sessions)),
		g.If(v.filtered(f), g.Group{g.Textf(" of %d looked at, back to ", v.Looked), v.back()}),
	)
}

// toneOf colours what a reward comes to.
func toneOf(verdict string) string {
	switch verdict {
	case sample.Good:
		return "good"
	case sample.Poor:
		return "bad"
	default:
		return ""
	}
}

// reward writes a session's reward.
func reward(x *float64) string {
	if x == nil {
		return none
	}
	return strconv.FormatFloat(*x, 'f', 2, 64)
}
