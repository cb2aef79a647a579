package admin

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"precept/backtest"
	"precept/lesson"
)

// queueView is the lessons that wait for a person.
type queueView struct {
	Items []queueItem
	Total int
	Pager pager
}

// queueItem is one of them, with what it takes to decide.
type queueItem struct {
	Lesson   *lesson.Lesson
	Title    string
	Block    string
	Base     string // what it is compared with; "" a new text
	Diff     []diffLine
	Findings []lesson.Finding
	Trigger  []facet
	Href     string
	Backtest *backtest.Result
	Note     string
}

// diffLine is a line of a diff: added, cut or kept.
type diffLine struct{ Mark, Text, Kind string }

// queueRows is how many lessons of the queue a page shows.
const queueRows = 20

// waits says that a lesson wants a decision.
func waits(l *lesson.Lesson) bool {
	return l.State == lesson.Candidate || l.State == lesson.Quarantined
}

// waiting is how many lessons want a decision.
func (s *Server) waiting() (n int) {
	if s.options.Library == nil {
		return 0
	}
	for _, l := range s.options.Library.Book().Lessons() {
		if waits(l) && !s.decided.recently(l.Slug, s.options.Now()) {
			n++
		}
	}
	return n
}

// decisions are the lessons that a person has just decided on: what watches their place needs up to
// two seconds to see it, and the queue shall not ask twice meanwhile.
type decisions struct {
	mu sync.Mutex
	at map[string]time.Time
}

const decisionAge = 5 * time.Second

func (d *decisions) add(slug string, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for old, at := range d.at {
		if now.Sub(at) > decisionAge {
			delete(d.at, old)
		}
	}
	d.at[slug] = now
}

func (d *decisions) recently(slug string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, ok := d.at[slug]
	return ok && now.Sub(at) <= decisionAge
}

// queuePage shows what waits, the oldest first.
func (s *Server) queuePage(c echo.Context) error {
	q, err := query(c)
	if err != nil {
		return err
	}
	f := s.frame(c, shown{})
	book := s.options.Library.Book()
	var list []*lesson.Lesson
	for _, l := range book.Lessons() {
		if waits(l) && !s.decided.recently(l.Slug, s.options.Now()) {
			list = append(list, l)
		}
	}
	slices.SortStableFunc(list, func(x, y *lesson.Lesson) int {
		return cmp.Or(x.CreatedAt.Compare(y.CreatedAt), strings.Compare(x.Slug, y.Slug))
	})
	v := queueView{Total: len(list)}
	var from, to int
	v.Pager, from, to = f.pageOf(len(list), queueRows)
	for _, l := range list[from:to] {
		item := queueItem{
			Lesson: l, Title: cmp.Or(l.Title, l.Slug), Block: s.options.Library.Block(q.Tenant, l), Findings: s.options.Library.Findings(l), Trigger: facets(l),
			Href: f.lesson(l.Slug),
		}
		for _, slug := range l.Supersedes {
			if old, ok := book.Get(slug); ok {
				item.Base = slug
				item.Diff = difference(strings.Split(strings.TrimSpace(old.Body), "\n"), strings.Split(strings.TrimSpace(l.Body), "\n"))
				break
			}
		}
		if c.QueryParam("backtest") == l.Slug && s.options.Survey != nil {
			b, err := s.options.Survey.Backtest(c.Request().Context(), q.Tenant, l)
			if item.Backtest = &b; err != nil {
				item.Backtest, item.Note = nil, "The captured sessions cannot be read: "+err.Error()+"."
			}
		}
		v.Items = append(v.Items, item)
	}
	return s.show(c, shown{Title: "Queue", Main: v.html, Head: script("queue.js")})
}

// diffLimit bounds the work for a diff: lessons are short, files need not be.
const diffLimit = 400

// difference tells by which lines b differs from a: the longest common subsequence is kept.
func difference(a, b []string) (out []diffLine) {
	a, b = a[:min(len(a), diffLimit)], b[:min(len(b), diffLimit)]
	longest := make([][]int, len(a)+1)
	for i := range longest {
		longest[i] = make([]int, len(b)+1)
	}
	for i, x := range slices.Backward(a) {
		for j, y := range slices.Backward(b) {
			if x == y {
				longest[i][j] = longest[i+1][j+1] + 1
				continue
			}
			longest[i][j] = max(longest[i+1][j], longest[i][j+1])
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, diffLine{" ", a[i], "kept"})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && longest[i+1][j] >= longest[i][j+1]:
			out = append(out, diffLine{"−", a[i], "cut"})
			i++
		default:
			out = append(out, diffLine{"+", b[j], "added"})
			j++
		}
	}
	return out
}
