package admin

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"precept/feedback"
	"precept/sample"
	"precept/store"
)

// sessionsView is the list of sessions.
type sessionsView struct {
	Query    store.SessionQuery
	Since    string
	Until    string
	Verdicts []choice
	Rows     []sessionRow
	Next     string // the address of the next page
	First    string // of the first one, when this is another
	Looked   int
	Back     time.Time
	Filtered bool // something is asked for
	Searched bool
}

// choice is an option of a field.
type choice struct {
	Value, Name string
	Chosen      bool
}

func choices(words, chosen []string) []choice {
	out := make([]choice, 0, len(words))
	for _, w := range words {
		out = append(out, choice{Value: w, Name: strings.ReplaceAll(w, "_", " "), Chosen: slices.Contains(chosen, w)})
	}
	return out
}

// sessionRow is a line of the list.
type sessionRow struct {
	store.SessionItem
	Href, Name, Reward, Tone string
}

// sessionsPage lists sessions.
func (s *Server) sessionsPage(c echo.Context) error {
	q, err := sessionQuery(c)
	v := sessionsView{Query: q, Since: c.QueryParam("since"), Until: c.QueryParam("until"), Verdicts: choices(store.Verdicts(), []string{q.Verdict})}
	if err != nil {
		return s.show(c, shown{Title: "sessions", Main: v.html, Status: http.StatusBadRequest, Problem: sentence(err)})
	}
	list, err := s.options.Archive.Browse(c.Request().Context(), q)
	if err != nil {
		err = s.archiveError(c, err)
		return s.show(c, shown{Title: "sessions", Main: v.html, Status: statusOf(err), Problem: sentence(err)})
	}
	v.Looked, v.Searched = list.Looked, q.Words+q.Tool+q.Error != ""
	v.Filtered = v.Searched || q.Agent+q.Model+q.Lesson+q.Verdict+q.Session+v.Since+v.Until != "" || q.Loops || q.MinReward != nil || q.MaxReward != nil
	if list.Back != nil {
		v.Back = *list.Back
	}
	f := s.frame(c, shown{})
	for i := range list.Sessions {
		v.Rows = append(v.Rows, rowOf(&list.Sessions[i], f))
	}
	if list.Next != "" {
		v.Next = f.With("after", list.Next)
	}
	if q.After != "" {
		v.First = f.With("after", "")
	}
	live := q.After == "" && !v.Searched
	return s.show(c, shown{Title: "sessions", Main: v.html, Live: live})
}

func rowOf(x *store.SessionItem, f frame) sessionRow {
	r := sessionRow{SessionItem: *x, Href: f.session(x.ID), Name: nameOf(x), Reward: none}
	if x.Reward != nil {
		r.Reward = strconv.FormatFloat(*x.Reward, 'f', 2, 64)
	}
	r.Tone = toneOf(x.Verdict)
	return r
}

// nameOf is the session's name, its id where it has none.
func nameOf(x *store.SessionItem) string {
	if strings.TrimSpace(x.Name) == "" {
		return x.ID
	}
	return x.Name
}

func toneOf(verdict string) string {
	switch verdict {
	case sample.Good:
		return "good"
	case sample.Poor:
		return "bad"
	default:
		return ""
	}
}

// sessionView is one session.
type sessionView struct {
	store.Transcript
	Name    string
	Figures []stat
	Turned  []turnView
	Earlier string // the address of the turns before, of those behind
	Later   string
	Reward  string
	Tone    string
}

// turnView is one exchange.
type turnView struct {
	store.TurnItem
	Facts   []string // model, times, tokens
	Marks   []string // what is unusual about it
	Entries []entryView
}

// entryView is one thing that was said.
type entryView struct {
	store.Entry
	Label  string // who or what it is, in words
	Class  string // of the block: user, assistant, call, result, block, ghost, error or system
	Folded bool   // long, or of no interest to most: shown on a click
	First  string // its beginning, when it is folded
}

