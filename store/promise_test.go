package store_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"precept/bandit/feedback"
	"precept/internal/label"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store"
	"precept/store/sqlite"
)

// What the store promises to whoever opens it, runs it, and closes or loses it.

const (
	us   = "default"
	word = "zanzibar" // in what is said in a session
	// aWhile is after when what came is delivered, and the checkpoint tells of it.
	aWhile = 3 * time.Second
)

var errAway = errors.New("the backend is away") //nolint:gochecknoglobals // an error to compare with

// away is a backend that takes nothing while it is away.
type away struct {
	*sqlite.Store
	gone atomic.Bool
}

func (a *away) Write(ctx context.Context, b session.Batch) error {
	if a.gone.Load() {
		return errAway
	}
	return a.Store.Write(ctx, b)
}

// house is a store that runs over a database in a directory.
type house struct {
	*store.Store
	t   *testing.T
	dir string
	be  *away
	end context.CancelFunc
	ran chan error
}

// run opens the store of a directory, and runs it until the test ends or stops it. change alters
// its options; nil leaves them.
func run(t *testing.T, dir string, change func(o *store.Options)) *house {
	t.Helper()
	h := &house{t: t, dir: dir, be: &away{Store: database(t, dir)}, ran: make(chan error, 1)}
	o := store.Options{
		Now: time.Now, Backend: h.be, HoldBytes: 1 << 20, Learn: true, Lookup: time.Minute,
		SpoolDir: filepath.Join(dir, "spool"), SpoolBytes: 1 << 30,
		Failed: func(step label.Step, err error) {
			if !errors.Is(err, errAway) {
				t.Errorf("%s: %v", step, err)
			}
		},
		Panicked: func(step label.Step, value any) { t.Errorf("%s panicked: %v", step, value) },
	}
	if change != nil {
		change(&o)
	}
	var err error
	if h.Store, err = store.Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	h.end = end
	go func() { h.ran <- h.Run(ctx) }()
	t.Cleanup(func() {
		if h.Store != nil {
			h.stop()
		}
	})
	return h
}

