package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/internal/sample"
	"precept/internal/session"
)

// downgradeStatements returns, for each schema version, the SQL statements that restore the previous version.
func downgradeStatements() map[int][]string {
	return map[int][]string{
		9: {
			"DROP TABLE echoes", "CREATE TABLE echo_log(rid INTEGER PRIMARY KEY, v BLOB)",
			"CREATE TABLE echo_runs(run INTEGER PRIMARY KEY)", "CREATE TABLE echo_blocks(id INTEGER PRIMARY KEY, v BLOB)",
		},
		8: {"DROP TRIGGER parked_in", "DROP TRIGGER parked_out", "DROP TABLE parked_of"},
		7: {"DROP INDEX sessions_newest", "DROP INDEX samples_newest"},
		5: {"DROP TABLE marks", "DROP TABLE notes"},
		4: {"DROP TABLE aside", "ALTER TABLE unsettled DROP COLUMN x"},
		3: {"DROP TABLE unsettled", "ALTER TABLE sessions DROP COLUMN standin"},
		2: {"ALTER TABLE parked DROP COLUMN tenant"},
	}
}

// downgrade changes a store's file back to an earlier schema version, and closes the store.
func downgrade(t *testing.T, s *Store, schema int) {
	t.Helper()
	err := s.update(t.Context(), "test", func(x *tx) {
		for v := schemaVersion; v > schema; v-- {
			for _, stmt := range downgradeStatements()[v] {
				x.db.exec(stmt)
			}
		}
		x.db.exec(fmt.Sprint("PRAGMA user_version = ", schema))
	})
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// createSchema creates a database file with an earlier schema version and a row in each table.
func createSchema(t *testing.T, path string, schema int) {
	t.Helper()
	c, err := connect(t.Context(), fileURI(path, "rwc"), writerSettings)
	if err != nil {
		t.Fatal(err)
	}
	blocks := [3]string{
		oldEchoes(oldEcho{key: 1, at: 20, sid: 1}, oldEcho{key: 2, at: 20, sid: 1}), // this block and the next block belong to one row of echo_runs
		oldEchoes(oldEcho{key: 3, at: 20, sid: 1}),
		oldEchoes(oldEcho{key: 3, at: 40, sid: 1}, oldEcho{key: 4, at: 40, sid: 1}, oldEcho{key: 4, at: 30, sid: 1}), // a row of echo_log
	}
	script := strings.Join(migrations()[:schema], "\n") + fmt.Sprintf(`
		PRAGMA application_id = %d; PRAGMA user_version = %d;
		INSERT INTO tenants VALUES(1, 't');
		INSERT INTO sessions(sid, tenant, started, seen, state, id, data)
		  VALUES(1, 1, 1000, 2000, 2, x'01000000000000000000000000000000', CAST('{"turns":3}' AS BLOB));
		INSERT INTO exchanges 
		  VALUES(1, 1, %d, 1, 1500, CAST('{"id":"x","tenant":"t","session":"01000000000000000000000000000000","turn":1}' AS BLOB), NULL);
		INSERT INTO samples VALUES(1, 1, %d, 1, 1500, 'coder', CAST('{"sample_id":"m"}' AS BLOB));
		INSERT INTO feedback VALUES(1, 1, %d, CAST('{"id":"f","score":0.5}' AS BLOB));
		INSERT INTO parked(rid, echo, k, at, data) VALUES(1, %d, %d, 1500, CAST('{"id":"p","score":1}' AS BLOB));
		INSERT INTO settled VALUES(1, 2, 1, 0, 1, CAST('{}' AS BLOB));
		INSERT INTO counters VALUES(1, 'arm', 7, x'016e04');
		INSERT INTO maxima VALUES(1, 'arm', 'max', 7, 5);
		INSERT INTO priors VALUES(1, 4, CAST('{}' AS BLOB));
		INSERT INTO meta VALUES('salt', x'0102');
		INSERT INTO totals VALUES('sessions', 1), ('exchanges', 1), ('samples', 1), ('feedback', 1), ('parked', 1);
		INSERT INTO echo_runs VALUES(7, 20, x'', x'');
		INSERT INTO echo_blocks VALUES(7 << 20, x'%x'), ((7 << 20) + 1, x'%x');
		INSERT INTO echo_log(v) VALUES(x'%x');`,
		applicationID, schema, hashKey("x"), hashKey("m"), hashKey("f"), echoKey(1, 9), hashKey("p"), blocks[0], blocks[1], blocks[2])
	if err := errors.Join(c.do(t.Context(), func() { c.script(script) }), c.close()); err != nil {
		t.Fatal(err)
	}
}

type oldEcho struct{ key, at, sid int64 }

// oldEchoes encodes echoes of tenant 1 in the format of schema 8.
func oldEchoes(echoes ...oldEcho) string {
	var b []byte
	for _, e := range echoes {
		for _, n := range []int64{echoKey(1, session.EchoKey(e.key)), e.at, e.sid} {
			b = binary.LittleEndian.AppendUint64(b, uint64(n))
		}
	}
	return string(b)
}

func TestMigrationsKeepTheData(t *testing.T) {
	t.Parallel()
	id, later := session.ID{1}, time.UnixMicro(3000)
	for schema := 1; schema < schemaVersion; schema++ {
		path := filepath.Join(t.TempDir(), "precept.db")
		createSchema(t, path, schema)
		s := openStore(t, path)
		check := func(subject string, ok bool, got any, err error) {
			if !ok || err != nil {
				t.Errorf("%[2]s after the migration from schema %[1]d: got %+[3]v, error %[4]v, want the value from before the migration", schema, subject, got, err)
			}
		}
		ctx := t.Context()
		from, to := s.SchemaVersions()
		check("upgrade schemas", from == schema && to == schemaVersion, from, nil)
		row, ok, err := s.Session(ctx, "t", id)
		check("session", ok && string(row.Data) == `{"turns":3}` && !row.StartedOffline && row.Seen.UnixMicro() == 2000, row, err)
		ex, err := s.Exchanges(ctx, "t", id)
		check("exchanges", len(ex) == 1 && ex[0].ID == "x", ex, err)
		found, err := s.FindEcho(ctx, "t", []session.EchoKey{1, 2, 3, 4, 5})
		check("echoes", maps.EqualFunc(found, map[session.EchoKey][]session.ID{1: {id}, 2: {id}, 3: {id}, 4: {id}}, slices.Equal), found, err)
		check("echo times", countEchoes(t, s, "gen = 3 AND at = 20") == 3 && countEchoes(t, s, "gen = 4 AND at = 40") == 2, nil, nil)
		check("newest echo generation", s.newestGen == generation{4, 2}, s.newestGen, nil)
		owner, ok, err := s.SampleSession(ctx, "t", "m")
		check("sample", ok && owner == id, owner, err)
		a, err := s.SettledState(ctx, "t", id)
		check("settled state", a.Version == 2 && a.Rewarded, a, err)
		counters, err := s.Counters(ctx, "t")
		check("counters", len(counters) == 1 && counters[0].Value == 2 && counters[0].Key.Field == "n", counters, err)
		maxima, err := s.Maxima(ctx, "t")
		check("maxima", len(maxima) == 1 && maxima[0].Value == 5, maxima, err)
		version, _, err := s.Priors(ctx, "t")
		check("priors", version == 4, version, err)
		salt, ok, err := s.Meta(ctx, "salt")
		check("meta", ok && string(salt) == "\x01\x02", salt, err)
		joined, err := s.Unpark(ctx, "t", map[session.EchoKey]session.ID{9: id})
		check("parked", joined[id] == 1, joined, err)
		entries, state, err := s.SessionFeedback(ctx, "t", id)
		check("feedback", len(entries) == 2 && state == 1, entries, err)
		err = s.Write(ctx, session.Batch{Exchanges: []sample.Exchange{{ID: "y", Tenant: "t", Session: id.String(), At: later, Turn: 2}}})
		check("Write(exchange)", true, nil, err)
		n, err := s.CountUnsampled(ctx)
		check("unsampled sessions after an exchange in a closed session", n == 1, n, err)
		check("parked feedback", true, nil, s.Park(ctx, "t", 10, feedback.Entry{ID: "q", At: later}))
		stats, err := s.Stats(ctx)
		check("stats", stats["parked"] == 1 && stats["feedback"] == 2 && stats["exchanges"] == 2 && stats["sessions"] == 1, stats, err)
	}
}

func TestFailedMigrationRollsBack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "precept.db")
	createSchema(t, path, echoVersion-1)
	runScript := func(text string) {
		t.Helper()
		c, err := connect(t.Context(), fileURI(path, "rwc"), writerSettings)
		if err != nil {
			t.Fatal(err)
		}
		v := 0
		err = c.do(t.Context(), func() {
			v = readVersion(c)
			c.script(text)
		})
		if err = errors.Join(err, c.close()); err != nil {
			t.Fatal(err)
		} else if v != echoVersion-1 {
			t.Fatalf("schema version before the script = %d, want %d", v, echoVersion-1)
		}
	}
	// The migration first drops two tables, and then fails because echo_blocks is a view in this test.
	runScript("ALTER TABLE echo_blocks RENAME TO kept; CREATE VIEW echo_blocks AS SELECT id, v FROM kept")
	for range 2 {
		if _, err := Open(t.Context(), Options{Path: path}); err == nil {
			t.Fatal("Open error = nil, want an error")
		} else if !strings.Contains(err.Error(), "migrate schema 8 to 9") {
			t.Fatalf(`Open: error = %q, want substring "migrate schema 8 to 9"`, err.Error())
		}
	}
	runScript("DROP VIEW echo_blocks; ALTER TABLE kept RENAME TO echo_blocks")
	s := openStore(t, path)
	found, err := s.FindEcho(t.Context(), "t", []session.EchoKey{1, 2, 3, 4})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 4 {
		t.Errorf("FindEcho after the repaired migration = %+v, want 4 items", found)
	}
}

