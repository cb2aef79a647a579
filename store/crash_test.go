package store_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/internal/sample"
	"precept/store"
)

// The test crashes the store before each backend call and after each delivery.
func TestCrashLosesNoCountedTurn(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	var copies []string // a copy of the directory for each crash
	crash := func() { copies = append(copies, copyDir(t, f.dir)) }
	f.backend.onCall(func(string) { crash() })
	deliverAndCrash := func() {
		f.deliver()
		crash()
	}
	f.store.BeginTurn(newExchange(tenantA, "open", 1, f.clock.now()))
	for round := 1; round <= 5; round++ {
		f.beginSession(tenantA, "s", newAssignment(true))
		x, begun := f.startTurn("s", 2*round)
		_, abandoned := f.startTurn("abandoned", round)
		f.offer("s", 2*round+1)
		deliverAndCrash()
		f.store.Offer(store.Turn{Exchange: x, Start: begun, Size: 10})
		f.store.Abandon(abandoned)
		f.addKey(replyKey, sessionID("s"))
		if round == 3 {
			f.backend.failNext("write", 2, errDown)
		}
		deliverAndCrash()
		deliverAndCrash()
		f.clock.add(5 * time.Second)
		deliverAndCrash()
	}
	f.backend.onCall(nil)
	t.Logf("%d simulated crashes", len(copies))
	last := int64(0)
	for i, dir := range copies {
		before := readAccount(t, outboxIn(dir), false)
		if before.Admitted < last {
			t.Errorf("crash %d: account %+v: got Admitted = %d, want at least %d as after the previous crash", i, before, before.Admitted, last)
		}
		last = before.Admitted
		next := openFixture(t, dir, f.clock, nil)
		next.deliver()
		after := readAccount(t, outboxIn(dir), true)
		if after.Admitted != before.Admitted {
			t.Errorf("crash %d: Admitted = %d, want %d", i, after.Admitted, before.Admitted)
		}
		if after.Stored != before.Stored+before.Spooled {
			t.Errorf("crash %d: Stored = %d, want %d", i, after.Stored, before.Stored+before.Spooled)
		}
		if after.Incomplete != before.Incomplete {
			t.Errorf("crash %d: Incomplete = %d, want %d", i, after.Incomplete, before.Incomplete)
		}
		if after.Spooled != 0 {
			t.Errorf("crash %d: Spooled = %d, want 0", i, after.Spooled)
		}
		complete, incomplete := next.outcomes("s", "open", "abandoned")
		if complete != after.Stored {
			t.Errorf("crash %d: complete = %d, want %d", i, complete, after.Stored)
		}
		if incomplete != after.Incomplete {
			t.Errorf("crash %d: incomplete = %d, want %d", i, incomplete, after.Incomplete)
		}
		next.kill()
	}
}

