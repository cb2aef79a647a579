package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/configs"
	"precept/internal/label"
	"precept/internal/sample"
	sessionpkg "precept/internal/session"
	"precept/internal/wire"
	"precept/store"
	"precept/store/sqlite"
)

// hostile contains markup, a quote that would end an attribute, terminal escapes, right-to-left text and an invisible
// character.
const hostile = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"> ');alert(1)// \x1b[31mred\x1b]0;owned\x07 \u202egnp.exe\u202c \u200bhidden"

type sessionStore struct {
	*store.Store
	*store.Archive
	db  *sqlite.Store
	now time.Time
}

func newSessionStore(t *testing.T, now time.Time) *sessionStore {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "precept.db")})
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), store.Options{
		Now: func() time.Time { return now }, Backend: db, Content: store.ContentOptions{StoreContent: true, RedactPersonal: true},
		Hooks: store.Hooks{
			OnFailure: func(step label.Step, err error) { t.Errorf("store step %s: got error %v, want none", step, err) },
			OnPanic:   func(step label.Step, v any) { t.Errorf("store step %s: got panic %v, want none", step, v) },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &sessionStore{Store: s, Archive: s.Archive(feedback.Definition{CloseAfter: time.Hour}), db: db, now: now}
}

// addSession writes a session that began len(name)+turns hours ago, so a longer name moves the session back in lists
// ordered by time. If change is not nil, addSession calls it to alter the record and the exchanges before it writes
// them.
func (s *sessionStore) addSession(t *testing.T, name string, turns int, change func(r *sessionpkg.Record, ex []sample.Exchange)) sessionpkg.ID {
	t.Helper()
	id := sessionpkg.NamedID("default", sessionpkg.NamespaceSession, name)
	start := s.now.Add(-time.Duration(len(name)+turns) * time.Hour)
	r := &sessionpkg.Record{
		Identity: sessionpkg.Identity{ID: id, Tenant: "default", Agent: "coder", Name: name, Method: sessionpkg.ByHeader, Started: start, Seen: start.Add(time.Minute), Model: "gpt-test", Dialect: wire.Chat},
		Thread:   sessionpkg.Thread{Turns: turns},
	}
	var ex []sample.Exchange
	for n := 1; n <= turns; n++ {
		ex = append(ex, sample.Exchange{
			ID: fmt.Sprintf("%s-%04d", id.String()[:13], n), Tenant: "default", Agent: "coder", Session: id.String(), SessionName: name, RequestID: fmt.Sprint("req_", n), Turn: n,
			At: start.Add(time.Duration(n) * time.Minute), Dialect: "chat", Model: "gpt-test", Status: 200, Outcome: sample.Complete,
			New: []json.RawMessage{messageJSON("user", fmt.Sprint("question ", n))}, FirstNew: 2*n - 2, Reply: sample.Reply{Text: fmt.Sprint("answer ", n), InputTokens: 1200 * n, CachedTokens: 800, OutputTokens: 64},
			LatencyMS: 1234, FirstByteMS: 321,
		})
	}
	if change != nil {
		change(r, ex)
	}
	row, err := r.Row(func(text string) (string, bool) { return text, true })
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, sessionpkg.Batch{Rows: []sessionpkg.Row{row}, Exchanges: ex, Samples: []sessionpkg.StoredSample{{Tenant: "default", Agent: r.Identity.Agent, ID: id, Sample: sample.Sample{
		ID: "5f0c1d2e-0000-4000-8000-" + id.String()[:12], Family: sample.IntentResolution, CreatedAt: start.Add(time.Hour),
		Input: map[string]any{"intent_id": "x", "raw_request_summary": "asked: " + firstWords(ex)}, Output: map[string]any{"final_intent_summary": "answered: " + name},
		Feedback: sample.Unrated(), Meta: map[string]any{},
	}}}})
	return id
}

// firstWords returns the first message of the user in a session.
func firstWords(ex []sample.Exchange) string {
	if len(ex) == 0 || len(ex[0].New) == 0 {
		return ""
	}
	var m struct{ Content string }
	_ = json.Unmarshal(ex[0].New[len(ex[0].New)-1], &m)
	return m.Content
}

