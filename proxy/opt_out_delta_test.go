package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"precept/internal/sample"
	"precept/internal/session"
	"precept/store"
)

// A request with previous_response_id contains a tool result without the call, which may have named an opted-out path.
// precept stores the turn only after earlier turns without an opt-out.
func TestOptOutCoversResultWithoutCall(t *testing.T) {
	filler := strings.Repeat("echo step; ", 60) // precept does not remember long arguments
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		output := `{"type":"message","id":"m1","role":"assistant","content":[{"type":"output_text","text":"done"}]}`
		for _, name := range []string{"secret", "open"} {
			if strings.Contains(string(b), "read the "+name) {
				output = fmt.Sprintf(`{"type":"function_call","id":"f1","call_id":"call_%[1]s","name":"sh","arguments":"{\"script\":\"%[2]s cat %[1]s.env.txt\"}"}`, name, filler)
				output = strings.Replace(output, "secret.env.txt", "secret.env", 1)
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"resp_%d","status":"completed","output":[%s]}`, len(b), output)
	})
	dir := t.TempDir()
	start := func() *fixture {
		f := newFixture(t, up, dir, nil, nil)
		rules, err := sample.NewOptOut([]string{"*.env"}, nil /* agents */, nil /* tenants */)
		if err != nil {
			t.Fatal(err)
		}
		f.Options().Store.(*store.Store).SetOptOut(rules) //nolint:forcetypeassert // newFixtureOn set this type
		return f
	}
	f := start()
	send := func(name, input string) {
		f.send(t, http.MethodPost, "/v1/responses", http.Header{"Precept-Session": {name}}, input)
	}
	result := func(name string) string {
		return fmt.Sprintf(`{"previous_response_id":"resp_x","input":[{"type":"function_call_output","call_id":"call_%s","output":"the town is blue"}]}`, name)
	}
	for _, name := range []string{"secret", "open"} {
		send(name, fmt.Sprintf(`{"input":[{"role":"user","content":"read the %s file"}]}`, name))
		send(name, result(name))
	}
	f.stop()
	f = start()
	send("no earlier turn", result("other"))
	f.stop()
	f = start()
	for name, want := range map[string]bool{"secret": false, "open": true, "no earlier turn": false} {
		ses, _ := f.Options().Store.Acquire(t.Context(), "default", session.NamedID("default", session.NamespaceSession, name))
		if (ses != nil) != want {
			t.Errorf("session %s is stored = %t, want %t", name, ses != nil, want)
		}
		if ses != nil {
			f.Options().Store.Release(ses, 0)
		}
	}
}
