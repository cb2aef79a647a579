package server_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The welcome page shows the server's addresses only if the request has a known Host header. The server forwards
// requests from programs, and requests from browsers for other paths.
func TestBrowserOnDataListenerGetsAddresses(t *testing.T) {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "the upstream got "+r.URL.Path)
	}))
	t.Cleanup(model.Close)
	s := startServer(t, newFlagSource(t, injectAllOptions(map[string]string{"upstream": model.URL})))
	const html = "text/html,application/xhtml+xml,*/*;q=0.8"
	for _, c := range []struct {
		name, method, path, accept, host string
		want, unwanted                   []string
	}{
		{"browser", "GET", "/", html, "", []string{"not for browsers", "The dashboard is at " + s.adminURL, "OPENAI_BASE_URL=" + s.dataURL + "/v1", "ANTHROPIC_BASE_URL=" + s.dataURL + "\n"}, []string{"the upstream got"}},
		{"browser with an unknown host", "GET", "/", html, "evil.example", []string{"not for browsers", "precept dashboard"}, []string{"the upstream got", "http://"}},
		{"program", "GET", "/", "*/*", "", []string{"the upstream got /"}, nil},
		{"browser at another path", "GET", "/v1/models", html, "", []string{"the upstream got /v1/models"}, nil},
		{"submitted form", "POST", "/", html, "", []string{"the upstream got /"}, nil},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, s.dataURL+c.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", c.accept)
		req.Host = c.host
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if closeErr := res.Body.Close(); err != nil || closeErr != nil {
			t.Fatalf("read error = %v, close error = %v for the response body, want none", err, closeErr)
		}
		for _, part := range c.want {
			if !strings.Contains(string(body), part) {
				t.Errorf("%s: got body %q, want it to contain %q", c.name, body, part)
			}
		}
		for _, part := range c.unwanted {
			if strings.Contains(string(body), part) {
				t.Errorf("%s: got body %q, want it not to contain %q", c.name, body, part)
			}
		}
	}
	if err := s.stopAndWait(); err != nil {
		t.Error(err)
	}
}
