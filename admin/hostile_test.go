package admin_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"precept/admin"
	"precept/bandit/feedback"
	"precept/bandit/report"
	"precept/bandit/trial"
	"precept/inject/backtest"
	"precept/inject/lesson"
	"precept/inject/rules"
	"precept/internal/session"
	"precept/internal/wire"
	"precept/store"
)

// A page with hostile text in every field must have the same elements and attributes as the page with a plain word in
// every field. It must link only to pages of the dashboard.
func TestHostileInputAddsNoMarkup(t *testing.T) {
	plain := readPages(t, "word")
	for _, hostile := range []string{
		`"><script>alert(1)</script>`, `' onmouseover='alert(1)`, `" onmouseover="alert(1)" x="`, `javascript:alert(1)`, `//evil.example/`,
		`</textarea></select></title><b>`, `<!-- <svg/onload=alert(1)> --`, `{{.}}`, `]]>&lt;script&gt;`, "`${alert(1)}`", "a\u2028b\x00c",
	} {
		for name, page := range readPages(t, hostile) {
			if got, want := page.shape, plain[name].shape; !slices.Equal(got, want) {
				i := 0
				for i < min(len(got), len(want)) && got[i] == want[i] {
					i++
				}
				t.Errorf("with text %q, page %s: from the first difference on, got elements %q, want %q", hostile, name, threeElements(got, i), threeElements(want, i))
			}
			for _, link := range page.links {
				if !strings.HasPrefix(link, "/") && !strings.HasPrefix(link, "#") || strings.HasPrefix(link, "//") || strings.ContainsAny(link, "\\\"'<> \n") {
					t.Errorf("with text %q, page %s: got link %q, want a link to a page of the dashboard", hostile, name, link)
				}
			}
			if !strings.Contains(page.text, escapeHidden(hostile)) && page.showsWord {
				t.Errorf("page %s: got no text %q, want this text on the page", name, hostile)
			}
		}
	}
}

// escapeHidden replaces the invisible characters in text in the same way as the pages.
func escapeHidden(text string) string {
	return strings.NewReplacer("\x00", "‹U+0000›", "\u2028", "‹U+2028›").Replace(text)
}

// threeElements returns up to three elements of shape, beginning with element i.
func threeElements(shape []string, i int) []string {
	return shape[min(i, len(shape)):min(i+3, len(shape))]
}

type parsedPage struct {
	shape     []string // elements of the page with the names of their attributes
	links     []string
	text      string
	showsWord bool // whether the page must show the word
}

// readPages reads every page as an operator. The pages show data in which every text is word.
func readPages(t *testing.T, word string) map[string]parsedPage {
	t.Helper()
	w := newWordSource(word)
	h, err := admin.New(w.options())
	if err != nil {
		t.Fatal(err)
	}
	cookie := serve(h, "/login?token=key", nil).Cookies()[0]
	query := url.Values{}
	for _, key := range []string{"price", "sort", "q", "state", "verdict", "zoom", "session", "words", "tool", "error", "agent", "model", "lesson", "family", "since", "back", "x"} {
		query.Set(key, word)
	}
	slug, filters := url.PathEscape(word), "?"+query.Encode()
	tenant := "?tenant=" + url.QueryEscape(word)
	out := map[string]parsedPage{}
	for name, target := range map[string]string{
		"overview": "/", "overview, filtered": "/" + filters, "overview for a tenant": "/" + tenant, "lessons": "/lessons", "lessons, filtered": "/lessons" + filters,
		"lesson that is gone": "/lessons/" + slug + "-gone",
		"lesson":              "/lessons/" + slug + "?backtest=1", "lesson for a tenant": "/lessons/" + slug + tenant, "rules": "/rules", "views": "/views", "breakdown": "/breakdown", "breakdown, filtered": "/breakdown" + filters, "queue": "/queue" + tenant + "&backtest=" + url.QueryEscape(word),
		"sessions": "/sessions", "sessions, filtered": "/sessions" + filters, "traffic": "/traffic", "traffic, filtered": "/traffic" + filters, "sessions searched": "/sessions?words=" + url.QueryEscape(word) + "&after=AA", "session": "/sessions/" + slug, "session for a tenant": "/sessions/" + slug + tenant,
		"samples": "/samples", "samples, filtered": "/samples" + filters, "samples by an agent": "/samples?agent=" + url.QueryEscape(word), "health": "/health", "help": "/help", "nowhere": "/nowhere/" + slug,
	} {
		res := serve(h, target, cookie)
		page := parsePage(t, res)
		page.showsWord = !strings.Contains(name, "breakdown") && name != "help" && name != "nowhere" && res.StatusCode == http.StatusOK
		out[name] = page
	}
	if w.askedSession != word {
		t.Errorf("page for session %q: got data requested for session %q, want the same session", word, w.askedSession)
	}
	out["login"] = parsePage(t, serve(h, "/lessons/"+slug+filters, nil))
	w.fail = true
	for _, target := range []string{"/", "/lessons", "/lessons/" + slug, "/breakdown", "/sessions", "/sessions/" + slug, "/traffic", "/samples"} {
		out[strings.ReplaceAll(target, slug, "SLUG")+" fails"] = parsePage(t, serve(h, target, cookie))
	}
	return out
}

