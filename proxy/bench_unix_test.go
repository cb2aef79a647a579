//go:build unix

package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"
)

// BenchmarkTurn serves whole turns on the loopback interface. Other processes affect cpu-us/op less than ns/op.
func BenchmarkTurn(b *testing.B) {
	history := `{"role":"user","content":"` + strings.Repeat("please look at it. ", 20) + `"},{"role":"assistant","content":"` + strings.Repeat("it is fine. ", 20) + `"},`
	for _, tc := range []struct {
		name, method, path, list string
		stream                   bool
	}{
		{name: "forwarded", method: http.MethodGet, path: "/v1/models"},
		{name: "chat-1KB", method: http.MethodPost, path: chatPath, list: strings.Repeat(history, 1)},
		{name: "chat-100KB", method: http.MethodPost, path: chatPath, list: strings.Repeat(history, 150)},
		{name: "stream", method: http.MethodPost, path: chatPath, list: strings.Repeat(history, 1), stream: true},
	} {
		b.Run(tc.name, func(b *testing.B) {
			up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if !tc.stream {
					w.Header().Set("Content-Type", "application/json")
					_, _ = io.WriteString(w, chatReply("chatcmpl-1", "fine"))
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				for range 50 {
					_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"word "}}]}`+"\n\n")
				}
				_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
			}))
			defer up.Close()
			f := newFixture(b, &upstream{Server: up}, "", newBook(b, "one: alpha"), injectAll())
			h := f.Handler()
			body := `{"model":"m","messages":[` + tc.list + `{"role":"user","content":"alpha"}]}`
			b.ReportAllocs()
			b.ResetTimer()
			before := cpuTime(b)
			for n := 0; b.Loop(); n++ {
				req := httptest.NewRequestWithContext(b.Context(), tc.method, tc.path, strings.NewReader(body))
				req.Header.Set("Precept-Session", fmt.Sprint("s", n))
				w := httptest.NewRecorder()
				h.ServeHTTP(w, req)
				if w.Code != http.StatusOK {
					b.Fatalf("got status %d, body %s, want status 200", w.Code, w.Body)
				}
			}
			b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
