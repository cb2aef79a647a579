package admin

import (
	"fmt"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/bandit/feedback"
	"precept/bandit/report"
	"precept/bandit/trial"
	"precept/store"
)

func rewardSection(t *store.Transcript) g.Node {
	origin, r := "no feedback", &t.Rewarded
	if r.Value != nil {
		origin = "from " + tierText(r.Tier)
		if r.Shared {
			origin = ifElse(t.Run != "", "the run's", "the parent session's") + ", " + origin
		}
		switch {
		case r.Counted != nil:
			origin += "; counted"
		case !t.Closed && !t.SessionItem.Excluded:
			origin += "; counts when the session closes"
		}
	}
	if t.SessionItem.Excluded {
		origin += "; " + report.NotCounted(t.ExcludedFor)
	}
	return section(
		"reward", "Reward",
		h.P(
			h.Strong(h.Class(verdictTone(t.Verdict)), g.Text(decimalText(r.Value, 2))), space(),
			h.Span(h.Class("quiet"), untrustedText(origin)),
		),
		g.If(len(r.Sources) > 0, h.Ul(h.Class("sources"), limitedList(r.Sources, h.Li, sourceItem))),
	)
}

func sourceItem(x store.SourceItem) g.Node {
	text := fmt.Sprintf(" %.2f by %s", x.Score, x.Source)
	if x.Rater != "" {
		text += " (" + x.Rater + ")"
	}
	if x.Rule != "" {
		text += ", rule " + x.Rule
	}
	if x.Turn != 0 {
		text += fmt.Sprintf(", turn %d", x.Turn)
	}
	return h.Li(
		g.If(x.Decides, h.Class("decides")),
		h.Strong(g.Text(x.Type)), untrustedText(text+", "), timeNode(x.At),
		g.If(x.Decides, g.Group{space(), h.Span(h.Class("slug"), g.Text("decides"))}),
		g.If(x.Comment != "", g.Group{h.Br(), h.Q(untrustedText(x.Comment))}),
	)
}

func rateForm(f frame, id string) g.Node {
	button := func(kind, text string) g.Node {
		return h.Button(h.Name("type"), h.Value(kind), g.Text(text))
	}
	return section("rate", "Your rating", h.Form(
		h.Method("post"), h.Action(f.sameTurnsHref(id, "rate")), h.Class("rate"), f.csrfInput(),
		h.Label(h.For("comment"), g.Text("Comment")),
		h.Input(h.ID("comment"), h.Name("comment"), h.MaxLength("4096")),
		h.Span(
			h.Class("buttons"),
			button(feedback.TypeApproval, "Right"), button(feedback.TypeRejection, "Wrong"),
		),
	))
}

// lessonFates returns the lessons that matched or nearly matched, with state and reason.
func lessonFates(f frame, t *store.Transcript) g.Node {
	if len(t.Fates) == 0 {
		return section("lessons", "Lessons", mutedText(g.Text(ifElse(t.From > 0, "No lesson matched.", "No lesson matched, and none came close."))))
	}
	return section("lessons", "Lessons, and why", h.Ul(h.Class("fates"), limitedList(t.Fates, h.Li, func(x store.Fate) g.Node {
		return h.Li(
			h.Class(x.State),
			h.A(h.Href(f.lessonHref(trial.LessonSlug(x.Slug))), untrustedText(x.Slug)), space(),
			h.Strong(g.Text(strings.ReplaceAll(x.State, "_", " "))), smallLine(untrustedText(fateReason(&x))),
		)
	})))
}

func fateReason(x *store.Fate) string {
	chance := fmt.Sprintf("turn %d; the injection probability was %.2f", x.Turn, x.Propensity)
	by, matched := "", "matched"
	if x.Triggers != "" {
		by, matched = x.Triggers+"; ", "matched by "+x.Triggers
	}
	if trial.Arm(x.Slug).IsRule() {
		place := ifElse(x.Shared, "the run's sessions share the random assignment", fmt.Sprintf("turn %d", x.Turn))
		kept := fmt.Sprintf("a rules file section; %s; the probability of keeping the section was %.2f", place, x.Propensity)
		return ifElse(x.State == store.FateInjected, ifElse(x.Shared, "requests in the run keep ", "the request kept ")+kept, "removed at random: "+kept)
	}
	switch x.State {
	case store.FateInjected:
		return by + chance
	case store.FateWithheld:
		return by + "withheld at random, " + chance
	case store.FateControl:
		return matched + "; a control session, chosen at random, gets no lesson"
	case store.NotMatched:
		return x.Why
	}
	switch trial.PassReason(x.Why) {
	case trial.PassedSlots:
		return matched + "; better lessons took all places (inject.k)"
	case trial.PassedRoom:
		return matched + "; no room for the text (inject.budget_bytes)"
	case trial.PassedRank:
		return matched + "; the chooser expects less gain than the inserted tokens cost"
	}
	return matched + "; the reason was not stored"
}

func aboutSession(f frame, x *store.SessionItem) g.Node {
	row := func(name string, value g.Node) g.Node { return g.Group{h.Dt(g.Text(name)), h.Dd(value)} }
	return section("about", "Details", h.Dl(
		h.Class("about"),
		row("Name", untrustedText(sessionName(x))), row("Id", code(x.ID)), row("Recognised by", untrustedText(x.Method)), row("Tenant", untrustedText(x.Tenant)),
		g.If(len(x.Tags) > 0, row("Tags", g.Map(x.Tags, func(tag string) g.Node {
			return g.Group{h.A(h.Href(f.Link("/sessions", "tag", tag)), untrustedText(tag)), space()}
		}))),
		row("Similar sessions", g.Group{sameValueLink(f, "agent", x.Agent), space(), sameValueLink(f, "model", x.Model)}),
		row("Samples", h.A(h.Href(f.Link("/samples", "session", x.ID)), g.Text("this session's samples"))),
		row("Whole text", h.A(h.Href(f.Link("/api/export/sessions", "session", x.ID, "format", "transcripts")), g.Attr("download"), g.Text("transcript"))),
		row("Follow", code("precept watch "+x.ID)), row("Export", code("precept export --session "+x.ID)),
	))
}

// sameValueLink returns a link to sessions with the same agent or model, or nil for an empty or very long name.
func sameValueLink(f frame, field, name string) g.Node {
	const longest = 200
	return g.If(name != "" && len(name) <= longest, h.A(h.Href(f.Link("/sessions", field, name)), g.Text("same "+field)))
}

func forgetForm(f frame, id string) g.Node {
	return section(
		"delete", "Delete",
		mutedText(g.Text("Deletes the session's record, turns, samples and feedback, including the copies in memory. The lesson counters keep the session's numbers, without the session's name. You cannot undo this.")),
		h.Form(
			h.Method("post"), h.Action(f.sameTurnsHref(id, "forget")), f.csrfInput(),
			checkbox("I am sure", h.Name("sure"), h.Value("yes"), h.Required()),
			h.Button(h.Class("danger"), g.Text("Delete this session")),
		),
	)
}