// sessionPage shows a session.
func (s *Server) sessionPage(c echo.Context) error {
	t, err := s.transcript(c)
	if err != nil {
		return s.show(c, shown{Title: "No such session", Main: failedPage, Status: statusOf(err), Problem: sentence(err)})
	}
	v := sessionView{Transcript: t, Name: nameOf(&t.SessionItem), Reward: none, Tone: toneOf(t.Verdict)}
	if t.Rewarded.Value != nil {
		v.Reward = strconv.FormatFloat(*t.Rewarded.Value, 'f', 2, 64)
	}
	v.Figures = s.sessionFigures(&v)
	for i := range t.Said {
		v.Turned = append(v.Turned, turnOf(&t.Said[i]))
	}
	f := s.frame(c, shown{})
	if t.From > 0 {
		v.Earlier = f.With("from", strconv.Itoa(max(0, t.From-store.TurnsShown)))
	}
	if t.Next < t.Exchanges {
		v.Later = f.With("from", strconv.Itoa(t.Next))
	}
	return s.show(c, shown{Title: "session " + v.Name, Main: v.html, Live: !t.Closed && v.Later == ""})
}

func (s *Server) sessionFigures(v *sessionView) []stat {
	reward := stat{Value: v.Reward, Tone: v.Tone, Note: v.Verdict}
	out := []stat{
		reward,
		{Value: count(v.SessionItem.Turns), Note: count(v.Exchanges) + " kept"},
		{Value: count(v.Loops)},
		{Value: count(v.Input), Note: count(v.Cached) + " of them cached"},
		{Value: count(len(v.Injected)), Note: count(len(v.Withheld)) + " withheld"},
	}
	if v.Loops > 0 {
		out[2].Tone = "warn"
	}
	for i, key := range []string{"session-reward", "turns", "loops", "input-tokens", "session-lessons"} {
		out[i].Term = find(key)
	}
	return out
}

func turnOf(t *store.TurnItem) turnView {
	v := turnView{TurnItem: *t}
	v.Facts = append(v.Facts, t.Model, strconv.FormatFloat(t.LatencyMS/1000, 'f', 2, 64)+" s")
	if t.Input > 0 {
		v.Facts = append(v.Facts, count(t.Input)+" tokens in ("+count(t.Cached)+" cached), "+count(t.Output)+" out")
	}
	if t.Outcome != sample.Complete {
		v.Marks = append(v.Marks, strings.ReplaceAll(t.Outcome, "_", " "))
	}
	if t.Status >= 400 {
		v.Marks = append(v.Marks, "status "+count(t.Status))
	}
	if t.Loops > 0 {
		v.Marks = append(v.Marks, "loop")
	}
	if t.Truncated {
		v.Marks = append(v.Marks, "copy cut at limits.capture_bytes")
	}
	if n := redactions(t.Redacted); n != "" {
		v.Marks = append(v.Marks, n)
	}
	for i := range t.Entries {
		v.Entries = append(v.Entries, entryOf(&t.Entries[i]))
	}
	return v
}

func redactions(kinds map[string]int) string {
	n := 0
	for _, k := range kinds {
		n += k
	}
	if n == 0 {
		return ""
	}
	return count(n) + " redacted"
}

// foldFrom is how long a text is shown whole, in bytes.
const foldFrom = 1200

func entryOf(e *store.Entry) entryView {
	v := entryView{Entry: *e, Class: e.Kind, Label: e.Kind}
	switch e.Kind {
	case store.KindBlock:
		v.Label, v.Text = "inserted by precept", strings.TrimRight(e.Text, "\n")
		if e.Loop {
			v.Label = "loop warning, inserted by precept"
		}
	case store.KindWithheld:
		v.Class, v.Label = "ghost", "withheld by a coin"
		if e.Why == "control" {
			v.Label = "not shown: this session is a control"
		}
	case sample.EventCall:
		v.Label = "call of " + e.Tool
	case sample.SaidResult:
		v.Label = "answer of " + e.Tool
		if e.Tool == "" {
			v.Label = "answer of a tool"
		}
		if e.Outcome == "error" {
			v.Class, v.Label = "result error", v.Label+": failed"
		} else if e.Outcome != "" && e.Outcome != "ok" {
			v.Label += ": " + e.Outcome
		}
	case store.KindError:
		v.Label = "error of the upstream"
	case sample.SaidSystem:
		v.Folded = true
	}
	if len(e.Text) > foldFrom {
		v.Folded = true
	}
	if v.Folded {
		v.First = firstLine(e.Text)
	}
	return v
}

