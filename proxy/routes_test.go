package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"precept/proxy"

	"precept/internal/wire"
)

// hiRequest is a body that every API accepts.
const hiRequest = `{"messages":[{"role":"user","content":"hi"}],"input":"hi"}`

func newRoutedFixture(t *testing.T, ups map[string]*upstream, flags map[string]string) *fixture {
	t.Helper()
	all := map[string]string{"upstream": ""}
	var list []string
	var last *upstream
	for name, up := range ups {
		list = append(list, fmt.Sprintf("%s: {url: %q}", name, up.URL+"/v1"))
		last = up
	}
	all["upstreams"] = "{" + strings.Join(list, ", ") + "}"
	maps.Copy(all, flags)
	return newFixture(t, last, "", nil, all)
}

// newlyUsedUpstreams returns the names of the upstreams that got requests since the last call, joined by "+". counts
// holds each upstream's request count at the last call, and is updated.
func newlyUsedUpstreams(ups map[string]*upstream, counts map[string]int) string {
	var names []string
	for name, up := range ups {
		for range up.requestCount() - counts[name] {
			names = append(names, name)
		}
		counts[name] = up.requestCount()
	}
	return strings.Join(names, "+")
}

// Requests to the Messages API and requests with Anthropic-Version go to anthropic, all other requests to openai.
func TestDefaultRoutesFollowAPI(t *testing.T) {
	ups := map[string]*upstream{"openai": newUpstream(t, nil), "anthropic": newUpstream(t, nil)}
	f := newRoutedFixture(t, ups, nil)
	before := map[string]int{}
	anthropic := http.Header{"Anthropic-Version": {"2023-06-01"}, "X-Api-Key": {"k"}}
	for _, path := range []string{"/v1/models", "/v1/models/claude-x?beta=true", "/v1/files", "/v1/messages", "/models"} {
		f.send(t, "GET", path, anthropic, "")
		if got := newlyUsedUpstreams(ups, before); got != "anthropic" {
			t.Errorf("GET %s with Anthropic-Version went to %q, want \"anthropic\"", path, got)
		}
	}
	for _, tc := range []struct{ method, path, want string }{
		{"POST", chatPath, "openai"},
		{"POST", "/chat/completions", "openai"},
		{"POST", "/v1/responses", "openai"},
		{"POST", "/v1/messages", "anthropic"},
		{"POST", "/messages", "anthropic"},
		{"POST", "/v1/messages?beta=true", "anthropic"},
		{"POST", "/p/agent=x,session=y/v1/messages", "anthropic"},
		{"POST", "/v1/messages/count_tokens?beta=true", "anthropic"},
		{"POST", "/p/agent=x/v1/messages/count_tokens", "anthropic"},
		{"GET", "/v1/messages/batches", "anthropic"},
		{"GET", "/v1/models", "openai"},
		{"GET", "/v1/messagesx/1", "openai"},
		{"POST", "/v1/threads/thread_1/messages", "openai"},
		{"GET", "/v1/threads/thread_1/messages/msg_1", "openai"},
		{"HEAD", "/", "openai"},
		{"GET", "/v1/responses/resp_1", "openai"},
		{"POST", "/v1/responses/resp_1/cancel", "openai"},
		{"POST", "/v1/embeddings", "openai"},
	} {
		f.send(t, tc.method, tc.path, nil, hiRequest)
		if got := newlyUsedUpstreams(ups, before); got != tc.want {
			t.Errorf("%s %s went to %q, want %q", tc.method, tc.path, got, tc.want)
		}
	}
}

