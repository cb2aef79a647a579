package store

// What the recorder does with a backend that refuses a write, for now or for ever.

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"precept/internal/session"
	"precept/store/sqlite"
)

func TestFailedWritesAreRetried(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(n, " times"), func(t *testing.T) {
			r := newRig(t, nil)
			r.be.failNext("write", n, errDown)
			want := 0
			for i := range n { // what comes meanwhile waits with it
				id := r.begin(us, fmt.Sprint("s", i), picked(true))
				r.note(replyKey+session.EchoKey(i), id)
				r.offer(fmt.Sprint("s", i), 1, 2)
				want += 2
				r.record()
				same(t, "healthy", r.Healthy(), false)
				same(t, "pending", r.Tally.Pending.Load(), int64(want))
				r.record() // it is left in peace for a while
				same(t, "errors", r.Tally.WriteErrors.Load(), int64(i+1))
				r.clk.add(time.Second)
			}
			r.record()
			same(t, "healthy again", r.Healthy(), true)
			same(t, "written", r.Tally.Exchanges.Load(), int64(want))
			r.idle()
			for i := range n {
				id := session.KeyOf(us, session.SpaceName, fmt.Sprint("s", i))
				same(t, "turns in the database", r.exchanges(id), 2)
				if _, ok, err := r.be.Session(r.ctx(), us, id); !ok || err != nil {
					t.Errorf("the session of turn %d: %v %v", i, ok, err)
				}
				key := replyKey + session.EchoKey(i)
				if got := r.Echoes(r.ctx(), us, []session.EchoKey{key}); len(got[key]) != 1 || got[key][0] != id {
					t.Errorf("echo %d: %v", i, got)
				}
			}
		})
	}
}

// One exchange that can never be stored costs itself, not the five hundred beside it nor the
// sessions.
func TestAnInvalidExchangeCostsItself(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.begin(us, "s", picked(true))
	r.note(replyKey, id)
	r.offer("s", 1)
	bad := exchange(us, "s", 2, r.clk.now())
	bad.Session = "no session"
	r.Offer(Turn{Exchange: bad, Size: 10})
	r.offer("s", 3)
	r.record()
	same(t, "in the database", r.exchanges(id), 2)
	same(t, "written", r.Tally.Exchanges.Load(), 2)
	same(t, "dropped", r.Tally.DroppedBad.Load(), 1)
	if _, ok, err := r.be.Session(r.ctx(), us, id); !ok || err != nil {
		t.Errorf("the session: %v %v", ok, err)
	}
	same(t, "the echo", len(r.Echoes(r.ctx(), us, []session.EchoKey{replyKey})), 1)
	sameList(t, "told", r.failed(), []string{"write"})
	r.idle()
}

// The backend fails while the invalid one is looked for: nothing is lost, nothing counted twice.
func TestAnInvalidExchangeAndAFault(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.begin(us, "s", picked(true))
	bad := exchange(us, "s", 1, r.clk.now())
	bad.Session = "no session"
	r.Offer(Turn{Exchange: bad, Size: 10})
	r.offer("s", 2, 3)
	writes := 0
	r.be.hook = func(op string) {
		if writes++; writes == 3 {
			r.be.failNext("write", 1, errDown) // the next one, while the exchanges are written one by one
		}
	}
	r.record()
	r.be.hook = nil
	same(t, "pending", r.Tally.Pending.Load(), 3)
	r.clk.add(time.Second)
	r.record()
	same(t, "in the database", r.exchanges(id), 2)
	same(t, "dropped", r.Tally.DroppedBad.Load(), 1)
	same(t, "written", r.Tally.Exchanges.Load(), 2)
	r.idle()
}

// Beside one that was forgotten while it waited, too, one that is refused is not counted as stored.
func TestAnInvalidExchangeBesideAForgottenOne(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	gone := r.begin(us, "gone", picked(true))
	bad := exchange(us, "s", 1, r.clk.now())
	bad.Session = "no session"
	r.be.failNext("write", 1, errDown)
	r.offer("gone", 1)
	r.Offer(Turn{Exchange: bad, Size: 10})
	r.offer("s", 2)
	r.record()
	r.eraser.tombs.put(&session.Erasure{Tenant: us, IDs: []session.ID{gone}, At: r.clk.now()})
	r.clk.add(time.Second)
	r.record()
	same(t, "of the forgotten one", r.exchanges(gone), 0)
	same(t, "written", r.Tally.Exchanges.Load(), 1)
	same(t, "dropped", r.Tally.DroppedBad.Load(), 1)
	same(t, "account", r.account(true), "3 = 2 + 0 + 0 + 1 bad")
}

func TestVolatile(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.Backend = Volatile{} })
	id := r.begin(us, "s", picked(true))
	r.note(replyKey, id)
	r.offer("s", 1, 2)
	r.record()
	same(t, "dropped", r.Tally.DroppedReadOnly.Load(), 2)
	same(t, "written", r.Tally.Exchanges.Load(), 0)
	same(t, "healthy", r.Healthy(), false)
	r.idle()
	if _, err := r.Post(r.ctx(), us, []session.ID{id}, replyKey, score("a", 1, 1)); err == nil {
		t.Error("feedback was taken")
	}
	if _, err := r.Post(r.ctx(), us, nil, replyKey, score("a", 1, 1)); err == nil {
		t.Error("feedback was parked")
	}
	r.clk.add(closeAge + time.Second)
	r.record()
	same(t, "failures", len(r.failed()), 0)
	if _, ok, err := r.ofSample(r.ctx(), us, "x"); ok || err != nil {
		t.Errorf("sample: %v %v", ok, err)
	}
	// Idle for long, it is found again: nobody else knows it.
	r.clk.add(24 * time.Hour)
	r.sessions.live.sweep(r.clk.now(), 1<<62)
	same(t, "in use", r.Sessions(), 1)
	same(t, "turns", r.turnsOf(id), 1)
	if err := r.Backend().Close(); err != nil {
		t.Error(err)
	}
}

// Backend is what the store asks.
func (r *rig) Backend() Backend { return r.opts.Backend }

func TestVolatileTakesNothing(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	v := Volatile{}
	_, feedbackErr := v.AddFeedback(ctx, us, nil)
	_, priorsErr := v.PutPriors(ctx, us, 0, nil)
	for name, err := range map[string]error{
		"write": v.Write(ctx, session.Batch{}), "feedback": feedbackErr, "priors": priorsErr,
		"park": v.Park(ctx, us, 1, score("a", 1, 1)), "raise": v.Raise(ctx, us, nil),
	} {
		if !slices.Contains([]error{ErrVolatile}, err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if done, err := v.Settle(ctx, make([]session.Settlement, 3)); err != nil || slices.Contains(done, true) || len(done) != 3 {
		t.Errorf("settle: %v %v", done, err)
	}
	var _ Backend = (*sqlite.Store)(nil)
}
