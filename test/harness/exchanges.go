package harness

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"precept/internal/sample"
	"precept/internal/session"
	"precept/store"
	"precept/store/redis"
	"precept/store/sqlite"
	"precept/store/storetest"
)

// EndedTurns returns how many turns have ended, according to the outbox in a data directory. If the outbox is not
// readable, it returns 0.
func EndedTurns(dir string) int64 {
	account, err := store.ReadAccount(filepath.Join(dir, "outbox.db"), false)
	if err != nil {
		return 0
	}
	return account.Admitted - account.Incomplete
}

// readExchanges returns the exchanges in the sessions by request id. It fails the test if an exchange is stored twice.
func readExchanges(t *testing.T, s storetest.Samples, sessions []session.ID) map[string][]sample.Exchange {
	t.Helper()
	byRequest, seen := map[string][]sample.Exchange{}, map[string]bool{}
	for _, id := range sessions {
		list, err := s.Exchanges(t.Context(), "default", id)
		if err != nil {
			t.Fatal(err)
		}
		for i := range list {
			x := &list[i]
			if seen[x.ID] {
				t.Errorf("exchange %s is stored twice", x.ID)
			}
			seen[x.ID] = true
			byRequest[x.RequestID] = append(byRequest[x.RequestID], *x)
		}
	}
	return byRequest
}

// ExchangesInFile returns the exchanges in the SQLite store of a data directory by request id. It also checks the
// integrity of the database file.
func ExchangesInFile(t *testing.T, dir string) map[string][]sample.Exchange {
	t.Helper()
	path := filepath.Join(dir, "precept.db")
	raw, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	var integrity string
	if err := raw.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&integrity); err != nil || integrity != "ok" {
		t.Errorf("integrity_check of the database file: got %q, error %v, want ok", integrity, err)
	}
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, ReadOnly: true, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	return readExchanges(t, db, readSessionIDs(t, raw))
}

func readSessionIDs(t *testing.T, raw *sql.DB) (ids []session.ID) {
	t.Helper()
	rows, err := raw.QueryContext(t.Context(), "SELECT id FROM sessions")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id []byte
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, session.ID(id))
	}
	if rows.Err() != nil {
		t.Fatal(rows.Err())
	}
	return ids
}

// ExchangesInRedis returns the exchanges in a Redis store by request id.
func ExchangesInRedis(t *testing.T, url string) map[string][]sample.Exchange {
	t.Helper()
	db, err := redis.Open(redis.Options{URL: url, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var ids []session.ID
	err = db.EachSession(t.Context(), "", time.Time{}, time.Time{}, func(r session.Row, _ session.SettledState) error {
		ids = append(ids, r.ID)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return readExchanges(t, db, ids)
}

// CheckOneExchangePerRequest fails the test unless there is exactly one exchange for each request, and this exchange is
// complete and contains a reply.
func CheckOneExchangePerRequest(t *testing.T, subject string, requests []string, got map[string][]sample.Exchange) {
	t.Helper()
	var missing, faulty []string
	for _, id := range requests {
		switch list := got[id]; {
		case len(list) == 0:
			missing = append(missing, id)
		case len(list) > 1 || list[0].Outcome != sample.Complete || list[0].Reply.Text == "" || len(list[0].New) != 1:
			faulty = append(faulty, fmt.Sprintf("%+v", list))
		}
	}
	if len(missing)+len(faulty) > 0 {
		t.Errorf("%s: of %d answered requests, got %d without an exchange (such as %v) and %d with several exchanges or an incomplete one (such as %v), want one complete exchange per request", subject, len(requests), len(missing), missing[:min(3, len(missing))], len(faulty), faulty[:min(2, len(faulty))])
	}
}

// RepeatedRequests returns the sorted ids of the requests with more than one exchange.
func RepeatedRequests(got map[string][]sample.Exchange) (requests []string) {
	for id, list := range got {
		if len(list) > 1 {
			requests = append(requests, id)
		}
	}
	slices.Sort(requests)
	return requests
}

// Dump returns the content of each key, as the Redis command DUMP returns it. The key is appended to the content, so
// that a test can search both at once. The server must run with --rdbcompression no, because a test cannot search
// compressed content.
func Dump(t *testing.T, server *storetest.Redis) map[string]string {
	t.Helper()
	dumps := map[string]string{}
	for cursor := ""; cursor != "0"; {
		if cursor == "" {
			cursor = "0"
		}
		page := server.MustDo(t, "SCAN", cursor, "COUNT", "1000").([]any)
		cursor = page[0].(string)
		for _, key := range page[1].([]any) {
			content, _ := server.MustDo(t, "DUMP", key.(string)).(string) // nil means that the key expired after SCAN
			dumps[key.(string)] = content + key.(string)
		}
	}
	return dumps
}
