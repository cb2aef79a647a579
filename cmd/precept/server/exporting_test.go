package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/internal/sample"
	"precept/internal/session"
)

// oneSession is a store with one session. It has feedback on the whole session and on turn 1.
type oneSession struct {
	StoreReader
	storedTurns int
}

func (o oneSession) Exchanges(context.Context, string, session.ID) (list []sample.Exchange, err error) {
	for n := range o.storedTurns {
		list = append(list, sample.Exchange{Turn: n + 1})
	}
	return list, nil
}

func (o oneSession) Feedback(context.Context, string, session.ID) ([]feedback.Entry, error) {
	return []feedback.Entry{
		{Type: feedback.TypeCorrection, Comment: "the key is 8", Correction: json.RawMessage(`"8"`)},
		{Type: feedback.TypeApproval, Comment: "well done", Turn: 1},
	}, nil
}

// The store lacks a turn if the agent was opted out at that time. The export then omits the feedback on the whole
// session, because this feedback could quote the missing turn.
func TestExportOmitsFeedbackIfTurnIsMissing(t *testing.T) {
	id := session.NamedID("default", session.NamespaceSession, "s")
	rec := &session.Record{
		Identity: session.Identity{ID: id, Tenant: "default", Started: time.Unix(1e9, 0), Seen: time.Unix(1e9, 0)},
		Thread:   session.Thread{Turns: 3},
	}
	row, err := rec.Row(func(text string) (string, bool) { return text, true })
	if err != nil {
		t.Fatal(err)
	}
	for turns, want := range map[int]string{3: "the key is 8", 2: ""} {
		s, err := transcript(t.Context(), oneSession{storedTurns: turns}, row)
		if err != nil || len(s.Ratings) != 2 {
			t.Fatalf("session with %d of 3 turns stored: got %d ratings, error %v, want 2 ratings, no error", turns, len(s.Ratings), err)
		}
		if s.Ratings[0].Comment != want || (len(s.Ratings[0].Correction) > 0) != (want != "") || s.Ratings[1].Comment != "well done" {
			t.Errorf("session with %d of 3 turns stored: got ratings %+v, want comment %q on the session and \"well done\" on the turn", turns, s.Ratings, want)
		}
	}
}

func TestExportSelectsRowsBySessionName(t *testing.T) {
	for _, name := range []string{"ci-42", "a <b> & \"c\"", "größe", "src/main.go: 7"} {
		rec := &session.Record{Identity: session.Identity{
			ID: session.ID{7}, Tenant: "default", Name: name, Started: time.Unix(1e9, 0), Seen: time.Unix(1e9, 0),
		}}
		row, err := rec.Row(func(text string) (string, bool) { return text, true })
		if err != nil {
			t.Fatal(err)
		}
		for _, wanted := range []string{name, name + "x", "c"} {
			j := &ExportJob{Session: wanted}
			if got := j.selectsRow(&row); got != (wanted == name) {
				t.Errorf("ExportJob{Session: %q}.selectsRow(session %q) = %t, want %t", wanted, name, got, wanted == name)
			}
		}
	}
}

// BenchmarkSelectsRow measures how long the export of one session takes to skip the row of another session. Such an
// export reads all rows.
func BenchmarkSelectsRow(b *testing.B) {
	rec := &session.Record{Identity: session.Identity{ID: session.ID{7}, Tenant: "default", Name: "ci-42", Started: time.Unix(1e9, 0), Seen: time.Unix(1e9, 0)}}
	rec.Facts.Task = strings.Repeat("Fix the build of the parser. ", 10)
	for i := range 40 {
		rec.Lessons.Matched = append(rec.Lessons.Matched, fmt.Sprint("lesson-of-the-shop-", i))
	}
	row, err := rec.Row(func(text string) (string, bool) { return text, true })
	if err != nil {
		b.Fatal(err)
	}
	j := &ExportJob{Session: "ci-43"}
	b.ReportMetric(float64(len(row.Data)), "bytes/row")
	for b.Loop() {
		j.selectsRow(&row)
	}
}
