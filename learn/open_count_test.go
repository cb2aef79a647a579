package learn_test

import (
	"context"
	"testing"
	"time"

	"precept/internal/session"
	"precept/learn"
)

// openSessions is a store with open sessions, oldest first.
type openSessions []session.Row

func (o openSessions) DueSessions(_ context.Context, _ time.Time, after session.Row, limit int) ([]session.Row, error) {
	from := 0
	if !after.Started.IsZero() {
		from = int(after.Started.Unix()) + 1
	}
	return o[min(from, len(o)):min(len(o), from+limit)], nil
}

// newOpenSessions returns 400 sessions in tenant "small" and some older ones in "big".
func newOpenSessions(older int) (list openSessions) {
	for i := range older + 400 {
		tenant := "big"
		if i >= older {
			tenant = "small"
		}
		list = append(list, session.Row{Tenant: tenant, ID: session.ID{1, byte(i >> 16), byte(i >> 8), byte(i)}, Started: time.Unix(int64(i), 0)})
	}
	return list
}

// CountOpen stops after a number of sessions. If another tenant has too many older sessions, the number is only a lower
// bound.
func TestSmallTenantsOpenSessionsAreCounted(t *testing.T) {
	for older, want := range map[int]int{0: 400, 2_100: 400, 19_900: 0} {
		open, err := learn.CountOpen(t.Context(), newOpenSessions(older), "small", 24*time.Hour, time.Unix(1e9, 0))
		if err != nil {
			t.Fatal(err)
		}
		wantLowerBound := older > 10_000
		if open == nil || open.IsLowerBound != wantLowerBound || !wantLowerBound && open.Sessions != want {
			t.Errorf("400 open sessions after another tenant's %d older sessions: got %+v, want %d sessions and IsLowerBound = %v", older, open, want, wantLowerBound)
		}
	}
	open, err := learn.CountOpen(t.Context(), newOpenSessions(30_000), "small", 24*time.Hour, time.Unix(1e9, 0))
	if err != nil || open == nil || !open.IsLowerBound || open.Sessions != 0 {
		t.Fatalf("400 open sessions after another tenant's 30,000 older sessions: got %+v, error %v, want at least 0 sessions", open, err)
	}
	const text = "It is not known how many sessions are open, because other tenants have too many open sessions. A session counts once it is 24h old (reward.close_after)."
	if got := open.String(); got != text {
		t.Errorf("sentence: got %q, want %q", got, text)
	}
}

func TestRunIsNotCountedAsAnOpenSession(t *testing.T) {
	t.Parallel()
	var list openSessions
	for i := range 3 {
		rec := &session.Record{Identity: session.Identity{ID: session.ID{1, byte(i)}, Tenant: "small", Started: time.Unix(int64(i), 0)}}
		rec.Unit.IsRun = i == 0
		row, err := rec.Row(func(text string) (string, bool) { return text, true })
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, row)
	}
	open, err := learn.CountOpen(t.Context(), list, "small", 24*time.Hour, time.Unix(1e9, 0))
	if err != nil || open == nil || open.Sessions != 2 {
		t.Errorf("CountOpen with a run and two sessions: got %+v and the error %v, want 2 sessions", open, err)
	}
}
