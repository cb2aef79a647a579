package session_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/internal/session"
	"precept/internal/wire"
)

var testStart = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a test constant

func newRecord(name string) *session.Record {
	id := session.NamedID("default", session.NamespaceSession, name)
	return session.NewRecord("default", session.Claim{Agent: "coder"}, session.Resolved{ID: id, Name: name}, testStart)
}

func parseChat(t interface {
	Helper()
	Fatal(args ...any)
}, messages ...string,
) *wire.Request {
	t.Helper()
	req, err := wire.Parse(wire.Chat, []byte(`{"model":"m","messages":[`+strings.Join(messages, ",")+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func userMessage(s string) string { return `{"role":"user","content":"` + s + `"}` }

func assistantMessage(s string) string { return `{"role":"assistant","content":"` + s + `"}` }

func mustRow(t *testing.T, r *session.Record) (session.Row, map[string]any) {
	t.Helper()
	row, err := r.Row(func(s string) (string, bool) { return s, true })
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(row.Data, &fields); err != nil {
		t.Fatal(err)
	}
	return row, fields
}

// A turn is also hidden until it is known whether the turn opted out.
func TestRowsOmitHiddenTurns(t *testing.T) {
	turn := func(r *session.Record, req *wire.Request, reply string) {
		r.Begin(req, testStart)
		r.SetLastTurn(req)
		r.Lessons.Blocks = append(r.Lessons.Blocks, session.Block{Text: "block of " + reply, Turn: r.Thread.Turns})
		r.AddReply(&wire.Reply{Complete: true, Text: reply, Calls: []wire.Call{{ID: "call_" + reply, Name: "sh", Args: `{}`}}})
	}
	first := parseChat(t, userMessage("one"))
	second := parseChat(t, userMessage("one"), assistantMessage("1"), userMessage("two"))
	for name, tc := range map[string]struct {
		hide    func(r *session.Record)
		omitted []string
		kept    []string
	}{
		"no turn is hidden": {func(*session.Record) {}, nil, []string{"first_words", "list_hash", "last_turn", "calls", "call_order", "block of 1", "block of 2"}},
		"it is not known yet whether the second turn opted out": {func(r *session.Record) { r.AddPendingTurn(2) }, []string{"list_hash", "last_turn", "calls", "call_order", "block of 2"}, []string{"first_words", "block of 1"}},
		"the second turn opted out":                             {func(r *session.Record) { r.SetOptedOut(2, true) }, []string{"list_hash", "last_turn", "calls", "call_order", "block of 2"}, []string{"first_words", "block of 1"}},
		"the first turn opted out":                              {func(r *session.Record) { r.SetOptedOut(1, true) }, []string{"first_words", "list_hash", "calls", "call_order", "block of 1"}, []string{"last_turn", "block of 2"}},
		"the second turn did not opt out":                       {func(r *session.Record) { r.AddPendingTurn(2); r.SetOptedOut(2, false) }, nil, []string{"first_words", "list_hash", "last_turn", "calls", "block of 2"}},
		"the second turn opted out, its retry did not":          {func(r *session.Record) { r.SetOptedOut(2, true); r.AddPendingTurn(2); r.SetOptedOut(2, false) }, []string{"list_hash", "block of 2"}, nil},
	} {
		r := newRecord("s")
		turn(r, first, "1")
		turn(r, second, "2")
		tc.hide(r)
		row, _ := mustRow(t, r)
		has := func(text string) bool { return strings.Contains(string(row.Data), `"`+text+`"`) }
		for _, text := range tc.omitted {
			if has(text) {
				t.Errorf("%s: row %s contains %q from a hidden turn", name, row.Data, text)
			}
		}
		for _, text := range tc.kept {
			if !has(text) {
				t.Errorf("%s: row %s lacks %q from a visible turn", name, row.Data, text)
			}
		}
		if len(r.Lessons.Blocks) != 2 || len(r.Thread.Calls) == 0 {
			t.Errorf("%s: record in memory after Row: got %d blocks and %d calls, want 2 and at least 1", name, len(r.Lessons.Blocks), len(r.Thread.Calls))
		}
	}
}

func TestRowsAreRedacted(t *testing.T) {
	r := newRecord("jane@example.org")
	r.Unit.RunName = "jane's run"
	r.Begin(parseChat(t, userMessage("one")), testStart)
	r.AddReply(&wire.Reply{Complete: true, Calls: []wire.Call{{ID: "a", Args: "open secret.txt"}, {ID: "b", Args: "open jane.txt"}, {ID: "c", Args: "ls"}}})
	row, err := r.Row(func(s string) (string, bool) {
		return strings.ReplaceAll(s, "jane", "X"), !strings.Contains(s, "secret")
	})
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := session.Decode(row.ID, row.Data)
	if err != nil {
		t.Fatal(err)
	}
	if decoded.Identity.Name != "X@example.org" || decoded.Unit.RunName != "X's run" || len(decoded.Thread.Calls) != 2 || decoded.Thread.Calls["b"].Args != "open X.txt" || len(decoded.Thread.CallOrder) != 2 {
		t.Errorf(`decoded row = %+v, want "jane" replaced by "X" in the session name, run name and call b, and no entry for call a, which has a secret`, decoded)
	}
	if r.Identity.Name != "jane@example.org" || r.Thread.Calls["b"].Args != "open jane.txt" {
		t.Errorf("record in memory after Row: got name %q and arguments %q, want both unredacted", r.Identity.Name, r.Thread.Calls["b"].Args)
	}
}

// An opt-out mark has a turn count and an item count. The mark has no effect on a record with more items.
func TestOptOutMarkHidesTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		turns := rapid.IntRange(0, 6).Draw(t, "turns")
		r := newRecord("s")
		var messages []string
		optedOut, undecided := 0, 0
		for n := range turns {
			messages = append(messages, userMessage(strings.Repeat("x", n+1)))
			r.Begin(parseChat(t, messages...), testStart)
			messages = append(messages, assistantMessage("ok"))
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 1:
				r.SetOptedOut(r.Thread.Turns, true)
				optedOut++
			case 2:
				r.AddPendingTurn(r.Thread.Turns)
				undecided++
			}
		}
		if want := turns == 0 || optedOut+undecided < turns; r.HasVisibleTurn() != want {
			t.Fatalf("%d turns, %d opted out, %d not decided: got HasVisibleTurn = %v, want %v", turns, optedOut, undecided, r.HasVisibleTurn(), want)
		}
		mark, ok := r.OptOutMark()
		if want := turns > 0 && optedOut == turns; ok != want || r.IsFullyOptedOut() != want {
			t.Fatalf("%d turns, %d opted out: got OptOutMark ok = %v, IsFullyOptedOut = %v, want %v for both", turns, optedOut, ok, r.IsFullyOptedOut(), want)
		}
		other := newRecord("s")
		other.Hide(mark)
		if turns > 0 && (!other.IsFullyOptedOut() || other.Thread.Turns != turns || other.Thread.Items != r.Thread.Items) {
			t.Fatalf("other record after Hide: got %d turns, %d items, IsFullyOptedOut = %v, want %d turns, %d items, IsFullyOptedOut = true",
				other.Thread.Turns, other.Thread.Items, other.IsFullyOptedOut(), turns, r.Thread.Items)
		}
		longer := newRecord("s")
		longer.Begin(parseChat(t, append(messages, userMessage("more"), userMessage("and more"))...), testStart)
		longer.Hide(mark)
		if longer.IsFullyOptedOut() {
			t.Fatal("record with more items than the mark: got IsFullyOptedOut = true, want false")
		}
	})
}
