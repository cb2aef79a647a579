package store

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/spool"
)

// syncs is a backend that counts how often it was synced.
type syncs struct {
	n   int
	err error
}

func (s *syncs) Sync(context.Context) error {
	s.n++
	return s.err
}

// delivered is a batch of n exchanges that ends at an offset.
func delivered(n int, offset int64) *batch {
	b := &batch{end: spool.Place{Segment: 1, Offset: offset}}
	for i := range n {
		b.exchanges = append(b.exchanges, sample.Exchange{ID: fmt.Sprint(offset, "-", i)})
	}
	return b
}

// What a server was given is safe when it is old enough: it may lose what it acknowledged a moment
// ago. What a file was given is safe when it is synced.
func TestWhatIsSafe(t *testing.T) {
	t.Parallel()
	for age, want := range map[time.Duration][]int64{0: {10, 20, 20, 20}, safeAge: {0, 0, 10, 20}} {
		be := &syncs{}
		c := checkpoints{be: be, age: age}
		for i, step := range []struct {
			after   time.Duration
			offset  int64 // 0: nothing came
			syncing int   // how often it was synced by then
		}{{0, 10, 1}, {10 * time.Second, 20, 2}, {safeAge, 0, 2}, {10*time.Second + safeAge, 0, 2}} {
			if step.offset > 0 {
				c.delivered.advance(delivered(2, step.offset))
			}
			if err := c.sync(t.Context(), when.Add(step.after)); err != nil {
				t.Fatal(err)
			}
			same(t, fmt.Sprint(age, " safe ", i), c.safe.At.Offset, want[i])
			same(t, fmt.Sprint(age, " synced ", i), be.n, step.syncing)
		}
		same(t, "stored", c.safe.stored(), 4)
	}
}

// A sync that fails makes nothing safe, says at which step, and is tried again.
func TestASyncThatFails(t *testing.T) {
	t.Parallel()
	be := &syncs{err: errDown}
	c := checkpoints{be: be}
	c.delivered.advance(delivered(1, 10))
	err := c.sync(t.Context(), when)
	same(t, "the error", errors.Is(err, errDown), true)
	same(t, "the step", stepOf(err), "sync")
	same(t, "safe", c.safe.At, spool.Place{})
	be.err = nil
	if err := c.sync(t.Context(), when); err != nil {
		t.Fatal(err)
	}
	same(t, "safe then", c.safe.At, c.delivered.At)
}

// Who goes back to where it was safe changes nothing there: it may have to go back again.
func TestRewind(t *testing.T) {
	t.Parallel()
	c := checkpoints{be: &syncs{}}
	first := delivered(1, 10)
	first.begun, first.dropped = []stub{{ID: "open"}}, map[string]int64{"full": 2}
	c.delivered.advance(first)
	c.settle()
	safe := fmt.Sprint(c.safe)
	for range 2 {
		next := delivered(3, 20)
		next.voids, next.dropped = []void{{"open", "bad"}}, map[string]int64{"full": 5}
		c.delivered.advance(next)
		c.delivered.forget(func(string, string, time.Time) bool { return true })
		c.rewind()
		same(t, "delivered", fmt.Sprint(c.delivered), safe)
		same(t, "safe", fmt.Sprint(c.safe), safe)
	}
	same(t, "stored", c.delivered.stored(), 1)
}

// A checkpoint is found again by the next run, the account with it.
func TestACheckpointIsFoundAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log, from, err := spool.Open(dir, spool.Options{Quota: 1 << 30, Now: when, Count: admittedBy})
	if err != nil {
		t.Fatal(err)
	}
	c := checkpoints{be: &syncs{}}
	c.load(from)
	b := batch{begun: []stub{{ID: "open"}}, exchanges: []sample.Exchange{*exchange(us, "a", 1, when)}, dropped: map[string]int64{"full": 2}}
	if b.end, err = log.Append(b.admitted(), b.append); err != nil {
		t.Fatal(err)
	}
	c.epoch = "e"
	c.delivered.advance(&b)
	c.settle()
	if err := errors.Join(c.keep(log, when), log.Close()); err != nil {
		t.Fatal(err)
	}
	same(t, "due again", c.keepAt, when.Add(cursorEvery))
	log, from, err = spool.Open(dir, spool.Options{Quota: 1 << 30, Now: when, Count: admittedBy})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	var again checkpoints
	again.load(from)
	same(t, "epoch", again.epoch, "e")
	same(t, "delivered", fmt.Sprint(again.delivered), fmt.Sprint(c.delivered))
	same(t, "safe", fmt.Sprint(again.safe), fmt.Sprint(c.safe))
	same(t, "stored", again.safe.stored(), 1)
	_, seq := log.End()
	same(t, "sequence number", seq, 4)
}

// A release before this one kept how many are stored beside the others: it finds them still.
func TestANoteTellsWhatIsStored(t *testing.T) {
	t.Parallel()
	l := progress{Admitted: 9, Incomplete: 1, Dropped: map[string]int64{"bad": 2}, Open: []stub{{ID: "x"}}}
	ack, err := l.ack()
	if err != nil {
		t.Fatal(err)
	}
	same(t, "note", string(ack.Note), `{"stored":5,"incomplete":1,"dropped":{"bad":2},"open":[{"id":"x"}]}`)
	ack.Note = nil
	guessed := progressOf(ack)
	same(t, "without a note", fmt.Sprint(guessed.stored(), guessed.Guessed), "9 true")
}

// A stub tells no more than that the turn was there once its session is forgotten.
func TestForgottenStubs(t *testing.T) {
	t.Parallel()
	doc := func(name string) stub {
		x := exchange(us, name, 1, when)
		return stub{ID: x.ID, Doc: x.Encode().Data}
	}
	l := progress{Admitted: 3, Open: []stub{doc("gone"), doc("stays"), {ID: "y", Doc: []byte("{")}}}
	gone := session.KeyOf(us, session.SpaceName, "gone").String()
	l.forget(func(tenant, id string, _ time.Time) bool { return tenant == us && id == gone })
	same(t, "open", len(l.Open), 3)
	left := l.stubs()
	if len(left) != 1 || left[0].SessionName != "stays" {
		t.Errorf("%+v", left)
	}
	same(t, "and what nobody can read", len(l.Open[2].Doc), 0)
}
