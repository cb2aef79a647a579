package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Java's HttpClient offers h2c to a plain address. HTTP/2 forbids the headers in this offer, and a plain upstream could
// accept the offer and answer in HTTP/2.
func TestH2CUpgradeOfferIsNotForwarded(t *testing.T) {
	t.Parallel()
	offer := http.Header{"Connection": {"Upgrade, HTTP2-Settings"}, "Upgrade": {"h2c"}, "Http2-Settings": {"AAEAAEAAAAIAAAAB"}}
	for _, overHTTP2 := range []bool{false, true} {
		got := make(chan *http.Request, 2)
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got <- r
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, chatReply("chatcmpl-1", "fine"))
		}))
		if srv.EnableHTTP2 = overHTTP2; overHTTP2 {
			srv.StartTLS()
		} else {
			srv.Start()
		}
		t.Cleanup(srv.Close)
		f := newDefaultFixture(t, &upstream{Server: srv})
		for _, path := range []string{chatPath, "/v1/embeddings"} {
			res, body := f.send(t, http.MethodPost, path, offer, `{"messages":[{"role":"user","content":"hi"}]}`)
			if res.StatusCode != http.StatusOK {
				t.Errorf("%s, HTTP/2 upstream %t: got status %d, body %s, want 200", path, overHTTP2, res.StatusCode, body)
				continue
			}
			r := <-got
			if (r.ProtoMajor == 2) != overHTTP2 || r.Header.Get("Upgrade") != "" || r.Header.Get("Connection") != "" || r.Header.Get("Http2-Settings") != "" {
				t.Errorf("%s: the upstream got %s and headers %v, want no upgrade offer", path, r.Proto, r.Header)
			}
		}
	}
}
