package session_test

import (
	"fmt"
	"net/http"
	"time"

	"precept/internal/session"
	"precept/internal/wire"
)

// The second request repeats the first reply, and therefore belongs to the same session.
func Example() {
	now := time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC)
	threader := session.NewThreader(func() [16]byte { return [16]byte{1} })
	scope := session.Scope{Tenant: "default"}
	header := http.Header{"User-Agent": {"coder/1.2"}}

	first, _ := wire.Parse(wire.Chat, []byte(`{"messages":[{"role":"user","content":"List the files."}]}`))
	claim := session.Identify(header, "/v1/chat/completions", first)
	who := threader.Resolve(scope, claim, first, now, nil)
	record := session.NewRecord(scope.Tenant, claim, who, now)
	record.Begin(first, now)
	reply := &wire.Reply{Complete: true, Calls: []wire.Call{{ID: "call_Vb2x9QmLr4TzK8sW", Name: "ls", Args: "{}"}}}
	threader.RecordReply(who, reply, true)
	record.AddReply(reply)
	fmt.Println(who.Method, who.New, record.Thread.Turns)

	second, _ := wire.Parse(wire.Chat, []byte(`{"messages":[{"role":"user","content":"List the files."},
		{"role":"assistant","content":null,"tool_calls":[{"id":"call_Vb2x9QmLr4TzK8sW","type":"function","function":{"name":"ls","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"call_Vb2x9QmLr4TzK8sW","content":"main.go"}]}`))
	repeated := threader.Resolve(scope, session.Identify(header, "/v1/chat/completions", second), second, now.Add(time.Second), nil)
	record.Begin(second, now.Add(time.Second))
	fmt.Println(repeated.Method, repeated.ID == who.ID, record.Thread.Turns)
	// Output:
	// new true 1
	// echo true 2
}
