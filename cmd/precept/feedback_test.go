package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"precept/cmd/precept/server"
)

// startFeedbackServer starts a server that responds to each feedback request with the next status code, and repeats the
// last code. The returned function stops the server and returns the ids of the received feedback.
func startFeedbackServer(t *testing.T, codes ...int) (base string, stop func() (ids []string)) {
	t.Helper()
	var got []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ ID string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		code := codes[min(len(got), len(codes)-1)]
		got = append(got, body.ID)
		w.WriteHeader(code)
		_, _ = w.Write([]byte(`{"id":"` + body.ID + `","status":"joined"}`))
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []string {
		s.Close()
		return got
	}
}

func TestPostFeedbackRetriesWhileServerIsUnavailable(t *testing.T) {
	t.Parallel()
	base, stop := startFeedbackServer(t, http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusAccepted)
	var output strings.Builder
	w := &invocation{stderr: &output, tools: server.Tools{Random: rand.Reader}}
	lookups := 0 // number of look-ups of the server's address; the first look-up fails
	answer, err := w.postFeedback(t.Context(), time.Minute, func() (string, error) {
		if lookups++; lookups == 1 {
			return "", &unavailableError{errNotRunning}
		}
		return base, nil
	}, "" /* API key */, map[string]any{"session_id": "s"})
	got := stop()
	if err != nil || answer.Status != "joined" || len(got) != 3 || got[0] == "" || got[0] != got[1] || got[1] != got[2] {
		t.Errorf("postFeedback = %+v, %v, after posts with ids %q; want status joined after 3 posts, all with the same id", answer, err, got)
	}
	if strings.Count(output.String(), "\n") != 1 || !strings.Contains(output.String(), "retrying for up to 1m0s") {
		t.Errorf("got output %q, want one line with \"retrying for up to 1m0s\"", output.String())
	}
}

func TestPostFeedbackReturnsErrors(t *testing.T) {
	t.Parallel()
	w := &invocation{stderr: &strings.Builder{}, tools: server.Tools{Random: rand.Reader}}
	for _, tc := range []struct {
		code  int
		limit time.Duration // how long postFeedback retries
		posts int
	}{
		{http.StatusBadRequest, time.Minute, 1},
		{http.StatusNotFound, time.Minute, 1},
		{http.StatusTooManyRequests, time.Minute, 1},
		{http.StatusServiceUnavailable, 0, 1},
	} {
		base, stop := startFeedbackServer(t, tc.code)
		_, err := w.postFeedback(t.Context(), tc.limit, func() (string, error) { return base, nil }, "", map[string]any{"id": "mine"})
		if got := stop(); err == nil || len(got) != tc.posts || got[0] != "mine" {
			t.Errorf("server that responds with status %d: got error %v after posts with ids %q, want an error after %d posts with the id \"mine\"", tc.code, err, got, tc.posts)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.postFeedback(ctx, time.Minute, func() (string, error) { return "", &unavailableError{errNotRunning} }, "", map[string]any{}); !errors.Is(err, errNotRunning) {
		t.Errorf("postFeedback after an interrupt: err = %v, want %v", err, errNotRunning)
	}
	if _, err := w.postFeedback(t.Context(), time.Minute, func() (string, error) { return "localhost:80", nil }, "", map[string]any{}); err == nil || !strings.Contains(err.Error(), "http://127.0.0.1:8080") {
		t.Errorf("address without a scheme: err = %v, want an error that shows http://127.0.0.1:8080 as an example", err)
	}
}
