package storetest

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/internal/sample"
	"precept/internal/session"
)

// The suite's data: small, made up, different in every field.

func at(minutes int) time.Time {
	return time.Date(2031, 5, 6, 7, 8, 9, 123_456_000, time.UTC).Add(time.Duration(minutes) * time.Minute)
}

func id(n int) (id session.ID) {
	copy(id[:], fmt.Sprintf("%08x-session", n*0x9e3779b))
	return id
}

func row(tenant string, n, seen int) session.Row {
	return session.Row{
		Tenant: tenant, ID: id(n), Started: at(n), Seen: at(seen),
		Data: fmt.Appendf(nil, `{"tenant":%q,"n":%d,"seen":%d}`, tenant, n, seen),
	}
}

func exchange(tenant string, session, turn int) sample.Exchange {
	sid := id(session)
	return sample.Exchange{
		ID: fmt.Sprintf("%s-%d-%d", tenant, session, turn), Tenant: tenant, Agent: "coder", Session: hex.EncodeToString(sid[:]), SessionName: "ci-42",
		RequestID: fmt.Sprintf("req-%d", turn), Turn: turn, At: at(session + turn), Dialect: "chat", Model: "m-1", Status: 200, Outcome: "complete",
		New:     []json.RawMessage{json.RawMessage(`{"role":"user","content":"a < b & c > d"}`)},
		NewFrom: turn, Reply: sample.Reply{ID: "chatcmpl-1", Text: "done", Calls: []sample.Call{{ID: "c1", Name: "ls", Args: `{"p":"."}`}}, InputTokens: 12},
		Lessons: []sample.Lesson{{Slug: "verify-id", Arm: "verify-id@0123456789ab", State: "injected", Propensity: 0.76}}, LatencyMS: 12.5,
		Redacted: map[string]int{"email": 2},
	}
}

func stored(tenant string, session_, n int) session.StoredSample {
	return session.StoredSample{Tenant: tenant, Agent: "coder", ID: id(session_), Sample: sample.Sample{
		ID: fmt.Sprintf("sample-%s-%d", tenant, n), Family: "dialog_response", CreatedAt: at(n),
		Input: map[string]any{"text": fmt.Sprint("in ", n)}, Output: map[string]any{"text": "out"},
		Feedback: sample.Feedback{Source: "system", Type: "score", Details: map[string]any{"rated": false}}, Meta: map[string]any{"q": 0.5},
	}}
}

func entry(name string, minute int, score float64) feedback.Entry {
	return feedback.Entry{ID: name, At: at(minute), Source: "user", Type: "score", Score: score, Tier: 1, Rater: "kim", Comment: "<" + name + ">"}
}

func delta(scope, field string, day int32, v int64) trial.Delta {
	return trial.Delta{Key: trial.Key{Scope: scope, Field: field, Day: day}, Value: v}
}
