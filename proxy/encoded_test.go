package proxy_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"precept/internal/sample"
)

const callSSE = `data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"call_7","type":"function","function":{"name":"bash","arguments":"{}"}}]}}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3000,"completion_tokens":2000}}

data: [DONE]

`

// encodedReplies returns callSSE in each encoding. A suffix after a colon distinguishes two formats. The br and zstd
// replies are constants, because only package wire imports libraries for these encodings.
func encodedReplies(t *testing.T) map[string][]byte {
	t.Helper()
	fromBase64 := func(text string) []byte {
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	compress := func(open func(io.Writer) io.WriteCloser) []byte {
		var b bytes.Buffer
		z := open(&b)
		_, _ = io.WriteString(z, callSSE)
		_ = z.Close()
		return b.Bytes()
	}
	return map[string][]byte{
		"gzip":         compress(func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }),
		"X-GZip":       compress(func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }),
		"deflate:zlib": compress(func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }),
		"deflate:raw":  compress(func(w io.Writer) io.WriteCloser { z, _ := flate.NewWriter(w, flate.BestSpeed); return z }),
		"br":           fromBase64("G0UBAASiWFv/kpjNmF6GCtNfVADLWxZqhO0TNkGSXvPNB9ttok6IlXPz6euKaENr85S8kQVl9SX2EIq5u3mVbQ6s0aIg6hdYQfZrmp6RL8+gEey2jd0YfzvWdGWZma6dZYkBYNhZZt5Cy1xlkzXhYr2d5Eth5xGrY7cRa+6BCN8//7++VEWhfkC0/dcIIJofLjzI6H99TVEctK6aMq86s7O4RU6iTDgn7KRDc8x/EqA+P++Xrig="),
		"zstd":         fromBase64("KLUv/UQARgAdBgAizikfUAvbANwzS32dWURi/8VbjF2unI15im+OM2sUQRWBBkVhHCAkGBwaQmhAV3WuRdn0gxAiuLPmwvbRi7LMcnbPBHLzY7S7LmMyR8JKFeKnFUUzWjNae2O/c2sqTYLBnyeMCr+ngnp257qqkzaI33Np6J8XHGvhWpiOtds/b8VmxYy/51rm7I69EvlBd4ZEVJ0d7pxJbZJ+LhCwFiU1Jul3RJ0BHDYiAQgABFM0eYri9JyhTKzozNO5IIIBWxVGVBTezapf"),
	}
}

// The upstream compresses, although precept asked for no compression. The call id in the reply identifies the session
// of the next request.
func TestCompressedRepliesAreRead(t *testing.T) {
	for name, reply := range encodedReplies(t) {
		encoding, _, _ := strings.Cut(name, ":")
		up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Accept-Encoding"); got != "identity" {
				t.Errorf("the upstream got Accept-Encoding %q, want \"identity\"", got)
			}
			w.Header().Set("Content-Encoding", encoding)
			for rest := reply; len(rest) > 0; rest = rest[min(50, len(rest)):] {
				_, _ = w.Write(rest[:min(50, len(rest))])
				w.(http.Flusher).Flush()
			}
		})
		f := newDefaultFixture(t, up)
		res, got := f.send(t, "POST", chatPath, nil, `{"messages":[{"role":"user","content":"build it"}]}`)
		if !bytes.Equal(got, reply) {
			t.Errorf("%s: got %.60q, want %.60q", name, got, reply)
		}
		if res.Header.Get("Content-Encoding") != encoding {
			t.Errorf("%s: Content-Encoding = %q, want %q", name, res.Header.Get("Content-Encoding"), encoding)
		}
		first := res.Header.Get("Precept-Session")
		res, _ = f.send(t, "POST", chatPath, nil, `{"messages":[{"role":"user","content":"build it"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_7","type":"function","function":{"name":"bash","arguments":"{}"}}]},{"role":"tool","tool_call_id":"call_7","content":"done"}]}`)
		if second := res.Header.Get("Precept-Session"); first == "" {
			t.Errorf("%s is empty", name)
		} else if second != first {
			t.Errorf("%s: got %q, want %q", name, second, first)
		}
		if n := f.counter("tokens", "input"); n != 6000 {
			t.Errorf("%s: input token metric = %v, want 6000", name, n)
		}
	}
}

