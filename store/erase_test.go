package store

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"precept/internal/session"
)

// chores lets the test do the recorder's work for one call that waits for it.
func (r *rig) chores(call func() (int, error)) (int, error) {
	r.t.Helper()
	out := make(chan choreResult, 1)
	go func() {
		n, err := call()
		out <- choreResult{n, err}
	}()
	for {
		select {
		case c := <-r.eraser.chores:
			r.do(r.ctx(), c)
		case got := <-out:
			return got.n, got.err
		}
	}
}

const secretWord = "zanzibar"

// spoken is a session whose every text holds the secret word.
func (r *rig) spoken(tenant, name string) session.ID {
	r.t.Helper()
	id := r.begin(tenant, name, picked(true))
	x := exchange(tenant, name, 1, r.clk.now())
	x.Reply.Text = "It is in " + secretWord + "."
	r.Offer(Turn{Exchange: x, Size: 100})
	r.Note(session.Echo{Tenant: tenant, Key: session.EchoKeyOf(tenant, "r:"+name), ID: id, At: r.clk.now()})
	r.record()
	e := score("f", 1, 1)
	e.Comment = "Not " + secretWord
	r.tell(tenant, id, e)
	return id
}

// What a session added to the counters stays, and so do other sessions.
func TestForgettingLeavesTheCounters(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id, other := r.spoken(us, secretWord+"-1"), r.spoken(us, "quiet")
	r.age()
	before := r.counters(us)
	if n, err := r.chores(func() (int, error) { return r.ForgetSession(r.ctx(), us, secretWord+"-1") }); n != 1 || err != nil {
		t.Fatalf("forgot %d, %v", n, err)
	}
	same(t, "its exchanges", r.exchanges(id), 0)
	same(t, "the other's", r.exchanges(other), 1)
	same(t, "counters", r.counters(us), before)
}

func TestForgetTenant(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	var first session.ID
	for _, name := range []string{"a", "b", "c"} {
		first = r.spoken("acme", name)
	}
	e := score("early", 1, 1)
	e.Comment = secretWord
	r.post("acme", 77, e)
	other := r.begin(us, "quiet", picked(true))
	r.record()
	if !bytes.Contains(onDisk(t, r.dir), []byte(secretWord)) {
		t.Fatal("the word is not there before it is forgotten: this test finds nothing")
	}
	if n, err := r.chores(func() (int, error) { return r.ForgetTenant(r.ctx(), "acme") }); n != 3 || err != nil {
		t.Fatalf("forgot %d, %v", n, err)
	}
	if bytes.Contains(onDisk(t, r.dir), []byte(secretWord)) {
		t.Error("the word is still in the files")
	}
	if r.Resident(first) != nil {
		t.Error("a session is still in memory")
	}
	if ses := r.Resident(other); ses == nil {
		t.Error("another tenant's session is gone from memory")
	}
}

// A request that was under way when its session was forgotten brings nothing of it back; the next
// one begins anew.
func TestForgetWhileARequestIsUnderWay(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.spoken(us, "busy")
	held := r.Resident(id)
	began := r.clk.now()
	r.clk.add(time.Second)
	if n, err := r.chores(func() (int, error) { return r.ForgetSession(r.ctx(), us, "busy") }); n != 1 || err != nil {
		t.Fatalf("forgot %d, %v", n, err)
	}
	r.clk.add(time.Second)
	r.Release(held, Decided)
	r.Offer(Turn{Exchange: exchange(us, "busy", 2, began), Size: 100})
	r.record()
	if _, ok, err := r.be.Session(r.ctx(), us, id); ok || err != nil {
		t.Errorf("its row is back: %v, %v", ok, err)
	}
	same(t, "exchanges of before", r.exchanges(id), 0)
	same(t, "counted", r.Tally.OptedOut.Load(), 1)
	r.begin(us, "busy", picked(true))
	r.Offer(Turn{Exchange: exchange(us, "busy", 1, r.clk.now()), Size: 100})
	r.record()
	same(t, "exchanges of after", r.exchanges(id), 1)
	r.clk.add(2 * forgottenIn)
	r.retain(r.ctx())
	if len(r.eraser.tombs.sessions) != 0 {
		t.Error("it is remembered for ever that it was forgotten")
	}
}

