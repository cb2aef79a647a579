package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"precept/internal/session"
)

// For any number of sessions and tenants, ListSessions must read only the rows on the page that it returns.
func TestListSessionsUsesIndexes(t *testing.T) {
	n := 100_000
	if text := os.Getenv("PRECEPT_TEST_SESSIONS"); text != "" {
		n, _ = strconv.Atoi(text)
	}
	path := filepath.Join(t.TempDir(), "precept.db")
	s := openStore(t, path)
	writeSessions(t, s, n)
	start := time.Now()
	p, err := s.ListSessions(t.Context(), "many", session.ListRange{Limit: 50})
	t.Logf("the newest 50 of %d sessions: %v", n, time.Since(start))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.List) != 50 {
		t.Fatalf("first page: List = %+v, want 50 items", p.List)
	}
	if p.Next == "" {
		t.Fatal("first page: Next is empty")
	}
	for i := range p.List {
		if want := micros(sessionsStart()) + int64(n-1-i)*1e6; micros(p.List[i].Row.Started) != want {
			t.Fatalf("start of session %d on the first page: got %v, want %v", i, p.List[i].Row.Started, fromMicros(want))
		}
	}
	start = time.Now()
	p, err = s.ListSessions(t.Context(), "many", session.ListRange{Limit: 50, OldestFirst: true})
	t.Logf("the oldest 50 of %d sessions: %v", n, time.Since(start))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.List) != 50 {
		t.Fatalf("oldest first: List = %+v, want 50 items", p.List)
	}
	if p.Next == "" {
		t.Fatal("oldest first: Next is empty")
	}
	if !p.List[0].Row.Started.Equal(sessionsStart()) {
		t.Fatalf("oldest first: Started = %v, want %v", p.List[0].Row.Started, sessionsStart())
	}
	start = time.Now()
	within := session.ListRange{Until: sessionsStart().Add(time.Duration(n/2) * time.Second), Limit: 50}
	if p, err = s.ListSessions(t.Context(), "many", within); err != nil {
		t.Fatal(err)
	} else if len(p.List) != 50 {
		t.Fatalf("page from the middle: List = %+v, want 50 items", p.List)
	} else if !p.List[0].Row.Started.Equal(within.Until.Add(-time.Second)) {
		t.Fatalf("page from the middle: Started = %v, want %v", p.List[0].Row.Started, within.Until.Add(-time.Second))
	}
	t.Logf("50 from the middle: %v", time.Since(start))
	if p, err = s.ListSessions(t.Context(), "few", session.ListRange{Limit: 50}); err != nil {
		t.Fatal(err)
	} else if len(p.List) != 1 {
		t.Fatalf("page for tenant few: List = %+v, want 1 item", p.List)
	} else if p.Next != "" {
		t.Fatalf(`page for tenant few: Next = %q, want ""`, p.Next)
	}
	for query, index := range map[string]string{
		"SELECT sid FROM sessions s WHERE s.tenant = 1 AND s.started >= 0 AND s.started < 9 AND (s.started, s.sid) < (9, 9) AND s.data IS NOT NULL ORDER BY s.started DESC, s.sid DESC LIMIT 5": "sessions_newest",
		"SELECT sid FROM sessions s WHERE s.tenant = 1 AND s.started >= 0 AND s.started < 9 AND (s.started, s.sid) > (9, 9) AND s.data IS NOT NULL ORDER BY s.started, s.sid LIMIT 5":           "sessions_newest",
		"SELECT rid FROM samples m WHERE m.tenant = 1 AND m.at >= 0 AND m.at < 9 AND (m.at, m.rid) < (9, 9) ORDER BY m.at DESC, m.rid DESC LIMIT 5":                                             "samples_newest",
	} {
		plan := queryPlan(t, s, query)
		if !strings.Contains(plan, "USING INDEX "+index) && !strings.Contains(plan, "USING COVERING INDEX "+index) || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("plan for the query %s: got %s, want index %s and no TEMP B-TREE", query, plan, index)
		}
	}
}

func sessionsStart() time.Time { return time.Unix(1_900_000_000, 0) }

// writeSessions writes n sessions of the tenant "many", which start a second apart, and one session of the tenant
// "few".
func writeSessions(t *testing.T, s *Store, n int) {
	t.Helper()
	err := s.update(t.Context(), "test", func(x *tx) {
		many, few := x.findOrAddTenant("many"), x.findOrAddTenant("few")
		insert := fmt.Sprintf(`INSERT INTO sessions(tenant, started, seen, state, id, data)
			WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ? - 1)
			SELECT ?, %d + i * 1000000, %d + i * 1000000, 2, randomblob(16), '{"agent":"coder","turns":3}' FROM n`, micros(sessionsStart()), micros(sessionsStart()))
		x.db.exec(insert, n, many)
		x.db.exec("INSERT INTO sessions(tenant, started, seen, state, id, data) VALUES(?, 0, 0, 2, randomblob(16), '{}')", few)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func queryPlan(t *testing.T, s *Store, query string) string {
	t.Helper()
	plan, err := read(t.Context(), s, func(c *conn) (out string) {
		for r := range c.query("EXPLAIN QUERY PLAN " + query) {
			var detail string
			r.skip(3).scan(&detail)
			out += detail + "; "
		}
		return out
	})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func TestMigrationToListIndexesKeepsData(t *testing.T) {
	path := filepath.Join(t.TempDir(), "precept.db")
	s := openStore(t, path)
	writeSessions(t, s, 300)
	downgrade(t, s, 5)
	s = openStore(t, path)
	total, within := 0, session.ListRange{Limit: 100}
	for more := true; more; {
		p, err := s.ListSessions(t.Context(), "many", within)
		if err != nil {
			t.Fatal(err)
		}
		total += len(p.List)
		within.After, more = p.Next, p.Next != ""
	}
	if total != 300 {
		t.Errorf("sessions on all pages after the migration: got %d, want 300", total)
	}
	if plan := queryPlan(t, s, "SELECT sid FROM sessions WHERE tenant = 1 ORDER BY started DESC LIMIT 5"); !strings.Contains(plan, "sessions_newest") {
		t.Errorf("list query plan after the migration: got %q, want the index sessions_newest", plan)
	}
}
