package store

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"precept/internal/label"
	"precept/internal/session"
)

// poison panics at every step of one kind that is taken on one session or exchange.
type poison struct {
	step     label.Step
	id       session.ID
	exchange string
	met      atomic.Int64
}

func (p *poison) before(step label.Step, id session.ID, exchange string) {
	if step != p.step || p.exchange != "" && exchange != p.exchange || p.exchange == "" && id != p.id {
		return
	}
	p.met.Add(1)
	panic("poison mara@example.com")
}

// running runs the recorder of a rig until the test stops it, with a clock that goes.
func (r *rig) running() (stop func()) {
	ctx, cancel := context.WithCancel(r.ctx())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return func() {
		r.t.Helper()
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
	}
}

// eventually waits for what the owners do.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: it did not come", what)
		}
	}
}

func (r *rig) marks() []session.DeadLetter {
	r.t.Helper()
	list, _, err := r.be.backend.(interface {
		DeadLetters(ctx context.Context, limit int) ([]session.DeadLetter, int, error)
	}).DeadLetters(r.ctx(), 10)
	if err != nil {
		r.t.Fatal(err)
	}
	return list
}

// What cannot be read back from the spool costs itself, at each start and in between.
func TestReadingBackPanics(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.be.failNext("write", 1000, errDown)
	for turn := 1; turn <= 5; turn++ {
		r.offer("s", turn)
		r.flush(r.ctx())
	}
	p := &poison{step: label.StepReadBack, exchange: exchange(us, "s", 3, time.Time{}).ID}
	r = r.again(func(o *Options) { o.Before = p.before })
	r.record()
	same(t, "stored", r.exchanges(sessionOf("s")), 4)
	same(t, "met", p.met.Load(), 1)
	books, err := ReadAccount(r.opts.SpoolDir, true)
	if err != nil {
		t.Fatal(err)
	}
	if books.Admitted != 5 || books.Stored != 4 || books.Dropped[droppedDamaged] != 1 {
		t.Errorf("books: %+v", books)
	}
}

// A panic while what is new is put into the spool takes out what is to blame, and nothing else.
func TestPuttingDownPanics(t *testing.T) {
	t.Parallel()
	p := &poison{step: "spool", exchange: "none"}
	r := newRig(t, func(o *Options) { o.Before = p.before })
	for turn := 1; turn <= 3; turn++ {
		r.offer("s", turn)
	}
	r.admitSome()
	broken := r.journal.next.exchanges[1].ID
	p.exchange = broken
	r.sortOut()
	p.exchange = "none"
	r.record()
	same(t, "stored", r.exchanges(sessionOf("s")), 2)
	same(t, "dropped", r.Tally.DroppedBad.Load(), 1)
	r.guard.Keep(r.ctx(), r.be)
	if m := r.marks(); len(m) != 1 || m[0].Exchange != broken {
		t.Errorf("marks: %+v", m)
	}
	r.idle()
}

// ageless is a backend that panics when something is to be deleted for its age.
type ageless struct {
	Backend
	retain, purge atomic.Int64
}

func (a *ageless) Retain(context.Context, time.Time) (int, error) {
	a.retain.Add(1)
	panic("retain")
}

func (a *ageless) PurgeParked(ctx context.Context, before time.Time) (int, error) {
	if a.purge.Add(1) == 1 {
		panic("purge")
	}
	return a.Backend.PurgeParked(ctx, before)
}

// Deleting what is too old panics. The owner goes on, tries again in its time and no sooner, and
// what else is due at that time is done.
func TestRetentionPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var be *ageless
		r := newRig(t, func(o *Options) {
			be = &ageless{Backend: o.Backend}
			o.Backend, o.Retention = be, 10*time.Hour
		})
		stop := r.running()
		defer stop()
		for n := range int64(3) {
			eventually(t, "a try", func() bool { return be.retain.Load() == n+1 && be.purge.Load() == n+1 })
			r.clk.add(retainMost)
		}
		id := r.begin(us, "late", picked(true))
		x := exchange(us, "late", 1, r.clk.now())
		r.Offer(Turn{Exchange: x, Begun: r.Begin(x), Size: 10})
		r.clk.add(2 * time.Second)
		eventually(t, "exchanges come as ever", func() bool { return r.exchanges(id) == 1 })
		if got := r.failed(); !slices.Contains(got, "panic retain") {
			t.Errorf("told: %v", got)
		}
	})
}