// outcomes counts the stored exchanges of the named sessions and checks that none is stored twice.
func (f *fixture) outcomes(names ...string) (complete, incomplete int64) {
	f.t.Helper()
	for _, name := range names {
		turns := map[int]bool{}
		list, err := f.backend.Exchanges(f.t.Context(), tenantA, sessionID(name))
		if err != nil {
			f.t.Fatal(err)
		}
		for i := range list {
			if turns[list[i].Turn] {
				f.t.Errorf("turn %d of session %q is stored twice", list[i].Turn, name)
			}
			turns[list[i].Turn] = true
			if list[i].Outcome == sample.Incomplete {
				incomplete++
			} else {
				complete++
			}
		}
	}
	stats, err := f.backend.backend.(interface {
		Stats(ctx context.Context) (map[string]int64, error)
	}).Stats(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	if stats["exchanges"] != complete+incomplete {
		f.t.Errorf(`Stats["exchanges"] = %d, want %d`, stats["exchanges"], complete+incomplete)
	}
	if stats["exchanges_ever"] != stats["exchanges"] {
		f.t.Errorf(`Stats["exchanges_ever"] = %d, want %d`, stats["exchanges_ever"], stats["exchanges"])
	}
	return complete, incomplete
}

// turnState is the state of a turn in the model of TestAccountMatchesBackend.
type turnState string

const (
	begun              turnState = "begun"                  // the turn is in progress
	ended              turnState = "ended"                  // the turn was offered, but a crash may still lose the exchange
	written            turnState = "written"                // the turn was offered, and is in the outbox
	dropped            turnState = "dropped"                // the turn was abandoned or opted out
	offeredBeforeCrash turnState = "offered before a crash" // the turn was offered before a crash, and may be stored complete, as a stub, or not at all
	stubbed            turnState = "stubbed"                // the turn was in progress at a crash, and has a stub
	startedBeforeCrash turnState = "started before a crash" // the turn was in progress or just abandoned at a crash, and may be stored as a stub or not at all
)

type modelTurn struct {
	exchange       *sample.Exchange
	start          *store.TurnStart
	state          turnState
	deliveredSince bool // a delivery has run since the last state change
}

// The test runs random turns, deliveries, failures and crashes.
func TestAccountMatchesBackend(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		f := newFixture(t, optOutEnvFiles(t))
		var turns []*modelTurn
		noteCrash := func() {
			for _, m := range turns {
				switch {
				case m.state == ended:
					m.state = offeredBeforeCrash
				case m.state == begun && m.deliveredSince:
					m.state = stubbed
				case m.state == begun, m.state == dropped && !m.deliveredSince:
					m.state = startedBeforeCrash
				}
			}
		}
		noteDelivery := func() {
			for _, m := range turns {
				if m.state == ended {
					m.state = written
				}
				m.deliveredSince = true
			}
		}
		openTurn := func(label string) *modelTurn {
			var open []*modelTurn
			for _, m := range turns {
				if m.state == begun && m.start != nil {
					open = append(open, m)
				}
			}
			if len(open) == 0 {
				return nil
			}
			return open[rapid.IntRange(0, len(open)-1).Draw(rt, label)]
		}
		addTurn := func(state turnState) *modelTurn {
			m := &modelTurn{exchange: newExchange(tenantA, fmt.Sprint("s", len(turns)%3), len(turns)+1, f.clock.now()), state: state}
			turns = append(turns, m)
			return m
		}
		actions := map[string]func(){
			"begin": func() { m := addTurn(begun); m.start = f.store.BeginTurn(m.exchange) },
			"offer": func() { m := addTurn(ended); f.store.Offer(store.Turn{Exchange: m.exchange, Size: 100}) },
			"end": func() {
				if m := openTurn("turn to end"); m != nil {
					f.endTurn(m.exchange, m.start)
					m.state, m.deliveredSince = ended, false
				}
			},
			"opt out": func() {
				if m := openTurn("turn to opt out"); m != nil {
					readEnvFile(m.exchange)
					f.endTurn(m.exchange, m.start)
					m.state, m.deliveredSince = dropped, false
				}
			},
			"abandon": func() {
				if m := openTurn("turn to abandon"); m != nil {
					f.store.Abandon(m.start)
					m.state, m.deliveredSince = dropped, false
				}
			},
			"begin session": func() { f.beginSession(tenantA, "s0", newAssignment(true)) },
			"fail backend calls": func() {
				f.backend.failNext(rapid.SampledFrom([]string{"write", "sync"}).Draw(rt, "operation"), rapid.IntRange(1, 3).Draw(rt, "times"), errDown)
			},
			"deliver": func() {
				f.clock.add(time.Duration(rapid.IntRange(0, 6).Draw(rt, "seconds")) * time.Second)
				f.deliver()
				noteDelivery()
			},
			"crash": func() { noteCrash(); f = f.restart(optOutEnvFiles(t)) },
		}
		names := []string{"begin", "begin", "offer", "end", "end", "opt out", "abandon", "begin session", "fail backend calls", "deliver", "deliver", "deliver", "crash"}
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			actions[rapid.SampledFrom(names).Draw(rt, "action")]()
		}
		f.backend.allowWrites()
		f.backend.failNext("sync", 0, nil)
		f.deliverFor(8 * time.Second)
		noteDelivery()
		noteCrash()
		f = f.restart(optOutEnvFiles(t))
		defer f.kill()
		f.deliverFor(2 * time.Second)
		b := f.balancedAccount(true)
		if b.Spooled != 0 {
			rt.Fatalf("account after the delivery: got %+v, want Spooled = 0", b)
		}
		complete, incomplete := f.outcomes("s0", "s1", "s2")
		if b.Stored != complete {
			rt.Fatalf("stored exchanges = %d, want %d", b.Stored, complete)
		}
		if b.Incomplete != incomplete {
			rt.Fatalf("account: Incomplete = %d, want %d", b.Incomplete, incomplete)
		}
		stored := map[string]string{}
		for _, name := range []string{"s0", "s1", "s2"} {
			list, err := f.backend.Exchanges(t.Context(), tenantA, sessionID(name))
			if err != nil {
				rt.Fatal(err)
			}
			for i := range list {
				stored[list[i].ID] = list[i].Outcome
			}
		}
		for i, m := range turns {
			allowed := map[turnState][]string{
				written: {sample.Complete}, stubbed: {sample.Incomplete}, dropped: {""},
				offeredBeforeCrash: {sample.Complete, sample.Incomplete, ""}, startedBeforeCrash: {sample.Incomplete, ""},
			}[m.state]
			if !slices.Contains(allowed, stored[m.exchange.ID]) {
				rt.Fatalf("stored outcome of turn %d (state %s): got %q, want one of %q", i+1, m.state, stored[m.exchange.ID], allowed)
			}
		}
		if t.Failed() {
			rt.FailNow()
		}
	})
}

