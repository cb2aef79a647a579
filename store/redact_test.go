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

// secret returns a secret that contains place. The parts are joined at run time, so that scanners
// find no secret in this file.
func secret(place string) string {
	return strings.Join([]string{"gh", "p_"}, "") + place + strings.Repeat("A1b2C3d4", 5)[len(place):36]
}

// readAllFiles returns the bytes of all files under a directory.
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
	r := newFixture(t, nil)
	name := "run " + secret("name") + " of amy@example.com"
	id := session.KeyOf(tenantA, session.SpaceName, name)
	ses := r.store.Add(&session.Record{
		Identity:   session.Identity{ID: id, Tenant: tenantA, Agent: "coder", Name: name, Started: r.clock.now(), Seen: r.clock.now()},
		Thread:     session.Thread{Calls: map[string]wire.Call{"c1": {ID: "c1", Name: "sh", Args: `{"cmd":"export TOKEN=` + secret("call") + ` amy@example.com"}`}}, CallOrder: []string{"c1"}},
		Assignment: newAssignment(true),
	})
	r.store.Release(ses, store.Decided)
	x := newExchange(tenantA, name, 1, r.clock.now())
	x.New = []json.RawMessage{json.RawMessage(`{"role":"user","content":"Paint the shed with ` + secret("item") + `, amy@example.com"}`)}
	x.Reply = sample.Reply{ID: "chatcmpl-1", Text: "It is " + secret("reply"), Error: "refused: " + secret("error"), Calls: []sample.Call{{ID: "c2", Name: "sh", Args: `{"key":"` + secret("replyargs") + `"}`}}}
	r.store.Offer(store.Turn{Exchange: x, Size: 100})
	e := newScore("a", 1, 1)
	e.Comment, e.Rater = "mine is "+secret("comment"), secret("rater")
	e.Correction, e.Details = json.RawMessage(`{"use":"`+secret("correction")+`"}`), json.RawMessage(`["amy@example.com","`+secret("details")+`"]`)
	r.postFeedback(tenantA, id, e)
	e = newScore("b", 2, 1)
	e.Comment = secret("parked")
	r.postByKey(tenantA, replyKey, e)
	r.closeSessions()
	if err := r.drain(); err != nil {
		t.Fatal(err)
	}
	checkEqual(t, "name of the session in memory", ses.Record.Identity.Name, name)
	check := func(moment string, text []byte) {
		t.Helper()
		for _, p := range places {
			if i := bytes.Index(text, []byte(secret(p)[:12])); i >= 0 {
				t.Errorf("%s: found the secret planted in %s: %q", moment, p, text[max(i-40, 0):min(i+60, len(text))])
			}
		}
		if bytes.Contains(text, []byte("amy@example.com")) {
			t.Errorf("%s: found the address amy@example.com", moment)
		}
	}
	check("while the session is open", readAllFiles(t, r.dir))
	check("read from the backend", r.readBack(id))
	if !bytes.Contains(r.readBack(id), []byte("Paint the shed")) {
		t.Error(`the stored text lacks "Paint the shed", which is not secret`)
	}
	if r.store.Tally.Redactions.Load() == 0 {
		t.Error("Tally.Redactions: got 0, want > 0")
	}
	r.kill()
	check("after the kill", readAllFiles(t, r.dir))
}

