package sqlite_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/sqlite"
)

const burstEchoes = 200

// burstKey returns the i-th echo key in batch n.
func burstKey(n, i int) session.EchoKey { return session.EchoKey(n)<<20 | session.EchoKey(i) }

// burstBatch returns batch n: a session with a row, 5 exchanges, a sample and burstEchoes echoes.
func burstBatch(n int) session.Batch {
	b := session.Batch{Rows: []session.Row{benchRow(n, n)}}
	for turn := range 5 {
		b.Exchanges = append(b.Exchanges, benchExchange(n, turn))
	}
	for i := range burstEchoes {
		b.Echoes = append(b.Echoes, session.Echo{Tenant: "default", Key: burstKey(n, i), ID: benchID(n), At: benchStart()})
	}
	b.Samples = []session.StoredSample{{Tenant: "default", ID: benchID(n), Sample: sample.Sample{ID: fmt.Sprint("s", n), CreatedAt: benchStart()}}}
	return b
}

// writeUntilKilled writes batches, and feedback and settlements for them. After each batch that the store has
// acknowledged, it prints the number of the batch.
func writeUntilKilled(dir, from string) error {
	ctx := context.Background()
	l, err := sqlite.Lock(dir)
	if err != nil {
		return err
	}
	defer l.Close() //nolint:errcheck // the process ends only by a kill
	s, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(dir, "precept.db")})
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(from)
	for ; err == nil; n++ {
		if err = s.Write(ctx, burstBatch(n)); err != nil {
			break
		}
		fmt.Println(n)
		if _, err = s.AddFeedback(ctx, "default", map[session.ID][]feedback.Entry{benchID(n): {{ID: "a", At: benchStart()}, {ID: "b", At: benchStart()}}}); err != nil {
			break
		}
		deltas := []trial.Delta{{Key: trial.Key{Scope: "a@1", Field: "n"}, Value: 1}, {Key: trial.Key{Scope: fmt.Sprint("b@", n%50), Field: "n"}, Value: 1}}
		_, err = s.Settle(ctx, []session.Settlement{{Tenant: "default", ID: benchID(n), Deltas: deltas}})
	}
	return err
}

func TestKillLosesNoAcknowledgedWrite(t *testing.T) {
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the seed makes the test reproducible
	survived := 0
	for round := range 10 {
		p := startProcess(t, "burst", dir, strconv.Itoa(round*100_000))
		last, err := strconv.Atoi(p.readLine(t))
		if err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(rng.IntN(60_000))*time.Microsecond, func() { _ = p.cmd.Process.Kill() })
		for p.lines.Scan() {
			if n, err := strconv.Atoi(p.lines.Text()); err == nil {
				last = n
			}
		}
		timer.Stop()
		_ = p.cmd.Wait()
		survived += checkBurst(t, dir, round*100_000, last)
	}
	t.Logf("stored batches after ten kills: %d", survived)
}

// checkBurst fails the test unless all acknowledged batches, which have the numbers from through last, are stored, and
// each stored batch is complete. It returns the number of stored batches.
func checkBurst(t *testing.T, dir string, from, last int) (batches int) {
	t.Helper()
	path := filepath.Join(dir, "precept.db")
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if s.Notice() != "" {
		t.Fatalf("Notice after a kill: got %q, want none", s.Notice())
	}
	for n := from; n <= last+1; n++ {
		if !hasSession(t, s, n) {
			if n <= last {
				t.Errorf("acknowledged batch %d has no session row, want one", n)
			}
			break
		}
		batches++
		checkBatch(t, s, n)
	}
	checkSums(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var ok string
	if err := openRaw(t, path).QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&ok); err != nil {
		t.Error(err)
	} else if ok != "ok" {
		t.Errorf(`integrity_check = %q, want "ok"`, ok)
	}
	return batches
}

func checkBatch(t *testing.T, s *sqlite.Store, n int) {
	t.Helper()
	if list, err := s.Exchanges(t.Context(), "default", benchID(n)); err != nil {
		t.Errorf("batch %d: %v", n, err)
	} else if len(list) != 5 {
		t.Errorf("batch %d = %+v, want 5 exchanges", n, list)
	}
	if _, ok, err := s.SampleSession(t.Context(), "default", fmt.Sprint("s", n)); err != nil {
		t.Errorf("batch %d: %v", n, err)
	} else if !ok {
		t.Errorf("batch %d: ok = false, want true", n)
	}
	keys := []session.EchoKey{burstKey(n, 0), burstKey(n, 77), burstKey(n, burstEchoes-1)}
	if found, err := s.FindEcho(t.Context(), "default", keys); err != nil {
		t.Errorf("batch %d: %v", n, err)
	} else if len(found) != len(keys) {
		t.Errorf("batch %d = %+v, want %d items", n, found, len(keys))
	}
	if list, err := s.Feedback(t.Context(), "default", benchID(n)); err != nil {
		t.Errorf("batch %d: %v", n, err)
	} else if len(list)%2 != 0 {
		t.Errorf("batch %d: %d feedback entries, want an even number", n, len(list))
	}
}

// checkSums fails the test unless the counters contain each settled session exactly once.
func checkSums(t *testing.T, s *sqlite.Store) {
	t.Helper()
	settled := int64(0)
	err := s.EachSession(t.Context(), "", time.Time{}, time.Time{}, func(r session.Row, a session.SettledState) error {
		settled += a.Version
		if r.Closed != (a.Version > 0) {
			t.Errorf("session %x: got Closed = %v, Version = %d, want Closed = true if and only if Version > 0", r.ID, r.Closed, a.Version)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.Counters(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	sumA, sumB := int64(0), int64(0) // sums of the counters with the scope a@1, and with the scopes that begin with b@
	for _, d := range list {
		if d.Key.Scope == "a@1" {
			sumA += d.Value
		} else {
			sumB += d.Value
		}
	}
	if sumA != settled {
		t.Errorf("counter sum of scope a@1 = %d, want %d", sumA, settled)
	}
	if sumB != settled {
		t.Errorf("counter sum of the scopes b@ = %d, want %d", sumB, settled)
	}
}