func serve(h http.Handler, target string, cookie *http.Cookie) *http.Response {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.Host = "127.0.0.1:8081"
	r.Header.Set("Accept", "text/html")
	if cookie != nil {
		r.AddCookie(cookie)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func parsePage(t *testing.T, res *http.Response) (p parsedPage) {
	t.Helper()
	defer res.Body.Close()
	root, err := html.Parse(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") {
		t.Fatalf(`Content-Type = %q, want prefix "text/html"`, res.Header.Get("Content-Type"))
	}
	var text strings.Builder
	for n := range root.Descendants() {
		switch n.Type {
		case html.TextNode:
			text.WriteString(n.Data)
		case html.CommentNode:
			p.shape = append(p.shape, "a comment")
		case html.ElementNode:
			names := n.Data
			for _, a := range n.Attr {
				names += " " + a.Key
				if slices.Contains([]string{"href", "src", "action", "formaction", "xlink:href", "data"}, a.Key) {
					p.links = append(p.links, a.Val)
				}
			}
			p.shape = append(p.shape, names)
		default:
		}
	}
	p.text = text.String()
	return p
}

// wordSource is a data source for all pages in which every text is the same word.
type wordSource struct {
	word         string
	fail         bool   // whether each read returns an error
	askedSession string // session name in the latest query
	report       report.Report
	book         *lesson.Book
	findings     []lesson.Finding
	events       []lesson.Event
	survey       *report.Survey
	backtest     backtest.Result
	list         store.SessionList
	transcript   store.Transcript
	samples      store.SampleList
	health       admin.Health
	figures      []admin.Figure
	generated    time.Time
}

// newWordSource returns a source with an active lesson, a candidate and a quarantined lesson.
func newWordSource(word string) *wordSource {
	w := &wordSource{word: word, generated: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	var lessons [3]*lesson.Lesson
	for i, state := range []lesson.State{lesson.Active, lesson.Candidate, lesson.Quarantined} {
		l := &lesson.Lesson{}
		fillTexts(reflect.ValueOf(l).Elem(), word, 0)
		l.State, l.ExpiresAt = state, time.Time{}
		lessons[i] = l
	}
	lessons[1].Slug, lessons[2].Slug, lessons[2].Supersedes = word+"-b", word+"-c", nil
	w.book = lesson.NewBook(lessons[:])
	for _, v := range []any{&w.report, &w.findings, &w.events, &w.backtest, &w.list, &w.transcript, &w.samples, &w.health, &w.figures} {
		fillTexts(reflect.ValueOf(v).Elem(), word, 0)
	}
	w.report.Lessons[0].Slug += "-gone"
	w.report.GeneratedAt, w.report.SRM.OK = w.generated, false
	for i := range w.report.Lessons {
		l := &w.report.Lessons[i]
		l.Arm, l.Verdict = fmt.Sprint(l.Slug, "@", i), report.ProvenHelps
		l.Effect, l.Lo, l.Hi, l.NeedsPicks = new(0.1), new(0.05), new(0.2), int64(i)
	}
	for i := range w.report.Global.Days {
		w.report.Global.Days[i].Date, w.report.Global.Bands[i].Date = "2026-04-30", "2026-04-30"
	}
	w.findings[0].Severity = lesson.Error
	w.survey = report.NewSurvey(w.generated)
	for i := range 120 {
		w.survey.Add(&trial.Assignment{Decided: true, Category: word + "|" + word + "|m", Picks: []trial.Pick{{Arm: trial.Arm(word + "@1"), Injected: i%2 == 0, Eps: 0.5, Centre: 0.5}}}, float64(i%5)/4)
	}
	w.survey.AddExample(&trial.Assignment{Picks: []trial.Pick{{Arm: trial.Arm(w.report.Lessons[1].Arm), Injected: true}}}, word, w.generated)
	return w
}

// fillTexts sets every string in a value to word, and gives every slice two entries. It leaves strings of named types,
// such as states, unchanged, because they do not contain text from users.
func fillTexts(v reflect.Value, word string, depth int) {
	switch v.Kind() {
	case reflect.String:
		if v.Type() == reflect.TypeFor[string]() {
			v.SetString(word)
		}
	case reflect.Bool:
		v.SetBool(depth%2 == 0)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf(word))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillTexts(v.Elem(), word, depth+1)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 || depth > 8 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fillTexts(v.Index(i), word, depth+1)
		}
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		fillTexts(value, word, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(word).Convert(v.Type().Key()), value)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 4, 30, 8, 0, 0, 0, time.UTC)))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fillTexts(v.Field(i), word, depth+1)
			}
		}
	default:
	}
}

