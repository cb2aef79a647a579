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

// The provider itself runs a hosted tool, and the same reply can quote the tool's result. If the call names an
// opted-out path, precept does not store the session.
func TestOptOutCoversHostedToolCall(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		file := "notes.txt"
		if strings.Contains(string(b), "secret") {
			file = ".env"
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"msg_%[1]s","type":"message","role":"assistant","stop_reason":"end_turn","content":[{"type":"mcp_tool_use","id":"m1","name":"read","server_name":"files","input":{"path":"config/%[1]s"}},{"type":"text","text":"the file has X"}]}`, file)
	})
	dir := t.TempDir()
	f := newFixture(t, up, dir, nil, nil)
	rules, err := sample.NewOptOut([]string{"*.env"}, nil /* agents */, nil /* tenants */)
	if err != nil {
		t.Fatal(err)
	}
	f.Options().Store.(*store.Store).SetOptOut(rules) //nolint:forcetypeassert // newFixture always sets a *store.Store
	for _, name := range []string{"secret", "open"} {
		f.send(t, http.MethodPost, "/v1/messages", http.Header{"Precept-Session": {name}}, fmt.Sprintf(`{"max_tokens":9,"messages":[{"role":"user","content":"read the %s file"}]}`, name))
	}
	f.stop()
	f = newFixture(t, up, dir, nil, nil)
	for name, want := range map[string]bool{"secret": false, "open": true} {
		ses, _ := f.Options().Store.Acquire(t.Context(), "default", session.NamedID("default", session.NamespaceSession, name))
		if (ses != nil) != want {
			t.Errorf("session %s is stored = %t, want %t", name, ses != nil, want)
		}
		if ses != nil {
			f.Options().Store.Release(ses, 0)
		}
	}
}