func TestRequestsFollowConfiguredRoutes(t *testing.T) {
	ups := map[string]*upstream{"a": newUpstream(t, nil), "b": newUpstream(t, nil), "c": newUpstream(t, nil), "d-1": newUpstream(t, nil)}
	f := newRoutedFixture(t, ups, map[string]string{"routes.chat": "a", "routes.responses": "b", "routes.messages": "c", "routes.other": "d-1"})
	before := map[string]int{}
	for _, tc := range []struct {
		path, want, uri string
	}{
		{chatPath, "a", chatPath},
		{"/v1/responses", "b", "/v1/responses"},
		{"/v1/messages", "c", "/v1/messages"},
		{"/v1/embeddings", "d-1", "/v1/embeddings"},
		{"/p/upstream=b" + chatPath, "b", chatPath},
		{"/p/upstream=d-1,agent=x" + chatPath, "d-1", chatPath},
		{"/p/agent=x,upstream%3Dc/v1/embeddings", "d-1", "/v1/embeddings"}, // the escaped = belongs to the agent name
		{"/p/upstream%3Dc/v1/embeddings?x=%2F", "c", "/v1/embeddings?x=%2F"},
		{"/p/upstream=a,upstream=b" + chatPath, "a", chatPath},
		{"/p/upstream=" + chatPath, "a", chatPath},
		{"/p/upstream=e" + chatPath, "", ""},
		{"/p/upstream=A" + chatPath, "", ""},
		{"/p/upstream=" + strings.TrimPrefix(ups["b"].URL, "http://") + chatPath, "", ""},
		{"/p/upstream=" + strings.NewReplacer(":", "%3A", "/", "%2F").Replace(ups["b"].URL) + chatPath, "", ""},
	} {
		res, body := f.send(t, "POST", tc.path, nil, hiRequest)
		got := newlyUsedUpstreams(ups, before)
		if got != tc.want {
			t.Errorf("%s went to %q, want %q", tc.path, got, tc.want)
		}
		if tc.want == "" {
			if res.StatusCode != http.StatusBadGateway {
				t.Errorf("%s: got status %d, want 502", tc.path, res.StatusCode)
			}
			checkErrorFormat(t, chatPath, body)
		} else if uri := ups[tc.want].lastRequest(t).uri; uri != tc.uri {
			t.Errorf("%s was forwarded to %s, want %s", tc.path, uri, tc.uri)
		}
	}
}

func hostSpellings(port string) []string {
	var out []string
	for _, h := range []string{"127.0.0.1", "localhost", "LOCALHOST.", "127.1", "0x7f000001", "2130706433", "0177.0.0.1", "0", "[::1]", "[::ffff:127.0.0.1]", "127.0.0.1.nip.io", "x@127.0.0.1"} {
		out = append(out, h+":"+port)
	}
	return out
}

// A client tries to reach an internal server through headers, the query, the body, the path and redirects.
func TestClientCannotChooseUpstreamAddress(t *testing.T) {
	var connections atomic.Int64
	internal := httptest.NewUnstartedServer(http.NotFoundHandler())
	internal.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	internal.Start()
	defer internal.Close()
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", internal.URL+"/latest/meta-data")
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	f := newDefaultFixture(t, up)
	upstreamHost := strings.TrimPrefix(up.URL, "http://")
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(internal.URL, "http://"))
	for _, host := range hostSpellings(port) {
		for _, name := range []string{
			"X-Forwarded-Host", "Forwarded", "X-Host", "X-Original-Url", "X-Rewrite-Url", "X-Upstream", "X-Upstream-Url", "X-Target-Url", "X-Base-Url", "X-Api-Base", "Precept-Upstream", "Precept-Base-Url",
			"X-Portkey-Custom-Host", "Helicone-Target-Url", "Helicone-Openai-Api-Base", "X-Litellm-Api-Base", "Openai-Base-Url", "Destination", "Referer", "Origin", "Location", "X-Real-Ip",
		} {
			for _, value := range []string{host, "http://" + host + "/v1"} {
				f.send(t, "POST", chatPath, http.Header{name: {value}}, hiRequest)
			}
		}
		for _, key := range []string{"api_base", "base_url", "baseURL", "upstream", "url", "host", "target", "endpoint", "custom_host"} {
			f.send(t, "POST", chatPath+"?"+key+"=http://"+strings.ReplaceAll(host, "@", "%40"), nil, hiRequest)
			f.send(t, "POST", chatPath, nil, fmt.Sprintf(`{%q:"http://%s/v1","metadata":{%q:%q},"messages":[{"role":"user","content":"http://%[2]s/"}]}`, key, host, key, host))
		}
		for _, line := range []string{
			"POST http://" + host + chatPath, "POST //" + host + chatPath, "POST /http://" + host + chatPath, "POST /p/upstream=" + host + chatPath, "POST /p/upstream=http:%2F%2F" + strings.ReplaceAll(host, "/", "%2F") + chatPath,
			"POST /v1/..//" + host + "/chat/completions", "POST /@" + host + chatPath, "POST /%2f%2f" + host + chatPath, "POST /\\" + host + chatPath, "GET http://" + host + "/", "CONNECT " + host, "POST " + chatPath,
		} {
			sendRawRequest(t, f.url, line, strings.TrimPrefix(host, "x@"))
		}
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("the internal server got %d connections, want 0", n)
	}
	if up.requestCount() < 100 {
		t.Errorf("the upstream got %d requests, want at least 100", up.requestCount())
	}
	for _, s := range up.requests {
		if s.header.Get("Host") != "" && s.header.Get("Host") != upstreamHost {
			t.Errorf("the upstream got Host: %s, want %s", s.header.Get("Host"), upstreamHost)
		}
	}
}

