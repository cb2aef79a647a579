package session

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"precept/internal/wire"
)

func quoteRequest(t *testing.T, body string) *wire.Request {
	t.Helper()
	req, err := wire.Parse(wire.Chat, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func TestQuotesAreBoundedInTimeAndNumber(t *testing.T) {
	q, now := NewQuotes(), time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	taskRequest := func(n int) *wire.Request {
		return quoteRequest(t, fmt.Sprintf(`{"tools":[{"type":"function","function":{"name":"f"}}],"messages":[{"role":"system","content":"S"},{"role":"user","content":"this is task %04d"}]}`, n))
	}
	isQuoted := func(sc Scope, n int, at time.Time) bool {
		_, ok := q.QuotedSession(sc, quoteRequest(t, fmt.Sprintf(`{"messages":[{"role":"user","content":"[this is task %04d] [this is answer %04d]"}]}`, n, n)), at)
		return ok
	}
	addTurn := func(sc Scope, n int) {
		id := sc.scopedID(NamespaceSession, fmt.Sprint(n))
		q.AddTurn(sc, id, taskRequest(n), now)
		q.AddReply(sc, id, &wire.Reply{Text: fmt.Sprintf("this is answer %04d", n)})
	}
	one := Scope{Tenant: "t", Credential: 1}
	addTurn(one, 0)
	for _, tc := range []struct {
		name  string
		scope Scope
		at    time.Time
		want  bool
	}{
		{"immediately", one, now, true},
		{"in a run, at the time limit", Scope{Tenant: "t", Credential: 1, Run: "r"}, now.Add(quoteTTL - 1), true},
		{"after the time limit", one, now.Add(quoteTTL), false},
		{"another credential", Scope{Tenant: "t", Credential: 2}, now, false},
		{"another tenant", Scope{Tenant: "u", Credential: 1}, now, false},
	} {
		if got := isQuoted(tc.scope, 0, tc.at); got != tc.want {
			t.Errorf("%s: QuotedSession = %v, want %v", tc.name, got, tc.want)
		}
	}
	for n := 1; n <= maxQuoteConversations; n++ {
		addTurn(one, n)
	}
	if isQuoted(one, 0, now) || !isQuoted(one, 1, now) {
		t.Errorf("after %d more conversations: QuotedSession = %v for conversation 0 and %v for conversation 1, want false, true", maxQuoteConversations, isQuoted(one, 0, now), isQuoted(one, 1, now))
	}
	for n := range maxQuoteScopes {
		addTurn(Scope{Tenant: "t", Credential: uint64(100 + n)}, n)
	}
	if isQuoted(one, 1, now) {
		t.Errorf("after conversations with %d more credentials: QuotedSession = true for the first credential, want false", maxQuoteScopes)
	}
	if len(q.byScope.values) != maxQuoteScopes {
		t.Errorf("got quotes for %d credentials, want %d", len(q.byScope.values), maxQuoteScopes)
	}
}

// The quotation is a user message with a question and an assistant message with an answer. The quoting request must
// have a different system prompt from the quoted conversation.
func TestQuotedSessionFindsConversationQuotedAsMessages(t *testing.T) {
	q, now, sc := NewQuotes(), noon, Scope{Tenant: "t", Credential: 1}
	id := sc.scopedID(NamespaceSession, "a")
	system := func(text string) obj { return obj{"role": "system", "content": text} }
	work := parse(t, wire.Chat, "messages", []obj{system("S"), userMessage("this is the task"), assistantMessage("this is the first answer"), userMessage("this is the second task")}, tools("f"))
	q.AddTurn(sc, id, work, now)
	q.AddReply(sc, id, &wire.Reply{Text: "this is the second answer"})
	for name, tc := range map[string]struct {
		list []obj
		want bool
	}{
		"the newest question and answer":   {[]obj{assistantMessage("what came before"), userMessage("this is the second task"), assistantMessage("this is the second answer"), system("Tell it in three lines.")}, true},
		"the first question and answer":    {[]obj{system("A"), userMessage("this is the task"), assistantMessage("this is the first answer"), userMessage("Judge that.")}, true},
		"the answer in a user message":     {[]obj{system("You write."), userMessage("this is the second task"), userMessage("this is the second answer")}, false},
		"the conversation's system prompt": {[]obj{system("S"), userMessage("this is the second task"), assistantMessage("this is the second answer"), userMessage("go on")}, false},
		"only the question":                {[]obj{system("You plan."), userMessage("this is the second task")}, false},
	} {
		if got, ok := q.QuotedSession(sc, chat(t, tc.list...), now); ok != tc.want || ok && got != id {
			t.Errorf("%s: QuotedSession = %v, %v, want ok = %v and, if true, %v", name, got, ok, tc.want, id)
		}
	}
}

// In a quoted dialogue, the labels of both speakers end with the same punctuation, such as the colon in "user: ".
func TestSpeakerLabel(t *testing.T) {
	for _, tc := range []struct{ beforeQuestion, beforeAnswer, want string }{
		{"Input:\nuser: ", "\nassistant: ", ":"},
		{"<input>\n", "\n</input>\n\n<output>\n", ">"},
		{"=== Human Message ===\n\n", "\n\n===== Ai Message =====\n\n", "="},
		{`[{"role": "user", "content": "`, `"}, {"role": "assistant", "content": "`, `":"`},
		{"", "user: ", ""},
		{"I said ", " and it said ", ""},
	} {
		a, b := speakerLabel(tc.beforeQuestion, len(tc.beforeQuestion)), speakerLabel(tc.beforeAnswer, len(tc.beforeAnswer))
		if a != tc.want || tc.want != "" && b != tc.want {
			t.Errorf("speakerLabel(%q) = %q, speakerLabel(%q) = %q, want %q for both; without a label before the question, any label before the answer", tc.beforeQuestion, a, tc.beforeAnswer, b, tc.want)
		}
	}
}

// firstPiece returns a piece with 12 to 80 bytes, without any character that a quotation would escape.
func TestFirstPieceReturnsFirstLongPart(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "ok": "", "yes\nno\nmaybe": "", "short\nthis line is long enough": "this line is long enough",
		`say "hello world again" now`:     "hello world again",
		"Mende den Zähler für Änderungen": "Mende den Zähler für Änderungen",
		strings.Repeat("ä", 60):           strings.Repeat("ä", 40),
	} {
		if got := firstPiece(text).text; got != want {
			t.Errorf("firstPiece(%q) = %q, want %q", text, got, want)
		}
	}
}