func database(t *testing.T, dir string) *sqlite.Store {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(dir, "precept.db"), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// stop ends the store as a program does that stops.
func (h *house) stop() {
	h.t.Helper()
	h.end()
	if err := errors.Join(<-h.ran, h.Close()); err != nil {
		h.t.Error(err)
	}
	h.Store = nil
}

// begin is a request of a session that goes out: the session's record, and a turn under way.
func (h *house) begin(name string, turn int) store.Turn {
	id := idOf(name)
	h.Release(h.Add(&session.Record{
		Identity: session.Identity{ID: id, Tenant: us, Agent: "coder", Name: name, Method: session.ByHeader, Started: time.Now(), Seen: time.Now()},
		Thread:   session.Thread{Turns: 1},
	}), store.Decided)
	x := &sample.Exchange{
		ID: fmt.Sprintf("%x-%x-40%x-80%x-%012x", id[:4], id[4:6], id[6:7], id[7:8], turn), Tenant: us, Agent: "coder",
		Session: id.String(), SessionName: name, RequestID: fmt.Sprint(name, turn), Turn: turn, At: time.Now(),
		Dialect: "chat", Model: "m-1", Status: 200, Outcome: sample.Complete,
	}
	return store.Turn{Exchange: x, Begun: h.Begin(x), Size: 100}
}

// over ends a turn.
func (h *house) over(t store.Turn) {
	h.t.Helper()
	t.Exchange.New = []json.RawMessage{json.RawMessage(`{"role":"user","content":"Where is ` + word + `?"}`)}
	t.Exchange.Reply.Text = cmp.Or(t.Exchange.Reply.Text, "In the shed.")
	if !h.Offer(t) {
		h.t.Errorf("turn %d was refused", t.Exchange.Turn)
	}
}

// played is a turn from its beginning to its end.
func (h *house) played(name string, turn int) { h.over(h.begin(name, turn)) }

// kept lists what the backend has of a session, and whether it has its row.
func (h *house) kept(name string) (turns []string, row bool) {
	h.t.Helper()
	list, err := h.be.Exchanges(h.t.Context(), us, idOf(name))
	if err != nil {
		h.t.Fatal(err)
	}
	for i := range list {
		turns = append(turns, fmt.Sprint(list[i].Turn, " ", list[i].Outcome))
	}
	slices.Sort(turns)
	_, row, err = h.be.Session(h.t.Context(), us, idOf(name))
	if err != nil {
		h.t.Fatal(err)
	}
	return turns, row
}

// holds fails unless the backend has exactly these turns of a session, and its row with them.
func (h *house) holds(name string, want ...string) {
	h.t.Helper()
	turns, row := h.kept(name)
	if !slices.Equal(turns, want) || row != (len(want) > 0) {
		h.t.Errorf("of %q there is %q, its row %v; want %q", name, turns, row, want)
	}
}

// adds fails unless the account of a directory is so, and adds up.
func adds(t *testing.T, dir string, running bool, want store.Account) {
	t.Helper()
	have, err := store.ReadAccount(filepath.Join(dir, "spool"), running)
	if err != nil {
		t.Fatal(err)
	}
	sum := have.Stored + have.Spooled + have.Incomplete
	for _, n := range have.Dropped {
		sum += n
	}
	if want.Dropped == nil {
		want.Dropped = map[string]int64{}
	}
	if fmt.Sprint(have) != fmt.Sprint(want) || sum != have.Admitted {
		t.Errorf("the account is %+v, want %+v", have, want)
	}
}

// named says whether a text stands in any file of a directory.
func named(t *testing.T, dir, text string) bool {
	t.Helper()
	found := false
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(filepath.Join(dir, path))
		found = found || bytes.Contains(b, []byte(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func idOf(name string) session.ID { return session.KeyOf(us, session.SpaceName, name) }

// archive shows what is kept.
func (h *house) archive() *store.Archive {
	return h.Archive(feedback.Definition{CloseAfter: time.Hour})
}

// What comes in is in the backend after a while, and is shown.
func TestWhatComesInIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := run(t, t.TempDir(), nil)
		h.played("s", 1)
		key := session.EchoKeyOf(us, "r:reply")
		h.Note(session.Echo{Tenant: us, Key: key, ID: idOf("s"), At: time.Now()})
		time.Sleep(aWhile)
		h.holds("s", "1 complete")
		adds(t, h.dir, true, store.Account{Admitted: 1, Stored: 1})
		if got := h.Echoes(t.Context(), us, []session.EchoKey{key}); !slices.Equal(got[key], []session.ID{idOf("s")}) {
			t.Errorf("the reply went by in %v", got)
		}
		if !h.Healthy() || h.Lag() != 0 || h.Tally.Exchanges.Load() != 1 || h.Tally.Pending.Load() != 0 {
			t.Errorf("healthy %v, %v behind, %d written, %d waiting", h.Healthy(), h.Lag(), h.Tally.Exchanges.Load(), h.Tally.Pending.Load())
		}
		list, err := h.archive().Browse(t.Context(), store.SessionQuery{Tenant: us})
		if err != nil || len(list.Sessions) != 1 || list.Sessions[0].Name != "s" {
			t.Errorf("listed: %+v, %v", list.Sessions, err)
		}
		shown, err := h.archive().Transcript(t.Context(), us, "s", 0)
		if text := fmt.Sprint(shown.Said); err != nil || !strings.Contains(text, word) || !strings.Contains(text, "In the shed.") {
			t.Errorf("shown: %s, %v", text, err)
		}
	})
}

// A stop writes all that still waits: turns, sessions, and feedback.
func TestAStopWritesEverything(t *testing.T) {
	t.Parallel()
	const n = 700
	dir := t.TempDir()
	h := run(t, dir, nil)
	for i := range n {
		h.played(fmt.Sprint("s", i), 1)
	}
	e := feedback.Entry{ID: "f", At: time.Now(), Source: feedback.SourceUser, Type: feedback.TypeScore, Score: 1, Tier: feedback.TierUser}
	if p, err := h.Post(t.Context(), us, []session.ID{idOf("s0")}, 0, e); err != nil || p.Status != store.Joined {
		t.Errorf("posted: %+v, %v", p, err)
	}
	running := h.Store
	h.stop()
	<-running.Drained()
	if n := running.Tally.Pending.Load(); n != 0 {
		t.Errorf("%d are still waiting", n)
	}
	adds(t, dir, false, store.Account{Admitted: n, Stored: n})
	h = run(t, dir, nil)
	for i := range n {
		h.holds(fmt.Sprint("s", i), "1 complete")
	}
	said, err := h.be.Feedback(t.Context(), us, idOf("s0"))
	if err != nil || len(said) != 1 || said[0].ID != "f" {
		t.Errorf("of the first was said %+v, %v", said, err)
	}
}

// What was under way when the program was killed is found as a stub by the next start, once,
// however often it is killed again. What was over is there, whole.
func TestAKillLeavesStubs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := run(t, t.TempDir(), nil)
		h.played("s", 1)
		under := h.begin("s", 2)
		time.Sleep(aWhile)
		adds(t, h.dir, true, store.Account{Admitted: 2, Stored: 1, Spooled: 1})
		dir := h.dir
		for range 2 {
			left := t.TempDir()
			if err := os.CopyFS(left, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			dir = left
			adds(t, dir, false, store.Account{Admitted: 2, Stored: 1, Incomplete: 1})
			next := run(t, dir, nil)
			time.Sleep(aWhile)
			next.holds("s", "1 complete", "2 incomplete")
			adds(t, dir, true, store.Account{Admitted: 2, Stored: 1, Incomplete: 1})
		}
		h.over(under) // where nothing was killed it ends as ever
		time.Sleep(aWhile)
		h.holds("s", "1 complete", "2 complete")
	})
}

