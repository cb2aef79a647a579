package sqlite_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"precept/feedback"
	"precept/sample"
	"precept/session"
	"precept/store/sqlite"
	"precept/trial"
)

// Sessions that are past every retention leave no row behind, and the file and its WAL take no more
// room after ten times as many of them.
func TestGoneSessionsLeaveNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "precept.db")
	s := open(t, sqlite.Options{Path: path})
	start := time.Date(2031, 5, 6, 0, 0, 0, 0, time.UTC)
	const each = 40
	round := func(n int) {
		for i := range each {
			live(t, s, n*each+i, start.Add(time.Duration(n)*time.Hour))
		}
		if gone, err := s.Retain(t.Context(), start.Add(1000*time.Hour)); err != nil || gone < each {
			t.Fatalf("%d sessions are gone, %v", gone, err)
		}
		if _, err := s.PurgeParked(t.Context(), start.Add(1000*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	round(0)
	rows, bytes := rowsOf(t, path), sizeOf(t, path)
	for n := range 9 {
		round(n + 1)
	}
	if have := rowsOf(t, path); !maps.Equal(have, rows) {
		t.Errorf("rows after ten times as many sessions: %v\nafter the first ones: %v", have, rows)
	}
	if have := sizeOf(t, path); have > bytes*3/2 {
		t.Errorf("the files take %d bytes, and took %d", have, bytes)
	}
}

// live is a session with something of every kind, from its first turn to its settlement.
func live(t *testing.T, s *sqlite.Store, n int, now time.Time) {
	t.Helper()
	sum := sha256.Sum256(fmt.Append(nil, n))
	ctx, sid := t.Context(), session.ID(sum[:16])
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	echo := session.EchoKey(n) * 0x9e3779b97f4a7c15
	must(s.Write(ctx, session.Batch{
		Rows:      []session.Row{{Tenant: "default", ID: sid, Started: now, Seen: now, Data: []byte("{}")}},
		Echoes:    []session.Echo{{Tenant: "default", Key: echo, ID: sid, At: now}, {Tenant: "default", Key: 7, ID: sid, At: now}},
		Exchanges: []sample.Exchange{{ID: sid.String(), Tenant: "default", Session: sid.String(), Turn: 1, At: now}},
		Samples:   []session.StoredSample{{Tenant: "default", ID: sid, Sample: sample.Sample{ID: "s" + sid.String(), CreatedAt: now}}},
	}))
	said := feedback.Entry{ID: "f", At: now, Type: feedback.TypeScore}
	must(s.Park(ctx, "default", echo, said))
	must(s.Park(ctx, "default", echo+1, said)) // nobody comes for it
	_, err := s.Join(ctx, "default", map[session.EchoKey]session.ID{echo: sid})
	must(err)
	must(s.Jot(ctx, "default", map[session.ID][]byte{sid: []byte("mark")}, nil))
	must(s.SetAside(ctx, []session.DeadLetter{{Tenant: "default", ID: sid, At: now}, {Tenant: "default", ID: sid, Exchange: "x", At: now}}))
	_, err = s.Settle(ctx, []session.Settlement{{Tenant: "default", ID: sid, Deltas: []trial.Delta{{Key: trial.Key{Scope: "a@1", Field: "n"}, Value: 1}}}})
	must(err)
	// What comes late, of a session that is settled.
	must(s.Write(ctx, session.Batch{Exchanges: []sample.Exchange{{ID: "late" + sid.String(), Tenant: "default", Session: sid.String(), Turn: 2, At: now}}}))
}

// rowsOf counts the rows of every table.
func rowsOf(t *testing.T, path string) map[string]int64 {
	t.Helper()
	db, counts := raw(t, path), map[string]int64{}
	names := ""
	err := db.QueryRowContext(t.Context(), "SELECT group_concat(name) FROM sqlite_schema WHERE type = 'table'").Scan(&names)
	for name := range strings.SplitSeq(names, ",") {
		var n int64
		if err == nil {
			err = db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+name).Scan(&n)
		}
		counts[name] = n
	}
	if err != nil {
		t.Fatal(err)
	}
	return counts
}

func sizeOf(t *testing.T, path string) (bytes int64) {
	t.Helper()
	for _, file := range []string{path, path + "-wal"} {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		bytes += info.Size()
	}
	return bytes
}
