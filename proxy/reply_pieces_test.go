package proxy_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestReplyPiecesAreForwardedImmediately(t *testing.T) {
	sendRest := make(chan struct{})
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "8")
		_, _ = io.WriteString(w, `{"a"`)
		_ = http.NewResponseController(w).Flush()
		<-sendRest
		_, _ = io.WriteString(w, `: 1}`)
	})
	f := newDefaultFixture(t, up)
	for _, path := range []string{chatPath, "/v1/models"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+path, strings.NewReader(`{"messages":[{"role":"user","content":"x"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		res, err := client(t).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		first := make([]byte, 4)
		if _, err := io.ReadFull(res.Body, first); err != nil {
			t.Errorf("%s: error = %v", path, err)
		} else if string(first) != `{"a"` {
			t.Errorf(`%s: got %q, want "{\"a\""`, path, string(first))
		}
		sendRest <- struct{}{}
		if last, err := io.ReadAll(res.Body); err != nil {
			t.Errorf("%s: error = %v", path, err)
		} else if string(last) != `: 1}` {
			t.Errorf(`%s: last = %q, want ": 1}"`, path, string(last))
		}
		_ = res.Body.Close()
	}
}