// writeClosedSessions writes three sessions: a settled session, a session that an earlier release has closed without
// settling it, and an imported session.
func writeClosedSessions(t *testing.T, s *Store, noon time.Time) (settled, unsettled, imported session.ID) {
	t.Helper()
	ids := [3]session.ID{{1}, {2}, {3}}
	var b session.Batch
	for i, id := range ids {
		data := `{"method":"header"}`
		if id == ids[2] {
			data = `{"method":"import"}`
		}
		b.Rows = append(b.Rows, session.Row{Tenant: "t", ID: id, Started: noon, Seen: noon, Data: []byte(data), Closed: i > 0})
		b.Exchanges = append(b.Exchanges, sample.Exchange{ID: "x" + id.String(), Tenant: "t", Session: id.String(), At: noon, Turn: 1})
		if i != 1 {
			m := sample.Sample{ID: "m" + id.String(), CreatedAt: noon.Add(300 * time.Millisecond)}
			b.Samples = append(b.Samples, session.StoredSample{Tenant: "t", ID: id, Sample: m})
		}
	}
	if err := s.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Settle(t.Context(), []session.Settlement{{Tenant: "t", ID: ids[0], To: session.SettledState{Version: 1}}}); err != nil {
		t.Fatal(err)
	}
	return ids[0], ids[1], ids[2]
}

