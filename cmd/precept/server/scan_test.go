package server

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"precept/internal/sample"
	"precept/internal/session"
)

// manySessions is a store with count equal sessions. Each session began at the time now.
type manySessions struct {
	StoreReader
	row   session.Row
	count int
	now   time.Time
}

func (m manySessions) EachSession(_ context.Context, _ string, since, until time.Time, fn func(session.Row, session.SettledState) error) error {
	if since.After(m.now) || until.Before(m.now) {
		return nil
	}
	for range m.count {
		if err := fn(m.row, session.SettledState{}); err != nil {
			return err
		}
	}
	return nil
}

func (m manySessions) Exchanges(context.Context, string, session.ID) ([]sample.Exchange, error) {
	return []sample.Exchange{{Turn: 1, Dialect: "chat", New: []json.RawMessage{json.RawMessage(`{"role":"user","content":"fix the build"}`)}}}, nil
}

func TestScanRulesStopsAtSessionLimit(t *testing.T) {
	now := time.Unix(1e9, 0)
	id := session.NamedID("default", session.NamespaceSession, "s")
	rec := &session.Record{Identity: session.Identity{ID: id, Tenant: "default", Started: now, Seen: now}, Thread: session.Thread{Turns: 1}}
	row, err := rec.Row(func(text string) (string, bool) { return text, true })
	if err != nil {
		t.Fatal(err)
	}
	for count, want := range map[int]int{3: 3, maxScannedSessions + 1: maxScannedSessions} {
		scan, err := ScanRules(t.Context(), manySessions{row: row, count: count, now: now}, "default", now)
		if err != nil || scan.Sessions != want {
			t.Errorf("ScanRules(%d sessions): got %d scanned sessions, error %v, want %d and no error", count, scan.Sessions, err, want)
		}
	}
}
