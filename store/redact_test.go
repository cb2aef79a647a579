package store_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/internal/wire"
	"precept/store"
)

// secret returns a fake GitHub token, joined at run time to avoid alarms of secret scanners.
func secret(name string) string {
	return strings.Join([]string{"gh", "p_"}, "") + name + strings.Repeat("A1b2C3d4", 5)[len(name):36]
}

func readAllFiles(t *testing.T, dir string) []byte {
	t.Helper()
	var all []byte
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all = append(all, data...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestNoSecretReachesTheDisk(t *testing.T) {
	t.Parallel()
	places := []string{"item", "replyargs", "reply", "error", "name", "call", "comment", "correction", "details", "rater", "parked"}
	f := newFixture(t, nil)
	name := "run " + secret("name") + " of amy@example.com"
	id := sessionID(name)
	ses := f.store.Add(&session.Record{
		Identity:   session.Identity{ID: id, Tenant: tenantA, Agent: "coder", Name: name, Started: f.clock.now(), Seen: f.clock.now()},
		Thread:     session.Thread{Calls: map[string]wire.Call{"c1": {ID: "c1", Name: "sh", Args: `{"cmd":"export TOKEN=` + secret("call") + ` amy@example.com"}`}}, CallOrder: []string{"c1"}},
		Assignment: newAssignment(true),
	})
	f.store.Release(ses, store.DecisionsChanged)
	x := newExchange(tenantA, name, 1, f.clock.now())
	x.New = []json.RawMessage{json.RawMessage(`{"role":"user","content":"Paint the shed with ` + secret("item") + `, amy@example.com"}`)}
	x.Reply = sample.Reply{ID: "chatcmpl-1", Text: "It is " + secret("reply"), Error: "refused: " + secret("error"), Calls: []sample.Call{{ID: "c2", Name: "sh", Args: `{"key":"` + secret("replyargs") + `"}`}}}
	f.store.Offer(store.Turn{Exchange: x, Size: 100})
	e := newScore("a", 1, 1)
	e.Comment, e.Rater = "mine is "+secret("comment"), secret("rater")
	e.Correction, e.Details = json.RawMessage(`{"use":"`+secret("correction")+`"}`), json.RawMessage(`["amy@example.com","`+secret("details")+`"]`)
	f.postFeedback(tenantA, id, e)
	e = newScore("b", 2, 1)
	e.Comment = secret("parked")
	f.postByKey(tenantA, replyKey, e)
	f.closeSessions()
	if err := f.drain(); err != nil {
		t.Fatal(err)
	}
	checkEqual(t, "name in memory", ses.Record.Identity.Name, name)
	check := func(moment string, text []byte) {
		t.Helper()
		for _, p := range places {
			if i := bytes.Index(text, []byte(secret(p)[:12])); i >= 0 {
				t.Errorf("%s: the files contain the secret that the test had put into %q, in %q", moment, p, text[max(i-40, 0):min(i+60, len(text))])
			}
		}
		if bytes.Contains(text, []byte("amy@example.com")) {
			t.Errorf("%s: the files contain the address amy@example.com", moment)
		}
	}
	check("while the session is open", readAllFiles(t, f.dir))
	check("read from the backend", f.readBack(id))
	if !bytes.Contains(f.readBack(id), []byte("Paint the shed")) {
		t.Error(`the stored text does not contain "Paint the shed"`)
	}
	if f.store.Metrics.Redactions.Load() == 0 {
		t.Error("Metrics.Redactions: got 0, want above 0")
	}
	f.kill()
	check("after the kill", readAllFiles(t, f.dir))
}

// readBack returns a session's row, exchanges, feedback and samples as JSON.
func (f *fixture) readBack(id session.ID) []byte {
	f.t.Helper()
	var all []any
	row, _, err := f.backend.Session(f.t.Context(), tenantA, id)
	all = append(all, string(row.Data), err)
	ex, err := f.backend.Exchanges(f.t.Context(), tenantA, id)
	all = append(all, ex, err)
	fb, err := f.backend.Feedback(f.t.Context(), tenantA, id)
	all = append(all, fb, err)
	if len(ex) > 0 {
		for _, s := range buildSamples(tenantA, id, ex, fb) {
			all = append(all, s)
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		f.t.Fatal(err)
	}
	return text
}

// After a restart, a new address must get an unused number.
func TestPlaceholdersAreNumberedPerSession(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.beginSession(tenantA, "s", newAssignment(true))
	offerReply := func(turn int, text string) {
		x := newExchange(tenantA, "s", turn, f.clock.now())
		x.Reply.Text = text
		f.store.Offer(store.Turn{Exchange: x, Size: 100})
		f.deliver()
	}
	replies := func() (all []string) {
		list, err := f.backend.Exchanges(t.Context(), tenantA, id)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range list {
			all = append(all, x.Reply.Text)
		}
		return all
	}
	offerReply(1, "amy@example.com")
	offerReply(2, "bob@example.com or amy@example.com")
	checkEqual(t, "stored replies", strings.Join(replies(), "; "), "[REDACTED:email:1]; [REDACTED:email:2] or [REDACTED:email:1]")
	f = f.restart(nil)
	if ses, _ := f.store.Acquire(t.Context(), tenantA, id); ses == nil {
		t.Fatal("Acquire after the restart: got nil, want the session")
	} else {
		f.store.Release(ses, store.DecisionsChanged)
	}
	offerReply(3, "eve@example.com")
	checkEqual(t, "third stored reply after the restart", replies()[2], "[REDACTED:email:3]")
}

func TestFeedbackIsRedacted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.playOneTurn("s", newAssignment(true))
	e := newScore("a", 1, .5)
	e.Comment, e.Rater = "ask amy@example.com", "amy@example.com"
	storedFeedback := func() feedback.Entry {
		t.Helper()
		list, err := f.backend.Feedback(t.Context(), tenantA, id)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			t.Fatal("stored feedback: got none")
		}
		return list[len(list)-1]
	}
	f.postFeedback(tenantA, id, e)
	first := storedFeedback()
	checkEqual(t, "stored comment", first.Comment, "ask [REDACTED:email:1]")
	checkEqual(t, "redacted entry's stored hash", first.Hash, first.ContentHash())
	f.store.TakeQueuedCorrections()
	f.postFeedback(tenantA, id, e)
	checkEqual(t, "repeated post's stored hash", storedFeedback().Hash, first.Hash)
	checkEqual(t, "sessions touched by the repeated post", len(f.store.TakeQueuedCorrections()), 0)
	f.store.SetRedactPersonal(false)
	e.ID, e.At = "b", e.At.Add(time.Hour)
	f.postFeedback(tenantA, id, e)
	checkEqual(t, "stored comment without redacting personal data", storedFeedback().Comment, "ask amy@example.com")
}

func TestTurnWithOptedOutPathIsNotStored(t *testing.T) {
	t.Parallel()
	readArgs := func(path string) string { b, _ := json.Marshal(map[string]string{"path": path}); return string(b) }
	for name, tc := range map[string]struct {
		calls, answered []string // arguments of the tool calls in the reply, and of the calls whose results are in the request
		kept            bool     // whether the turn is stored
	}{
		"no call":                {nil, nil, true},
		"other paths":            {[]string{readArgs("main.go")}, []string{readArgs("go.mod")}, true},
		"call in the reply":      {[]string{readArgs("main.go"), readArgs("config/.env")}, nil, false},
		"Windows path, capitals": {[]string{readArgs(`C:\x\.ENV`)}, nil, false},
		"answered call":          {nil, []string{readArgs("main.go"), readArgs("./prod.env")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, optOutEnvFiles(t))
			id := f.beginSession(tenantA, "s", newAssignment(true))
			f.change(id, store.DecisionsChanged, func(rec *session.Record) {
				rec.Thread.Calls = map[string]wire.Call{}
				for i, args := range append(tc.calls, tc.answered...) {
					rec.Thread.Calls[string(rune('a'+i))] = wire.Call{Args: args}
				}
			})
			x := newExchange(tenantA, "s", 1, f.clock.now())
			x.Reply.Text = "zebra crossing"
			for _, args := range tc.calls {
				x.Reply.Calls = append(x.Reply.Calls, sample.Call{Name: "read", Args: args})
			}
			f.store.Offer(store.Turn{Exchange: x, Size: 100, Answered: tc.answered})
			f.closeSessions()
			checkEqual(t, `counter "closed"`, f.counter("", "closed"), float64(map[bool]int{true: 1}[tc.kept]))
			want, counted := 0, int64(1)
			if tc.kept {
				want, counted = 1, 0
			}
			checkEqual(t, "stored exchanges", f.exchangeCount(id), want)
			checkEqual(t, "Metrics.OptedOut", f.store.Metrics.OptedOut.Load(), counted)
			text := strings.ToLower(string(f.readBack(id)))
			checkEqual(t, "the stored text contains zebra", strings.Contains(text, "zebra"), tc.kept)
			if strings.Contains(text, ".env") {
				t.Errorf("the stored text contains the path .env: %s", text)
			}
			f.checkMemoryIsFree()
		})
	}
}

// With ContentOptions.StoreContent = false, the store writes no samples, but counts the rewards.
func TestSessionsCountWithoutStoredContent(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *store.Options) { o.Content.StoreContent = false })
	id := f.beginSession(tenantA, "s", newAssignment(true))
	f.deliver()
	f.postFeedback(tenantA, id, newScore("a", 1, 1))
	f.backend.takeCalls()
	f.closeSessions()
	for _, op := range f.backend.takeCalls() {
		if op == "samples" {
			t.Error("samples were written with ContentOptions.StoreContent = false")
		}
	}
	checkEqual(t, `counter "rewarded"`, f.counter("", "rewarded"), 1)
}