func TestMigrationReopensUnsettledSession(t *testing.T) {
	t.Parallel()
	path, noon := filepath.Join(t.TempDir(), "precept.db"), time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	s := openStore(t, path)
	_, unsettled, _ := writeClosedSessions(t, s, noon)
	if due, err := s.DueSessions(t.Context(), noon.Add(time.Hour), session.Row{}, 10); err != nil {
		t.Fatal(err)
	} else if len(due) != 0 {
		t.Fatalf("DueSessions before the migration: due = %+v, want none", due)
	}
	downgrade(t, s, 5)
	s = openStore(t, path)
	due, err := s.DueSessions(t.Context(), noon.Add(time.Hour), session.Row{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(due) != 1 {
		t.Fatalf("DueSessions after the migration: due = %+v, want 1 row", due)
	}
	if due[0].ID != unsettled {
		t.Errorf("DueSessions after the migration: ID = %v, want %v", due[0].ID, unsettled)
	}
	if list, err := s.UnsettledSessions(t.Context(), 10); err != nil {
		t.Error(err)
	} else if len(list) != 0 {
		t.Errorf("UnsettledSessions after the migration = %+v, want none", list)
	}
}

// Before schema 4, an exchange that arrived after the close of its session could be missing from the samples. The
// migration marks such a session as unsettled, so that the learner builds the samples again.
func TestMigrationFindsLateExchange(t *testing.T) {
	t.Parallel()
	path, noon := filepath.Join(t.TempDir(), "precept.db"), time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	s := openStore(t, path)
	settled, _, _ := writeClosedSessions(t, s, noon)
	late := sample.Exchange{ID: "late", Tenant: "t", Session: settled.String(), At: noon.Add(time.Hour), Turn: 2}
	if err := s.Write(t.Context(), session.Batch{Exchanges: []sample.Exchange{late}}); err != nil {
		t.Fatal(err)
	}
	downgrade(t, s, 3)
	s = openStore(t, path)
	if n, err := s.CountUnsampled(t.Context()); err != nil {
		t.Error(err)
	} else if n != 1 {
		t.Errorf("CountUnsampled = %d, want 1", n)
	}
	list, err := s.UnsettledSessions(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 {
		t.Fatalf("UnsettledSessions after the migration = %+v, want 1 item", list)
	}
	if list[0].ID != settled {
		t.Fatalf("UnsettledSessions after the migration: ID = %v, want %v", list[0].ID, settled)
	}
}