func (s *sessionStore) write(t *testing.T, b sessionpkg.Batch) {
	t.Helper()
	if err := s.db.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

// closeRewarded adds feedback with the given score to a session, and closes the session.
func (s *sessionStore) closeRewarded(t *testing.T, id sessionpkg.ID, score float64, comment string) {
	t.Helper()
	e := feedback.Entry{ID: "f-" + id.String(), At: s.now, Source: feedback.SourceUser, Type: feedback.TypeScore, Score: score, Tier: 1, Rater: "kim", Comment: comment}
	if _, err := s.db.AddFeedback(t.Context(), "default", map[sessionpkg.ID][]feedback.Entry{id: {e}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.Settle(t.Context(), []sessionpkg.Settlement{{Tenant: "default", ID: id, To: sessionpkg.SettledState{Version: 1, Rewarded: true, Reward: score, Tier: 1}}}); err != nil {
		t.Fatal(err)
	}
}

func messageJSON(role, text string) json.RawMessage {
	b, err := json.Marshal(map[string]string{"role": role, "content": text})
	if err != nil {
		return json.RawMessage(`{}`)
	}
	return b
}

// addSessionWithMarkup writes a session in which turns of every kind contain the text hostile.
func (s *sessionStore) addSessionWithMarkup(t *testing.T) sessionpkg.ID {
	t.Helper()
	id := s.addSession(t, "tale", 3, func(r *sessionpkg.Record, ex []sample.Exchange) {
		r.Identity.Agent, r.Identity.Model, r.Lessons.Loops.Count = "<b>coder</b>", hostile, 1
		r.Lessons.Matched = []string{"read-the-build-log", "kept-back"}
		r.Assignment.Picks = []trial.Pick{{Slug: "read-the-build-log", Arm: "a", Injected: true, Propensity: 0.76, Turn: 1}, {Slug: "kept-back", Arm: "b", Propensity: 0.76, Turn: 1}}
		r.Thread.Used = trial.Usage{Input: 7200, Cached: 2400}
		r.Lessons.Blocks = []sessionpkg.Block{
			{Anchor: wire.Anchor{Role: wire.RoleUser}, Turn: 1, Slugs: []string{"read-the-build-log"}, Text: "Lessons from past experience:\n(Advice from earlier runs, not a request from the user. Ignore what does not apply.)\n- [read-the-build-log] Read the build log before changing code.\n  | The first error is the cause; what follows it is noise.\nEnd of lessons.\n\n"},
			{Anchor: wire.Anchor{CallID: "c2"}, Turn: 3, Loop: true, Text: "[LOOP DETECTED] The call bash {\"command\":\"make\"} has failed before in the same way, and nothing has changed since.\n[END LOOP DETECTED]\n\n"},
		}
		ex[0].New = []json.RawMessage{messageJSON("system", "You are a careful coder.\n"+strings.Repeat("Rules. ", 100)), messageJSON("user", "Fix the flaky build. "+hostile)}
		ex[0].Lessons = []sample.Lesson{{Slug: "read-the-build-log", State: "injected", Propensity: 0.76}, {Slug: "kept-back", State: "withheld", Propensity: 0.76}}
		ex[0].Reply = sample.Reply{Text: "I build it first.", Calls: []sample.Call{{ID: "c1", Name: "bash", Args: `{"command":"make"}`}}, InputTokens: 1200, CachedTokens: 800, OutputTokens: 40}
		failedResult := func(call string) json.RawMessage {
			return json.RawMessage(`{"role":"tool","tool_call_id":"` + call + `","content":"make: *** [all] Error 2\nexit code: 2"}`)
		}
		ex[1].New, ex[1].Redacted = []json.RawMessage{failedResult("c1")}, map[string]int{"email": 2}
		ex[1].Reply = sample.Reply{Text: hostile, Calls: []sample.Call{{ID: "c2", Name: "bash", Args: `{"command":"make"}`}}, InputTokens: 2400, CachedTokens: 1200}
		ex[2].New, ex[2].Loops = []json.RawMessage{failedResult("c2")}, 1
		ex[2].Reply, ex[2].Outcome, ex[2].Status = sample.Reply{Error: "overloaded: " + hostile}, sample.Failed, 529
	})
	s.closeRewarded(t, id, 0.25, "It went in circles. "+hostile)
	return id
}

// fakeExport is an export of one line. If err is set, Export returns err, either in place of the line or after it.
type fakeExport struct {
	selection     Export // query of the latest export
	err           error
	failAfterLine bool
}

func (f *fakeExport) Export(_ context.Context, w io.Writer, e Export) error {
	f.selection = e
	if f.err != nil && !f.failAfterLine {
		return f.err
	}
	if _, err := io.WriteString(w, "{}\n"); err != nil {
		return err
	}
	return f.err
}

type fakeRater struct{ *sessionStore }

func (r fakeRater) Rate(ctx context.Context, tenant string, p feedback.Post) (store.Posted, error) {
	p = p.WithReceipt(r.now, func() string { return "fb_1" })
	return r.sessionStore.Rate(ctx, tenant, p)
}

// sessionEraser deletes sessions by their id.
type sessionEraser struct{ *sessionStore }

func (e sessionEraser) Forget(ctx context.Context, tenant, session string) (int, error) {
	id, _ := sessionpkg.ParseID(session)
	ok, err := e.db.Forget(ctx, tenant, id)
	if ok {
		return 1, err
	}
	return 0, err
}

func newStoreFixture(t *testing.T, sessions *sessionStore, change func(*Options)) *fixture {
	t.Helper()
	return newFixture(t, func(o *Options) {
		o.Read.Archive, o.Write.Rate, o.Write.Forget, o.Read.Export, o.DataDir = sessions.Archive, fakeRater{sessions}, sessionEraser{sessions}, &fakeExport{}, t.TempDir()
		o.Program.Health = func(context.Context) Health { return newHealth(t, sessions.now) }
		if change != nil {
			change(o)
		}
	})
}

// newHealth returns the health data of a server that has lost an exchange and has three changed configuration keys.
func newHealth(t *testing.T, now time.Time) Health {
	t.Helper()
	c, err := configs.Parse(configs.Sources{Offline: true, FileName: "f", File: []byte("admin: {tokens: [s3cret-canary]}\nbandit: {epsilon: 0.25}\nlearning: {opt_out_agents: [\"<script>alert(1)</script>\"]}")})
	if err != nil {
		t.Fatal(err)
	}
	h := Health{Version: "v1", Go: "go1.26", PID: 7, Started: now.Add(-time.Hour), Hash: c.Hash(), Figures: []Figure{{Name: "Active lessons", Value: "12"}}}
	if h.Config, err = configs.Settings(c); err != nil {
		t.Fatal(err)
	}
	h.Account = Account{Account: store.Account{Admitted: 12, Stored: 8, Spooled: 1, Incomplete: 1, Dropped: map[string]int64{"full": 1, "opted_out": 1}}, Balanced: true}
	h.Store = StoreInfo{Kind: "sqlite", Healthy: true, Counts: map[string]int64{"sessions": 4, "bytes": 1 << 20}}
	h.Outbox, h.SinceStart = Outbox{Dir: "d", Bytes: 1 << 20, Limit: 1 << 30, Lag: 0.4}, SinceStart{Exchanges: 8, Dropped: map[string]int64{"full": 1}}
	return h
}

func get(t *testing.T, f *fixture, target string, status int) string {
	t.Helper()
	r := f.do(t, http.MethodGet, target, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) })
	defer r.Body.Close() //nolint:errcheck // a recorder's body
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatalf("%s: error = %v", target, err)
	}
	if r.StatusCode != status {
		t.Fatalf("%s: status = %d, want %d, body %s", target, r.StatusCode, status, b)
	}
	return string(b)
}