func (w *wordSource) options() admin.Options {
	return admin.Options{
		Access: admin.Access{Tokens: []string{"key"}}, Address: admin.Address{Listen: "127.0.0.1:8081"},
		Read: admin.Readers{Report: w, Library: w, Survey: w, Archive: archive{w}, Export: fakeExports{}, Rules: w}, Write: admin.Writers{Lessons: w, Rate: w, Forget: w, Notes: w},
		Program: admin.Program{
			Figures: func(context.Context) []admin.Figure { return w.figures },
			Health:  func(context.Context) admin.Health { return w.health },
			Prices:  func() admin.Prices { return admin.Prices{} },
			Ready:   func() (string, error) { return "ok", nil },
			Metrics: http.NotFoundHandler(),
		},
		TrueEffect: func(string) (float64, bool) { return 0.1, true }, Log: slog.New(slog.DiscardHandler),
		Random: &countingSource{}, Now: func() time.Time { return w.generated },
	}
}

func (w *wordSource) EachNote(_ context.Context, _, _ string, fn func(string, []byte) error) error {
	for i := range 100 {
		data, err := json.Marshal(admin.View{Name: fmt.Sprint(i, w.word), Query: url.Values{"agent": {w.word}, "words": {w.word}}.Encode(), By: w.word})
		if err = errors.Join(err, fn(fmt.Sprint("view|", i), data)); err != nil {
			return err
		}
	}
	return nil
}

func (w *wordSource) WriteNotes(context.Context, string, map[session.ID][]byte, map[string][]byte) error {
	return nil
}

func (w *wordSource) Rules() *rules.Registry {
	r := rules.RegisteredSection{File: w.word, Section: w.word, Text: w.word, Forbids: w.word, Verdict: w.word, State: rules.Finished}
	return &rules.Registry{Sections: []rules.RegisteredSection{r, {File: "CLAUDE.md", Section: "Old", State: rules.Measuring}}}
}

func (w *wordSource) ScanRules(context.Context, string) (*rules.Scan, error) {
	var scan rules.Scan
	scan.Add([]wire.Passage{{Text: "Contents of /" + w.word + "/CLAUDE.md (project instructions):\n\n# " + w.word + "\n\n## Old\n\n" + w.word + "\n\n## Old\n\n- never " + w.word + "\n"}}, 2 /* requests */, 100 /* input tokens */)
	return &scan, w.err()
}

