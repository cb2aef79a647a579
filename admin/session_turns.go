package admin

import (
	"cmp"
	"fmt"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/internal/sample"
	"precept/store"
)

func turnNode(t *store.TurnItem) g.Node {
	name := fmt.Sprintf("Turn %d", t.Turn)
	facts := " · " + shortenName(t.Model) + " · " + decimalText(new(t.LatencyMS/1000), 2) + " s"
	if t.Input > 0 {
		facts += " · " + countText(t.Input) + " tokens in (" + cacheText(t.Cached, t.Written) + "), " + countText(t.Output) + " out"
	}
	return h.Article(
		h.Class("turn"), ariaLabel(name),
		h.Header(
			h.H3(g.Text(name)),
			h.Span(h.Class("quiet"), timeNode(t.At, g.Attr("data-fine")), untrustedText(facts)),
			g.Map(turnMarks(t), func(mark string) g.Node { return h.Span(h.Class("mark"), g.Text(mark)) }),
		),
		g.If(t.Hidden, warning("This turn names a path that was opted out later, so the turn is not shown.")),
		g.Map(t.Entries, func(e store.Entry) g.Node { return entryNode(&e) }),
		g.If(t.RequestID != "", h.Details(
			h.Class("ids"), h.Summary(g.Text("Ids")),
			h.P(g.Text("Request "), code(t.RequestID), g.If(t.Response != "", g.Group{g.Text(", response "), code(shortenName(t.Response))}), g.Text(", exchange "), code(t.ID)),
		)),
	)
}

// turnMarks names unusual properties, such as a failed reply.
func turnMarks(t *store.TurnItem) (marks []string) {
	if t.Outcome != sample.Complete {
		marks = append(marks, strings.ReplaceAll(t.Outcome, "_", " "))
	}
	if t.Status >= 400 {
		marks = append(marks, "status "+countText(t.Status))
	}
	if t.Loops > 0 {
		marks = append(marks, "loop")
	}
	if t.Truncated {
		marks = append(marks, "copy cut off at limits.capture_bytes")
	}
	if redacted := sum(t.Redacted); redacted > 0 {
		marks = append(marks, countText(redacted)+" redacted")
	}
	return marks
}

// entryNode returns a message or a call; long text is collapsed.
func entryNode(e *store.Entry) g.Node {
	class, label := entryAuthor(e)
	text := e.Text
	if e.Kind == store.KindBlock {
		text = strings.TrimRight(text, "\n")
	}
	words := g.If(text != "", prose(text))
	if folded := e.Kind == sample.MessageSystem || e.Kind == sample.MessageTools || len(e.Text) > maxUnfoldedBytes; folded {
		words = h.Details(h.Summary(untrustedText(firstLine(e.Text))), prose(text))
	}
	aside := func(text string) g.Node { return g.Group{space(), h.Span(h.Class("quiet"), untrustedText(text))} }
	return h.Div(
		h.Class("said "+class),
		h.Div(
			h.Class("who"), untrustedText(label),
			limitedList(e.Slugs, h.Span, func(slug string) g.Node { return g.Group{space(), h.Span(h.Class("slug"), untrustedText(slug))} }),
			g.If(e.Reinserted, aside("inserted again after the agent had shortened the history")),
			g.If(e.Propensity != 0, aside(fmt.Sprintf("the injection probability was %.2f", e.Propensity))),
			g.If(e.Rule != "", aside("(detected by "+e.Rule+")")),
		),
		words,
		g.If(e.CutBytes > 0, mutedText(g.Textf("%d further bytes are not shown; an export has them.", e.CutBytes))),
	)
}

func entryAuthor(e *store.Entry) (class, label string) {
	switch e.Kind {
	case store.KindBlock:
		return e.Kind, ifElse(e.Loop, "loop warning, inserted by precept", "inserted by precept")
	case store.KindWithheld:
		control := "not shown: control session"
		return "ghost", ifElse(e.Why == "control", control, "withheld at random")
	case sample.EventCall:
		return e.Kind, "call to " + e.Tool
	case sample.MessageResult:
		label = "answer from " + cmp.Or(e.Tool, "a tool")
		switch e.Outcome {
		case "", "ok":
			return e.Kind, label
		case "error":
			return "result error", label + ": failed"
		default:
			return e.Kind, label + ": " + e.Outcome
		}
	case store.KindError:
		return e.Kind, "upstream error"
	default:
		return e.Kind, e.Kind
	}
}

const maxUnfoldedBytes = 1200

// firstLine returns the part of a text that stays visible when the text is collapsed.
func firstLine(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	return truncateChars(text, 90)
}

// sessionName returns a session's name, or else the id.
func sessionName(x *store.SessionItem) string {
	if strings.TrimSpace(x.Name) == "" {
		return x.ID
	}
	return x.Name
}

func verdictTone(verdict string) string {
	switch verdict {
	case sample.Good:
		return "good"
	case sample.Poor:
		return "bad"
	default:
		return ""
	}
}
