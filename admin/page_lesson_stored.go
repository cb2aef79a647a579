package admin

import (
	"errors"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/backtest"
	"precept/report"
)

// stored is what single sessions tell.
type stored struct {
	survey *report.Survey // nil: they were not read
	old    bool           // they are being read, and the page is worth another look in a moment
	err    error
}

// errNotStored is the answer where no sessions are stored.
var errNotStored = errors.New("sessions are not stored here")

// readStored fills in what single sessions tell: how rewards are spread, what older texts said, and
// on demand where the lesson would have fired.
func (v *lessonView) readStored(c echo.Context, s *Server, tenant string) {
	if s.options.Survey == nil {
		v.stored.err = errNotStored
		return
	}
	x := &v.stored
	x.survey, x.old, x.err = s.surveys.get(c.Request().Context(), tenant, patience)
	if x.survey != nil {
		v.recall(c.Request().Context(), s, tenant)
	}
	if c.QueryParam("backtest") != "" && v.lesson != nil {
		v.tried.result, v.tried.note = s.backtest(c, tenant, v.lesson)
	}
}

// rewards are the rewards of both arms, in tenths.
func (v *lessonView) rewards() g.Node {
	x := &v.stored
	switch {
	case errors.Is(x.err, errNotStored):
		return quiet(g.Text("Sessions are not stored here, so the spread of their rewards is not known."))
	case errors.Is(x.err, errBeingMade):
		return quiet(g.Text("The stored sessions are being read; the spread of their rewards stands here in a moment."))
	case x.err != nil:
		return quiet(g.Text("The stored sessions cannot be read: " + x.err.Error() + "."))
	}
	read := g.Group{
		g.Text(" They were read at "), timeOf(x.survey.Made),
		g.Text(when(x.old, "; newer ones are being read, and stand here in a moment.", ".")),
	}
	arms := x.survey.Rewards(v.slug)
	if arms == nil {
		return quiet(g.Text("None of the stored sessions that closed with a reward picked this lesson."), read)
	}
	return scroll(labelled("Rewards of both arms"), h.Table(
		h.Class("figures spread"),
		h.Caption(
			g.Text("Share of the sessions of each arm, by "), word("reward"), g.Text(". Of "+count(x.survey.Sessions)+
				" stored sessions since "+x.survey.Since.UTC().Format(time.DateOnly)+", all texts of the lesson together."),
			read,
		),
		columns(
			wordColumn(g.Text("Reward")), wordColumn(g.Text("Injected and withheld")),
			column(g.Text("Injected, sessions")), column(g.Text("Withheld, sessions")),
		),
		h.TBody(tenths(arms)),
	))
}

// tenths are the rows of both arms, as shares, so that arms of different sizes can be compared.
func tenths(arms *report.Rewards) g.Node {
	share := func(arm [10]int64, i int) float64 {
		total := int64(0)
		for _, n := range arm {
			total += n
		}
		return float64(arm[i]) / max(1, float64(total))
	}
	bar := func(class, y string, share float64) g.Node {
		const most = 200 // of the width of the drawing
		return g.El("rect", h.Class(class), g.Attr("x", "0"), g.Attr("y", y), h.Width(coordinate(share*most)), h.Height("7"))
	}
	number := func(share float64, n int64) g.Node {
		return h.Td(g.Text(percent(share)+" "), small(g.Textf("%d", n)))
	}
	var out g.Group
	for i := range arms.Injected {
		with, without := share(arms.Injected, i), share(arms.Withheld, i)
		out = append(out, h.Tr(
			rowHead(g.Textf("%.1f to %.1f", float64(i)/10, float64(i+1)/10)),
			h.Td(h.Class("text"), h.SVG(
				h.Class("bars"), g.Attr("viewBox", "0 0 200 18"), h.Aria("hidden", "true"),
				bar("with", "1", with), bar("without", "10", without),
			)),
			number(with, arms.Injected[i]), number(without, arms.Withheld[i]),
		))
	}
	return out
}

// tried is where the lesson would have fired, once somebody asks.
type tried struct {
	result *backtest.Result // nil: nobody asked, or note says why not
	note   string
}

func (x *tried) html(f frame) g.Node {
	switch b := x.result; {
	case b != nil:
		return g.Group{
			h.P(firedIn(b), g.Text(".")),
			wordsTable("Words that fired", "By which words", "Words", b.Words, b.Silent),
			examples(f, b.Examples),
			nearMisses(f, &b.Near),
		}
	case x.note != "":
		return warning(x.note)
	default:
		href := f.With("backtest", "1") + "#trigger"
		return h.P(h.A(h.Class("button"), h.Href(href), g.Text("Try it on captured sessions")))
	}
}

// wordsTable counts sessions by word; silent ones stood in none.
func wordsTable(label, caption, head string, words []backtest.Word, silent []string) g.Node {
	row := func(word string, sessions int) g.Node {
		return h.Tr(rowHead(quoted(word)), h.Td(g.Text(strconv.Itoa(sessions))))
	}
	return scroll(labelled(label), h.Table(
		h.Class("figures"), h.Caption(g.Text(caption)),
		columns(wordColumn(g.Text(head)), column(g.Text("Sessions"))),
		h.TBody(
			g.Map(words, func(w backtest.Word) g.Node { return row(w.Word, w.Sessions) }),
			g.Map(silent, func(w string) g.Node { return row(w, 0) }),
		),
	))
}

// examples lead to some sessions.
func examples(f frame, names []string) g.Node {
	if len(names) == 0 {
		return nil
	}
	return quiet(g.Text("Such as "), g.Map(names, func(name string) g.Node {
		return g.Group{h.A(h.Href(f.Link("/sessions", "session", name)), code(name)), space()}
	}))
}

func nearMisses(f frame, near *backtest.Near) g.Node {
	if near.Sessions == 0 {
		return quiet(g.Text("In no other one it came near: nowhere did a trigger stand that something kept from firing, " +
			"or all words of one of its phrases apart."))
	}
	return g.Group{
		h.P(
			g.Text("In "), strong(near.Sessions),
			g.Text(plural(near.Sessions, " other", " others")+" it came near, and would not have fired:"),
		),
		wordsTable("Near misses", "Near misses: what kept it from firing", "Why not", near.Why, nil),
		examples(f, near.Examples),
	}
}
