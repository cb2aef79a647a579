package store

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/bandit"
	"precept/sample"
	"precept/session"
)

// books draws up the account of the rig's directory, which balances.
func (r *rig) books(running bool) Books {
	r.t.Helper()
	b, err := ReadBooks(filepath.Join(r.dir, "spool"), running)
	if err != nil {
		r.t.Fatal(err)
	}
	sum := b.Stored + b.Spooled + b.Incomplete
	for _, n := range b.Dropped {
		sum += n
	}
	if sum != b.Admitted {
		r.t.Errorf("the books do not balance: %+v", b)
	}
	return b
}

// account is books as text: admitted = stored + spooled + incomplete + dropped.
func (r *rig) account(running bool) string {
	r.t.Helper()
	r.clk.add(cursorEvery) // the cursor may be as old
	if err := r.keepCursor(r.b, r.clk.now()); err != nil {
		r.t.Fatal(err)
	}
	b := r.books(running)
	text := fmt.Sprintf("%d = %d + %d + %d", b.Admitted, b.Stored, b.Spooled, b.Incomplete)
	for _, reason := range slices.Sorted(maps.Keys(b.Dropped)) {
		text += fmt.Sprintf(" + %d %s", b.Dropped[reason], reason)
	}
	return text
}

// under begins a turn that is under way.
func (r *rig) under(name string, turn int) (*sample.Exchange, *Begun) {
	r.t.Helper()
	x := exchange(us, name, turn, r.clk.now())
	return x, r.Begin(x)
}

// over ends it.
func (r *rig) over(x *sample.Exchange, b *Begun) {
	r.t.Helper()
	if !r.Offer(Turn{Exchange: x, Begun: b, Size: 100}) {
		r.t.Fatalf("turn %d was refused", x.Turn)
	}
}

// stored lists a session's turns in the backend with their outcomes.
func (r *rig) stored(name string) (turns []string) {
	r.t.Helper()
	list, err := r.be.Backend.Exchanges(r.ctx(), us, session.KeyOf(us, session.SpaceName, name))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range list {
		turns = append(turns, fmt.Sprint(list[i].Turn, " ", list[i].Outcome))
	}
	slices.Sort(turns)
	return turns
}

