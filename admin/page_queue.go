package admin

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/inject/lesson"
	"precept/store"
)

type queueView struct {
	items []queueItem // lessons on this page
	pager pager
}

// queueItem is a lesson waiting for a decision.
type queueItem struct {
	lesson   *lesson.Lesson
	block    string         // text as sessions would get it
	replaced *lesson.Lesson // first known lesson that this one replaces, or nil
	similar  []*lesson.Lesson
	findings []lesson.Finding
	sessions map[string]*store.SessionItem // stored evidence by Evidence.Ref
	runs     map[string]int                // sessions per run that is evidence, by Evidence.Ref
	backtest backtestView
}

const queuePageSize = 20

// waitingLessons returns candidates and quarantined lessons, except those decided in the last seconds, since the book
// may still hold the old state.
func (s *Server) waitingLessons() (list []*lesson.Lesson) {
	for _, l := range s.options.Read.Library.Book().Lessons() {
		waits := l.State == lesson.Candidate || l.State == lesson.Quarantined
		if waits && s.decisions.recent(l.Slug, s.options.Now()) == nil {
			list = append(list, l)
		}
	}
	return list
}

func (s *Server) queuePage(c echo.Context) error {
	q, err := reportQuery(c)
	if err != nil {
		return err
	}
	list, library := s.waitingLessons(), s.options.Read.Library
	slices.SortStableFunc(list, func(x, y *lesson.Lesson) int {
		return cmp.Or(x.CreatedAt.Compare(y.CreatedAt), strings.Compare(x.Slug, y.Slug))
	})
	v := queueView{pager: linkFrame(c).pager(len(list), queuePageSize)}
	for _, l := range list[v.pager.from:v.pager.to] {
		item := queueItem{lesson: l, block: library.Block(q.Tenant, l), findings: library.Findings(l), similar: library.Book().PossibleDuplicates(l)}
		item.sessions, item.runs = s.evidence(c, l)
		for _, slug := range l.Supersedes {
			if old, ok := library.Book().Get(slug); ok {
				item.replaced = old
				break
			}
		}
		if c.QueryParam("backtest") == l.Slug {
			item.backtest = runBacktest(c.Request().Context(), s.options.Read.Survey, q.Tenant, l)
		}
		v.items = append(v.items, item)
	}
	return s.show(c, pageContent{Title: "Queue", Main: v.html, Head: script("queue.js")})
}

func (v *queueView) html(f frame) g.Node {
	if len(v.items) == 0 {
		return g.Group{title("Queue"), emptyQueue(), queueKeys()}
	}
	return g.Group{
		title("Queue", mutedText(g.Text(countText(v.pager.total)+" waiting for a decision. "), keyboardKeys("?"), g.Text(" shows the keys."))),
		g.Map(v.items, func(x queueItem) g.Node { return x.html(f) }),
		v.pager.html(f),
		queueKeys(),
	}
}

func emptyQueue() g.Node {
	return emptyState(
		"The queue is empty",
		h.P(
			g.Text("Lessons that come from agents, the API or "), code("precept distill"),
			g.Text(" wait here for approval ("), code("distill.gate: human"),
			g.Text("). Files that a person puts into the lessons directory are active at once."),
		),
		h.P(
			g.Text("To derive candidates from failures, set "), code("distill.enabled: true"),
			g.Text(", or run "), code("precept distill --once"), g.Text("."),
		),
	)
}

// queueKeys returns the box with the shortcuts, opened by the key ?.
func queueKeys() g.Node {
	shortcut := func(does string, names ...string) g.Node {
		return h.Div(h.Dt(keyboardKeys(names...)), h.Dd(g.Text(does)))
	}
	return h.Div(
		g.Attr("popover"), h.Class("definition"), h.ID("keys"),
		h.Strong(g.Text("Queue keys")),
		h.Dl(
			h.Class("facets"),
			shortcut("next, previous lesson", "j", "k"),
			shortcut("approve: this text becomes active", "a"),
			shortcut("put on trial: active, but withheld in half of the picks", "t"),
			shortcut("reject: no session gets the lesson; press twice", "r"),
			shortcut("try the lesson on captured sessions", "b"),
			shortcut("open the lesson page", "o"),
			shortcut("show or hide this help", "?", "Esc"),
		),
	)
}

