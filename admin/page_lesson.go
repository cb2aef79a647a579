package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"precept/backtest"
	"precept/lesson"
	"precept/report"
)

// lessonView is what the page of one lesson shows.
type lessonView struct {
	Slug, Title, State string
	Lesson             *lesson.Lesson // nil: it is in the bank no more
	Advice             advice
	Note               string
	Block              string // as the model sees it
	Trigger            []facet
	Stats              []stat
	Cost               []stat
	Plot               *plot
	Ticks              []tick
	Chart              string // JSON for chart.js; "" without one
	Since              bool   // the chart is of what was shown since the start
	Bands              []report.Band
	Looks              []report.Look
	Gap                string
	Opinions           *report.Opinions
	Rewards            []bar
	RewardsNote        string
	RewardsAt          time.Time // when the stored sessions were read
	RewardsOld         bool      // they are being read again
	Findings           []lesson.Finding
	Texts              []oldText
	Events             []lesson.Event
	Actions            []action
	Backtest           *backtest.Result
	BacktestNote       string
}

// facet is one field of a trigger, with its values.
type facet struct {
	Name   string
	Values []string
}

// bar is one tenth of the rewards, as shares of each arm.
type bar struct {
	Range                        string
	Injected, Withheld           int64
	InjectedShare, WithheldShare string
	InjectedWidth, WithheldWidth string
}

// action is what a person may do, with what happens then.
type action struct {
	Key, Name, Effect string
	Danger            bool
}

// eventsRead is how far back the audit log is searched for a lesson.
const eventsRead = 2000

// lessonPage shows one lesson.
func (s *Server) lessonPage(c echo.Context) error {
	q, err := query(c)
	if err != nil {
		return err
	}
	slug := param(c, "slug")
	r, at, problem := s.readReport(c, q)
	v := lessonView{Slug: slug, Title: slug}
	var rows []*report.Row
	for i := range r.Lessons {
		if r.Lessons[i].Slug == slug {
			rows = append(rows, &r.Lessons[i])
		}
	}
	v.read(c.Request().Context(), s, q.Tenant)
	if v.Lesson == nil && len(rows) == 0 {
		if problem != "" {
			return s.show(c, shown{Title: slug, Main: v.html, Head: charts(), Problem: problem})
		}
		return s.show(c, shown{Title: "No such lesson", Main: failedPage, Status: http.StatusNotFound, Problem: "There is no lesson of this name, and nothing was measured of one."})
	}
	if row := v.current(rows); row != nil {
		v.measure(row, s.options.Truth)
		if v.Chart == "" && wholeReport(c) {
			v.Chart = looksChart("Effect over time", s.history.of(historyKey{q.Tenant, row.Arm}))
			v.Since = v.Chart != ""
		}
	}
	reading := v.survey(c, s, q.Tenant)
	return s.show(c, shown{Title: v.Title, Main: v.html, Head: charts(), Live: at.Old || reading, Counted: at, Problem: problem})
}

// read fills in what the bank says.
func (v *lessonView) read(ctx context.Context, s *Server, tenant string) {
	lib := s.options.Library
	if lib == nil {
		return
	}
	if events, err := lib.Log(ctx, eventsRead); err == nil {
		for i := range events {
			if events[i].Slug == v.Slug {
				v.Events = append(v.Events, events[i])
			}
		}
		slices.Reverse(v.Events)
	}
	l, ok := lib.Book().Get(v.Slug)
	if !ok {
		return
	}
	v.Lesson, v.Title, v.State = l, cmp.Or(l.Title, l.Slug), string(l.State)
	v.Block, v.Findings = lib.Block(tenant, l), lib.Findings(l)
	v.Trigger = facets(l)
	if s.options.Keep != nil {
		v.Actions = actionsOf(l.State)
	}
}

// facets are the fields of a trigger that say something.
func facets(l *lesson.Lesson) (out []facet) {
	t := &l.Trigger
	var targets []string
	for _, one := range t.Targets {
		var parts []string
		for _, p := range [][2]string{{"agent", one.Operator}, {"role", one.Role}, {"skill", one.Skill}} {
			if p[1] != "" {
				parts = append(parts, p[0]+" "+p[1])
			}
		}
		targets = append(targets, strings.Join(parts, " and "))
	}
	for _, f := range []facet{
		{"fires on the words", t.Keywords},
		{"or on the tags", t.Tags},
		{"or on errors like", t.ErrorPatterns},
		{"not on", t.NotKeywords},
		{"only with the tools", t.Tools},
		{"only for the models", t.Models},
		{"only for", targets},
	} {
		if len(f.Values) > 0 {
			out = append(out, f)
		}
	}
	return out
}

// current is the row of the text that is in the bank now, and keeps the others as older texts.
func (v *lessonView) current(rows []*report.Row) (now *report.Row) {
	for _, r := range rows {
		if past := r.State == "edited" || r.State == "removed" || r.State == "shown otherwise"; !past && now == nil {
			now = r
			continue
		}
		v.Texts = append(v.Texts, oldTextOf(r))
	}
	if now == nil && len(rows) > 0 {
		now = rows[len(rows)-1]
	}
	return now
}

