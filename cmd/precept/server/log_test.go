package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"precept/configs"
	"precept/inject/lesson"
	"precept/internal/label"
	"precept/internal/session"
	"precept/proxy"
	"precept/store"
)

func TestCountActiveOmitsSupersededAndExpiredLessons(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	book := lesson.NewBook([]*lesson.Lesson{
		{Slug: "active", State: lesson.Active},
		{Slug: "on-trial", State: lesson.Trial, Supersedes: []string{"replaced"}},
		{Slug: "candidate", State: lesson.Candidate},
		{Slug: "rejected", State: lesson.Rejected},
		{Slug: "replaced", State: lesson.Active},
		{Slug: "expired", State: lesson.Active, ExpiresAt: now.Add(-time.Hour)},
	})
	if n := countActive(book, now); n != 2 {
		t.Errorf("countActive = %d, want 2", n)
	}
}

func TestLogDropsLinesWhileReaderHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		log, _ := newLogger(w, configs.Log{})
		start := time.Now()
		log.Info("first")
		log.Info("second")
		log.Info("third")
		if waited := time.Since(start); waited > logWait {
			t.Errorf("time for three log lines that nobody reads: got %s, want at most %s", waited, logWait)
		}
		output := make(chan []byte)
		go func() {
			b, _ := io.ReadAll(r) // reading from an io.Pipe does not fail
			output <- b
		}()
		synctest.Wait()
		log.Info("fourth")
		_ = w.Close()
		got := string(<-output)
		for _, part := range []string{"msg=first", "lost\" lines=2\n", "msg=fourth"} {
			_, after, found := strings.Cut(got, part)
			if !found {
				t.Fatalf("rest of the output: got %q, want it to contain %s", got, part)
			}
			got = after
		}
	})
}

// The log contains at most one line every ten seconds about each failing step, and at most one line a minute while the
// store or the outbox is unavailable. The metric counts all failures. If a step was canceled because the server stops,
// this does not count as a failure.
func TestFailureLogIsRateLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var output bytes.Buffer
		registry := prometheus.NewRegistry()
		f := &failures{log: slog.New(slog.NewTextHandler(&output, nil)), metrics: proxy.NewMetrics(registry), logLimit: newLimiter(time.Now)}
		unavailable := fmt.Errorf("write: %w", session.ErrUnavailable)
		for range 20 { // 20 rounds of 5 seconds each take 100 seconds
			f.report("close", errors.New("unexpected"))
			f.report("write", unavailable)
			f.report("samples", unavailable)
			f.report("lookup", unavailable)
			f.report(label.StepOutbox, errors.New("no room"))
			f.report("samples", fmt.Errorf("read: %w", context.Canceled))
			f.reportPanic("encode", store.RequestPanic{Request: "req-1", Value: "a secret"})
			time.Sleep(5 * time.Second)
		}
		for text, want := range map[string]int{
			"step=close": 10, "exchanges wait in the outbox": 2, "no room": 2, "step=lookup": 2, "canceled": 0, "step=encode": 10, "request=req-1": 10, "a secret": 0,
		} {
			if n := strings.Count(output.String(), text); n != want {
				t.Errorf("log lines with %q: got %d, want %d", text, n, want)
			}
		}
		output.Reset()
		f.storeRecovered()
		f.report("write", unavailable) // the first line after a recovery needs outageInterval, not a minute
		time.Sleep(logInterval)
		f.report("write", unavailable)
		f.report("write", unavailable)
		if n := strings.Count(output.String(), "exchanges wait in the outbox"); n != 1 {
			t.Errorf("log lines about the unavailable store after a recovery: got %d, want 1; log:\n%s", n, output.String())
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		counted := map[string]float64{}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				if n := m.GetCounter().GetValue(); family.GetName() == "precept_fail_open_total" && n > 0 {
					counted[m.GetLabel()[0].GetValue()] = n
				}
			}
		}
		if want := (map[string]float64{"close": 20, "write": 23, "samples": 20, "lookup": 20, string(label.StepOutbox): 20, "encode": 20}); !maps.Equal(counted, want) {
			t.Errorf("precept_fail_open_total by step: got %v, want %v", counted, want)
		}
	})
}

func TestAlternatingStoreDoesNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var output bytes.Buffer
		f := &failures{log: slog.New(slog.NewTextHandler(&output, nil)), metrics: proxy.NewMetrics(prometheus.NewRegistry()), logLimit: newLimiter(time.Now)}
		for range 60 { // 60 rounds of one second each take a minute
			f.report("write", session.ErrUnavailable)
			time.Sleep(500 * time.Millisecond)
			f.storeRecovered()
			time.Sleep(500 * time.Millisecond)
		}
		outages, recoveries := strings.Count(output.String(), "exchanges wait in the outbox"), strings.Count(output.String(), "available again")
		if outages != 4 || recoveries != 4 {
			t.Errorf("log of one minute: got %d lines about an outage and %d about a recovery, want 4 of each; log:\n%s", outages, recoveries, output.String())
		}
	})
}