// What a request puts down while its session is being forgotten is of the forgotten session, also
// where its row was seen later than that: the way to the other replicas takes its time, and the
// clock may have been set back.
func TestForgetWhileARowOfTheFutureIsPutDown(t *testing.T) {
	t.Parallel()
	for _, tenant := range []bool{false, true} {
		t.Run(fmt.Sprint("tenant ", tenant), func(t *testing.T) {
			t.Parallel()
			var be *losing
			r := newRig(t, func(o *Options) {
				be = &losing{faulty: o.Backend.(*faulty), epoch: "one"}
				o.Backend, o.Fleet = be, be
			})
			id := r.spoken(us, "busy")
			held := r.Resident(id)
			be.announced = func() { // what came before is delivered by then
				held.Lock()
				held.Thread.Turns, held.Identity.Seen = 2, r.clk.now().Add(time.Hour)
				held.Unlock()
				r.Release(held, Decided)
				r.recorder.record(r.clk.now(), false)
			}
			n, err := r.chores(func() (int, error) {
				if tenant {
					return r.ForgetTenant(r.ctx(), us)
				}
				return r.ForgetSession(r.ctx(), us, "busy")
			})
			same(t, "forgotten", fmt.Sprint(n, err), fmt.Sprint(1, nil))
			r.record()
			if _, ok, err := r.be.Session(r.ctx(), us, id); ok || err != nil {
				t.Errorf("its row is back: %v, %v", ok, err)
			}
			r.clk.add(time.Second)
			r.begin(us, "busy", picked(true))
			r.record()
			if _, ok, err := r.be.Session(r.ctx(), us, id); !ok || err != nil {
				t.Errorf("the next one of that name: %v, %v", ok, err)
			}
		})
	}
}

// The same holds of a row that is to be delivered next, when another replica forgets its session by
// a clock that is behind.
func TestForgetElsewhereWhileARowIsToBeDelivered(t *testing.T) {
	t.Parallel()
	var be *losing
	r := newRig(t, func(o *Options) {
		be = &losing{faulty: o.Backend.(*faulty), epoch: "one"}
		o.Backend, o.Fleet, o.DeliverEvery = be, be, time.Hour
	})
	gone, stays := r.begin(us, "gone", picked(true)), r.begin(us, "stays", picked(true))
	r.delivery.deliverAt = r.clk.now().Add(time.Hour)
	r.record()
	be.erased = []session.Erasure{{Tenant: us, IDs: []session.ID{gone}, At: r.clk.now().Add(-time.Second), Place: "1"}}
	r.clk.add(erasuresEvery)
	r.record()
	r.clk.add(time.Hour)
	r.record()
	for id, want := range map[session.ID]bool{gone: false, stays: true} {
		if _, ok, err := r.be.Session(r.ctx(), us, id); ok != want || err != nil {
			t.Errorf("the row of what stays (%v): %v, %v", want, ok, err)
		}
	}
}