// The test changes up to three bytes of an outbox file, and sometimes also truncates the file.
func TestDamagedOutboxCountsEachExchangeOnce(t *testing.T) {
	t.Parallel()
	const turns = 12
	f := newFixture(t, nil)
	f.backend.failWrites()
	for turn := 1; turn <= turns; turn++ {
		f.beginSession(tenantA, "s", newAssignment(true))
		f.offerLarge("s", turn, 2<<10)
		f.startTurn("open", turn)
		f.addKey(replyKey, sessionID("s"))
		f.deliverFor(time.Second)
	}
	undamaged := f.dir
	rapid.Check(t, func(rt *rapid.T) {
		dir := copyDir(t, undamaged)
		var names []string
		err := filepath.WalkDir(filepath.Dir(outboxIn(dir)), func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				names = append(names, path)
			}
			return err
		})
		if err != nil {
			rt.Fatal(err)
		}
		path := rapid.SampledFrom(names).Draw(rt, "file")
		b, err := os.ReadFile(path)
		if err != nil {
			rt.Fatal(err)
		}
		for range rapid.IntRange(0, 3).Draw(rt, "bytes") {
			if len(b) > 0 {
				b[rapid.IntRange(0, len(b)-1).Draw(rt, "at")] ^= byte(rapid.IntRange(1, 255).Draw(rt, "change"))
			}
		}
		if rapid.Bool().Draw(rt, "truncated") {
			b = b[:rapid.IntRange(0, len(b)).Draw(rt, "to")]
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			rt.Fatal(err)
		}
		next := openFixture(t, dir, f.clock, nil)
		defer next.kill()
		next.deliverAll()
		next.offer("s", turns+1)
		next.deliverAll()
		account := next.balancedAccount(true)
		complete, incomplete := next.outcomes("s", "open")
		if account.Stored != complete {
			rt.Fatalf("stored exchanges = %d, want %d", account.Stored, complete)
		}
		if account.Incomplete != incomplete {
			rt.Fatalf("account: Incomplete = %d, want %d", account.Incomplete, incomplete)
		}
		if account.Spooled != 0 {
			rt.Fatalf("account: Spooled = %d, want 0", account.Spooled)
		}
		list := next.storedTurns("s")
		if !slices.Contains(list, fmt.Sprint(turns+1, " complete")) {
			rt.Fatalf("stored turns of session s = %q, want %q in the list", list, fmt.Sprint(turns+1, " complete"))
		}
		if complete > turns+1 {
			rt.Fatalf("complete turns = %d, want at most %d", complete, turns+1)
		}
		if incomplete > turns {
			rt.Fatalf("incomplete turns = %d, want at most %d", incomplete, turns)
		}
		if t.Failed() {
			rt.FailNow()
		}
	})
}