// spooled says whether a text stands in the spool's files.
func (r *rig) spooled(text string) (in []string) {
	r.t.Helper()
	err := filepath.WalkDir(filepath.Join(r.dir, "spool"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), text) {
			in = append(in, filepath.Base(path))
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return in
}

// What was under way when precept died is told once, as a stub, and what had ended is there, whole.
func TestACrashLeavesStubs(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.begin(us, "s", picked(true))
	x1, b1 := r.under("s", 1)
	r.under("s", 2)
	r.record()
	r.over(x1, b1)
	_, b3 := r.under("s", 3)
	r.record()
	r.Abandon(b3)
	r.under("s", 4)
	r.record()
	same(t, "running", r.account(true), "4 = 1 + 2 + 0 + 1 bad")
	same(t, "dead", r.account(false), "4 = 1 + 0 + 2 + 1 bad")
	for range 3 { // a crash, and two more
		r = r.again(nil)
		r.record()
		sameList(t, "stored", r.stored("s"), []string{"1 complete", "2 incomplete", "4 incomplete"})
		same(t, "books", r.account(true), "4 = 1 + 0 + 2 + 1 bad")
	}
	x5, b5 := r.under("s", 5)
	r.over(x5, b5)
	r.record()
	same(t, "then", r.account(true), "5 = 2 + 0 + 2 + 1 bad")
	list, err := r.be.Exchanges(r.ctx(), us, session.KeyOf(us, session.SpaceName, "s"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if x := list[i]; x.Outcome == sample.Incomplete && (len(x.New) > 0 || x.Reply.Text != "" || x.SessionName != "s" || x.Model != "m-1") {
			t.Errorf("a stub: %+v", x)
		}
	}
}

// However a turn ends, it is in the books once.
func TestEveryEndIsBooked(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		end  func(r *rig, x *sample.Exchange, b *Begun)
		fast string // when it ends before anything of it was put down
		slow string
	}{
		"kept":      {func(r *rig, x *sample.Exchange, b *Begun) { r.over(x, b) }, "1 = 1 + 0 + 0", "1 = 1 + 0 + 0"},
		"abandoned": {func(r *rig, _ *sample.Exchange, b *Begun) { r.Abandon(b); r.Abandon(b) }, "1 = 0 + 0 + 0 + 1 bad", "1 = 0 + 0 + 0 + 1 bad"},
		"kept and abandoned": {func(r *rig, x *sample.Exchange, b *Begun) {
			r.over(x, b)
			r.Abandon(b)
		}, "1 = 1 + 0 + 0", "1 = 1 + 0 + 0"},
		"no room": {func(r *rig, x *sample.Exchange, b *Begun) {
			r.Offer(Turn{Exchange: x, Begun: b, Size: 2 << 20})
			r.Abandon(b)
		}, "1 = 0 + 0 + 0 + 1 full", "1 = 0 + 0 + 0 + 1 full"},
		"panic": {func(r *rig, x *sample.Exchange, b *Begun) {
			r.Offer(Turn{Exchange: nil, Begun: b, Size: 1})
		}, "1 = 0 + 0 + 0 + 1 bad", "1 = 0 + 0 + 0 + 1 bad"},
		"opted out": {func(r *rig, x *sample.Exchange, b *Begun) {
			x.Reply.Calls = []sample.Call{{ID: "c", Name: "read", Args: `{"path":"config/.env"}`}}
			r.over(x, b)
		}, "1 = 0 + 0 + 0 + 1 opted_out", "1 = 0 + 0 + 0 + 1 opted_out"},
		"never to be stored": {func(r *rig, x *sample.Exchange, b *Begun) {
			x.Session = "not an id"
			r.over(x, b)
		}, "1 = 0 + 0 + 0 + 1 bad", "1 = 0 + 0 + 0 + 1 bad"},
		"not at all": {func(*rig, *sample.Exchange, *Begun) {}, "1 = 0 + 1 + 0", "1 = 0 + 1 + 0"},
	}
	for name, tc := range cases {
		for _, slow := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", slow ", slow), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, func(o *Options) {
					var err error
					if o.OptOut, err = sample.NewOptOut([]string{"*.env"}, nil, nil); err != nil {
						t.Fatal(err)
					}
				})
				x, b := r.under("s", 1)
				want := tc.fast
				if slow {
					r.record()
					want = tc.slow
				}
				tc.end(r, x, b)
				r.record()
				same(t, "books", r.account(true), want)
				r.idle()
				r = r.again(nil)
				r.record()
				want = strings.Replace(want, "0 + 1 + 0", "0 + 0 + 1", 1)
				same(t, "after a crash", r.account(true), want)
			})
		}
	}
}

// Of an exchange that opted out not even its beginning stays in the spool.
func TestTheBeginningOfWhatOptedOutGoes(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.OptOut, _ = sample.NewOptOut([]string{"*.env"}, nil, nil) })
	x, b := r.under("zanzibar", 1)
	r.record()
	same(t, "it was put down", len(r.spooled("zanzibar")) > 0, true)
	x.Reply.Calls = []sample.Call{{ID: "c", Name: "read", Args: `{"path":"/src/.env"}`}}
	r.over(x, b)
	r.record()
	r.clk.add(syncEvery)
	r.record()
	sameList(t, "files that name it", r.spooled("zanzibar"), nil)
	sameList(t, "stored", r.stored("zanzibar"), nil)
}

