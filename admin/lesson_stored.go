package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/bandit/report"
	"precept/inject/backtest"
	"precept/inject/lesson"
	"precept/store"
)

// storedFigures holds figures that the counters do not have, computed from the stored sessions.
type storedFigures struct {
	survey *report.Survey // nil: not read
	old    bool           // newer sessions are being read; the page will refresh
	err    error
}

// rewards returns the reward distributions with the lesson injected and withheld.
func (s *storedFigures) rewards(f frame, slug string) g.Node {
	switch {
	case errors.Is(s.err, errComputing):
		return mutedText(g.Text("The stored sessions are being read; the rewards will appear here."))
	case s.err != nil:
		return mutedText(g.Text("The stored sessions cannot be read: " + s.err.Error() + "."))
	}
	read := g.Group{
		g.Text(" The sessions were read at "), timeNode(s.survey.Made),
		g.Text(ifElse(s.old, "; newer sessions are being read and will appear here.", ".")),
	}
	arms := s.survey.Rewards(slug)
	if arms == nil {
		return mutedText(g.Text("The lesson has not been picked in any stored session with a reward."), read)
	}
	return g.Group{
		mutedText(
			g.Text("The share of each arm's sessions, by "), termButton("reward"), g.Text(", from "+countText(s.survey.Sessions)+
				" stored sessions since "+s.survey.Since.UTC().Format(time.DateOnly)+". All texts of the lesson count together."),
			read,
		),
		grid(
			ariaLabel("Rewards in both arms"),
			headingRow(wordColumns("Reward", "Injected and withheld"), numberColumns("Injected, sessions", "Withheld, sessions")), rewardRows(f, slug, arms),
		),
	}
}

// rewardRows returns a row per tenth of the reward range. A bar is a share of all injected sessions, or of all withheld
// sessions, so that groups with different sizes are comparable.
func rewardRows(f frame, slug string, arms *report.Rewards) g.Node {
	share := func(arm [10]int64, i int) float64 {
		total := int64(0)
		for _, n := range arm {
			total += n
		}
		return float64(arm[i]) / max(1, float64(total))
	}
	bar := func(class, y string, share float64) g.Node {
		const maxBar = 200 // in drawing units
		return g.El("rect", h.Class(class), g.Attr("x", "0"), g.Attr("y", y), h.Width(coordinate(share*maxBar)), h.Height("7"))
	}
	number := func(share float64, n int64, arm string, tenth int) g.Node {
		from, to := strconv.FormatFloat(float64(tenth)/10, 'f', -1, 64), "1"
		if tenth < 9 { // the upper bound belongs to the next tenth
			to = strconv.FormatFloat(float64(tenth+1)/10-1e-4, 'f', 4, 64)
		}
		return h.Td(g.Text(percent(share)+" "), smallLine(f.armLink(n, slug, arm, "min_reward", from, "max_reward", to)))
	}
	var out g.Group
	for i := range arms.Injected {
		with, without := share(arms.Injected, i), share(arms.Withheld, i)
		out = append(out, h.Tr(
			rowHead(g.Textf("%.1f to %.1f", float64(i)/10, float64(i+1)/10)),
			wordCells(h.SVG(
				h.Class("bars"), g.Attr("viewBox", "0 0 200 18"), h.Aria("hidden", "true"),
				bar("with", "1", with), bar("without", "10", without),
			)),
			number(with, arms.Injected[i], store.FateInjected, i), number(without, arms.Withheld[i], store.FateWithheld, i),
		))
	}
	return out
}

// backtestView holds a lesson's backtest: the captured sessions that the lesson would have matched. The zero value
// means that no backtest was requested.
type backtestView struct {
	result *backtest.Result // nil if not requested or failed
	note   string           // why the backtest failed
}

func runBacktest(ctx context.Context, survey Surveyor, tenant string, l *lesson.Lesson) backtestView {
	b, err := survey.Backtest(ctx, tenant, l)
	if err != nil {
		return backtestView{note: "The captured sessions cannot be read: " + err.Error() + "."}
	}
	return backtestView{result: &b}
}

