package privacy

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"precept/internal/session"
	"precept/test/harness"
)

// The first turn opts out, by a header or by the path in a tool call. After a restart, or after the session has left
// memory, the second turn repeats the text of the first turn without opting out.
func TestRepeatedOptedOutTextIsNotStored(t *testing.T) {
	t.Parallel()
	const canary, newText = "periwinkle-3141", "marigold-5926"
	for form, header := range map[string]http.Header{"header": {"Precept-Learn": {"off"}}, "path": {}} {
		for event, restart := range map[string]bool{"restart": true, "session leaves memory": false} {
			t.Run("opt-out by "+form+", "+event, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					b, _ := io.ReadAll(r.Body)
					w.Header().Set("Content-Type", "application/json")
					if form == "path" && !strings.Contains(string(b), newText) {
						_, _ = io.WriteString(w, toolCallReply("chatcmpl-1", "read", `{"path":"prod.env"}`))
						return
					}
					_, _ = io.WriteString(w, harness.ChatReply("chatcmpl-2", "an answer"))
				}))
				t.Cleanup(model.Close)
				p := harness.StartWithUpstream(t, dir, model.URL, "--limits-sessions", "1", "--debug-headers")
				first := `{"role":"user","content":"Look for ` + canary + `."}`
				send := func(name, list string, header http.Header) {
					t.Helper()
					h := header.Clone()
					if h == nil {
						h = http.Header{}
					}
					h.Set("Precept-Session", name)
					p.Chat(t, h, `{"model":"m","messages":[`+list+`]}`)
				}
				send("s-"+canary, first, header)
				if restart {
					p.Stop()
					p = harness.StartWithUpstream(t, dir, model.URL, "--limits-sessions", "1")
				} else {
					p.WaitUntilDrained(dir)
					for i := range 5 {
						p.Eventually("a place in memory for another session", func() bool {
							body := `{"model":"m","messages":[{"role":"user","content":"` + newText + ` hello"}]}`
							return skipReason(t, p.DataURL+"/v1/chat/completions", fmt.Sprint("other", i), body) != "busy"
						})
						p.Eventually("the exchange in the store, to make room for the next session in memory", func() bool {
							return harness.Doctor(t, dir).Stored == int64(i+1)
						})
					}
					p.Eventually("only one session in memory", func() bool { return p.Health().SinceStart.InMemory == 1 })
				}
				send("s-"+canary, first+`,{"role":"assistant","content":"I found `+canary+`."},{"role":"user","content":"And `+newText+`?"}`, nil)
				p.WaitUntilDrained(dir)
				p.Stop()
				all := harness.Files(t, dir)
				id := session.NamedID("default", session.NamespaceSession, "s-"+canary)
				for _, trace := range []string{"Look for " + canary, "I found " + canary} {
					if found := harness.FilesWith(all, trace); len(found) > 0 {
						t.Errorf("files with the opted-out text %q: got %v, want none", trace, found)
					}
				}
				stored := harness.ExchangesInFile(t, dir)
				n := 0
				for _, list := range stored {
					for i := range list {
						if list[i].Session == id.String() {
							n++
							if list[i].Turn != 2 || len(list[i].New) != 1 || !strings.Contains(string(list[i].New[0]), newText) {
								t.Errorf("stored exchange: got turn %d with the new items %s, want turn 2 with one new message, which contains %q", list[i].Turn, list[i].New, newText)
							}
						}
					}
				}
				if n != 1 {
					t.Errorf("stored exchanges of the session: got %d, want 1, for the second turn", n)
				}
			})
		}
	}
}

// skipReason sends a chat request and returns the response header Precept-Skip, the reason why precept injected no
// lesson.
func skipReason(t *testing.T, url, name, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Precept-Session", name)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("chat request: got status %d, error %v, want 200", res.StatusCode, err)
	}
	return res.Header.Get("Precept-Skip")
}
