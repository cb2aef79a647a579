package store

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"precept/bandit/feedback"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/internal/wire"
)

// onDisk is every byte under a directory.
func onDisk(t *testing.T, dir string) []byte {
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

// secrets are put together at run time, so that scanners find none in here; each is told from the
// others by its place.
func secret(place string) string {
	return strings.Join([]string{"gh", "p_"}, "") + place + strings.Repeat("A1b2C3d4", 5)[len(place):36]
}

func TestNoSecretReachesTheDisk(t *testing.T) {
	t.Parallel()
	places := []string{"item", "args", "text", "fail", "name", "call", "comm", "corr", "deta", "rate", "park"}
	r := newRig(t, nil)
	name := "run " + secret("name") + " of amy@example.com"
	id := session.KeyOf(us, session.SpaceName, name)
	ses := r.Add(&session.Record{
		Identity:   session.Identity{ID: id, Tenant: us, Agent: "coder", Name: name, Started: r.clk.now(), Seen: r.clk.now()},
		Thread:     session.Thread{Calls: map[string]wire.Call{"c1": {ID: "c1", Name: "sh", Args: `{"cmd":"export TOKEN=` + secret("call") + ` amy@example.com"}`}}, CallOrder: []string{"c1"}},
		Assignment: picked(true),
	})
	r.Release(ses, Decided)
	x := exchange(us, name, 1, r.clk.now())
	x.New = []json.RawMessage{json.RawMessage(`{"role":"user","content":"Paint the shed with ` + secret("item") + `, amy@example.com"}`)}
	x.Reply = sample.Reply{ID: "chatcmpl-1", Text: "It is " + secret("text"), Error: "refused: " + secret("fail"), Calls: []sample.Call{{ID: "c2", Name: "sh", Args: `{"key":"` + secret("args") + `"}`}}}
	r.Offer(Turn{Exchange: x, Size: 100})
	e := score("a", 1, 1)
	e.Comment, e.Rater = "mine is "+secret("comm"), secret("rate")
	e.Correction, e.Details = json.RawMessage(`{"use":"`+secret("corr")+`"}`), json.RawMessage(`["amy@example.com","`+secret("deta")+`"]`)
	r.tell(us, id, e)
	e = score("b", 2, 1)
	e.Comment = secret("park")
	r.post(us, replyKey, e)
	r.age()
	if err := r.drain(); err != nil {
		t.Fatal(err)
	}
	same(t, "name in memory, where the client asks for it", ses.Identity.Name, name)
	check := func(when string, text []byte) {
		t.Helper()
		for _, p := range places {
			if i := bytes.Index(text, []byte(secret(p)[:12])); i >= 0 {
				t.Errorf("%s: the secret of %s is there: %q", when, p, text[max(i-40, 0):min(i+60, len(text))])
			}
		}
		if bytes.Contains(text, []byte("amy@example.com")) {
			t.Errorf("%s: the address is there", when)
		}
	}
	check("while it is open", onDisk(t, r.dir))
	check("read back", r.readBack(id))
	if !bytes.Contains(r.readBack(id), []byte("Paint the shed")) {
		t.Error("what is harmless is gone, too")
	}
	if r.Tally.Redactions.Load() == 0 {
		t.Error("no redaction was counted")
	}
	r.stop()
	check("after the stop", onDisk(t, r.dir))
}

// readBack is all that the backend tells of a session.
func (r *rig) readBack(id session.ID) []byte {
	r.t.Helper()
	var all []any
	row, _, err := r.be.Session(r.ctx(), us, id)
	all = append(all, string(row.Data), err)
	ex, err := r.be.Exchanges(r.ctx(), us, id)
	all = append(all, ex, err)
	fb, err := r.be.Feedback(r.ctx(), us, id)
	all = append(all, fb, err)
	if len(ex) > 0 {
		for _, s := range built(us, id, ex, fb) {
			all = append(all, s)
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		r.t.Fatal(err)
	}
	return text
}

// Equal texts of a session stay equal, so that what follows from them does.
func TestRedactionKeepsFeedbackTheSame(t *testing.T) {
	t.Parallel()
	s := &optouts{}
	s.personal.Store(true)
	e := score("a", 1, .5)
	e.Comment, e.Rater = "ask amy@example.com", "amy@example.com"
	e = s.cleanEntry(e)
	same(t, "comment", e.Comment, "ask [REDACTED:email:1]")
	same(t, "hash", e.Hash, e.ContentHash())
	again := s.cleanEntry(e)
	same(t, "cleaned twice", again.Hash, e.Hash)
	s.personal.Store(false)
	e = s.cleanEntry(feedback.Entry{Comment: "ask amy@example.com"})
	same(t, "where it is not asked for", e.Comment, "ask amy@example.com")
}

func TestOptOutByPath(t *testing.T) {
	t.Parallel()
	out, err := sample.NewOptOut([]string{"*.env"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	read := func(path string) string { b, _ := json.Marshal(map[string]string{"path": path}); return string(b) }
	for name, c := range map[string]struct {
		calls, answered []string
		kept            bool
	}{
		"nothing named":             {nil, nil, true},
		"another file":              {[]string{read("main.go")}, []string{read("go.mod")}, true},
		"a call":                    {[]string{read("main.go"), read("config/.env")}, nil, false},
		"in capitals, on Windows":   {[]string{read(`C:\x\.ENV`)}, nil, false},
		"the call that is answered": {nil, []string{read("main.go"), read("./prod.env")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(o *Options) { o.OptOut = out })
			id := r.begin(us, "s", picked(true))
			ses := r.Resident(id)
			ses.Lock()
			ses.Thread.Calls = map[string]wire.Call{}
			for i, args := range append(c.calls, c.answered...) {
				ses.Thread.Calls[string(rune('a'+i))] = wire.Call{Args: args}
			}
			ses.Unlock()
			r.Release(ses, Decided)
			x := exchange(us, "s", 1, r.clk.now())
			x.Reply.Text = "zebra crossing"
			for _, args := range c.calls {
				x.Reply.Calls = append(x.Reply.Calls, sample.Call{Name: "read", Args: args})
			}
			r.Offer(Turn{Exchange: x, Size: 100, Answered: c.answered})
			r.age()
			want, counted := 0, int64(1)
			if c.kept {
				want, counted = 1, 0
			}
			same(t, "kept", r.exchanges(id), want)
			same(t, "counted", r.Tally.OptedOut.Load(), counted)
			r.idle()
			text := strings.ToLower(string(r.readBack(id)))
			same(t, "its text", strings.Contains(text, "zebra"), c.kept)
			if strings.Contains(text, ".env") {
				t.Errorf("the path is remembered: %s", text)
			}
			same(t, "sessions that are known", r.counter("", "closed"), float64(want))
		})
	}
}

// Where nothing may be learned, sessions still count and no sample is made.
func TestLearnOff(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.Learn = false })
	id := r.begin(us, "s", picked(true))
	r.record()
	r.tell(us, id, score("a", 1, 1))
	r.be.asked()
	r.age()
	for _, op := range r.be.asked() {
		if op == "samples" {
			t.Error("samples were written")
		}
	}
	same(t, "told", r.counter("", "told"), 1)
}
