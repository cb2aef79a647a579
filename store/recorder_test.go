package store

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"precept/bandit/trial"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/spool"
)

// offer hands over turns of one session, without recording them.
func (r *rig) offer(name string, turns ...int) {
	r.t.Helper()
	for _, n := range turns {
		if !r.Offer(Turn{Exchange: exchange(us, name, n, r.clk.now()), Size: 100}) {
			r.t.Fatalf("turn %d was refused", n)
		}
	}
}

// idle says that nothing is counted as waiting.
func (r *rig) idle() {
	r.t.Helper()
	same(r.t, "pending", r.Tally.Pending.Load(), 0)
	same(r.t, "bytes held", r.state.held.Load(), 0)
}

// What changes while its row is being written is written again.
func TestChangesDuringAWrite(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.begin(us, "s", trial.Assignment{})
	r.be.hook = func(op string) {
		if op != "write" {
			return
		}
		r.be.hook = nil
		ses := r.Resident(id)
		ses.Lock()
		ses.Thread.Turns = 9
		ses.Unlock()
		r.Release(ses, Decided)
	}
	r.record()
	r.record()
	same(t, "turns", r.again(nil).turnsOf(id), 9)
}

func (r *rig) turnsOf(id session.ID) int {
	r.t.Helper()
	ses, late := r.Acquire(r.ctx(), us, id)
	if ses == nil || late {
		r.t.Fatalf("session: %v, late %v", ses, late)
	}
	defer r.Release(ses, Unchanged)
	ses.Lock()
	defer ses.Unlock()
	return ses.Thread.Turns
}

// Counts may wait a second; they are written with a decision, with the second, or at the stop.
func TestCountsMayWait(t *testing.T) {
	t.Parallel()
	change := func(r *rig, id session.ID, c Change) {
		ses := r.Resident(id)
		ses.Lock()
		ses.Thread.Turns++
		ses.Unlock()
		r.Release(ses, c)
	}
	rows := func(r *rig, id session.ID) int {
		row, _, err := r.be.Session(r.ctx(), us, id)
		if err != nil {
			t.Fatal(err)
		}
		rec, err := session.Decode(id, row.Data)
		if err != nil {
			t.Fatal(err)
		}
		return rec.Thread.Turns
	}
	r := newRig(t, nil)
	id := r.begin(us, "s", trial.Assignment{})
	r.record()
	change(r, id, Counted)
	r.record()
	same(t, "at once", rows(r, id), 1)
	r.clk.add(time.Second)
	r.record()
	same(t, "after a second", rows(r, id), 2)
	change(r, id, Counted)
	change(r, id, Decided)
	r.record()
	same(t, "with a decision", rows(r, id), 4)
	r.clk.add(time.Second)
	r.record()
	change(r, id, Unchanged)
	r.clk.add(time.Second)
	r.record()
	same(t, "unchanged", rows(r, id), 4)
	change(r, id, Counted)
	if err := r.drain(); err != nil {
		t.Fatal(err)
	}
	same(t, "at the stop", rows(r, id), 6)
}

func TestBoundsDropAndCount(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.HoldBytes, o.SpoolDir = 250, "" })
	for i, want := range []bool{true, true, false} {
		same(t, fmt.Sprint("turn ", i), r.Offer(Turn{Exchange: exchange(us, "s", i+1, r.clk.now()), Size: 100}), want)
	}
	same(t, "a small one", r.Offer(Turn{Exchange: exchange(us, "s", 4, r.clk.now()), Size: 50}), true)
	same(t, "dropped", r.Tally.DroppedFull.Load(), 1)
	r.be.failNext("write", 1, errDown)
	r.record()
	same(t, "while the write waits", r.Offer(Turn{Exchange: exchange(us, "s", 5, r.clk.now()), Size: 1}), false)
	same(t, "bytes held", r.state.held.Load(), 250)
	r.clk.add(time.Second)
	r.record()
	r.idle()
	same(t, "after it", r.Offer(Turn{Exchange: exchange(us, "s", 6, r.clk.now()), Size: 250}), true)
}

func TestFullQueueDropsAndCounts(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	const over = 7
	for i := range queueLen + over {
		same(t, "taken", r.Offer(Turn{Exchange: exchange(us, "s", i+1, r.clk.now()), Size: 1}), i < queueLen)
	}
	same(t, "dropped", r.Tally.DroppedFull.Load(), over)
	same(t, "pending", r.Tally.Pending.Load(), queueLen)
	same(t, "bytes held", r.state.held.Load(), queueLen)
}

func TestAPanicCostsOneTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.offer("s", 1)
	r.Offer(Turn{Size: 10}) // there is nothing to admit
	r.offer("s", 2)
	r.record()
	sameList(t, "told", r.failed(), []string{"panic record"})
	same(t, "dropped", r.Tally.DroppedBad.Load(), 1)
	same(t, "written", r.Tally.Exchanges.Load(), 2)
	r.idle()
}

// What ends all at once is put down in pieces, so that the copies that this makes are not as large
// as all of it. Each turn is there once, and none is taken for one that is still under way.
func TestABurstIsPutDownInPieces(t *testing.T) {
	t.Parallel()
	const n, each = 10, pieceBytes / 3
	r := newRig(t, func(o *Options) { o.HoldBytes = n * each })
	for turn := 1; turn <= n; turn++ {
		x := exchange(us, "s", turn, r.clk.now())
		r.Offer(Turn{Exchange: x, Begun: r.Begin(x), Size: each})
	}
	r.record()
	same(t, "stored", r.exchanges(sessionOf("s")), n)
	same(t, "account", r.account(true), "10 = 10 + 0 + 0")
	v, err := spool.Look(filepath.Join(r.dir, "spool"))
	if err != nil {
		t.Fatal(err)
	}
	var pieces []int
	exchanges := 0
	_, err = v.Next(spool.Place{Segment: 1}, v.End, func(rec spool.Record) (spool.Step, error) {
		switch rec.Kind {
		case recordExchange:
			exchanges++
		case spool.KindEnd:
			pieces, exchanges = append(pieces, exchanges), 0
		}
		return spool.More, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	sameList(t, "exchanges written at once", pieces, []int{4, 4, 2}) // up to the one that fills a piece
	r.idle()
}

// The backend is left alone for its time, but for what is many or much.
func TestWhatIsMuchDoesNotWait(t *testing.T) {
	t.Parallel()
	for what, size := range map[string]struct {
		turns int
		bytes int64
		now   bool
	}{
		"little": {2, 100, false},
		"many":   {4 * flushAt, 1, true},
		"much":   {2, tailBytes / 2, true},
	} {
		r := newRig(t, func(o *Options) { o.DeliverEvery, o.HoldBytes = time.Hour, 2*tailBytes })
		r.offer("first", 1) // from now on it is left alone
		r.record()
		for turn := 1; turn <= size.turns; turn++ {
			r.Offer(Turn{Exchange: exchange(us, "s", turn, r.clk.now()), Size: size.bytes})
		}
		r.record()
		same(t, what+": delivered", r.exchanges(sessionOf("s")) == size.turns, size.now)
		r.clk.add(time.Hour)
		r.record()
		same(t, what+": in its time", r.exchanges(sessionOf("s")), size.turns)
	}
}

func TestIncompleteIsCounted(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for i, outcome := range []string{sample.Complete, sample.Incomplete, sample.Aborted, sample.Failed} {
		x := exchange(us, "s", i+1, r.clk.now())
		x.Outcome = outcome
		r.Offer(Turn{Exchange: x, Size: 10})
	}
	r.record()
	same(t, "written", r.Tally.Exchanges.Load(), 4)
	same(t, "of them incomplete", r.Tally.Incomplete.Load(), 3)
}

// Who waits for the recorder's end is told of it once, also where Run is begun anew.
func TestDrained(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	ctx, cancel := context.WithCancel(r.ctx())
	cancel()
	for range 2 {
		_ = r.Run(ctx) // the second time it has nothing to write into
	}
	<-r.Drained()
}

// A stop with a backend that is down tells so, and leaves what it could not write counted as
// waiting.
func TestDrainTells(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.offer("s", 1)
	r.be.failNext("write", 2, errDown)
	r.record()
	ctx, cancel := context.WithCancel(r.ctx())
	cancel()
	r.offer("s", 2)
	if err := r.Run(ctx); err == nil || !strings.Contains(err.Error(), "down") {
		t.Errorf("error: %v", err)
	}
	same(t, "pending", r.Tally.Pending.Load(), 2)
}

func TestNoteIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	many := make([]session.Echo, maxEchoes)
	r.Note(many...)
	r.Note(session.Echo{Key: replyKey})
	same(t, "waiting", len(r.echoes), maxEchoes)
}
