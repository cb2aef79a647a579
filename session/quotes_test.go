package session

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"precept/wire"
)

func quoteRequest(t *testing.T, body string) *wire.Request {
	t.Helper()
	req, err := wire.Parse(wire.Chat, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// What was said is known for as long as a pause may last, of a bounded number of conversations and
// of credentials.
func TestQuotesForget(t *testing.T) {
	q, now := NewQuotes(), time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	work := func(n int) *wire.Request {
		return quoteRequest(t, fmt.Sprintf(`{"tools":[{"type":"function","function":{"name":"f"}}],"messages":[{"role":"system","content":"S"},{"role":"user","content":"this is task %04d"}]}`, n))
	}
	about := func(sc Scope, n int, at time.Time) bool {
		return q.About(sc, quoteRequest(t, fmt.Sprintf(`{"messages":[{"role":"user","content":"[this is task %04d] [this is answer %04d]"}]}`, n, n)), at)
	}
	play := func(sc Scope, n int) {
		id := sc.idOf(SpaceName, fmt.Sprint(n))
		q.Asked(sc, id, work(n), now)
		q.Answered(sc, id, fmt.Sprintf("this is answer %04d", n))
	}
	one := Scope{Tenant: "t", Credential: 1}
	play(one, 0)
	if !about(one, 0, now) || !about(Scope{Tenant: "t", Credential: 1, Run: "r"}, 0, now.Add(quoteLife-1)) {
		t.Error("what goes on is not known")
	}
	if about(one, 0, now.Add(quoteLife)) || about(Scope{Tenant: "t", Credential: 2}, 0, now) || about(Scope{Tenant: "u", Credential: 1}, 0, now) {
		t.Error("it is known for too long, or to others")
	}
	for n := 1; n <= quoteTalks; n++ {
		play(one, n)
	}
	if about(one, 0, now) || !about(one, 1, now) {
		t.Error("the one that was used longest ago is not the one that is forgotten")
	}
	for n := range quoteScopes {
		play(Scope{Tenant: "t", Credential: uint64(100 + n)}, n)
	}
	if about(one, 1, now) || len(q.of) != quoteScopes || len(q.order) != quoteScopes {
		t.Errorf("%d credentials are known", len(q.of))
	}
}

func TestTelling(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "ok": "", "yes\nno\nmaybe": "", "short\nthis line is long enough": "this line is long enough",
		`say "hello world again" now`:     "hello world again",
		"Mende den Zähler für Änderungen": "Mende den Zähler für Änderungen",
		strings.Repeat("ä", 60):           strings.Repeat("ä", 40),
	} {
		if got := distinctive(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
