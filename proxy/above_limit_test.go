package proxy_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
)

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// turnItems returns the list items of turn n: a call, and a result of size bytes.
func turnItems(path string, n, size int) string {
	out := strings.Repeat("x", size)
	switch path {
	case "/v1/messages":
		return fmt.Sprintf(`,{"role":"assistant","content":[{"type":"tool_use","id":"toolu_%d","name":"bash","input":{"command":"step %[1]d"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%[1]d","content":"%[2]s"}]}`, n, out)
	case "/v1/responses":
		return fmt.Sprintf(`,{"type":"function_call","call_id":"call_%d","name":"bash","arguments":"{\"command\":\"step %[1]d\"}"},{"type":"function_call_output","call_id":"call_%[1]d","output":"%[2]s"}`, n, out)
	}
	return fmt.Sprintf(`,{"role":"assistant","content":null,"tool_calls":[{"id":"call_%d","type":"function","function":{"name":"bash","arguments":"{\"command\":\"step %[1]d\"}"}}]},{"role":"tool","tool_call_id":"call_%[1]d","content":"%[2]s"}`, n, out)
}

func replyWithCall(path string, n int) string {
	switch path {
	case "/v1/messages":
		return fmt.Sprintf(`{"id":"msg_%d","type":"message","stop_reason":"tool_use","content":[{"type":"tool_use","id":"toolu_%[1]d","name":"bash","input":{"command":"step %[1]d"}}]}`, n)
	case "/v1/responses":
		return fmt.Sprintf(`{"id":"resp_%d","status":"completed","output":[{"type":"function_call","call_id":"call_%[1]d","name":"bash","arguments":"{\"command\":\"step %[1]d\"}"}]}`, n)
	}
	return fmt.Sprintf(`{"id":"chatcmpl-%d","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_%[1]d","type":"function","function":{"name":"bash","arguments":"{\"command\":\"step %[1]d\"}"}}]}}]}`, n)
}

// The block from the first turn stays in every request, but new user text gets no lesson. The log reports the exceeded
// limit once.
func TestConversationAboveLimitKeepsBlock(t *testing.T) {
	for _, path := range []string{chatPath, "/v1/messages", "/v1/responses"} {
		for limit, flags := range map[string]map[string]string{
			"size":  {"limits.inspect_bytes": "20KiB"},
			"items": {"limits.items": "20"},
		} {
			for _, header := range []http.Header{{}, {"Precept-Session": {"mine"}}} {
				t.Run(fmt.Sprint(path, " ", limit, " named=", len(header) > 0), func(t *testing.T) {
					n := 0
					up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, replyWithCall(path, n)) })
					all := injectAll()
					maps.Copy(all, flags)
					var log lockedBuffer
					f := newFixture(t, up, "", newBook(t, "one: alpha", "two: beta"), all)
					f.Options().Log = slog.New(slog.NewTextHandler(&log, nil))
					key := map[string]string{"/v1/responses": "input"}[path]
					if key == "" {
						key = "messages"
					}
					list, before := `{"role":"user","content":"do alpha"}`, ""
					for ; n < 12; n++ {
						sent := `{"max_tokens":9,"` + key + `":[` + list + `]}`
						f.send(t, "POST", path, header, sent)
						got := string(up.lastRequest(t).body)
						if strings.Count(got, "- [one]") != 1 {
							t.Fatalf("turn %d (%d bytes): the upstream got %d lesson blocks, want 1", n, len(sent), strings.Count(got, "- [one]"))
						}
						if unclosed := strings.TrimSuffix(got, "]}"); !strings.HasPrefix(unclosed, before) {
							t.Fatalf("turn %d: body:\n%.600s\nwant prefix:\n%.600s", n, unclosed, before)
						} else {
							before = unclosed
						}
						list += turnItems(path, n, 3000)
					}
					f.send(t, "POST", path, header, `{"max_tokens":9,"`+key+`":[`+list+`,{"role":"user","content":"now beta"}]}`)
					if got := string(up.lastRequest(t).body); strings.Contains(got, "- [two]") {
						t.Errorf(`request above the limit = %q, want no "- [two]"`, got)
					} else if strings.Count(got, "- [one]") != 1 {
						t.Errorf(`request above the limit: count of "- [one]" = %d, want 1`, strings.Count(got, "- [one]"))
					}
					if n := strings.Count(log.String(), "a conversation exceeds an inspection limit"); n != 1 {
						t.Errorf("the log reports the limit %d times, want once: %s", n, log.String())
					}
					if n := f.counter("uninspected", limit); n < 2 {
						t.Errorf("uninspected_total{reason=%s} = %v, want at least 2", limit, n)
					}
				})
			}
		}
	}
}

// The first request exceeds limits.inspect_bytes, so it starts no session.
func TestFirstRequestAboveLimitIsForwardedUnchanged(t *testing.T) {
	up := newUpstream(t, nil)
	flags := injectAll()
	flags["limits.inspect_bytes"] = "10KiB"
	f := newFixture(t, up, "", newBook(t, "one: alpha"), flags)
	sent := `{"messages":[{"role":"user","content":"do alpha"}` + turnItems(chatPath, 1, 20<<10) + `,{"role":"user","content":"alpha again"}]}`
	res, _ := f.send(t, "POST", chatPath, nil, sent)
	if got := string(up.lastRequest(t).body); got != sent {
		t.Errorf("request above the limit = %q, want %q", got, sent)
	} else if res.Header.Get("Precept-Session") != "" {
		t.Errorf(`request above the limit: Precept-Session = %q, want ""`, res.Header.Get("Precept-Session"))
	}
	if n := f.counter("uninspected", "size"); n != 1 {
		t.Errorf("uninspected_total{reason=size} = %v, want 1", n)
	}
	if n := f.bodyBytes(); n != 0 {
		t.Errorf("request body bytes in memory after the request = %d, want 0", n)
	}
}

func TestCompressedConversationAboveLimitKeepsBlock(t *testing.T) {
	n := 0
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, replyWithCall(chatPath, n)) })
	flags := injectAll()
	flags["limits.inspect_bytes"] = "10KiB"
	f := newFixture(t, up, "", newBook(t, "one: alpha"), flags)
	list := `{"role":"user","content":"do alpha"}`
	for ; n < 3; n++ {
		f.send(t, "POST", chatPath, http.Header{"Content-Encoding": {"gzip"}}, gzipped(`{"messages":[`+list+`]}`))
		if got := string(up.lastRequest(t).body); strings.Count(got, "- [one]") != 1 {
			t.Fatalf("turn %d: the upstream got %d lesson blocks, want 1", n, strings.Count(got, "- [one]"))
		}
		list += turnItems(chatPath, n, 9000)
	}
}