// readBack returns everything that the backend stores about a session.
func (r *fixture) readBack(id session.ID) []byte {
	r.t.Helper()
	var all []any
	row, _, err := r.backend.Session(r.t.Context(), tenantA, id)
	all = append(all, string(row.Data), err)
	ex, err := r.backend.Exchanges(r.t.Context(), tenantA, id)
	all = append(all, ex, err)
	fb, err := r.backend.Feedback(r.t.Context(), tenantA, id)
	all = append(all, fb, err)
	if len(ex) > 0 {
		for _, s := range samplesOf(tenantA, id, ex, fb) {
			all = append(all, s)
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		r.t.Fatal(err)
	}
	return text
}

// An email address gets the same placeholder number in all turns of a session. After a restart a new address gets a
// number that the session has not used.
func TestPlaceholdersAreNumberedPerSession(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	id := r.beginSession(tenantA, "s", newAssignment(true))
	offerReply := func(turn int, text string) {
		x := newExchange(tenantA, "s", turn, r.clock.now())
		x.Reply.Text = text
		r.store.Offer(store.Turn{Exchange: x, Size: 100})
		r.deliver()
	}
	replies := func() (all []string) {
		list, err := r.backend.Exchanges(t.Context(), tenantA, id)
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
	r = r.restart(nil)
	if ses, _ := r.store.Acquire(t.Context(), tenantA, id); ses == nil {
		t.Fatal("Acquire after the restart = nil, want the session")
	} else {
		r.store.Release(ses, store.Decided)
	}
	offerReply(3, "eve@example.com")
	checkEqual(t, "third stored reply after the restart", replies()[2], "[REDACTED:email:3]")
}

// Feedback is redacted before it is stored, and two equal posts remain equal.
func TestFeedbackIsRedacted(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	id := r.playOneTurn("s", newAssignment(true))
	e := newScore("a", 1, .5)
	e.Comment, e.Rater = "ask amy@example.com", "amy@example.com"
	storedFeedback := func() feedback.Entry {
		t.Helper()
		list, err := r.backend.Feedback(t.Context(), tenantA, id)
		if err != nil || len(list) == 0 {
			t.Fatalf("Feedback = %+v, %v, want at least one entry", list, err)
		}
		return list[len(list)-1]
	}
	r.postFeedback(tenantA, id, e)
	first := storedFeedback()
	checkEqual(t, "stored comment", first.Comment, "ask [REDACTED:email:1]")
	checkEqual(t, "stored hash of the redacted entry", first.Hash, first.ContentHash())
	r.store.Touched()
	r.postFeedback(tenantA, id, e)
	checkEqual(t, "stored hash of the repeated post", storedFeedback().Hash, first.Hash)
	checkEqual(t, "sessions touched by the repeated post", len(r.store.Touched()), 0)
	r.store.SetPersonal(false)
	e.ID, e.At = "b", e.At.Add(time.Hour)
	r.postFeedback(tenantA, id, e)
	checkEqual(t, "stored comment with redaction of personal data disabled", storedFeedback().Comment, "ask amy@example.com")
}

// A turn is not stored if a call of its reply, or a call that its request answers, names an opted-out path.
func TestOptOutByPath(t *testing.T) {
	t.Parallel()
	read := func(path string) string { b, _ := json.Marshal(map[string]string{"path": path}); return string(b) }
	for name, c := range map[string]struct {
		calls, answered []string
		kept            bool
	}{
		"no call":                {nil, nil, true},
		"other paths":            {[]string{read("main.go")}, []string{read("go.mod")}, true},
		"call of the reply":      {[]string{read("main.go"), read("config/.env")}, nil, false},
		"Windows path, capitals": {[]string{read(`C:\x\.ENV`)}, nil, false},
		"answered call":          {nil, []string{read("main.go"), read("./prod.env")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t, optOutEnvFiles(t))
			id := r.beginSession(tenantA, "s", newAssignment(true))
			r.change(id, store.Decided, func(rec *session.Record) {
				rec.Thread.Calls = map[string]wire.Call{}
				for i, args := range append(c.calls, c.answered...) {
					rec.Thread.Calls[string(rune('a'+i))] = wire.Call{Args: args}
				}
			})
			x := newExchange(tenantA, "s", 1, r.clock.now())
			x.Reply.Text = "zebra crossing"
			for _, args := range c.calls {
				x.Reply.Calls = append(x.Reply.Calls, sample.Call{Name: "read", Args: args})
			}
			r.store.Offer(store.Turn{Exchange: x, Size: 100, Answered: c.answered})
			r.closeSessions()
			checkEqual(t, "counter closed", r.counter("", "closed"), float64(map[bool]int{true: 1}[c.kept]))
			want, counted := 0, int64(1)
			if c.kept {
				want, counted = 1, 0
			}
			checkEqual(t, "stored exchanges", r.exchanges(id), want)
			checkEqual(t, "Tally.OptedOut", r.store.Tally.OptedOut.Load(), counted)
			text := strings.ToLower(string(r.readBack(id)))
			checkEqual(t, "the stored text contains zebra", strings.Contains(text, "zebra"), c.kept)
			if strings.Contains(text, ".env") {
				t.Errorf("the stored text contains the path .env: %s", text)
			}
			r.checkMemoryIsFree()
		})
	}
}

// If ContentOptions.Keep is false, sessions are counted, but no samples are stored.
func TestSessionsAreCountedWithoutSamplesIfContentIsNotKept(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(o *store.Options) { o.Content.Keep = false })
	id := r.beginSession(tenantA, "s", newAssignment(true))
	r.deliver()
	r.postFeedback(tenantA, id, newScore("a", 1, 1))
	r.backend.takeCalls()
	r.closeSessions()
	for _, op := range r.backend.takeCalls() {
		if op == "samples" {
			t.Error("samples were written with ContentOptions.Keep = false")
		}
	}
	checkEqual(t, "counter rewarded", r.counter("", "rewarded"), 1)
}
