package admin

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/sample"
	"precept/store"
)

// sessionView is one session.
type sessionView struct{ store.Transcript }

// sessionPage shows a session.
func (s *Server) sessionPage(c echo.Context) error {
	t, err := s.transcript(c)
	if err != nil {
		return s.show(c, shown{Title: "No such session", Main: failedPage, Err: err})
	}
	v := sessionView{t}
	return s.show(c, shown{
		Title: "session " + nameOf(&t.SessionItem), Main: v.html, Live: !t.Closed && !v.goesOn(),
	})
}

// nameOf is the session's name, its id where it has none.
func nameOf(x *store.SessionItem) string {
	if strings.TrimSpace(x.Name) == "" {
		return x.ID
	}
	return x.Name
}

// goesOn says that there are turns behind those that are shown.
func (v *sessionView) goesOn() bool { return v.Next < v.Exchanges }

func (v *sessionView) html(f frame) g.Node {
	return g.Group{
		h.P(h.Class("crumb"), h.A(h.Href(f.Link("/sessions")), g.Text("Sessions"))),
		title(nameOf(&v.SessionItem), quiet(
			quoted(short(v.Agent)+", "+short(v.Model)+", "+v.Dialect+"; begun "), timeOf(v.Started),
			g.Text(", last seen "), timeOf(v.Seen), g.If(!v.Closed, g.Text("; open")),
		)),
		figures(v.figures()),
		g.If(v.Control, h.P(h.Class("notice"), g.Text("This session is a control: a coin decided at "+
			"its beginning that it gets no lesson."))),
		g.If(v.Excluded, warning("This session is no part of the experiment: its record could not be "+
			"read in time.")),
		g.If(v.Refused, warning("The upstream refused this session's changed request; its later "+
			"requests went out unchanged.")),
		g.If(len(v.OptedOut) > 0, warning(fmt.Sprintf(
			"%d of its turns opted out: nothing of them was kept.", len(v.OptedOut)))),
		h.Div(
			h.Class("split"),
			v.turns(f),
			h.Aside(labelled("About this session"), v.rewarded(), v.rate(f), v.coins(f), v.about(), v.forget(f)),
		),
	}
}

func (v *sessionView) figures() []stat {
	return []stat{
		statOf("session-reward", reward(v.Rewarded.Value), v.Verdict, toneOf(v.Verdict)),
		statOf("turns", count(v.SessionItem.Turns), count(v.Exchanges)+" kept", ""),
		statOf("loops", count(v.Loops), "", when(v.Loops > 0, "warn", "")),
		statOf("input-tokens", count(v.Input), count(v.Cached)+" of them cached", ""),
		statOf("session-lessons", count(len(v.Injected)), count(len(v.Withheld))+" withheld", ""),
	}
}

func (v *sessionView) turns(f frame) g.Node {
	turns := g.Node(g.Map(v.Said, func(t store.TurnItem) g.Node { return turn(&t) }))
	if len(v.Said) == 0 {
		turns = h.Div(h.Class("empty"), h.P(g.Text(
			"No turn is stored here yet. A turn appears when it is over and stored, within some seconds.")))
	}
	to := func(from int, rel, text string) g.Node {
		return h.P(h.A(h.Href(f.With("from", strconv.Itoa(from))), h.Rel(rel), g.Text(text)))
	}
	return h.Section(
		h.Class("turns"), labelledBy("turns"), heading("turns", "What was said"),
		g.If(v.From > 0, to(max(0, v.From-store.TurnsShown), "prev", "Earlier turns")),
		turns,
		g.If(v.goesOn(), to(v.Next, "next", "Later turns")),
	)
}