// Who is forgotten is gone from memory, from the spool's files and from the backend's; what a
// request brings that was under way stays out. Others stay, and so does the account.
func TestForgetting(t *testing.T) {
	t.Parallel()
	for by, forget := range map[string]func(h *house) (int, error){
		"name":   func(h *house) (int, error) { return h.ForgetSession(h.t.Context(), us, "s") },
		"id":     func(h *house) (int, error) { return h.ForgetSession(h.t.Context(), us, idOf("s").String()) },
		"tenant": func(h *house) (int, error) { return h.ForgetTenant(h.t.Context(), us) },
	} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := run(t, t.TempDir(), nil)
				h.played("s", 1)
				under := h.begin("s", 2)
				time.Sleep(aWhile)
				if n, err := h.ForgetSession(t.Context(), "them", "s"); n != 0 || err != nil {
					t.Errorf("another tenant forgot %d, %v", n, err)
				}
				if !named(t, h.dir, word) {
					t.Fatal("the word is not there before it is forgotten: this test finds nothing")
				}
				if n, err := forget(h); n != 1 || err != nil {
					t.Errorf("forgot %d, %v", n, err)
				}
				if h.Resident(idOf("s")) != nil || h.Sessions() != 0 {
					t.Error("it is in memory")
				}
				if named(t, h.dir, word) {
					t.Error("it is in a file")
				}
				h.over(under)
				time.Sleep(aWhile)
				h.holds("s")
				if _, err := h.archive().Transcript(t.Context(), us, "s", 0); !errors.Is(err, store.ErrNoSession) {
					t.Errorf("it is shown: %v", err)
				}
				if n, err := forget(h); n != 0 || err != nil {
					t.Errorf("forgot %d more, %v", n, err)
				}
				time.Sleep(time.Second)
				h.played("s", 1) // and anew
				time.Sleep(aWhile)
				h.holds("s", "1 complete")
				h.stop()
				adds(t, h.dir, false, store.Account{Admitted: 3, Stored: 2, Dropped: map[string]int64{"opted_out": 1}})
			})
		})
	}
}

// A turn that opted out leaves nothing but its number in the account: nothing in a file, nothing
// that feedback could join. The turn before it stays.
func TestAnOptedOutTurnLeavesNothing(t *testing.T) {
	t.Parallel()
	rules, err := sample.NewOptOut([]string{"*.env"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		h := run(t, t.TempDir(), func(o *store.Options) { o.OptOut = rules })
		h.played("kept", 1)
		out := h.begin("out", 1)
		out.Exchange.Reply.Calls = []sample.Call{{ID: "c", Name: "read", Args: `{"path":"` + word + `/.env"}`}}
		out.Exchange.Reply.Text = "In pemba."
		h.over(out)
		time.Sleep(10 * aWhile)
		h.holds("kept", "1 complete")
		if turns, _ := h.kept("out"); len(turns) > 0 {
			t.Errorf("of what opted out there is %q", turns)
		}
		h.stop()
		if named(t, h.dir, word+"/.env") || named(t, h.dir, "pemba") {
			t.Error("what opted out is in a file")
		}
		adds(t, h.dir, false, store.Account{Admitted: 2, Stored: 1, Dropped: map[string]int64{"opted_out": 1}})
	})
}

// While the backend is away what comes waits in the spool, and nothing is refused; when it is back,
// everything is there once.
func TestABackendThatIsAwayComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := run(t, t.TempDir(), nil)
		h.be.gone.Store(true)
		for turn := 1; turn <= 3; turn++ {
			h.played("s", turn)
			time.Sleep(aWhile)
		}
		h.holds("s")
		adds(t, h.dir, true, store.Account{Admitted: 3, Spooled: 3})
		if h.Healthy() || h.Lag() < aWhile || h.Tally.WriteErrors.Load() == 0 {
			t.Errorf("healthy %v, %v behind, %d failures", h.Healthy(), h.Lag(), h.Tally.WriteErrors.Load())
		}
		h.be.gone.Store(false)
		time.Sleep(aWhile)
		h.holds("s", "1 complete", "2 complete", "3 complete")
		adds(t, h.dir, true, store.Account{Admitted: 3, Stored: 3})
		if !h.Healthy() || h.Lag() != 0 {
			t.Errorf("healthy %v, %v behind", h.Healthy(), h.Lag())
		}
	})
}