// Beginnings and ends come from many goroutines while the recorder works; none is lost, none counted twice.
func TestManyTurnsAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.HoldBytes = 1 << 30; o.Now = time.Now })
	ctx, stop := context.WithCancel(r.ctx())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	const workers, turns = 16, 150
	var kept, bad atomic.Int64
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 1)) //nolint:gosec // a test's order of events
			for i := range turns {
				x := exchange(us, fmt.Sprint("s", w), i+1, when)
				b := r.Begin(x)
				for range rnd.IntN(3) {
					runtime.Gosched()
				}
				if i%50 == 49 {
					time.Sleep(60 * time.Millisecond) // it is seen by the recorder
				}
				if rnd.IntN(4) == 0 {
					r.Abandon(b)
					bad.Add(1)
				} else {
					r.Offer(Turn{Exchange: x, Begun: b, Size: 10})
					r.Abandon(b)
					kept.Add(1)
				}
			}
		})
	}
	all.Wait()
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	b := r.books(false)
	same(t, "admitted", b.Admitted, workers*turns)
	same(t, "stored", b.Stored, kept.Load())
	same(t, "dropped", b.Dropped[droppedBad], bad.Load())
	same(t, "written", r.Tally.Exchanges.Load(), kept.Load())
	r.idle()
}

// A backend that hangs holds nothing up: what ends meanwhile is in the spool at once.
func TestASlowBackendDoesNotHoldUpTheSpool(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.Now = time.Now })
	hang, hung := make(chan struct{}), make(chan struct{}, 1)
	r.be.hook = func(op string) {
		if op == "write" {
			select {
			case hung <- struct{}{}:
			default:
			}
			<-hang
		}
	}
	ctx, stop := context.WithCancel(r.ctx())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	r.offer("first", 1)
	<-hung
	for i := range 3 {
		name := fmt.Sprint("meanwhile-", i)
		r.offer(name, 1)
		for deadline := time.Now().Add(20 * time.Second); len(r.spooled(name)) == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("it waits for the backend")
			}
		}
	}
	same(t, "in the books", r.account(true), "4 = 0 + 4 + 0")
	close(hang)
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	same(t, "then", r.account(false), "4 = 4 + 0 + 0")
}

// A long outage goes through the spool, not through memory, and everything is stored once, in order.
func TestABacklogIsRead(t *testing.T) {
	t.Parallel()
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprint("crash ", crash), func(t *testing.T) {
			t.Parallel()
			small := func(o *Options) { o.HoldBytes = 4000 }
			r := newRig(t, small)
			r.be.failNext("write", 1<<30, errDown)
			for i := range 50 {
				name := fmt.Sprint("s", i)
				r.begin(us, name, picked(true))
				r.note(session.EchoKey(1000+i), session.KeyOf(us, session.SpaceName, name))
				r.offer(name, 1, 2)
				r.clk.add(time.Second)
				r.record()
			}
			same(t, "behind", r.books(true).Spooled, 100)
			same(t, "pending", r.Tally.Pending.Load(), 100)
			if held := r.heldBytes.Load(); held > 2000 {
				t.Errorf("%d bytes are held", held)
			}
			same(t, "dropped", r.Tally.DroppedFull.Load(), 0)
			r.be.failNext("write", 0, nil)
			if crash {
				r = r.again(small)
			}
			r.clk.add(time.Second)
			r.record()
			r.offer("s0", 3)
			r.record()
			same(t, "books", r.account(true), "101 = 101 + 0 + 0")
			r.idle()
			for i := range 50 {
				id := session.KeyOf(us, session.SpaceName, fmt.Sprint("s", i))
				want := 2
				if i == 0 {
					want = 3
				}
				same(t, "turns", r.exchanges(id), want)
				if _, ok, err := r.be.Session(r.ctx(), us, id); !ok || err != nil {
					t.Errorf("the session: %v %v", ok, err)
				}
				key := session.EchoKey(1000 + i)
				if got := r.Echoes(r.ctx(), us, []session.EchoKey{key}); len(got[key]) != 1 || got[key][0] != id {
					t.Errorf("echo: %v", got)
				}
			}
		})
	}
}

// A session of which the row is in the spool alone is not taken for one that nobody knows.
func TestBlindAfterARestart(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.be.failNext("write", 1<<30, errDown)
	id := r.begin(us, "s", picked(true))
	r.record()
	_, late := r.Acquire(r.ctx(), us, session.ID{9})
	same(t, "while it is in memory", late, false)
	down := func(o *Options) {
		f := &faulty{Backend: o.Backend.(*faulty).Backend, fail: map[string]int{"write": 1}, err: errDown}
		o.Backend = f
	}
	r = r.again(down)
	_, late = r.Acquire(r.ctx(), us, id)
	same(t, "after a restart", late, true)
	r.clk.add(time.Second)
	r.record()
	ses, late := r.Acquire(r.ctx(), us, id)
	if ses == nil || late {
		t.Fatalf("delivered: %v, late %v", ses, late)
	}
	r.Release(ses, Unchanged)
}