// turn is one exchange.
func turn(t *store.TurnItem) g.Node {
	name := fmt.Sprintf("Turn %d", t.Turn)
	facts := " · " + t.Model + " · " + strconv.FormatFloat(t.LatencyMS/1000, 'f', 2, 64) + " s"
	if t.Input > 0 {
		facts += " · " + count(t.Input) + " tokens in (" + count(t.Cached) + " cached), " + count(t.Output) + " out"
	}
	return h.Article(
		h.Class("turn"), labelled(name),
		h.Header(
			h.H3(g.Text(name)),
			h.Span(h.Class("quiet"), fineTime(t.At), quoted(facts)),
			g.Map(unusual(t), func(mark string) g.Node { return h.Span(h.Class("mark"), g.Text(mark)) }),
		),
		g.If(t.Hidden, warning("This turn names a path that has opted out since it was kept. It is not shown.")),
		g.Map(t.Entries, func(e store.Entry) g.Node { return entryNode(&e) }),
	)
}

// unusual is what a turn has that most have not.
func unusual(t *store.TurnItem) (marks []string) {
	if t.Outcome != sample.Complete {
		marks = append(marks, strings.ReplaceAll(t.Outcome, "_", " "))
	}
	if t.Status >= 400 {
		marks = append(marks, "status "+count(t.Status))
	}
	if t.Loops > 0 {
		marks = append(marks, "loop")
	}
	if t.Truncated {
		marks = append(marks, "copy cut at limits.capture_bytes")
	}
	redacted := 0
	for _, n := range t.Redacted {
		redacted += n
	}
	if redacted > 0 {
		marks = append(marks, count(redacted)+" redacted")
	}
	return marks
}

// entryNode is one thing that was said.
func entryNode(e *store.Entry) g.Node {
	class, label := whose(e)
	text := e.Text
	if e.Kind == store.KindBlock {
		text = strings.TrimRight(text, "\n")
	}
	words := g.If(text != "", prose(text))
	if folded := e.Kind == sample.SaidSystem || len(e.Text) > foldFrom; folded {
		words = h.Details(h.Summary(quoted(firstLine(e.Text))), prose(text))
	}
	aside := func(text string) g.Node { return g.Group{space(), h.Span(h.Class("quiet"), quoted(text))} }
	return h.Div(
		h.Class("said "+class),
		h.Div(
			h.Class("who"), quoted(label),
			g.Map(e.Slugs, func(slug string) g.Node { return g.Group{space(), h.Span(h.Class("slug"), quoted(slug))} }),
			g.If(e.Again, aside("inserted anew after the agent had shortened its history")),
			g.If(e.Chance != 0, aside(fmt.Sprintf("it had a chance of %.2f to be shown", e.Chance))),
			g.If(e.Rule != "", aside("(seen by "+e.Rule+")")),
		),
		words,
		g.If(e.Cut > 0, quiet(g.Textf("%d further bytes are not shown; an export has them.", e.Cut))),
	)
}

// whose says in words who or what said something, and the class of its block.
func whose(e *store.Entry) (class, label string) {
	switch e.Kind {
	case store.KindBlock:
		return e.Kind, when(e.Loop, "loop warning, inserted by precept", "inserted by precept")
	case store.KindWithheld:
		control := "not shown: this session is a control"
		return "ghost", when(e.Why == "control", control, "withheld by a coin")
	case sample.EventCall:
		return e.Kind, "call of " + e.Tool
	case sample.SaidResult:
		label = "answer of " + cmp.Or(e.Tool, "a tool")
		switch e.Outcome {
		case "", "ok":
			return e.Kind, label
		case "error":
			return "result error", label + ": failed"
		default:
			return e.Kind, label + ": " + e.Outcome
		}
	case store.KindError:
		return e.Kind, "error of the upstream"
	default:
		return e.Kind, e.Kind
	}
}

// foldFrom is how long a text is shown whole, in bytes.
const foldFrom = 1200

// firstLine is the beginning of a text, for its fold.
func firstLine(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	r := []rune(text)
	if len(r) > 90 {
		return string(r[:90]) + "…"
	}
	return string(r)
}
