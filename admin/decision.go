package admin

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/bandit/report"
	"precept/bandit/trial"
	"precept/inject/lesson"
)

// action is a change that a person can make to a lesson: the text of a button, and the consequence in words.
type action struct {
	key               lesson.Action
	name, consequence string
	needsConfirmation bool // the first click shows the consequence and a second button
}

func possibleActions(state lesson.State) (out []action) {
	approve := action{lesson.Approve, "Approve", "The text above is active from the next turn on: " +
		"sessions that fire a trigger may get the lesson, and the lesson is still withheld from some at random, " +
		"so that the effect stays measured.", false}
	trial := action{lesson.StartTrial, "Put on trial", "The lesson is active, and withheld in half of the " +
		"sessions for which it is picked. This gives the earliest verdict.", false}
	pause := action{lesson.Pause, "Pause", "No new session gets the lesson. " +
		"Sessions that already have the block keep it. " +
		"The state becomes paused; Resume undoes the pause and restores the state " + string(state) + ".", true}
	resume := action{lesson.Resume, "Resume", "The lesson returns to the state before the pause, with all numbers.", false}
	retire := action{lesson.Retire, "Retire", "No new session gets the lesson, and the file moves into _archive. " +
		"The numbers stay, and the name stays reserved. The state becomes archived; " +
		"Restore undoes the retirement and restores the state " + string(state) + ".", true}
	restore := action{lesson.Restore, "Restore", "The lesson returns from _archive to the state before the retirement, with all numbers.", false}
	reject := action{lesson.Reject, "Reject", "No session gets the lesson. The file stays, " +
		"so that the lesson is not proposed again; Approve undoes the rejection.", true}
	switch state {
	case lesson.Candidate, lesson.Quarantined:
		return []action{approve, trial, reject}
	case lesson.Trial:
		return []action{approve, pause, retire}
	case lesson.Active, lesson.Caution, lesson.Benched:
		return []action{trial, pause, retire}
	case lesson.Paused:
		return []action{resume, retire}
	case lesson.Archived:
		return []action{restore}
	default:
		return []action{approve, retire}
	}
}

// actionForms returns a form for each possible action. An action that removes the lesson from new sessions needs two
// clicks. The first click shows the consequence and the measured effect.
func actionForms(f frame, l *lesson.Lesson, row *report.Row) g.Node {
	return section("actions", "Actions", h.Div(h.Class("actions"), g.Map(possibleActions(l.State), func(a action) g.Node {
		consequenceID := "does-" + string(a.key)
		button := func(class, name string) g.Node {
			return h.Button(toneClass(class), h.Aria("describedby", consequenceID), g.Text(name))
		}
		if !a.needsConfirmation {
			return f.decisionForm(l, a.key, f.lessonHref(l.Slug), button("", a.name), h.P(h.ID(consequenceID), g.Text(a.consequence)))
		}
		return h.Details(
			h.Class("asks"),
			h.Summary(h.Class("button danger"), g.Text(a.name+" …")),
			f.decisionForm(
				l, a.key, f.lessonHref(l.Slug),
				h.P(h.ID(consequenceID), g.Text(a.consequence)), h.P(g.Text(measurement(row))),
				button("danger", a.name+" "+l.Slug),
			),
		)
	})))
}

// measurement describes the measured effect of a lesson in a sentence.
func measurement(r *report.Row) string {
	switch {
	case r == nil || r.NInjected+r.NWithheld == 0:
		return "There is no measurement yet: the lesson has not been picked in a session with a reward."
	case rowEffect(r) == nil:
		return fmt.Sprintf("No effect yet: %s with the lesson, %s without.",
			countNoun(r.NInjected, "rewarded session"), countText(r.NWithheld))
	}
	e := rowEffect(r)
	text := fmt.Sprintf("Measured: %s, %s points (%s), %s with the lesson, %s without.",
		r.Verdict, e.points(), e.interval(), countNoun(r.NInjected, "rewarded session"), countText(r.NWithheld))
	// With less than a week of data, PerWeek is more than all picks so far.
	if r.PerWeek >= 1 && r.PerWeek <= float64(r.Rewarded) && lesson.State(r.State).IsActive() {
		text += fmt.Sprintf(" In the last four weeks, the lesson was picked in %s a week.", countNoun(int64(r.PerWeek+0.5), "rewarded session"))
	}
	return text
}

// cautionNote returns a warning if precept presents the lesson as a caution (an approach to avoid), because sessions
// with the lesson had lower rewards. The warning shows the numbers for the original advice, which is measured
// separately.
func (v *lessonView) cautionNote() g.Node {
	if !isCautionByCounts(v.row) {
		return nil
	}
	advice := v.row
	for _, o := range v.older {
		if o.row.Arm == strings.Replace(v.row.Arm, ".caution", "", 1) {
			advice = o.row
		}
	}
	return warning(fmt.Sprintf("Poor results turned this lesson into a caution: as advice, %s with the lesson had a mean reward of %s, and %s without had %s. "+
		"New sessions see the text under \"these approaches failed before\". Pause or rewrite the lesson; inject.cautions: false turns this behaviour off.",
		countNoun(advice.NInjected, "session"), decimalText(advice.MeanInjected, 3), countNoun(advice.NWithheld, "session"), decimalText(advice.MeanWithheld, 3)))
}