// epochal is a backend that can lose what it has taken.
type losing struct {
	*faulty
	epoch string
	syncs int
}

func (l *losing) Epoch(context.Context) (string, error) { return l.epoch, l.call("epoch") }
func (l *losing) Sync(context.Context) error            { l.syncs++; return l.call("sync") }

// lose deletes what the backend has of a session.
func (r *rig) lose(name string) {
	r.t.Helper()
	if ok, err := r.be.Forget(r.ctx(), us, session.KeyOf(us, session.SpaceName, name)); !ok || err != nil {
		r.t.Fatal(ok, err)
	}
}

func TestWhatTheBackendLostIsDeliveredAgain(t *testing.T) {
	t.Parallel()
	var be *losing
	with := func(o *Options) {
		be = &losing{faulty: o.Backend.(*faulty), epoch: "one"}
		o.Backend = be
	}
	r := newRig(t, with)
	play := func(name string) {
		r.begin(us, name, picked(true))
		r.offer(name, 1)
		r.clk.add(syncEvery)
		r.record()
	}
	play("old") // safe by the time of the loss
	for range 4 {
		play("between")
	}
	play("young")
	same(t, "books", r.account(true), "6 = 6 + 0 + 0")
	r.lose("old")
	r.lose("young")
	be.epoch = "two"
	r.clk.add(epochEvery)
	r.record()
	sameList(t, "delivered again", r.stored("young"), []string{"1 complete"})
	sameList(t, "safe, and gone", r.stored("old"), nil)
	same(t, "books", r.account(true), "6 = 6 + 0 + 0")
	r.idle()

	// While nobody looked, and with an end that is under way.
	x, b := r.under("young", 2)
	r.record()
	r.over(x, b)
	r.record()
	if err := r.shut(r.b); err != nil {
		t.Fatal(err)
	}
	r.lose("young")
	r = r.again(func(o *Options) { with(o); be.epoch = "three" })
	r.clk.add(epochEvery)
	r.record()
	sameList(t, "after a stop", r.stored("young"), []string{"1 complete", "2 complete"})
	same(t, "books", r.account(true), "7 = 7 + 0 + 0")
	sameList(t, "failures", r.failed(), nil)
}

// The spool is kept until what was delivered is safe, and no longer.
func TestReleaseWhenSafe(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{true, false} {
		t.Run(fmt.Sprint("shared ", shared), func(t *testing.T) {
			t.Parallel()
			var be *losing
			r := newRig(t, func(o *Options) {
				if shared {
					be = &losing{faulty: o.Backend.(*faulty), epoch: "one"}
					o.Backend = be
				}
			})
			dir := filepath.Join(r.dir, "spool")
			r.offer("s", 1)
			r.record()
			r.spool.end.Offset += roomy // as if it had grown
			if err := r.spool.f.Truncate(r.spool.end.Offset); err != nil {
				t.Fatal(err)
			}
			r.offer("s", 2)
			r.record()
			first := segmentsOf(t, dir)
			same(t, "segments", len(first), 1)
			r.clk.add(syncEvery)
			r.record()
			same(t, "after a sync", len(segmentsOf(t, dir)), map[bool]int{true: 1, false: 0}[shared])
			if shared {
				same(t, "synced", be.syncs > 0, true)
				for at := syncEvery; at <= safeAge; at += syncEvery {
					same(t, fmt.Sprint("before ", at), len(segmentsOf(t, dir)), 1)
					r.clk.add(syncEvery)
					r.record()
				}
				same(t, "when it is safe", len(segmentsOf(t, dir)), 0)
			}
			r.offer("s", 3)
			r.record()
			r = r.again(nil)
			r.record()
			same(t, "books", r.account(true), "3 = 3 + 0 + 0")
		})
	}
}

