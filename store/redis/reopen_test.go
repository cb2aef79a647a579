package redis_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"precept/internal/session"
	"precept/store/storetest"
)

// An earlier release closed some sessions without adding them to the counters. Readmit must make them due again.
func TestReadmitReopensUnsettledSessions(t *testing.T) {
	server, noon := storetest.StartRedis(t), time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	s := openWithShards(t, server.URL(), 1)
	row := func(n int, data string, closed bool) session.Row {
		return session.Row{
			Tenant: "t", ID: session.NamedID("t", session.NamespaceSession, fmt.Sprint(n)), Started: noon, Seen: noon, Data: []byte(data), Closed: closed,
		}
	}
	const lost = 450 // more sessions than Readmit reads on one page
	b := session.Batch{}
	for n := range lost {
		b.Rows = append(b.Rows, row(n, `{}`, true))
	}
	settled, imported, open := row(-1, `{}`, false), row(-2, `{"method":"import"}`, true), row(-3, `{}`, false)
	b.Rows = append(b.Rows, settled, imported, open)
	if err := s.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Settle(t.Context(), []session.Settlement{{Tenant: "t", ID: settled.ID, To: session.SettledState{Version: 1}}}); err != nil {
		t.Fatal(err)
	}
	due := func() map[session.ID]bool {
		t.Helper()
		list, err := s.DueSessions(t.Context(), noon.Add(time.Hour), session.Row{}, 1000)
		if err != nil {
			t.Fatal(err)
		}
		ids := map[session.ID]bool{}
		for _, r := range list {
			ids[r.ID] = true
		}
		return ids
	}
	if got := due(); len(got) != 1 {
		t.Fatalf("due sessions before Readmit = %+v, want 1 item", got)
	} else if !got[open.ID] {
		t.Fatal("due sessions before Readmit: got[open.ID] = false, want true")
	}
	for _, want := range []int{lost, 0} {
		if n, err := s.Readmit(t.Context(), 3); err != nil {
			t.Error(err)
		} else if n != want {
			t.Errorf("Readmit = %d, want %d", n, want)
		}
		if got := due(); len(got) != lost+1 {
			t.Errorf("due sessions after Readmit = %+v, want %d items", got, lost+1)
		} else if got[settled.ID] {
			t.Error("due sessions after Readmit: got[settled.ID] = true, want false")
		} else if got[imported.ID] {
			t.Error("due sessions after Readmit: got[imported.ID] = true, want false")
		}
	}
}

func TestReadmitDeletesOldExchangeStream(t *testing.T) {
	server := storetest.StartRedis(t)
	s := openWithShards(t, server.URL(), 1)
	if err := s.Write(t.Context(), session.Batch{Rows: []session.Row{{Tenant: "t", ID: session.ID{1}, Data: []byte("{}")}}}); err != nil {
		t.Fatal(err)
	}
	order, _ := server.MustDo(t, "KEYS", "*:order").([]any)
	stream := strings.TrimSuffix(fmt.Sprint(order[0]), "order") + "exchanges"
	server.MustDo(t, "XADD", stream, "*", "x", "y")
	if _, err := s.Readmit(t.Context(), 3); err != nil {
		t.Error(err)
	}
	if n := server.MustDo(t, "EXISTS", stream); fmt.Sprint(n) != "0" {
		t.Errorf("EXISTS %[2]s after Readmit: got %[1]v, want 0", n, stream)
	}
}
