package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"precept/bandit/trial"
	"precept/internal/session"
)

// A backend that hangs holds nothing up: what ends meanwhile is in the spool at once.
func TestASlowBackendDoesNotHoldUpTheSpool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
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
			eventually(t, "spooled while the backend hangs", func() bool { return len(r.spooled(name)) > 0 })
		}
		same(t, "in the account", r.account(true), "4 = 0 + 4 + 0")
		close(hang)
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		same(t, "then", r.account(false), "4 = 4 + 0 + 0")
	})
}

// A long outage goes through the spool, not through memory, and everything is stored once, in
// order.
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
			if held := r.state.held.Load(); held > 2000 {
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
		f := &faulty{backend: o.Backend.(*faulty).backend, fail: map[string]int{"write": 1}, err: errDown}
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

// losing is a shared backend that can lose what it has taken. Its other replicas are silent.
type losing struct {
	*faulty
	epoch     string
	syncs     int
	announced func()            // when something is to be forgotten; nil: nothing happens then
	erased    []session.Erasure // what the other replicas announce next
}

func (l *losing) Announce(context.Context, session.Erasure) (string, error) {
	if l.announced != nil {
		l.announced()
	}
	return "", nil
}

func (l *losing) Erasures(context.Context, string) (list []session.Erasure, err error) {
	list, l.erased = l.erased, nil
	return list, nil
}

func (l *losing) KeepOptOuts(context.Context, map[session.ID]session.OptOutMark) error { return nil }

func (l *losing) OptOutOf(context.Context, session.ID) (session.OptOutMark, bool, error) {
	return session.OptOutMark{}, false, nil
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
		o.Backend, o.Fleet = be, be
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
	if err := r.shut(); err != nil {
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
				o.SpoolBytes = 4 << 10 // a segment of a quarter of it is worth leaving
				if shared {
					be = &losing{faulty: o.Backend.(*faulty), epoch: "one"}
					o.Backend, o.Fleet = be, be
				}
			})
			dir := filepath.Join(r.dir, "spool")
			r.offer("s", 1)
			r.record()
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
	same(t, "bytes held", r.state.held.Load() <= 100*(books.Spooled+1), true)
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

// What is forgotten stands in none of the spool's files: not in segments, nor in the cursor, nor in
// quarantine.
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
			if err := os.MkdirAll(filepath.Join(dir, "quarantine"), 0o700); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{filepath.Join("quarantine", "x.bin"), "cursor.json.damaged"} {
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
		r.begin(us, "s", trial.Assignment{})
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
	mend := r.breakSpool()
	r.offer("s", 2)
	r.record()
	same(t, "told", slices.Contains(r.failed(), "spool"), true)
	same(t, "healthy", r.Healthy(), false)
	if err := r.drain(); err == nil {
		t.Error("a cursor that could not be written was not told")
	}
	sameList(t, "stored", r.stored("s"), []string{"1 complete", "2 complete"})
	same(t, "waiting", r.unwritten(), 0)
	mend()
	if err := r.shut(); err != nil {
		t.Fatal(err)
	}
	same(t, "books", r.account(false), "2 = 2 + 0 + 0")
}

// What neither the spool nor the backend can take at a stop is told.
func TestStopTellsOfALoss(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.offer("s", 1)
	r.record()
	r.breakSpool()
	r.be.failNext("write", 9, errDown)
	r.offer("s", 2)
	if err := r.drain(); err == nil {
		t.Error("no error")
	}
	same(t, "told", slices.Contains(r.failed(), "stop"), true)
}

// breakSpool makes every further write fail, until it is mended.
func (r *rig) breakSpool() (mend func()) {
	r.t.Helper()
	dir := r.opts.SpoolDir
	r.spool.Rotate()
	err := os.Rename(dir, dir+".away")
	if err == nil {
		err = os.WriteFile(dir, nil, 0o600)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return func() {
		if err := errors.Join(os.Remove(dir), os.Rename(dir+".away", dir)); err != nil {
			r.t.Fatal(err)
		}
	}
}

// segmentsOf are the paths of a spool's segments.
func segmentsOf(t testing.TB, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.spool"))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// While nothing can be put down, memory does not grow with the turns that begin and end.
func TestABrokenSpoolIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.HoldBytes = 1000 })
	r.offer("s", 1)
	r.record()
	mend := r.breakSpool()
	for i := range 300 {
		x, b := r.under("s", i+2)
		r.begin(us, "s", trial.Assignment{})
		r.clk.add(time.Second)
		r.record()
		r.Offer(Turn{Exchange: x, Begun: b, Size: 100})
	}
	r.record()
	p := &r.journal.next
	same(t, "exchanges", len(p.exchanges), 10)
	same(t, "beginnings and ends", len(p.begun)+len(p.voids)+len(p.ended), 0)
	same(t, "rows", len(p.rows) <= 2*flushAt, true)
	mend()
	r.clk.add(time.Second)
	r.record()
	same(t, "books", r.account(true), "301 = 11 + 0 + 0 + 290 full")
	r.idle()
}

// A failure is told by the step at which it was met: of the spool only what the spool could not do.
func TestFailuresAreToldByTheirStep(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	told := func(what string, want ...string) {
		t.Helper()
		r.clk.add(syncEvery)
		r.record()
		sameList(t, what, r.failed(), want)
	}
	r.offer("s", 1)
	r.be.failNext("sync", 1, errDown)
	told("the backend does not sync", "sync")
	r.offer("s", 2)
	r.be.failNext("write", 1, errDown)
	told("nor write", "write")
	told("afterwards")
	r.Begin(exchange(us, "s", 3, r.clk.now()))
	r.record()
	r = r.again(func(o *Options) { o.Backend.(*faulty).failNext("write", 1, errDown) })
	told("nor take what was under way at the crash", "write")
	told("afterwards")
}