func (w *wordSource) err() error {
	if w.fail {
		return fmt.Errorf("no answer to %s", w.word)
	}
	return nil
}

func (w *wordSource) Report(context.Context, admin.ReportQuery) (report.Report, error) {
	return w.report, w.err()
}

func (w *wordSource) Book() *lesson.Book { return w.book }

func (w *wordSource) Archived(context.Context, string) (*lesson.Lesson, error) {
	return nil, admin.ErrNoLesson
}

func (w *wordSource) Block(_ string, l *lesson.Lesson) string {
	return "Lessons from past experience:\n- [" + l.Slug + "] " + l.Title + "\nEnd of lessons.\n\n"
}

func (w *wordSource) Findings(*lesson.Lesson) []lesson.Finding { return w.findings }

func (w *wordSource) Log(context.Context, int) ([]lesson.Event, error) { return w.events, w.err() }

func (w *wordSource) Survey(context.Context, string) (*report.Survey, error) {
	return w.survey, w.err()
}

func (w *wordSource) Backtest(context.Context, string, *lesson.Lesson) (backtest.Result, error) {
	return w.backtest, w.err()
}

// archive is a separate type, because admin.Archive and admin.Library both have a method named Block and the signatures
// differ.
type archive struct{ *wordSource }

func (a archive) InsertedText(_ context.Context, _, _, slug string) (string, error) {
	return a.wordSource.Block("", &lesson.Lesson{Slug: slug, Title: "older " + a.word}), a.err()
}

func (w *wordSource) Browse(context.Context, store.SessionQuery) (store.SessionList, error) {
	return w.list, w.err()
}

func (w *wordSource) Recent(context.Context, string, time.Time, time.Time) (store.Recent, error) {
	return store.Recent{Sessions: w.list.Sessions, OldestStart: w.generated, Complete: true}, w.err()
}

func (w *wordSource) BrowseOrdered(context.Context, *store.Recent, *store.SessionQuery, func(x, y *store.SessionItem) int) (store.SessionList, error) {
	return w.list, w.err()
}

func (w *wordSource) Run(_ context.Context, _, name string) (store.RunSessions, error) {
	return store.RunSessions{Name: name, Sessions: w.list.Sessions, Unlisted: 1, Verdict: w.word}, w.err()
}

func (w *wordSource) Nearest(context.Context, string, string, []string) ([]backtest.Reason, error) {
	return []backtest.Reason{{Slug: w.word, Why: w.word}}, w.err()
}

func (w *wordSource) Transcript(_ context.Context, _, name string, _ int) (store.Transcript, error) {
	w.askedSession = name
	return w.transcript, w.err()
}

func (w *wordSource) EachPart(_ context.Context, _, name string, use func(*store.Transcript) error) error {
	w.askedSession = name
	if err := w.err(); err != nil {
		return err
	}
	return use(&w.transcript)
}

func (w *wordSource) BrowseSamples(context.Context, *store.SampleQuery) (store.SampleList, error) {
	return w.samples, w.err()
}

func (w *wordSource) Act(context.Context, string, lesson.SeenVersion, lesson.Action, lesson.TrialPlan, string) (*lesson.Lesson, error) {
	return nil, admin.ErrNoLesson
}

func (w *wordSource) Rate(context.Context, string, feedback.Post) (store.Posted, error) {
	return store.Posted{}, w.err()
}

func (w *wordSource) Forget(context.Context, string, string) (int, error) { return 0, w.err() }

// countingSource is a source of random bytes that returns the same sequence of distinct values in each run.
type countingSource struct{ n uint64 }

func (c *countingSource) Read(b []byte) (int, error) {
	c.n++
	clear(b)
	binary.BigEndian.PutUint64(b, c.n)
	return len(b), nil
}

type fakeExports struct{}

func (fakeExports) Export(context.Context, io.Writer, admin.Export) error { return nil }

func readBody(res *http.Response) string {
	b, _ := io.ReadAll(res.Body)
	return string(b)
}
