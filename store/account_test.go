package store

import (
	"context"
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
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/spool"
)

// books draws up the account of the rig's directory, which balances.
func (r *rig) books(running bool) Account {
	r.t.Helper()
	b, err := ReadAccount(filepath.Join(r.dir, "spool"), running)
	if err != nil {
		r.t.Fatal(err)
	}
	sum := b.Stored + b.Spooled + b.Incomplete
	for _, n := range b.Dropped {
		sum += n
	}
	if sum != b.Admitted {
		r.t.Errorf("the account do not balance: %+v", b)
	}
	return b
}

// account is books as text: admitted = stored + spooled + incomplete + dropped.
func (r *rig) account(running bool) string {
	r.t.Helper()
	r.clk.add(cursorEvery) // the cursor may be as old
	if err := r.delivery.keep(r.journal.spool, r.clk.now()); err != nil {
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
	list, err := r.be.backend.Exchanges(r.ctx(), us, session.KeyOf(us, session.SpaceName, name))
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

// However a turn ends, it is in the account once.
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
	one, begun := r.under("zanzibar", 1)
	two, other := r.under("madagascar", 1)
	r.record()
	same(t, "it was put down", len(r.spooled("zanzibar")) > 0, true)
	r.clk.add(syncEvery)
	r.record() // the cursor knows what is under way
	r.clk.add(syncEvery)
	r.record()
	one.Reply.Calls = []sample.Call{{ID: "c", Name: "read", Args: `{"path":"/src/.env"}`}}
	r.over(one, begun)
	r.record()
	for range 2 { // the segment in which it stands is delivered, and goes
		r.clk.add(syncEvery)
		r.record()
	}
	sameList(t, "files that name it", r.spooled("zanzibar"), nil)
	same(t, "the one beside it is still there", len(r.spooled("madagascar")) > 0, true)
	r.over(two, other)
	r.record()
	sameList(t, "stored", r.stored("zanzibar"), nil)
	sameList(t, "stored beside it", r.stored("madagascar"), []string{"1 complete"})
}

// A kill between its end and that leaves it to the next start.
func TestTheBeginningOfWhatOptedOutGoesAtTheNextStart(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.OptOut, _ = sample.NewOptOut([]string{"*.env"}, nil, nil) })
	x, begun := r.under("zanzibar", 1)
	r.record()
	x.Reply.Calls = []sample.Call{{ID: "c", Name: "read", Args: `{"path":"/src/.env"}`}}
	r.over(x, begun)
	r.recorder.record(r.clk.now(), false) // its end is put down, and nothing is handed on
	same(t, "it is still there", len(r.spooled("zanzibar")) > 0, true)
	r = r.again(nil)
	r.record()
	for range 2 {
		r.clk.add(syncEvery)
		r.record()
	}
	sameList(t, "files that name it", r.spooled("zanzibar"), nil)
	sameList(t, "stored", r.stored("zanzibar"), nil)
}

// Beginnings and ends come from many goroutines while the recorder works; none is lost, none
// counted twice.
func TestManyTurnsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
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
	})
}

// The account balances whatever the records say, in whatever order, and however many of them are
// missing.
func TestTheBooksBalance(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var l progress
		total, last := int64(0), int64(0)
		for range rapid.IntRange(1, 40).Draw(rt, "batches") {
			p := batch{crashed: rapid.IntRange(0, 9).Draw(rt, "crash") == 0}
			for range rapid.IntRange(0, 5).Draw(rt, "records") {
				id := fmt.Sprint(rapid.IntRange(0, 20).Draw(rt, "id"))
				lost := rapid.IntRange(0, 3).Draw(rt, "lost") == 0
				switch rapid.IntRange(0, 4).Draw(rt, "kind") {
				case 0:
					id += fmt.Sprint("-", total) // ids are never used twice
					total++
					if !lost {
						p.begun = append(p.begun, stub{ID: id})
					}
				case 1:
					total++
					if !lost {
						p.counted++
					}
				case 2:
					if n := len(l.Open); n > 0 && !lost {
						p.counted++
						p.finish(l.Open[n-1].ID)
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
				p.number(total)
			}
			l.Guessed = rapid.Bool().Draw(rt, "guessed")
			l.advance(&p)
			if l.stored() < 0 || l.Admitted < 0 {
				rt.Fatalf("%+v has %d stored", l, l.stored())
			}
			if !l.Guessed && l.Admitted < last {
				rt.Fatalf("admitted %d, was %d", l.Admitted, last)
			}
			if p.numbered && l.Admitted < total && !l.Guessed {
				rt.Fatalf("admitted %d, told %d", l.Admitted, total)
			}
			last = l.Admitted
		}
		ack, err := l.ack()
		if err != nil {
			rt.Fatal(err)
		}
		if back := progressOf(ack); fmt.Sprint(back) != fmt.Sprint(l) {
			rt.Fatalf("read back: %+v, was %+v", back, l)
		}
	})
}

// The account of a precept at work: what is drained and deleted while somebody reads is not lost.
func TestBooksBesideAWriter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log, _, err := spool.Open(dir, spool.Options{Quota: 1 << 30, Now: when, Count: admittedBy})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	stop := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for last := int64(0); ; {
			books, err := ReadAccount(dir, true)
			if err != nil {
				t.Error(err)
				return
			}
			if books.Admitted < last || len(books.Dropped) > 0 || books.Admitted != books.Stored+books.Spooled {
				t.Errorf("after %d admitted: %+v", last, books)
				return
			}
			last = books.Admitted
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	var l progress
	for range 60 {
		for range 3 {
			log.Rotate()
			p := batch{exchanges: []sample.Exchange{*exchange(us, "a", 1, when)}}
			if _, err := log.Append(1, p.append); err != nil {
				t.Fatal(err)
			}
		}
		at, err := log.Leave()
		if err != nil {
			t.Fatal(err)
		}
		_, l.Admitted = log.End()
		l.At = at
		ack, err := l.ack()
		if err == nil {
			err = log.Keep(spool.Checkpoint{Delivered: ack, Safe: ack})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	reading.Wait()
}

// A spool that the release before the spool was a package of its own left behind is delivered
// whole.
func TestTheSpoolOfAnEarlierRelease(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	if err := r.drain(); err != nil {
		t.Fatal(err)
	}
	dir := r.opts.SpoolDir
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS("testdata/spool-1")); err != nil {
		t.Fatal(err)
	}
	same(t, "before", fmt.Sprint(r.books(false)), "{6 0 4 1 map[bad:1]}")
	r = r.again(nil)
	r.record()
	same(t, "books", r.account(true), "6 = 4 + 0 + 1 + 1 bad")
	sameList(t, "stored", r.stored("first"), []string{"1 complete", "2 complete", "3 complete", "5 incomplete"})
	sameList(t, "stored of the other", r.stored("second"), []string{"1 complete"})
	found := r.Echoes(r.ctx(), us, []session.EchoKey{77})
	same(t, "echo", len(found[77]), 1)
	same(t, "reward", r.reward(sessionOf("first")), 1)
	_, err := os.Stat(filepath.Join(dir, "quarantine"))
	same(t, "nothing is damaged", os.IsNotExist(err), true)
}
