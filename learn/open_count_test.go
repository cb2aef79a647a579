package learn_test

import (
	"context"
	"testing"
	"time"

	"precept/internal/session"
	"precept/learn"
)

// openSessions is a list of open sessions, oldest first, that DueSessions returns page by page as a backend does.
type openSessions []session.Row

func (o openSessions) DueSessions(_ context.Context, _ time.Time, after session.Row, limit int) ([]session.Row, error) {
	from := 0
	if !after.Started.IsZero() {
		from = int(after.Started.Unix()) + 1
	}
	return o[min(from, len(o)):min(len(o), from+limit)], nil
}

// newOpenSessions returns 400 open sessions of tenant "small", after the given number of older sessions of tenant
// "big".
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

// CountOpen reads a limited number of open sessions over all tenants, so many older sessions make the result a lower
// bound.
func TestSmallTenantsOpenSessionsAreCounted(t *testing.T) {
	for older, want := range map[int]int{0: 400, 2_100: 400, 19_900: 0} {
		open, err := learn.CountOpen(t.Context(), newOpenSessions(older), "small", 24*time.Hour, time.Unix(1e9, 0))
		if err != nil {
			t.Fatal(err)
		}
		wantLowerBound := older > 10_000
		if open == nil || open.IsLowerBound != wantLowerBound || !wantLowerBound && open.Sessions != want {
			t.Errorf("%d older sessions: got %+v, want %d, lower bound %v", older, open, want, wantLowerBound)
		}
	}
	open, err := learn.CountOpen(t.Context(), newOpenSessions(30_000), "small", 24*time.Hour, time.Unix(1e9, 0))
	if err != nil {
		t.Fatal(err)
	}
	if open == nil {
		t.Fatal("30,000 older sessions: open = nil")
	}
	if !open.IsLowerBound {
		t.Fatal("30,000 older sessions: IsLowerBound = false, want true")
	}
	if open.Sessions != 0 {
		t.Fatalf("400 open sessions, and 30,000 older ones of another tenant = %d, want 0", open.Sessions)
	}
	const text = "It is not known how many sessions are open, because other tenants have too many open sessions. A session counts once it is 24h old (reward.close_after)."
	if got := open.String(); got != text {
		t.Errorf("CountOpen's result as a sentence: got %q, want %q", got, text)
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
	if err != nil {
		t.Fatal(err)
	}
	if open == nil {
		t.Fatal("a run and two sessions: open = nil")
	}
	if open.Sessions != 2 {
		t.Errorf("CountOpen with a run and two sessions = %d, want 2", open.Sessions)
	}
}
