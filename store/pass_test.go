package store

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"precept/internal/session"
	"precept/store/redis"
	"precept/store/storetest"
)

// elsewhere is a Redis behind the faults of a rig.
type elsewhere struct {
	*faulty
	redis *redis.Store
}

func (e elsewhere) Epoch(ctx context.Context) (string, error) { return e.redis.Epoch(ctx) }

func (e elsewhere) Announce(ctx context.Context, x session.Erasure) (string, error) {
	return e.redis.Announce(ctx, x)
}

func (e elsewhere) Erasures(ctx context.Context, after string) ([]session.Erasure, error) {
	return e.redis.Erasures(ctx, after)
}

func (e elsewhere) KeepOptOuts(ctx context.Context, marks map[session.ID]session.OptOutMark) error {
	return e.redis.KeepOptOuts(ctx, marks)
}

func (e elsewhere) OptOutOf(ctx context.Context, id session.ID) (session.OptOutMark, bool, error) {
	return e.redis.OptOutOf(ctx, id)
}

// inRedis makes a rig with its spool on a small disk and its backend in a Redis.
func inRedis(t *testing.T, server *storetest.Redis, spool string) func(o *Options) {
	t.Helper()
	return func(o *Options) {
		db, err := redis.Open(redis.Options{URL: server.URL(), Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		f := o.Backend.(*faulty)
		if err := f.backend.Close(); err != nil {
			t.Fatal(err)
		}
		f.backend = db
		o.Backend, o.Fleet, o.SpoolDir, o.HoldBytes = elsewhere{f, db}, elsewhere{f, db}, spool, 200<<10
	}
}

// A full disk stops nothing where the backend is elsewhere: what the spool has no room for goes
// there directly, and is in the account. When both are gone, what comes waits in memory, within its
// bound. When there is room again, the spool goes on.
func TestPassingAFullDisk(t *testing.T) {
	t.Parallel()
	disk := storetest.SmallDisk(t, 4<<20)
	server := storetest.StartRedis(t)
	spool := filepath.Join(disk.Dir, "spool")
	open := inRedis(t, server, spool)
	r := newRig(t, open)
	offered, refused := 0, 0
	play := func(n int) {
		for range n {
			offered++
			x := exchange(us, "s", offered, r.clk.now())
			x.Reply.Text = strings.Repeat("The shed is painted. ", 200)
			if !r.Offer(Turn{Exchange: x, Size: 4 << 10}) {
				refused++
			}
		}
		r.record()
		r.clk.add(2 * retryAfter)
	}
	account := func(when string, running bool) {
		t.Helper()
		r.clk.add(cursorEvery)
		if err := r.delivery.keep(r.journal.spool, r.clk.now()); err != nil {
			t.Fatal(err)
		}
		b, err := ReadAccount(spool, running)
		want := fmt.Sprintf("%d = %d + 0 + 0, %d", offered, offered-refused, refused)
		have := fmt.Sprintf("%d = %d + %d + %d, %d", b.Admitted, b.Stored, b.Spooled, b.Incomplete, b.Dropped[droppedFull])
		if err != nil || have != want {
			t.Errorf("%s: have %s (%+v, %v), want %s", when, have, b, err, want)
		}
	}
	play(5)
	x, begun := r.under("s", 9000)
	r.record()
	disk.Fill(t, 0)
	for range 10 {
		play(5)
		disk.Fill(t, 0) // somebody takes whatever is given back
	}
	r.over(x, begun)
	offered++
	play(5)
	same(t, "stored meanwhile", r.exchanges(sessionOf("s")), offered)
	same(t, "dropped", refused, 0)
	account("full", true)
	r.idle()

	// A Redis that is away as well: what comes waits in memory, and no more than that.
	r.be.failNext("write", 1<<30, errDown)
	for range 20 {
		play(5)
		disk.Fill(t, 0)
	}
	if held := r.state.held.Load(); held > 200<<10 || refused == 0 {
		t.Errorf("%d bytes are held, %d refused", held, refused)
	}
	r.be.failNext("write", 0, nil)
	for range 3 {
		play(0)
	}
	same(t, "stored when it is back", r.exchanges(sessionOf("s")), offered-refused)
	account("after both were gone", true)

	// And across a crash, before and behind the time when there is room again.
	r = r.again(open)
	r.record()
	play(5)
	play(0)
	account("after a crash", true)
	disk.Free(t)
	for range 4 {
		play(5)
	}
	same(t, "healthy", r.Healthy(), true)
	same(t, "stored", r.exchanges(sessionOf("s")), offered-refused)
	account("with room", false)
	r = r.again(open)
	r.record()
	account("in the end", false)
	r.idle()
}

// The backend on this machine's disk is as full as the spool: nothing goes past it.
func TestNothingPassesToTheSameDisk(t *testing.T) {
	t.Parallel()
	disk := storetest.SmallDisk(t, 4<<20)
	r := newRig(t, func(o *Options) { o.SpoolDir = filepath.Join(disk.Dir, "spool") })
	disk.Fill(t, 0)
	r.offer("s", 1)
	r.record()
	same(t, "stored", r.exchanges(sessionOf("s")), 0)
	disk.Free(t)
	r.clk.add(2 * retryAfter)
	r.record()
	same(t, "stored then", r.exchanges(sessionOf("s")), 1)
}

// At a stop, what a full spool has no room for goes to the backend directly. The spool may have
// begun a segment for it before there was no room: the account is right all the same.
func TestAStopPassesAFullSpool(t *testing.T) {
	t.Parallel()
	disk := storetest.SmallDisk(t, 4<<20)
	r := newRig(t, func(o *Options) { o.SpoolDir = filepath.Join(disk.Dir, "spool") })
	play := func(from, to int) {
		for turn := from; turn <= to; turn++ {
			x := exchange(us, "s", turn, r.clk.now())
			x.Reply.Text = strings.Repeat("The shed is painted. ", 200)
			if !r.Offer(Turn{Exchange: x, Size: 4 << 10}) {
				t.Fatal("refused")
			}
		}
		r.record()
		r.clk.add(2 * retryAfter)
	}
	play(1, 3)
	disk.Fill(t, 0)
	for turn := 4; turn <= 40; turn += 12 { // the first time the segment before is let go of, and makes room for a head
		play(turn, turn+11)
	}
	same(t, "healthy", r.Healthy(), false)
	if err := r.drain(); err != nil {
		t.Fatal(err)
	}
	same(t, "stored", r.exchanges(sessionOf("s")), 51)
	b, err := ReadAccount(r.opts.SpoolDir, false)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "account", fmt.Sprintf("%d = %d + %d + %d %v", b.Admitted, b.Stored, b.Spooled, b.Incomplete, b.Dropped), "51 = 51 + 0 + 0 map[]")
}