func (q *queueItem) html(f frame) g.Node {
	l := q.lesson
	about := g.Group{code(l.Slug), g.Text(" · " + string(l.State))}
	if source := l.Approval.Source; source != "" {
		about = append(about, g.Text(" · written by "+source))
	}
	if agent := l.Scope.Agent; agent != "" {
		about = append(about, g.Text(" · for the agent "), untrustedText(agent))
	}
	if !l.CreatedAt.IsZero() {
		about = append(about, g.Text(" · "), timeNode(l.CreatedAt))
	}
	name := untrustedText(truncateChars(cmp.Or(l.Title, l.Slug), 200))
	return h.Article(
		h.Class("candidate"), h.TabIndex("-1"), ariaLabelledBy("title-"+l.Slug), h.ID(queueAnchor(l.Slug)),
		h.H2(h.ID("title-"+l.Slug), h.A(h.Data("key", "o"), h.Href(f.lessonHref(l.Slug)), h.Dir("auto"), name)),
		mutedText(about),
		q.duplicates(f),
		h.Div(h.Class("pair"), q.text(), q.decisionFacts(f)),
		g.If(f.MayAct, h.Div(
			h.Class("decide"),
			q.button(f, lesson.Approve, "Approve", "a", "main"),
			q.button(f, lesson.StartTrial, "Put on trial", "t", ""),
			q.button(f, lesson.Reject, "Reject", "r", "danger"),
		)),
	)
}

const maxShownSimilar = 5

// duplicates links to lessons with possibly the same advice.
func (q *queueItem) duplicates(f frame) g.Node {
	if len(q.similar) == 0 {
		return nil
	}
	var list g.Group
	for i, l := range q.similar[:min(len(q.similar), maxShownSimilar)] {
		list = append(list, g.If(i > 0, g.Text(", ")), h.A(h.Href(f.lessonHref(l.Slug)), code(l.Slug)), g.Text(" ("+string(l.State)+")"))
	}
	if more := len(q.similar) - maxShownSimilar; more > 0 {
		list = append(list, g.Textf(" and %d more", more))
	}
	return h.P(h.Class("warning"), g.Text("Possible duplicate, with a shared trigger and a similar title: "), list, g.Text("."))
}

// text returns the lesson's block, or how it differs from the lesson it replaces.
func (q *queueItem) text() g.Node {
	if q.replaced == nil {
		return h.Div(h.H3(g.Text("Text")), textBox(h.Pre(untrustedText(q.block))))
	}
	return h.Div(
		h.H3(g.Text("Changes from "), code(q.replaced.Slug)), textBox(diffNode(q.replaced.Body, q.lesson.Body)),
	)
}

func (q *queueItem) decisionFacts(f frame) g.Node {
	checks := h.P(h.Class("good"), g.Text("All checks passed."))
	if len(q.findings) > 0 {
		checks = findingList(q.findings)
	}
	slug := q.lesson.Slug
	return h.Div(
		h.H3(g.Text("Triggers")), triggerList(q.lesson, "The lesson has no triggers."),
		h.H3(g.Text("Checks")), checks,
		h.H3(g.Text("Evidence")), q.evidenceList(f),
		g.Iff(!f.Viewer, func() g.Node {
			return g.Group{h.H3(g.Text("Backtest")), q.backtest.summary(f.onSamePage("backtest", slug) + "#" + url.PathEscape(queueAnchor(slug)))}
		}),
	)
}

// maxEvidenceReads is how many of a lesson's references are read from the store.
const maxEvidenceReads = 5

