package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"precept/bandit/trial"
	"precept/internal/sample"
	"precept/internal/session"
)

func concurrencyCases() map[string]func(tester, Store) {
	return map[string]func(tester, Store){
		"each writer reads its own writes":                              testReadOwnWrites,
		"of several concurrent first settlements, only one is accepted": testConcurrentFirstSettlements,
		"each parked entry is joined by exactly one call":               testConcurrentJoin,
		"one of several InitMeta values is stored":                      testConcurrentInitMeta,
		"one of several priors for a version is stored":                 testConcurrentPutPriors,
		"concurrent settlements in a session are all added":             testConcurrentSettlements,
		"highest of several concurrent values is kept":                  testConcurrentRaise,
		"concurrent feedback is merged":                                 testConcurrentFeedback,
		"concurrent picks in a run are merged":                          testConcurrentPicks,
	}
}

const workerCount = 8

// runConcurrently calls fn in all workers at the same time, and fails the test if one of the calls returns an error.
func runConcurrently(t tester, fn func(worker int) error) {
	t.Helper()
	var wg sync.WaitGroup
	for worker := range workerCount {
		wg.Go(func() {
			if err := fn(worker); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// testReadOwnWrites tests that each worker can read its sessions immediately after it has written them. All sessions
// have the echo key 1<<40, and each session also has a key of its own.
func testReadOwnWrites(t tester, s Store) {
	const rounds = 20
	ctx := t.Context()
	runConcurrently(t, func(w int) error {
		tenant := fmt.Sprint("t", w%3)
		for i := range rounds {
			n := w*1000 + i
			err := s.Write(ctx, session.Batch{
				Rows: []session.Row{row(tenant, n, n)}, Echoes: []session.Echo{echo(tenant, session.EchoKey(n), n, n), echo(tenant, 1<<40, n, n)},
				Exchanges: []sample.Exchange{exchange(tenant, n, 1)}, Samples: []session.StoredSample{storedSample(tenant, n, n)},
			})
			if err != nil {
				return err
			}
			r, ok, err := s.Session(ctx, tenant, id(n))
			if err != nil {
				return err
			}
			if !ok || r.ID != id(n) {
				return fmt.Errorf("session %x after writing it: found = %v, id = %x, want found = true and this id", id(n), ok, r.ID)
			}
			found, err := s.FindEcho(ctx, tenant, []session.EchoKey{session.EchoKey(n)})
			if err != nil {
				return err
			}
			if len(found[session.EchoKey(n)]) != 1 {
				return fmt.Errorf("FindEcho with the key of session %d, which was just written: got sessions %v, want one session", n, found)
			}
			list, err := s.Exchanges(ctx, tenant, id(n))
			if err != nil {
				return err
			}
			if len(list) != 1 {
				return fmt.Errorf("exchanges in session %d after writing them: got %d, want 1", n, len(list))
			}
		}
		return nil
	})
	st := stats(t, s)
	checkEqual(t, "sessions, exchanges and samples", []int64{st["sessions"], st["exchanges"], st["samples"]}, []int64{workerCount * rounds, workerCount * rounds, workerCount * rounds})
}

func testConcurrentFirstSettlements(t tester, s Store) {
	var accepted atomic.Int64
	runConcurrently(t, func(int) error {
		for n := range 10 {
			ok, err := s.Settle(t.Context(), []session.Settlement{settlement(tenantA, n, 0, delta("a@1", "n", 0, 1))})
			if err != nil {
				return err
			}
			if ok[0] {
				accepted.Add(1)
			}
		}
		return nil
	})
	checkEqual(t, "accepted settlements", accepted.Load(), int64(10))
	checkEqual(t, "counters", counters(t, s, tenantA), []trial.Delta{delta("a@1", "n", 0, 10)})
}

// testConcurrentPicks tests that the stored row of a run contains the picks of all replicas. Each worker writes the row
// with other picks.
func testConcurrentPicks(t tester, s Store) {
	if _, ok := s.(interface {
		Positions(ctx context.Context, follow []string) (map[string]session.Position, error)
	}); !ok {
		return // only the replicas of a shared store write the same row
	}
	runConcurrently(t, func(w int) error {
		for i := range 5 {
			rec := session.NewRun(tenantA, session.Claim{Agent: "a"}, "ci-1", session.RunID(tenantA, "ci-1"), atMinute(10))
			rec.Assignment.Decided, rec.Unit.Members, rec.Thread.Turns = true, w+1, 1
			slug := fmt.Sprintf("l%d-%d", w, i)
			rec.Assignment.Picks = []trial.Pick{{Slug: slug, Arm: trial.Arm(slug + "@1"), Eps: .5}}
			row, err := rec.Row(func(text string) (string, bool) { return text, true })
			if err == nil {
				err = s.Write(t.Context(), session.Batch{Rows: []session.Row{row}})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	row, ok, err := s.Session(t.Context(), tenantA, session.RunID(tenantA, "ci-1"))
	if err != nil || !ok {
		t.Fatalf("Session(run): got found = %v, error %v, want found = true and no error", ok, err)
	}
	rec, err := session.Decode(row.ID, row.Data)
	if err != nil {
		t.Fatal(err)
	}
	checkEqual(t, "picks in the run", len(rec.Assignment.Picks), 5*workerCount)
	checkEqual(t, "members in the run", rec.Unit.Members, workerCount)
}

// testConcurrentSettlements tests that the counters contain the deltas of all workers. If the store refuses a worker's
// settlement, the worker tries again with the current version.
func testConcurrentSettlements(t tester, s Store) {
	runConcurrently(t, func(int) error {
		for {
			a, err := s.SettledState(t.Context(), tenantA, id(1))
			if err != nil {
				return err
			}
			ok, err := s.Settle(t.Context(), []session.Settlement{settlement(tenantA, 1, a.Version, delta("a@1", "n", 0, 1))})
			if err != nil || ok[0] {
				return err
			}
		}
	})
	checkEqual(t, "version", settledState(t, s, tenantA, 1).Version, int64(workerCount))
	checkEqual(t, "counters", counters(t, s, tenantA), []trial.Delta{delta("a@1", "n", 0, workerCount)})
}

// testConcurrentJoin tests that concurrent calls of Unpark add each parked entry exactly once.
func testConcurrentJoin(t tester, s Store) {
	for n := range 20 {
		must(t, s.Park(t.Context(), tenantA, session.EchoKey(n%4), entry(fmt.Sprint(n), n, 1)))
	}
	var joined atomic.Int64
	runConcurrently(t, func(int) error {
		m, err := s.Unpark(t.Context(), tenantA, map[session.EchoKey]session.ID{0: id(1), 1: id(2), 2: id(3), 3: id(4)})
		for _, n := range m {
			joined.Add(int64(n))
		}
		return err
	})
	checkEqual(t, "joined entries", joined.Load(), int64(20))
}

func testConcurrentInitMeta(t tester, s Store) {
	var mu sync.Mutex
	seen := map[string]bool{}
	runConcurrently(t, func(w int) error {
		v, err := s.InitMeta(t.Context(), "salt", []byte{byte(w)})
		mu.Lock()
		defer mu.Unlock()
		seen[string(v)] = true
		return err
	})
	checkEqual(t, "different returned values", len(seen), 1)
}

func testConcurrentPutPriors(t tester, s Store) {
	var accepted atomic.Int64
	runConcurrently(t, func(w int) error {
		put, err := s.PutPriors(t.Context(), tenantA, 0, []byte{byte(w)})
		if put {
			accepted.Add(1)
		}
		return err
	})
	checkEqual(t, "accepted priors", accepted.Load(), int64(1))
}

func testConcurrentRaise(t tester, s Store) {
	runConcurrently(t, func(w int) error {
		for i := range 10 {
			if err := s.RaiseMaxima(t.Context(), tenantA, []trial.Delta{delta("a@1", "emax+", 0, int64(i*workerCount+w))}); err != nil {
				return err
			}
		}
		return nil
	})
	checkEqual(t, "maxima", maxima(t, s, tenantA), []trial.Delta{delta("a@1", "emax+", 0, 10*workerCount-1)})
}

func testConcurrentFeedback(t tester, s Store) {
	runConcurrently(t, func(w int) error {
		for i := range 10 {
			_, err := s.AddFeedback(t.Context(), tenantA, feedbackFor(1, entry(fmt.Sprint(i), i, 1), entry(fmt.Sprint("own ", w), w, 0)))
			if err != nil {
				return err
			}
		}
		return nil
	})
	checkEqual(t, "entries", len(entries(t, s, tenantA, 1)), 10+workerCount)
}
