package store

import (
	"context"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"precept/session"
	"precept/store/storetest"
	"precept/trial"
)

// mined is a shared backend that panics where the test says.
type mined struct {
	elsewhere
	moved    atomic.Bool
	counters atomic.Pointer[string] // of this tenant
}

func (m *mined) Moved(ctx context.Context) (map[string]session.Stand, error) {
	if m.moved.Load() {
		panic("moved")
	}
	return m.elsewhere.Moved(ctx)
}

func (m *mined) Counters(ctx context.Context, tenant string) ([]trial.Delta, error) {
	if of := m.counters.Load(); of != nil && *of == tenant {
		panic("counters")
	}
	return m.elsewhere.Counters(ctx, tenant)
}

// What a replica follows panics: at a session that was told elsewhere, at a tenant's counters, at
// the look itself. It costs that session, that tenant's news, that look; all else is followed.
func TestFollowingPanics(t *testing.T) {
	t.Parallel()
	const them = "them"
	server := storetest.StartRedis(t)
	bad := sessionOf("bad")
	p := &poison{step: "follow", id: bad}
	var m *mined
	open := func(change func(o *Options)) *rig {
		dir := t.TempDir()
		return openRig(t, dir, &clock{at: time.Date(2032, 4, 5, 6, 7, 8, 0, time.UTC)}, func(o *Options) {
			inRedis(t, server, filepath.Join(dir, "spool"))(o)
			change(o)
		})
	}
	a := open(func(*Options) {})
	b := open(func(o *Options) {
		m = &mined{elsewhere: o.Backend.(elsewhere)} //nolint:errcheck,forcetypeassert // inRedis made it
		o.Backend, o.Fleet, o.Before = m, m, p.before
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Follow(ctx, 5*time.Millisecond) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	mean := func(tenant string) float64 { return b.Beliefs(tenant).Posterior(looked).Mean }
	tell := func(tenant, name string, y float64) {
		t.Helper()
		id := a.begin(tenant, name, picked(true))
		if !a.Offer(Turn{Exchange: exchange(tenant, name, 1, a.clk.now()), Size: 100}) {
			t.Fatal("the turn was refused")
		}
		a.record()
		a.tell(tenant, id, score("f"+name, 1, y))
		a.resettle(a.ctx())
	}
	rises := func(what, tenant string, from float64) {
		t.Helper()
		eventually(t, what, func() bool { return mean(tenant) > from })
	}
	prior, theirs := mean(us), mean(them)

	tell(us, "bad", 1)
	tell(us, "good", 1)
	rises("the good session beside the bad one", us, prior)
	same(t, "tried", p.met.Load(), 1)
	same(t, "counted", b.Tally.SetAside.Load(), 1)
	b.guard.Keep(b.ctx(), b.be)
	marks, _, err := m.redis.Aside(t.Context(), 10)
	if err != nil || len(marks) != 1 || marks[0].ID != bad || marks[0].Step != "follow" {
		t.Errorf("marks: %+v, %v", marks, err)
	}

	of := us
	m.counters.Store(&of)
	a.age() // our counters move, and cannot be read
	eventually(t, "the panic", func() bool { return slices.Contains(b.failed(), "panic follow") })
	tell(them, "other", 1)
	rises("another tenant", them, theirs)

	m.moved.Store(true)
	eventually(t, "the panic of the look", func() bool { return slices.Contains(b.failed(), "panic follow") })
	m.moved.Store(false)
	m.counters.Store(nil)
	before := mean(them)
	tell(them, "third", 1)
	rises("what comes later", them, before)
}

// A start beside a Redis whose news make a step panic begins from the priors.
func TestStartingPanics(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	dir := t.TempDir()
	r := openRig(t, dir, &clock{at: time.Date(2032, 4, 5, 6, 7, 8, 0, time.UTC)}, func(o *Options) {
		inRedis(t, server, filepath.Join(dir, "spool"))(o)
		m := &mined{elsewhere: o.Backend.(elsewhere)} //nolint:errcheck,forcetypeassert // inRedis made it
		m.moved.Store(true)
		o.Backend, o.Fleet = m, m
	})
	if got := r.failed(); !slices.Contains(got, "panic load") {
		t.Errorf("told: %v", got)
	}
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
	var be *ageless
	r := newRig(t, func(o *Options) {
		be = &ageless{Backend: o.Backend}
		o.Backend, o.Retention, o.CloseAfter = be, 10*time.Hour, time.Second
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
	eventually(t, "sessions close as ever", func() bool { return r.applied(id).Version > 0 })
	if got := r.failed(); !slices.Contains(got, "panic retain") {
		t.Errorf("told: %v", got)
	}
}