// evidence returns, by reference, the stored sessions that are evidence for a lesson, and the session count for each
// run that is evidence. Opted-out sessions are missing. After an error, evidence returns what it read before.
func (s *Server) evidence(c echo.Context, l *lesson.Lesson) (sessions map[string]*store.SessionItem, runs map[string]int) {
	sessions, runs = map[string]*store.SessionItem{}, map[string]int{}
	for _, e := range l.Evidence[:min(len(l.Evidence), maxEvidenceReads)] {
		if e.Kind != "conversation" && e.Kind != "run" || e.Ref == "" {
			continue
		}
		found, err := s.options.Read.Archive.Browse(c.Request().Context(), store.SessionQuery{Tenant: queryTenant(c), Session: e.Ref})
		if err != nil {
			s.log(c).Error("the sessions of a lesson's evidence cannot be read; the queue shows the references without excerpts",
				"lesson", l.Slug, "error", err)
			return sessions, runs
		}
		if len(found.Sessions) == 1 {
			sessions[e.Ref] = &found.Sessions[0]
			continue
		}
		if run, err := s.options.Read.Archive.Run(c.Request().Context(), queryTenant(c), e.Ref); e.Kind == "run" && err == nil && len(run.Sessions) > 0 {
			runs[e.Ref] = len(run.Sessions) + run.Unlisted
		}
	}
	return sessions, runs
}

const maxShownEvidence = 20

// evidenceList returns a lesson's first references and, if there are more, the number of sessions that support it. A
// stored session is a link with a verdict and, for operators, the first words of the task.
func (q *queueItem) evidenceList(f frame) g.Node {
	l := q.lesson
	list := l.Evidence[:min(len(l.Evidence), maxShownEvidence)]
	if len(list) == 0 {
		return h.P(h.Class("warn"), g.Text("No evidence."))
	}
	total := g.Node(nil)
	if n := l.Support(); n > len(list) {
		total = h.P(g.Textf("%s sessions support the lesson; the list names %d of them.", countText(n), len(list)))
	}
	return h.Div(total, h.Ul(h.Class("checks"), limitedList(list, h.Li, func(e lesson.Evidence) g.Node {
		note := e.Kind
		if e.Note != "" {
			note += ": " + e.Note
		}
		s := q.sessions[e.Ref]
		if n := q.runs[e.Ref]; s == nil && n > 0 && !f.Viewer {
			return h.Li(h.A(h.Href(f.runHref(e.Ref)), code(e.Ref)), space(), h.Span(h.Class("quiet"), untrustedText(note+" · "+countNoun(n, "session"))))
		}
		if s == nil {
			return h.Li(code(e.Ref), space(), h.Span(h.Class("quiet"), untrustedText(note)))
		}
		result := s.Verdict
		if s.Errors != nil && *s.Errors > 0 {
			result += ", " + countNoun(*s.Errors, "error")
		}
		address := f.sessionHref(s.ID)
		if f.Viewer {
			address = f.Link("/sessions", "session", s.ID)
		}
		return h.Li(
			h.A(h.Href(address), code(e.Ref)), space(), h.Span(h.Class("quiet"), untrustedText(note+" · "+result)),
			g.If(s.Task != "" && !f.Viewer, h.Q(h.Class("excerpt"), h.Dir("auto"), untrustedText(truncateChars(s.Task, 160)))),
		)
	})))
}

// queueAnchor returns a lesson's HTML id. The prefix keeps the id different from ids in the frame, because a lesson
// can have the name "main".
func queueAnchor(slug string) string { return "candidate-" + slug }

// button returns a form for one decision, with a keyboard shortcut.
func (q *queueItem) button(f frame, a lesson.Action, name, key, class string) g.Node {
	return f.decisionForm(q.lesson, a, f.onSamePage("backtest", ""), h.Button(
		h.Data("key", key), toneClass(class), h.Aria("keyshortcuts", key),
		g.Text(name+" "), h.Kbd(g.Text(key)), h.Span(h.Class("hidden-text"), g.Text(" "+q.lesson.Slug)),
	))
}