func TestUndecodableReplyIsForwardedAndCounted(t *testing.T) {
	for name, tc := range map[string]struct{ encoding, body, reason string }{
		"unknown encoding":                  {"compress", "\x1f\x9dxyz", "encoding"},
		"two encodings":                     {"gzip, secret", "xyz", "encoding"},
		"not gzip":                          {"gzip", "hello", "corrupt"},
		"corrupt gzip":                      {"gzip", "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xffxxxxxxxxxxx", "corrupt"},
		"corrupt zstd":                      {"zstd", "\x28\xb5\x2f\xfdxxxxxxxxx", "corrupt"},
		"corrupt br":                        {"br", "\xff\xff\xff\xffxxxxxxx", "corrupt"},
		"corrupt deflate":                   {"deflate", "\x78\x9c\xff\xff\xff\xff", "corrupt"},
		"uncompressed size above the limit": {"gzip", gzipped(strings.Repeat("data: {}\n\n", 3<<20)), "size"},
	} {
		t.Run(name, func(t *testing.T) {
			up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", tc.encoding)
				_, _ = io.WriteString(w, tc.body)
			})
			f := newDefaultFixture(t, up)
			_, got := f.send(t, "POST", chatPath, http.Header{"Precept-Session": {"s"}}, `{"messages":[{"role":"user","content":"build it"}]}`)
			if string(got) != tc.body {
				t.Errorf("the client got %.100q, want %.100q", got, tc.body)
			}
			if n := f.counter("unread", tc.reason); n != 1 {
				t.Errorf("unread_replies_total{reason=%q} = %v, want 1", tc.reason, n)
			}
			eventually(t, func() bool { return f.Options().Tally.Exchanges.Load() == 1 })
			if x := storedExchanges(t, f, "s")["default"]; len(x) != 1 {
				t.Errorf("stored exchanges = %+v, want 1 exchange", x)
			} else if x[0].Outcome != sample.Complete {
				t.Errorf("stored exchanges: Outcome = %q, want %q", x[0].Outcome, sample.Complete)
			} else if !x[0].Truncated {
				t.Error("stored exchanges: Truncated = false, want true")
			}
		})
	}
}

func gzipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, text)
	_ = z.Close()
	return b.String()
}

// A result with null, absent or empty content gets the warning as the content, even in later turns.
func TestResultsWithoutContentGetLoopWarnings(t *testing.T) {
	up := newUpstream(t, nil)
	f := newFixture(t, up, "", nil, injectAll())
	for name, content := range map[string]string{"null": `,"content":null`, "absent": ``, "empty": `,"content":""`} {
		list := `{"role":"user","content":"build it"}`
		for n := range 3 {
			list += fmt.Sprintf(`,{"role":"assistant","content":[{"type":"tool_use","id":"%s_%d","name":"bash","input":{"command":"make"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"%[1]s_%[2]d","is_error":true%[3]s}]}`, name, n, content)
			f.send(t, "POST", "/v1/messages", http.Header{"Precept-Session": {name}}, `{"max_tokens":9,"messages":[`+list+`]}`)
			body := up.lastRequest(t).body
			if !json.Valid(body) {
				t.Fatalf("content %s: the upstream got invalid JSON: %s", name, body)
			}
			want := min(n, 1)
			if got := strings.Count(string(body), `"[LOOP DETECTED]`); got != want {
				t.Errorf("content %s, request %d: got %d warnings, want %d: %s", name, n, got, want, body)
			}
		}
	}
}
