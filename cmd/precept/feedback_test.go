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

// answers is a data listener that gives one answer after the other, and the last one forever.
func answers(t *testing.T, codes ...int) (base string, ids func() []string) {
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
	return s.URL, func() []string { s.Close(); return got }
}

// Feedback is repeated while the server cannot take it, with one message, under one id.
func TestFeedbackIsRepeatedWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	base, ids := answers(t, http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusAccepted)
	var output strings.Builder
	w := &invocation{err: &output, tools: server.Tools{Random: rand.Reader}}
	asked := 0
	answer, err := w.postFeedback(t.Context(), time.Minute, func() (string, error) {
		if asked++; asked == 1 {
			return "", &unavailableError{errNotRunning}
		}
		return base, nil
	}, "", map[string]any{"session_id": "s"})
	got := ids()
	if err != nil || answer.Status != "joined" || len(got) != 3 || got[0] == "" || got[0] != got[1] || got[1] != got[2] {
		t.Errorf("got %+v, error %v, ids %q, want joined after 3 posts with one id", answer, err, got)
	}
	if strings.Count(output.String(), "\n") != 1 || !strings.Contains(output.String(), "repeated for up to 1m0s") {
		t.Errorf("messages: %q, want one", output.String())
	}
}

// A refusal is not repeated, and the repetitions end.
func TestRefusedFeedbackIsNotRepeated(t *testing.T) {
	t.Parallel()
	w := &invocation{err: &strings.Builder{}, tools: server.Tools{Random: rand.Reader}}
	for _, c := range []struct {
		code  int
		limit time.Duration
		posts int
	}{
		{http.StatusBadRequest, time.Minute, 1},
		{http.StatusNotFound, time.Minute, 1},
		{http.StatusTooManyRequests, time.Minute, 1},
		{http.StatusServiceUnavailable, 0, 1},
	} {
		base, ids := answers(t, c.code)
		_, err := w.postFeedback(t.Context(), c.limit, func() (string, error) { return base, nil }, "", map[string]any{"id": "mine"})
		if got := ids(); err == nil || len(got) != c.posts || got[0] != "mine" {
			t.Errorf("%d: error %v, posts %q, want an error after %d with the id of the client", c.code, err, got, c.posts)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.postFeedback(ctx, time.Minute, func() (string, error) { return "", &unavailableError{errNotRunning} }, "", map[string]any{}); !errors.Is(err, errNotRunning) {
		t.Errorf("after an interrupt the error is %v, want %v", err, errNotRunning)
	}
	if _, err := w.postFeedback(t.Context(), time.Minute, func() (string, error) { return "localhost:80", nil }, "", map[string]any{}); err == nil || !strings.Contains(err.Error(), "http://127.0.0.1:8080") {
		t.Errorf("an address without a scheme gives the error %v, want a refusal", err)
	}
}