// A spool that has reached its quota drops the newest, books it, and goes on when there is room.
func TestQuota(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.SpoolBytes = 12 << 10 })
	r.be.failNext("write", 1<<30, errDown)
	x, b := r.under("slow", 1)
	for i := range 40 {
		r.offer("s", i+1)
		r.record()
		r.clk.add(time.Second)
	}
	r.over(x, b)
	r.under("late", 1)
	r.record()
	books := r.books(true)
	dropped := books.Dropped[droppedQuota]
	if dropped < 5 || dropped > 38 {
		t.Fatalf("%+v", books)
	}
	same(t, "told", r.Tally.DroppedQuota.Load(), dropped)
	same(t, "bytes held", r.heldBytes.Load() <= 100*(books.Spooled+1), true)
	r.be.failNext("write", 0, nil)
	r.clk.add(time.Minute)
	r.record()
	r.clk.add(time.Minute)
	r.record()
	r.offer("s", 100)
	r.record()
	r.idle()
	same(t, "the oldest are there", r.stored("s")[0], "1 complete")
	same(t, "and the newest", slices.Contains(r.stored("s"), "100 complete"), true)
	r.account(true)
	books = r.books(true)
	same(t, "dropped in all", books.Dropped[droppedQuota], dropped)
	same(t, "stored", books.Stored, 42-dropped)
}

// What is forgotten stands in none of the spool's files: not in segments, nor in the cursor, nor in quarantine.
func TestForgetPurgesTheSpool(t *testing.T) {
	t.Parallel()
	for _, tenant := range []bool{false, true} {
		t.Run(fmt.Sprint("tenant ", tenant), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			const word = "zanzibar"
			r.begin(us, word, picked(true))
			r.offer(word, 1)
			x, b := r.under(word, 2)
			r.record()
			r.under(word, 3) // not even begun, for the spool
			dir := filepath.Join(r.dir, "spool")
			if err := os.MkdirAll(filepath.Join(dir, quarantineDir), 0o700); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{filepath.Join(quarantineDir, "x.bin"), damagedCursor} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(word), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			same(t, "files that name it", len(r.spooled(word)) >= 3, true)
			n, err := r.chores(func() (int, error) {
				if tenant {
					return r.ForgetTenant(t.Context(), us)
				}
				return r.ForgetSession(t.Context(), us, word)
			})
			same(t, "forgotten", fmt.Sprint(n, err), fmt.Sprint(1, nil))
			sameList(t, "afterwards", r.spooled(word), nil)
			r.record()
			sameList(t, "with the rest of it under way", r.spooled(word), nil)
			r.over(x, b)
			r.record()
			sameList(t, "at its end", r.spooled(word), nil)
			r = r.again(nil)
			r.record()
			sameList(t, "after a crash", r.spooled(word), nil)
			sameList(t, "stored", r.stored(word), nil)
			r.books(true)
		})
	}
}

// Without a place for a spool precept goes on, and says so.
func TestNoPlaceForASpool(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) {
		o.SpoolDir = filepath.Join(o.SpoolDir, "below")
		if err := os.WriteFile(filepath.Dir(o.SpoolDir), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	})
	sameList(t, "told", r.failed(), []string{"spool"})
	x, b := r.under("s", 1)
	r.over(x, b)
	r.be.failNext("write", 3, errDown)
	for i := range 4 {
		r.begin(us, "s", bandit.Assignment{})
		r.offer("s", i+2)
		r.record()
		r.clk.add(time.Second)
	}
	r.record()
	same(t, "stored", len(r.stored("s")), 5)
	r.idle()
}

// A stop loses nothing that the backend can take, even when the spool cannot.
func TestStopWithABrokenSpool(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.offer("s", 1)
	r.record()
	mend := breakSpool(r.spool)
	r.offer("s", 2)
	r.record()
	same(t, "told", slices.Contains(r.failed(), "spool"), true)
	same(t, "healthy", r.Healthy(), false)
	if err := r.drain(r.b); err == nil {
		t.Error("a cursor that could not be written was not told")
	}
	sameList(t, "stored", r.stored("s"), []string{"1 complete", "2 complete"})
	same(t, "waiting", r.unwritten(r.b), 0)
	mend()
	same(t, "books", r.account(false), "2 = 2 + 0 + 0")
}