// firstLine is the beginning of a text, for its fold.
func firstLine(text string) string {
	text = strings.TrimSpace(text)
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		text = text[:i]
	}
	r := []rune(text)
	if len(r) > 90 {
		return string(r[:90]) + "…"
	}
	return string(r)
}

// rateSession takes a person's word on a session from its page.
func (s *Server) rateSession(c echo.Context) error {
	id := param(c, "session")
	kind := c.FormValue("type")
	p := feedback.Post{SessionID: id, Entry: feedback.Entry{Source: feedback.SourceUser, Tier: feedback.TierUser, Type: kind, Score: feedback.ScoreOf(kind), Rater: "dashboard", Comment: strings.TrimSpace(c.FormValue("comment"))}}
	if kind != feedback.TypeApproval && kind != feedback.TypeRejection {
		return echo.NewHTTPError(http.StatusBadRequest, "type is approval or rejection")
	}
	if len(p.Comment) > 4096 {
		return echo.NewHTTPError(http.StatusBadRequest, "the comment is longer than 4096 bytes")
	}
	c.Set(detailKey, kind+" of session "+idOnly(id))
	done, err := s.rate(c, tenantOf(c), p)
	if err != nil {
		return err
	}
	notice := "Your word is kept; the session's reward follows it."
	if done.Status == store.Ignored {
		notice = "Nothing of this session may be kept, so your word was not kept either."
	}
	return s.seeOther(c, frame{query: c.QueryParams()}.session(id), notice)
}

// forgetSession deletes a session from its page. The person says so twice: by the button, and by
// the box beside it.
func (s *Server) forgetSession(c echo.Context) error {
	id := param(c, "session")
	f := frame{query: c.QueryParams()}
	if c.FormValue("sure") != "yes" {
		return s.seeOther(c, f.session(id), "Nothing was deleted: tick the box beside the button first.")
	}
	if s.options.Forget == nil {
		return echo.NewHTTPError(http.StatusServiceUnavailable, "there is nothing to forget yet")
	}
	c.Set(detailKey, "session "+idOnly(id)+" deleted")
	n, err := s.options.Forget.Forget(c.Request().Context(), tenantOf(c), id)
	if err != nil {
		return s.forgetFailed(c, err)
	}
	notice := "The session is deleted: its record, turns, samples and feedback."
	if n == 0 {
		notice = "Nothing was kept of this session."
	}
	return s.seeOther(c, f.Link("/sessions"), notice)
}

// idOnly is an id for the audit; a name that a client gave is none.
func idOnly(text string) string {
	if len(text) == 32 && strings.Trim(text, "0123456789abcdef") == "" {
		return text
	}
	return "(by name)"
}

func tenantOf(c echo.Context) string {
	if t := c.QueryParam("tenant"); t != "" {
		return t
	}
	return "default"
}

// sentence is what an error says to people; statusOf is its status.
func sentence(err error) string {
	if known, ok := err.(*echo.HTTPError); ok { //nolint:errorlint // made here, never wrapped
		text, _ := known.Message.(string)
		return strings.ToUpper(text[:min(1, len(text))]) + text[min(1, len(text)):] + "."
	}
	return "It failed; the log says why."
}

func statusOf(err error) int {
	if known, ok := err.(*echo.HTTPError); ok { //nolint:errorlint // made here, never wrapped
		return known.Code
	}
	return http.StatusInternalServerError
}