// While something is forgotten and the backend is slow, what ends is put down as ever, and kept.
func TestForgettingHoldsNothingUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.spoken(us, secretWord)
	for turn := range 2 { // the second write is that of the purge
		r.offer("s", turn+1)
	}
	r.be.hook = func(op string) {
		if op != "write" && op != "sync" {
			return
		}
		if !r.journal.mu.TryLock() {
			t.Errorf("the recorder waits for the backend's %s", op)
			return
		}
		r.journal.mu.Unlock()
		r.offer("s", 3+len(r.be.asked()))
		r.recorder.record(r.clk.now(), false)
	}
	if n, err := r.chores(func() (int, error) { return r.ForgetSession(r.ctx(), us, secretWord) }); n != 1 || err != nil {
		t.Fatalf("forgot %d, %v", n, err)
	}
	r.be.hook = nil
	if bytes.Contains(onDisk(t, r.dir), []byte(secretWord)) {
		t.Error("the word is still in the files")
	}
	admitted := r.books(true).Admitted
	r = r.again(nil)
	r.record()
	if n := r.exchanges(sessionOf("s")); n < 4 || int64(n)+1 != admitted {
		t.Errorf("%d are stored, %d were admitted", n, admitted)
	}
	same(t, "stored", r.books(true).Stored, admitted)
}

// What the backend could not take yet would come back after it was forgotten: it is refused
// instead.
func TestForgetWaitsForTheStore(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.begin(us, "s", picked(true))
	r.be.failNext("write", 1, session.ErrDiskFull)
	if n, err := r.chores(func() (int, error) { return r.ForgetSession(r.ctx(), us, "s") }); n != 0 || !errors.Is(err, errUnwritten) || !errors.Is(err, session.ErrDiskFull) {
		t.Errorf("forgot %d, %v", n, err)
	}
	if n, err := r.chores(func() (int, error) { return r.ForgetSession(r.ctx(), us, "s") }); n != 1 || err != nil {
		t.Errorf("forgot %d, %v", n, err)
	}
}

func TestForgetFromMemoryOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.Backend = Volatile{} })
	r.begin(us, "s", picked(true))
	if n, err := r.chores(func() (int, error) { return r.ForgetSession(r.ctx(), us, "s") }); n != 1 || err != nil {
		t.Errorf("forgot %d, %v", n, err)
	}
}

func TestRetention(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.Retention = 30 * 24 * time.Hour })
	old := r.spoken(us, "old")
	r.clk.add(20 * 24 * time.Hour)
	young := r.spoken(us, "young")
	e := score("early", 1, 1)
	e.At = r.clk.now()
	r.post(us, 77, e)
	r.retain(r.ctx())
	same(t, "exchanges of the old one in time", r.exchanges(old), 1)
	r.clk.add(11 * 24 * time.Hour)
	r.retain(r.ctx())
	same(t, "exchanges of the old one", r.exchanges(old), 0)
	same(t, "of the young one", r.exchanges(young), 1)
	same(t, "counted", r.Tally.Retired.Load(), 1)
	if got, err := r.be.FindEcho(r.ctx(), us, []session.EchoKey{session.EchoKeyOf(us, "r:old")}); err != nil || len(got) != 0 {
		t.Errorf("echoes of the old one: %v, %v", got, err)
	}
	waiting, err := r.be.PurgeParked(r.ctx(), r.clk.now())
	if err != nil || waiting != 0 {
		t.Errorf("early feedback after %v: %d, %v", parkedAge, waiting, err)
	}

	r.SetRetention(0)
	r.clk.add(1000 * 24 * time.Hour)
	r.retain(r.ctx())
	same(t, "kept for ever", r.exchanges(young), 1)
	r.SetRetention(time.Hour)
	r.clk.add(retainMost)
	r.retain(r.ctx())
	same(t, "shortened while it runs", r.exchanges(young), 0)
	sameList(t, "failures", r.failed(), nil)
}

// What was forgotten is not looked at again; what stands beside it is.
func TestForgottenSessionsAreNotLookedAtAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	ids := []session.ID{r.begin(us, "gone", picked(true)), r.begin(us, "kept", picked(true))}
	r.record()
	for _, id := range ids {
		r.Touch(us, id)
		r.Touch("other", id)
	}
	r.eraseHere(&session.Erasure{Tenant: us, IDs: ids[:1], At: r.clk.now()})
	touched := r.Touched()
	same(t, "the forgotten one", touched[session.Ref{Tenant: us, ID: ids[0]}], false)
	same(t, "left", len(touched), 3)
}