func isCautionByCounts(r *report.Row) bool {
	return r != nil && r.Caution && strings.Contains(r.Arm, ".caution") && lesson.State(r.State).IsActive() && r.State != string(lesson.Caution)
}

// newestDecision returns the newest audit log event about the lesson, the measured effect, and, if possible, a button
// that undoes the event. Without an event, the result is nil.
func (v *lessonView) newestDecision(f frame) g.Node {
	if len(v.events) == 0 {
		return nil
	}
	e := v.events[0]
	undo := lesson.Action(e.Action).Inverse()
	undoable := v.lesson != nil && v.lesson.State == e.To
	return h.Section(
		h.Class("decided"), ariaLabel("Newest decision"),
		h.P(
			eventText(&e), g.Text(" "), timeNode(e.Time),
			g.Text(". "), h.A(h.Href("#history"), g.Text("All changes")),
		),
		h.P(g.Text(measurement(v.row))),
		g.Iff(f.MayAct && undo != "" && undoable, func() g.Node {
			return f.decisionForm(v.lesson, undo, f.lessonHref(v.lesson.Slug), h.Button(h.Class("main"), g.Text(actionName(undo))))
		}),
	)
}

func eventText(e *lesson.Event) g.Node {
	author := cmp.Or(e.By, "precept")
	handEdit, _ := e.Detail[lesson.DetailHandEdit].(string) // HandEditOutsideGit, HandEditUncommitted, or a commit id
	if handEdit != "" && e.By == "" {
		author = "A person"
	}
	if e.Agent != "" {
		author += " (agent " + e.Agent + ")"
	}
	text := " " + pastTense(lesson.Action(e.Action)) + " the lesson"
	switch e.Action {
	case lesson.BecameCaution:
		text = " turned the lesson into a caution, because of its results"
	case lesson.BecameAdvice:
		text = " turned the lesson back into advice, because of its results"
	}
	if handEdit == lesson.HandEditOutsideGit && e.Action == "create" { // a command or a person wrote the file
		return g.Group{h.Strong(g.Text("precept")), g.Text(" found the new lesson file")}
	}
	switch handEdit {
	case "":
	case lesson.HandEditOutsideGit:
		text += " by hand"
	case lesson.HandEditUncommitted:
		text += " by hand (not committed to git yet)"
	default:
		text += fmt.Sprintf(" by hand (commit %.12s)", handEdit)
	}
	if e.From != "" && e.To != "" && e.From != e.To {
		text += fmt.Sprintf(" (%s → %s)", e.From, e.To)
	}
	with, ok := detailCount(e.Detail[lesson.DetailWith])
	without, both := detailCount(e.Detail[lesson.DetailWithout])
	if ok && both {
		text += fmt.Sprintf("; %s with the lesson, %s without it", countNoun(with, "rewarded session"), countText(without))
	}
	return g.Group{h.Strong(untrustedText(author)), g.Text(text)}
}

// detailCount returns a count from an event's details. In an event read from JSON, a count is a float64.
func detailCount(v any) (int64, bool) {
	switch n := v.(type) {
	case int64:
		return n, true
	case float64:
		return int64(n), true
	}
	return 0, false
}

// pastTense returns an action as a verb such as "approved".
func pastTense(a lesson.Action) string {
	verbs := map[lesson.Action]string{
		lesson.Approve: "approved", lesson.Reject: "rejected", lesson.StartTrial: "started a trial of", lesson.Pause: "paused",
		lesson.Resume: "resumed", lesson.Retire: "retired", lesson.Restore: "restored",
		"propose": "proposed", "refuse": "refused", "edit": "edited", "create": "created", "revise": "rewrote", "cite": "added evidence to",
		"supersede": "superseded", "withdraw": "withdrew", "archive": "retired",
		"remove": "removed", "commit": "committed",
	}
	return cmp.Or(verbs[a], "changed ("+string(a)+")")
}

// actionName returns the button text for undoing a pause or a retirement.
func actionName(a lesson.Action) string {
	return map[lesson.Action]string{lesson.Resume: "Resume", lesson.Restore: "Restore"}[a]
}

// actOnPage handles POST /lessons/{slug}/{action}, then redirects to the address in the "back" form field. That page
// shows the result as a notice.
func (s *Server) actOnPage(c echo.Context) error {
	a, slug := lesson.Action(c.Param("action")), trial.LessonSlug(param(c, "slug"))
	if !a.Valid() {
		return echo.ErrNotFound
	}
	back := cmp.Or(c.FormValue("back"), frame{}.lessonHref(slug))
	seen := lesson.SeenVersion{Hash: c.FormValue("text"), State: lesson.State(c.FormValue("state"))}
	l, err := s.options.Write.Lessons.Act(c.Request().Context(), slug, seen, a, lesson.TrialPlan{}, requestHolder(c).String())
	if err != nil {
		c.Set(detailKey, slug+" "+string(a)+": not done")
		if errors.Is(err, ErrNoLesson) {
			return s.seeOther(c, back, slug+" does not exist any more; another person may have removed it.")
		}
		return s.seeOther(c, back, slug+" is unchanged: "+err.Error())
	}
	s.decisions.add(l, s.options.Now())
	return s.seeOther(c, back, fmt.Sprintf(
		"%s is %s now. The action takes effect within two seconds, and is in the audit log.", l.Slug, l.State),
		linkFrame(c).lessonHref(slug))
}