func sendRawRequest(t *testing.T, base, line, host string) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", line, host, len(hiRequest), hiRequest)
	_, _ = io.Copy(io.Discard, bufio.NewReader(c))
}

func TestErrorsHaveFormatOfRequestedAPI(t *testing.T) {
	up := newUpstream(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	unresponsive := newFixture(t, up, "", nil, map[string]string{"limits.body_bytes": "1KiB", "limits.upstream_header_timeout": "50ms"})
	closed := newUpstream(t, nil)
	down := newDefaultFixture(t, closed)
	closed.Close()
	for _, path := range []string{chatPath, "/v1/responses", "/v1/messages", "/v1/messages/count_tokens"} {
		for _, prefix := range []string{"", "/p/agent=x"} {
			res, b := unresponsive.send(t, "POST", prefix+path, nil, strings.Repeat("x", 2000))
			if res.StatusCode != http.StatusRequestEntityTooLarge {
				t.Errorf("%s%s with a long body: status = %d, want 413", prefix, path, res.StatusCode)
			}
			if res.Header.Get("Content-Type") != "application/json" {
				t.Errorf(`%s%s with a long body: Content-Type = %q, want "application/json"`, prefix, path, res.Header.Get("Content-Type"))
			}
			checkErrorFormat(t, path, b)
		}
		res, b := unresponsive.send(t, "POST", path, nil, hiRequest)
		if res.StatusCode != http.StatusGatewayTimeout {
			t.Errorf("%s with an unresponsive upstream: got status %d, want 504", path, res.StatusCode)
		}
		checkErrorFormat(t, path, b)
		res, b = down.send(t, "POST", path, nil, hiRequest)
		if res.StatusCode != http.StatusBadGateway {
			t.Errorf("%s with the upstream down: got status %d, want 502", path, res.StatusCode)
		}
		checkErrorFormat(t, path, b)
		w := httptest.NewRecorder()
		req := httptest.NewRequestWithContext(t.Context(), "POST", "/p/agent=x"+path, nil)
		proxy.WriteInternalError(w, req)
		if w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s with an internal error: Code = %d, want 503", path, w.Code)
		}
		if w.Header().Get("Retry-After") == "" {
			t.Errorf("%s with an internal error: Retry-After is empty", path)
		}
		checkErrorFormat(t, path, w.Body.Bytes())
	}
	res, b := down.send(t, "POST", "/v1/feedback", nil, `{"sample_id":"9b2d0e62-0f39-4d5c-8d5d-0a5ba4a3f3c1","source":"user","type":"approval"}`)
	if res.StatusCode != http.StatusNotFound {
		t.Errorf("feedback for an unknown sample: got status %d, want 404", res.StatusCode)
	}
	checkErrorFormat(t, "/v1/feedback", b)
}

func TestDetectAPI(t *testing.T) {
	for path, want := range map[string]wire.Dialect{
		"/v1/messages": wire.Messages, "/messages/count_tokens": wire.Messages, "/v1/messages/batches/b/results": wire.Messages, "/anthropic/v1/messages/": wire.Messages,
		"/v1/threads/t/messages": wire.NoDialect, "/v1/threads/t/messages/m": wire.NoDialect, "/v1/models": wire.NoDialect, "/": wire.NoDialect, "": wire.NoDialect, "/v1/xmessages": wire.NoDialect,
		chatPath: wire.Chat, "/responses": wire.Responses, "/v1/responses/resp_1/input_items": wire.Responses, chatPath + "/chatcmpl-1": wire.Chat,
	} {
		if got := proxy.DetectAPI(path, nil); got != want {
			t.Errorf("DetectAPI(%q) = %s, want %s", path, got, want)
		}
	}
	h := http.Header{"Anthropic-Version": {"2023-06-01"}}
	for path, want := range map[string]wire.Dialect{"/v1/models": wire.Messages, "/v1/files": wire.Messages, chatPath: wire.Chat, "/v1/responses": wire.Responses, "/v1/responses/r": wire.Messages} {
		if got := proxy.DetectAPI(path, h); got != want {
			t.Errorf("with Anthropic-Version: DetectAPI(%q) = %s, want %s", path, got, want)
		}
	}
}
