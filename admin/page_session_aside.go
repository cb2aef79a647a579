package admin

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/feedback"
	"precept/store"
)

// rewarded is what the session was worth, and who said so.
func (v *sessionView) rewarded() g.Node {
	from := "nobody has told"
	if r := &v.Rewarded; r.Value != nil {
		from = fmt.Sprintf("from tier %d, by %s", r.Tier, r.Definition)
		if r.Counted != nil {
			from += "; counted"
		} else if !v.Closed {
			from += "; counted when the session closes"
		}
	}
	return g.Group{
		heading("reward", "Reward"),
		h.P(
			h.Strong(h.Class(toneOf(v.Verdict)), g.Text(reward(v.Rewarded.Value))), space(),
			h.Span(h.Class("quiet"), quoted(from)),
		),
		g.Iff(len(v.Rewarded.Sources) > 0, func() g.Node {
			return h.Ul(h.Class("sources"), g.Map(v.Rewarded.Sources, sourceItem))
		}),
	}
}

// sourceItem is what somebody or something told of the session.
func sourceItem(x store.SourceItem) g.Node {
	told := fmt.Sprintf(" %.2f by %s", x.Score, x.Source)
	if x.Rater != "" {
		told += " (" + x.Rater + ")"
	}
	if x.Rule != "" {
		told += ", rule " + x.Rule
	}
	if x.Turn != 0 {
		told += fmt.Sprintf(", turn %d", x.Turn)
	}
	return h.Li(
		g.If(x.Decides, h.Class("decides")),
		h.Strong(g.Text(x.Type)), quoted(told+", "), timeOf(x.At),
		g.If(x.Decides, g.Group{space(), h.Span(h.Class("slug"), g.Text("decides"))}),
		g.If(x.Comment != "", g.Group{h.Br(), h.Q(quoted(x.Comment))}),
	)
}

// rate is the form for a person's word.
func (v *sessionView) rate(f frame) g.Node {
	if !f.Acts {
		return nil
	}
	button := func(kind, text string) g.Node {
		return h.Button(h.Name("type"), h.Value(kind), g.Text(text))
	}
	return g.Group{
		heading("rate", "Your word"),
		h.Form(
			h.Method("post"), h.Action(f.Link(sessionPath(v.ID)+"/rate")), h.Class("rate"), f.csrf(),
			h.Label(h.For("comment"), g.Text("Comment")),
			h.Input(h.ID("comment"), h.Name("comment"), h.MaxLength("4096")),
			h.Span(
				h.Class("buttons"),
				button(feedback.TypeApproval, "It was right"), button(feedback.TypeRejection, "It was wrong"),
			),
		),
	}
}

// rateSession takes a person's word on a session from its page.
func (s *Server) rateSession(c echo.Context) error {
	id, kind := param(c, "session"), c.FormValue("type")
	p := feedback.Post{SessionID: id, Entry: feedback.Entry{
		Source: feedback.SourceUser, Tier: feedback.TierUser, Type: kind, Score: feedback.ScoreOf(kind),
		Rater: "dashboard", Comment: strings.TrimSpace(c.FormValue("comment")),
	}}
	if kind != feedback.TypeApproval && kind != feedback.TypeRejection {
		return echo.NewHTTPError(http.StatusBadRequest, "type is approval or rejection")
	}
	if len(p.Comment) > 4096 {
		return echo.NewHTTPError(http.StatusBadRequest, "the comment is longer than 4096 bytes")
	}
	c.Set(detailKey, kind+" of session "+idOnly(id))
	done, err := s.rate(c, tenantOf(c), p)
	if err != nil {
		return err
	}
	notice := "Your word is kept; the session's reward follows it."
	if done.Status == store.Ignored {
		notice = "Nothing of this session may be kept, so your word was not kept either."
	}
	return s.seeOther(c, frame{query: c.QueryParams()}.session(id), notice)
}

// coins are the lessons that were picked, and how their coins fell.
func (v *sessionView) coins(f frame) g.Node {
	if len(v.Picks) == 0 {
		return g.Group{heading("coins", "Its coins"), quiet(g.Text("No lesson was picked in it."))}
	}
	return g.Group{
		heading("coins", "Its coins"),
		scroll(labelledBy("coins"), h.Table(
			columns(
				wordColumn(g.Text("Lesson")), wordColumn(g.Text("Fell")), column(word("propensity")),
				column(g.Text("Turn")),
			),
			h.TBody(g.Map(v.Picks, func(p store.PickItem) g.Node {
				fell := when(p.Injected, g.Text("injected"), h.Span(h.Class("quiet"), g.Text("withheld")))
				return h.Tr(
					rowHead(h.Class("wrap"), h.A(h.Href(f.lesson(p.Slug)), quoted(p.Slug))),
					h.Td(h.Class("text"), fell),
					h.Td(g.Textf("%.2f", p.Propensity)), h.Td(g.Textf("%d", p.Turn)),
				)
			})),
		)),
	}
}

func (v *sessionView) about() g.Node {
	one := func(name string, value g.Node) g.Node { return g.Group{h.Dt(g.Text(name)), h.Dd(value)} }
	return g.Group{
		heading("about", "About it"),
		h.Dl(
			h.Class("about"),
			one("Id", code(v.ID)), one("Recognised by", quoted(v.Method)), one("Tenant", quoted(v.Tenant)),
			one("Follow it", code("precept watch "+v.ID)),
		),
	}
}

// forget is the form that deletes the session.
func (v *sessionView) forget(f frame) g.Node {
	if !f.Acts {
		return nil
	}
	return g.Group{
		heading("delete", "Delete"),
		quiet(g.Text("Its record, turns, samples and feedback are deleted here and in memory. What it added to " +
			"the lessons' counts stays: sums, which name nobody. It cannot be undone.")),
		h.Form(
			h.Method("post"), h.Action(f.Link(sessionPath(v.ID)+"/forget")), f.csrf(),
			h.Label(
				h.Class("check"), h.Input(h.Type("checkbox"), h.Name("sure"), h.Value("yes"), h.Required()),
				g.Text(" I am sure"),
			),
			h.Button(h.Class("danger"), g.Text("Delete this session")),
		),
	}
}

// forgetSession deletes a session from its page. The person says so twice: by the button, and by
// the box beside it.
func (s *Server) forgetSession(c echo.Context) error {
	id := param(c, "session")
	f := frame{query: c.QueryParams()}
	if c.FormValue("sure") != "yes" {
		return s.seeOther(c, f.session(id), "Nothing was deleted: tick the box beside the button first.")
	}
	c.Set(detailKey, "session "+idOnly(id)+" deleted")
	n, err := s.erase(c, tenantOf(c), id)
	if err != nil {
		return err
	}
	notice := "The session is deleted: its record, turns, samples and feedback."
	if n == 0 {
		notice = "Nothing was kept of this session."
	}
	return s.seeOther(c, f.Link("/sessions"), notice)
}

// idOnly is an id for the audit; a name that a client gave is none.
func idOnly(text string) string {
	if len(text) == 32 && strings.Trim(text, "0123456789abcdef") == "" {
		return text
	}
	return "(by name)"
}