// measure fills in what the report says of the text.
func (v *lessonView) measure(r *report.Row, truth func(string) (float64, bool)) {
	v.Advice, v.Note, v.Opinions, v.Looks = advise(r), r.Note, r.Opinions, r.Looks
	if r.Widened() || saysNote(r.Verdict) {
		v.Note = ""
	}
	v.State = cmp.Or(v.State, r.State)
	effect, lo, hi := shownOf(r)
	x := actual(r, truth)
	of := func(key, value, note, tone string) stat {
		return stat{Term: find(key), Value: value, Note: note, Tone: tone}
	}
	v.Stats = []stat{
		of("effect", points(effect), interval(effect, lo, hi), v.Advice.Tone),
		of("injected", count(r.NInjected), "mean reward "+mean(r.MeanInjected), ""),
		of("withheld", count(r.NWithheld), "mean reward "+mean(r.MeanWithheld), ""),
		of("matched", count(r.Matched), count(r.Picked)+" of them picked", ""),
		of("p-helps", chance(r.PHelps), "a model, no proof", ""),
	}
	if x != nil {
		v.Stats = append(v.Stats, of("truth", points(x), "this is the demo", ""))
	}
	if r.NeedsPicks > 0 {
		v.Stats = append(v.Stats, of("needs", count(r.Told)+" of "+count(r.Told+r.NeedsPicks), missing(r), ""))
	}
	v.Cost = []stat{
		of("tokens", count(r.Tokens), count(r.TokensTotal)+" in all", ""),
		of("cost", points(&r.Cost), "of one injection, at bandit.token_cost", ""),
	}
	if r.CachedWith != nil {
		note := "of the input tokens of sessions with it"
		if r.CachedChange != nil {
			note += ", " + points(r.CachedChange) + " points by it"
		}
		v.Cost = append(v.Cost, of("cached", percent(r.CachedWith), note, ""))
	}
	if r.InputWith != nil && r.InputWithout != nil {
		v.Cost = append(v.Cost, of("input", fmt.Sprintf("%.0f", *r.InputWith), fmt.Sprintf("%.0f where it was withheld", *r.InputWithout), ""))
	}
	v.Gap = gap(r)
	a := fit(nil, nil, 0)
	if one, ok := spanOf(effect, lo, hi); ok {
		var truths []float64
		if x != nil {
			truths = []float64{*x}
		}
		a = fit([]span{one}, truths, -1)
	}
	v.Ticks = a.Ticks()
	v.Plot = a.plot(v.Ticks, effect, lo, hi, x)
	if r.Verdict != report.Invalid {
		v.Bands = r.Days
		v.Chart = bandChart(r)
	}
}

// gap explains by how much observation alone would have been wrong.
func gap(r *report.Row) string {
	if r.LOODelta == nil {
		return ""
	}
	text := fmt.Sprintf("Sessions that had the lesson ended %s points away from all others.", points(r.LOODelta))
	if r.LOOGap == nil {
		return text + " That is no effect: where a lesson fires, tasks are harder or easier than elsewhere. Only the coin tells what the lesson adds."
	}
	text += fmt.Sprintf(" The coin's answer is %s points, so that observation alone is off by %s", points(r.Effect), points(r.LOOGap))
	if r.Lo != nil && r.Hi != nil && *r.Lo <= *r.LOODelta && *r.LOODelta <= *r.Hi {
		return text + ", which lies within the interval: here it would not have misled you much. Of another lesson it may, because lessons fire where tasks are harder or easier than elsewhere."
	}
	return text + ": it would have misled you, because a lesson fires where tasks are harder or easier than elsewhere."
}

// actionsOf are what a person may do with a lesson in a state.
func actionsOf(state lesson.State) (out []action) {
	approve := action{string(lesson.Approve), "Approve", "It is in force in the text above from the next turn on: sessions whose words fire its trigger may get it, and a coin keeps withholding it from some, so that it stays measured.", false}
	trial := action{string(lesson.StartTrial), "Put on trial", "It is in force, and withheld from half of the sessions that pick it, so that the verdict comes as soon as it can.", false}
	pause := action{string(lesson.Pause), "Pause", "No new session gets it until it is approved again. Sessions that already have its block keep it, so that their history stays the same.", false}
	retire := action{string(lesson.Retire), "Retire", "It is out of force for good. Its file and its numbers stay.", true}
	reject := action{string(lesson.Reject), "Reject", "It is refused for good, and never speaks. Its file stays, so that it is not proposed again.", true}
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
	back := c.FormValue("back")
	if back == "" {
		back = "/lessons/" + url.PathEscape(slug)
	}
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
	return s.seeOther(c, back, fmt.Sprintf("%s is %s now. It is in the audit log, and takes effect within two seconds.", l.Slug, l.State))
}
