package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"precept/sample"
	"precept/session"
)

// older takes a store back to an earlier schema.
func older(t *testing.T, s *Store, undo ...string) {
	t.Helper()
	err := s.update(t.Context(), "test", func(x *tx) (err error) {
		for _, stmt := range undo {
			if err == nil {
				_, err = x.exec(stmt)
			}
		}
		return err
	})
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// closedAt fills a store: a session that was settled, one that an earlier release only called
// closed, and one that was taken in.
func closedAt(t *testing.T, s *Store, noon time.Time) (settled, lost, taken session.ID) {
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
	if _, err := s.Settle(t.Context(), []session.Settlement{{Tenant: "t", ID: ids[0], To: session.Applied{Version: 1}}}); err != nil {
		t.Fatal(err)
	}
	return ids[0], ids[1], ids[2]
}

// What an earlier release called closed without settling it is due again; what was settled or taken
// in is not.
func TestClosedWithoutASettlementIsDueAgain(t *testing.T) {
	t.Parallel()
	path, noon := filepath.Join(t.TempDir(), "precept.db"), time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	s := openTest(t, path)
	_, lost, _ := closedAt(t, s, noon)
	if due, err := s.Due(t.Context(), noon.Add(time.Hour), session.Row{}, 10); err != nil || len(due) != 0 {
		t.Fatalf("due before: %v %v", due, err)
	}
	older(t, s, "PRAGMA user_version = 5")
	s = openTest(t, path)
	due, err := s.Due(t.Context(), noon.Add(time.Hour), session.Row{}, 10)
	if err != nil || len(due) != 1 || due[0].ID != lost {
		t.Errorf("due: %+v %v", due, err)
	}
	if list, err := s.Unsettled(t.Context(), 10); err != nil || len(list) != 0 {
		t.Errorf("unsettled: %v %v", list, err)
	}
}

// Of a store that did not note what came after a closing, sessions with later exchanges than
// samples get their samples again.
func TestLateExchangesOfAnOlderStore(t *testing.T) {
	t.Parallel()
	path, noon := filepath.Join(t.TempDir(), "precept.db"), time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	s := openTest(t, path)
	settled, _, _ := closedAt(t, s, noon)
	late := sample.Exchange{ID: "late", Tenant: "t", Session: settled.String(), At: noon.Add(time.Hour), Turn: 2}
	if err := s.Write(t.Context(), session.Batch{Exchanges: []sample.Exchange{late}}); err != nil {
		t.Fatal(err)
	}
	older(t, s, "DELETE FROM unsettled", "ALTER TABLE unsettled DROP COLUMN x", "DROP TABLE aside", "DROP TABLE marks", "DROP TABLE notes",
		"PRAGMA user_version = 3")
	s = openTest(t, path)
	if n, err := s.Unsampled(t.Context()); err != nil || n != 1 {
		t.Errorf("%d unsampled, %v", n, err)
	}
	list, err := s.Unsettled(t.Context(), 10)
	if err != nil || len(list) != 1 || list[0].ID != settled {
		t.Fatalf("unsettled: %+v %v", list, err)
	}
}
