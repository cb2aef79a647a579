package store_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"precept/bandit/feedback"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store"
)

// The transcript also hides text of feedback on the whole session, but no scores.
func TestTranscriptHidesFeedbackTextOnHiddenTurns(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		optOut *sample.OptOut
		want   string // the comments that stay visible
	}{
		"no opt-out":           {nil, "on 1|on 2|on the session"},
		"no turn opted out":    {newOptOut(t, "*.pem"), "on 1|on 2|on the session"},
		"turn 2 opted out":     {newOptOut(t, "*.env"), "on 1"},
		"other path opted out": {newOptOut(t, "*.vault"), "on 1|on 2|on the session"},
	} {
		f := newFixture(t, nil)
		v := f.newConversation("s")
		v.sendTurn(1, nil)
		v.sendTurn(2, readEnvFile)
		for i, about := range []string{"1", "2", "the session"} {
			e := feedback.Entry{
				ID: fmt.Sprint("f", i), At: f.clock.now(), Source: feedback.SourceUser, Type: feedback.TypeCorrection, Score: 0.5, Tier: 1,
				Comment: "on " + about, Correction: json.RawMessage(`"8"`), Details: json.RawMessage(`{"a":1}`), Turn: i + 1,
			}
			if i == 2 {
				e.Turn = 0
			}
			f.postFeedback(tenantA, v.id, e)
		}
		v.deliverAll()
		f.store.SetOptOut(tc.optOut)
		tr, err := f.archive.Transcript(t.Context(), tenantA, "s", 0)
		if err != nil {
			t.Fatalf("%s: error = %v", name, err)
		}
		if len(tr.Rewarded.Sources) != 3 {
			t.Fatalf("%s: Sources = %+v, want 3 items", name, tr.Rewarded.Sources)
		}
		if tr.Rewarded.Value == nil {
			t.Fatalf("%s: Value = nil", name)
		}
		var comments []string
		for _, x := range tr.Rewarded.Sources {
			if (x.Comment == "") != (len(x.Correction)+len(x.Details) == 0) {
				t.Errorf("%s: %+v has only some of comment, correction and details", name, x)
			}
			if x.Comment != "" {
				comments = append(comments, x.Comment)
			}
		}
		if got := strings.Join(comments, "|"); got != tc.want {
			t.Errorf("%s: visible comments: got %q, want %q", name, got, tc.want)
		}
	}
}

// Feedback on a turn that is no longer stored is visible only if all turns were checked against the current patterns.
func TestVisibleFeedbackNeedsCheckedTurns(t *testing.T) {
	t.Parallel()
	out := newOptOut(t, "*.env")
	entries := []feedback.Entry{{Comment: "on 2", Turn: 2}, {Comment: "on the session"}, {Comment: "of the run", CopiedFrom: "run"}}
	for name, tc := range map[string]struct {
		facts  session.Facts // how many turns were checked, and in Paths the hash of the opt-out patterns
		hidden []int         // turns that opted out when they were recorded
		want   string        // the comments that stay visible
	}{
		"checked by current patterns": {session.Facts{Turns: 2, Paths: out.PathHash()}, nil, "on 2|on the session|of the run"},
		"checked by other patterns":   {session.Facts{Turns: 2, Paths: "0123456789ab"}, nil, "||"},
		"checked by several patterns": {session.Facts{Turns: 2, Paths: "mixed"}, nil, "||"},
		"older release's row":         {session.Facts{}, nil, "||"},
		"turn 2 opted out":            {session.Facts{Turns: 1, Paths: out.PathHash()}, []int{2}, "||"},
	} {
		rec := &session.Record{Identity: session.Identity{ID: sessionID("s"), Tenant: tenantA}, Thread: session.Thread{Turns: 2}, Facts: tc.facts}
		rec.OptOut.Turns = tc.hidden
		row, err := rec.Row(func(text string) (string, bool) { return text, true })
		if err != nil {
			t.Fatal(err)
		}
		var comments []string
		for _, e := range store.NewLateOptOut(out, &row, nil).VisibleFeedback(entries) {
			comments = append(comments, e.Comment)
		}
		if got := strings.Join(comments, "|"); got != tc.want {
			t.Errorf("%s: visible comments: got %q, want %q", name, got, tc.want)
		}
	}
	if entries[0].Comment == "" {
		t.Error("VisibleFeedback changed its argument")
	}
}

// A sample keeps the text of feedback on a visible turn. Feedback on the whole session may be about a hidden turn.
func TestLateOptOutRemovesFeedbackTextFromSamples(t *testing.T) {
	t.Parallel()
	out := newOptOut(t, "*.env")
	list := []sample.Exchange{{ID: "1", Turn: 1}, {ID: "2", Turn: 2}}
	readEnvFile(&list[1])
	for turn, want := range map[int]string{0: "", 1: "well done"} {
		m := sample.Sample{Meta: map[string]any{"source_event_ids": []string{"1"}}, Feedback: sample.Feedback{Details: map[string]any{"score": 1.0, "comment": "well done"}}}
		if turn > 0 {
			m.Feedback.Details["turn"] = turn
		}
		if !store.NewLateOptOut(out, &session.Row{}, list).AllowSample(&m) {
			t.Errorf("with feedback on turn %d: AllowSample(visible turn) = false, want true", turn)
		}
		if got, _ := m.Feedback.Details["comment"].(string); got != want {
			t.Errorf("with feedback on turn %d: comment = %q, want %q", turn, got, want)
		} else if m.Feedback.Details["score"] != 1.0 {
			t.Errorf(`with feedback on turn %d: score = %v, want 1.0`, turn, m.Feedback.Details["score"])
		}
	}
}

// The opted-out turns are listed in the session's row. If the row is unreadable, any turn may have opted out.
func TestLateOptOutWithUnreadableRowRemovesFeedbackText(t *testing.T) {
	t.Parallel()
	m := sample.Sample{Feedback: sample.Feedback{Details: map[string]any{"score": 1.0, "comment": "well done"}}}
	late := store.NewLateOptOut(&sample.OptOut{}, &session.Row{ID: sessionID("s"), Data: []byte("{")}, nil)
	if !late.AllowSample(&m) {
		t.Error("AllowSample = false, want true")
	}
	if m.Feedback.Details["comment"] != nil {
		t.Errorf(`comment = %v, want nil`, m.Feedback.Details["comment"])
	}
	if m.Feedback.Details["score"] != 1.0 {
		t.Errorf(`score = %v, want 1.0`, m.Feedback.Details["score"])
	}
	if got := late.VisibleFeedback([]feedback.Entry{{Comment: "well done"}}); got[0].Comment != "" {
		t.Errorf("comment of feedback with an unreadable row: got %q, want none", got[0].Comment)
	}
}