// summary describes the result in a sentence. Without a result, summary returns a link to href, which starts the
// backtest.
func (view *backtestView) summary(href string) g.Node {
	switch b := view.result; {
	case b != nil:
		words := limitedList(b.Words, h.Span, func(w backtest.SessionCount) g.Node {
			return g.Group{g.Text("; the words "), code(w.Text), g.Text(" fired in " + countText(w.Sessions))}
		})
		return h.P(firedIn(b), words, g.Text("."))
	case view.note != "":
		return warning(view.note)
	default:
		return h.P(h.A(h.Class("button"), h.Data("key", "b"), h.Href(href), g.Text("Try the lesson on captured sessions")))
	}
}

// details returns the words that fired, examples, and near matches.
func (view *backtestView) details(f frame) g.Node {
	b := view.result
	if b == nil {
		return view.summary(f.WithQuery("backtest", "1") + "#trigger")
	}
	fired := slices.Clone(b.Words)
	for _, w := range b.SilentTriggers {
		fired = append(fired, backtest.SessionCount{Text: w})
	}
	near := mutedText(g.Text("There are no near misses. In a near miss, a condition blocks a trigger, " +
		"or the session contains all words of a phrase, but not together."))
	if n := b.NearMisses.Sessions; n > 0 {
		near = g.Group{
			h.P(
				g.Text("In "), h.Strong(g.Text(countText(n))),
				g.Text(plural(n, " other session", " other sessions")+" the lesson nearly fired:"),
			),
			wordsTable("Reasons against firing", "Reason", b.NearMisses.MissingConditions),
			examples(f, b.NearMisses.Examples),
		}
	}
	return g.Group{h.P(firedIn(b), g.Text(".")), wordsTable("Words that fired", "Words", fired), examples(f, b.Examples), likeness(f, &b.Likeness), near}
}

// likeness describes the sessions with a sentence that resembles the lesson.
func likeness(f frame, l *backtest.LikenessCounts) g.Node {
	if l.Captured == 0 {
		return nil
	}
	if l.Captured < lesson.LikeSessions {
		return mutedText(g.Textf("Matching by similar words (likeness) is off: it needs %d captured sessions, and there are %d. ", lesson.LikeSessions, l.Captured),
			code("precept import"), g.Text(" adds past transcripts."))
	}
	effect := "The lesson is injected in such sessions, and measured separately."
	if !l.Injected {
		effect = "The lesson is not injected in such sessions. To inject it, add `like: true` to the lesson, and set `match.like` to `on`."
	}
	return g.Group{
		h.P(g.Text("By similar words (likeness), the lesson would have fired in "), h.Strong(g.Text(countText(l.Sessions))),
			g.Text(plural(l.Sessions, " other session. ", " other sessions. ")+effect)),
		g.If(len(l.Examples) > 0, grid(
			ariaLabel("Sentences that resemble the lesson"), headingRow(wordColumns("Sentence"), wordColumns("Shared words"), numberColumns("Score"), numberColumns("Threshold"), wordColumns("Session")),
			limitedList(l.Examples, lastRow, func(e backtest.LikenessExample) g.Node {
				return h.Tr(
					rowHead(untrustedText(e.Sentence)), wordCells(untrustedText(strings.Join(e.Words, ", "))),
					numberCells(fmt.Sprintf("%.2f", e.Score), fmt.Sprintf("%.2f", e.Threshold)),
					wordCells(h.A(h.Href(f.Link("/sessions", "session", e.Session)), code(e.Session))),
				)
			}),
		)),
	}
}

func firedIn(b *backtest.Result) g.Node {
	return g.Group{
		g.Text("The lesson would have fired in "), h.Strong(g.Text(countText(b.Matched))), g.Text(" of the "), h.Strong(g.Text(countText(b.Sessions))),
		g.Text(" newest captured sessions"),
	}
}

func wordsTable(name, head string, list []backtest.SessionCount) g.Node {
	return grid(ariaLabel(name), headingRow(wordColumns(head), numberColumns("Sessions")), limitedList(list, lastRow, func(w backtest.SessionCount) g.Node {
		return h.Tr(rowHead(untrustedText(w.Text)), numberCells(countText(w.Sessions)))
	}))
}

func examples(f frame, names []string) g.Node {
	return g.If(len(names) > 0, mutedText(g.Text("Examples: "), g.Map(names, func(name string) g.Node {
		return g.Group{h.A(h.Href(f.Link("/sessions", "session", name)), code(name)), space()}
	})))
}