// What neither the spool nor the backend can take at a stop is told.
func TestStopTellsOfALoss(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.offer("s", 1)
	r.record()
	breakSpool(r.spool)
	r.be.failNext("write", 9, errDown)
	r.offer("s", 2)
	if err := r.drain(r.b); err == nil {
		t.Error("no error")
	}
	same(t, "told", slices.Contains(r.failed(), "stop"), true)
}

// breakSpool makes every further write fail, until it is mended.
func breakSpool(s *spool) (mend func()) {
	dir := s.dir
	s.dir, s.fresh = filepath.Join(dir, "none"), true
	return func() { s.dir = dir }
}

// While nothing can be put down, memory does not grow with the turns that begin and end.
func TestABrokenSpoolIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.HoldBytes = 1000 })
	r.offer("s", 1)
	r.record()
	mend := breakSpool(r.spool)
	for i := range 300 {
		x, b := r.under("s", i+2)
		r.begin(us, "s", bandit.Assignment{})
		r.clk.add(time.Second)
		r.record()
		r.Offer(Turn{Exchange: x, Begun: b, Size: 100})
	}
	r.record()
	p := &r.b.next
	same(t, "exchanges", len(p.exchanges), 10)
	same(t, "beginnings and ends", len(p.begun)+len(p.voids)+len(p.ended), 0)
	same(t, "rows", len(p.rows) <= 2*flushAt, true)
	mend()
	r.clk.add(time.Second)
	r.record()
	same(t, "books", r.account(true), "301 = 11 + 0 + 0 + 290 full")
	r.idle()
}

// The account balances whatever the records say, in whatever order, and however many of them are missing.
func TestTheBooksBalance(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var l ledger
		total, last := int64(0), int64(0)
		for range rapid.IntRange(1, 40).Draw(rt, "parcels") {
			p := parcel{crashed: rapid.IntRange(0, 9).Draw(rt, "crash") == 0}
			for range rapid.IntRange(0, 5).Draw(rt, "records") {
				id := fmt.Sprint(rapid.IntRange(0, 20).Draw(rt, "id"))
				lost := rapid.IntRange(0, 3).Draw(rt, "lost") == 0
				switch rapid.IntRange(0, 4).Draw(rt, "kind") {
				case 0:
					id += fmt.Sprint("-", total) // ids are never used twice
					total++
					if !lost {
						p.begun = append(p.begun, stub{ID: id})
						p.admitted++
					}
				case 1:
					total++
					if !lost {
						p.counted++
						p.entered(false, id)
					}
				case 2:
					if n := len(l.Open); n > 0 && !lost {
						p.counted++
						p.entered(true, l.Open[n-1].ID)
					}
				case 3:
					if !lost {
						p.voids = append(p.voids, void{id, "reason"})
					}
				case 4:
					total += 3
					if !lost {
						p.drop("other", 3)
					}
				}
			}
			if rapid.Bool().Draw(rt, "told") {
				p.tell(total)
			}
			l.Guessed = rapid.Bool().Draw(rt, "guessed")
			l.advance(&p)
			if l.sum() != l.Admitted || l.Admitted < 0 {
				rt.Fatalf("%+v comes to %d", l, l.sum())
			}
			if !l.Guessed && l.Admitted < last {
				rt.Fatalf("admitted %d, was %d", l.Admitted, last)
			}
			if p.told && l.Admitted < total && !l.Guessed {
				rt.Fatalf("admitted %d, told %d", l.Admitted, total)
			}
			last = l.Admitted
		}
		again, err := json.Marshal(l)
		if err != nil {
			rt.Fatal(err)
		}
		var back ledger
		if err := json.Unmarshal(again, &back); err != nil || back.sum() != l.sum() {
			rt.Fatalf("read back: %+v, %v", back, err)
		}
	})
}
