package admin

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/lesson"
)

// action is what a person may do, with what happens then.
type action struct {
	key          lesson.Action
	name, effect string
	danger       bool
}

// actionsOf are what a person may do with a lesson in a state.
func actionsOf(state lesson.State) (out []action) {
	approve := action{lesson.Approve, "Approve", "It is in force in the text above from the next turn on: " +
		"sessions whose words fire its trigger may get it, and a coin keeps withholding it from some, " +
		"so that it stays measured.", false}
	trial := action{lesson.StartTrial, "Put on trial", "It is in force, and withheld from half of the " +
		"sessions that pick it, so that the verdict comes as soon as it can.", false}
	pause := action{lesson.Pause, "Pause", "No new session gets it until it is approved again. " +
		"Sessions that already have its block keep it, so that their history stays the same.", false}
	retire := action{lesson.Retire, "Retire", "It is out of force for good. Its file and its numbers stay.", true}
	reject := action{lesson.Reject, "Reject", "It is refused for good, and never speaks. Its file stays, " +
		"so that it is not proposed again.", true}
	switch state {
	case lesson.Candidate, lesson.Quarantined:
		return []action{approve, trial, reject}
	case lesson.Trial:
		return []action{approve, pause, retire}
	case lesson.Active, lesson.Caution, lesson.Benched:
		return []action{trial, pause, retire}
	default:
		return []action{approve}
	}
}

// forms are what the person may do, each a form that says what it does.
func (v *lessonView) forms(f frame) g.Node {
	if len(v.actions) == 0 || !f.Acts {
		return nil
	}
	return section("actions", "What you can do", h.Div(h.Class("actions"), g.Map(v.actions, func(a action) g.Node {
		does := "does-" + string(a.key)
		return h.Form(
			h.Method("post"), h.Action(actionPath(v.slug, string(a.key))),
			f.csrf(), seen(v.lesson), hiddenField("back", f.lesson(v.slug)),
			h.Button(g.If(a.danger, h.Class("danger")), h.Aria("describedby", does), g.Text(a.name)),
			h.P(h.ID(does), g.Text(a.effect)),
		)
	})))
}

// actOnPage answers a form: POST /lessons/{slug}/{action}. It leads back with a sentence, also when
// nothing was done.
func (s *Server) actOnPage(c echo.Context) error {
	a, slug := lesson.Action(c.Param("action")), param(c, "slug")
	if !a.Valid() {
		return echo.ErrNotFound
	}
	if s.options.Keep == nil {
		return echo.NewHTTPError(http.StatusServiceUnavailable, "the lessons cannot be changed here")
	}
	back := cmp.Or(c.FormValue("back"), "/lessons/"+url.PathEscape(slug))
	seen := lesson.Sight{Hash: c.FormValue("text"), State: lesson.State(c.FormValue("state"))}
	l, err := s.options.Keep.Act(c.Request().Context(), slug, seen, a, lesson.TrialPlan{}, holderOf(c).String())
	if err != nil {
		c.Set(detailKey, slug+" "+string(a)+": not done")
	}
	switch {
	case errors.Is(err, ErrNoLesson):
		return s.seeOther(c, back, slug+" is no lesson any more; somebody was faster.")
	case err != nil:
		return s.seeOther(c, back, slug+" stays as it is: "+err.Error())
	}
	s.decided.add(slug, s.options.Now())
	return s.seeOther(c, back, fmt.Sprintf(
		"%s is %s now. It is in the audit log, and takes effect within two seconds.", l.Slug, l.State))
}
