package admin

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"precept/bandit/report"
)

// slowCounter computes the values 1, 2, and so on. Each computation takes the delay.
type slowCounter struct {
	delay time.Duration
	made  atomic.Int64 // number of finished computations
	fails atomic.Bool
}

func (counter *slowCounter) compute(ctx context.Context, key string) (int64, error) {
	if key == "panics" {
		panic("planned")
	}
	select {
	case <-time.After(counter.delay):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if counter.fails.Load() {
		return 0, errors.New("no value")
	}
	return counter.made.Add(1), nil
}

// withSharedCache runs a test in a synctest bubble, with a cache and a worker. The worker's pinned key is "pinned".
func withSharedCache(t *testing.T, delay time.Duration, test func(t *testing.T, counter *slowCounter, s *sharedCache[string, int64])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		counter := &slowCounter{delay: delay}
		maxAge := func(elapsed time.Duration) time.Duration { return 10 * elapsed } // elapsed is a computation's duration
		renewAfter := func(elapsed time.Duration) time.Duration { return max(100*elapsed, time.Minute) }
		s := newSharedCache(time.Now, counter.compute, maxAge, renewAfter)
		ctx, cancel := context.WithCancel(t.Context())
		var worker sync.WaitGroup
		worker.Go(func() { _ = s.run(ctx, "pinned") })
		synctest.Wait()
		test(t, counter, s)
		cancel()
		worker.Wait()
		if n, _, err := s.get(t.Context(), "pinned", 0); err != nil || n == 0 {
			t.Errorf("get without a worker: got value %d, error %v, want a computed value and no error", n, err)
		}
	})
}

// Once a value exists, get waits at most maxPageWait for a newer one.
func TestConcurrentGetsShareOneComputation(t *testing.T) {
	withSharedCache(t, 300*time.Millisecond, func(t *testing.T, counter *slowCounter, s *sharedCache[string, int64]) {
		t.Helper()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if n, stale, err := s.get(t.Context(), "pinned", 0); n != 1 || stale || err != nil {
					t.Errorf("get: got value %d, stale %v, error %v, want 1, false and no error", n, stale, err)
				}
			})
		}
		all.Wait()
		time.Sleep(2500 * time.Millisecond) // the computation began 2.8 s ago and took 0.3 s
		if n, stale, _ := s.get(t.Context(), "pinned", 0); n != 1 || stale {
			t.Errorf("get 2.8 s after the computation started: got value %d, stale %v, want 1 and false", n, stale)
		}
		time.Sleep(time.Second)
		start := time.Now()
		for range 50 {
			all.Go(func() {
				if n, stale, err := s.get(t.Context(), "pinned", 0); n != 1 || !stale || err != nil {
					t.Errorf("get during a computation: got value %d, stale %v, error %v, want 1, true and no error", n, stale, err)
				}
			})
		}
		all.Wait()
		if waited := time.Since(start); waited != maxPageWait {
			t.Errorf("get waited for %s, want %s", waited, maxPageWait)
		}
		time.Sleep(300 * time.Millisecond)
		if n, stale, _ := s.get(t.Context(), "pinned", 0); n != 2 || stale {
			t.Errorf("get after the computation: got value %d, stale %v, want 2 and false", n, stale)
		}
		if n := counter.made.Load(); n != 2 {
			t.Errorf("got %d computations for 102 calls, want 2", n)
		}
	})
}

// API clients cannot see that a value is old, so API requests call get with waitForCurrent.
func TestGetWithWaitForCurrentReturnsNewValue(t *testing.T) {
	withSharedCache(t, 300*time.Millisecond, func(t *testing.T, _ *slowCounter, s *sharedCache[string, int64]) {
		t.Helper()
		for want := range int64(3) {
			if n, stale, err := s.get(t.Context(), "pinned", waitForCurrent); n != want+1 || stale || err != nil {
				t.Errorf("get: got value %d, stale %v, error %v, want %d, false and no error", n, stale, err, want+1)
			}
			time.Sleep(4 * time.Second) // a value is served for 3 s
		}
	})
}

func TestFastComputedValueIsNeverStale(t *testing.T) {
	withSharedCache(t, time.Millisecond, func(t *testing.T, _ *slowCounter, s *sharedCache[string, int64]) {
		t.Helper()
		for i := range int64(20) {
			time.Sleep(20 * time.Millisecond)
			if n, stale, err := s.get(t.Context(), "pinned", 0); n != i+2 || stale || err != nil {
				t.Fatalf("get %d with a fast computation: got value %d, stale %v, error %v, want %d, false and no error", i+1, n, stale, err, i+2)
			}
		}
	})
}

// The worker stops renewing other values an hour after they were last requested.
func TestWorkerRenewsPinnedValue(t *testing.T) {
	withSharedCache(t, 300*time.Millisecond, func(t *testing.T, counter *slowCounter, s *sharedCache[string, int64]) {
		t.Helper()
		if _, _, err := s.get(t.Context(), "other", 10*time.Millisecond); !errors.Is(err, errComputing) {
			t.Errorf("get(another key) before the first value: got error %v, want %v", err, errComputing)
		}
		time.Sleep(24 * time.Hour)
		s.mu.Lock()
		pinnedAge, otherAge := time.Since(s.values["pinned"].startedAt), time.Since(s.values["other"].startedAt)
		s.mu.Unlock()
		if pinnedAge > 2*time.Minute || otherAge < 22*time.Hour {
			t.Errorf("ages after a day: got %s for \"pinned\" and %s for \"other\", want at most 2m and at least 22h", pinnedAge, otherAge)
		}
		if n := counter.made.Load(); n > 24*60+61 { // each minute for "pinned", and in the first hour also for "other"
			t.Errorf("got %d computations in a day, want at most %d", n, 24*60+61)
		}
		for i := range 100 {
			if _, _, err := s.get(t.Context(), strings.Repeat("x", i), 0); err != nil {
				t.Fatal(err)
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.values) > maxShared || s.values["pinned"] == nil || s.values["other"] != nil {
			t.Errorf("got %d values, want at most %d, with the key \"pinned\" and without the key \"other\"", len(s.values), maxShared)
		}
	})
}

func TestClearDiscardsRunningComputations(t *testing.T) {
	withSharedCache(t, time.Second, func(t *testing.T, counter *slowCounter, s *sharedCache[string, int64]) {
		t.Helper()
		if n, _, err := s.get(t.Context(), "pinned", 0); n != 1 || err != nil {
			t.Fatalf("before clear: got value %d, error %v, want 1 and no error", n, err)
		}
		if _, _, err := s.get(t.Context(), "other", time.Millisecond); !errors.Is(err, errComputing) {
			t.Fatalf("get(another key), waiting 1 ms: got error %v, want errComputing", err)
		}
		s.clear()
		time.Sleep(2 * time.Second)
		s.mu.Lock()
		kept := len(s.values)
		s.mu.Unlock()
		if kept != 0 || counter.made.Load() != 2 {
			t.Errorf("got %d stored values, want 0; got %d computations, want 2", kept, counter.made.Load())
		}
	})
}

// expire removes a value that was not requested in the last minute.
func TestExpireRecomputesRequestedValues(t *testing.T) {
	withSharedCache(t, time.Second, func(t *testing.T, _ *slowCounter, s *sharedCache[string, int64]) {
		t.Helper()
		_, _, _ = s.get(t.Context(), "pinned", 0)
		_, _, _ = s.get(t.Context(), "unused", 0)
		time.Sleep(2 * time.Minute)
		before, _, err := s.get(t.Context(), "pinned", 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.get(t.Context(), "other", time.Millisecond); !errors.Is(err, errComputing) {
			t.Fatalf("get(another key), waiting 1 ms: got error %v, want errComputing", err)
		}
		s.expire()
		s.mu.Lock()
		_, kept := s.values["unused"]
		s.mu.Unlock()
		if kept {
			t.Error("expire keeps the unused key's value")
		}
		time.Sleep(8 * time.Second)
		for _, key := range []string{"pinned", "other"} {
			if n, stale, err := s.get(t.Context(), key, 0); n <= before+1 || stale || err != nil {
				t.Errorf("get(%s) after expire: got value %d, stale %v, error %v, want a fresh value above %d", key, n, stale, err, before+1)
			}
		}
	})
}

func TestUnusedValueIsRemoved(t *testing.T) {
	withSharedCache(t, time.Millisecond, func(t *testing.T, _ *slowCounter, s *sharedCache[string, int64]) {
		t.Helper()
		s.mu.Lock()
		s.removeAfter = 5 * time.Minute
		s.mu.Unlock()
		_, _, _ = s.get(t.Context(), "other", 0)
		time.Sleep(time.Hour)
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.values) != 0 {
			t.Errorf("got %d stored values, want 0", len(s.values))
		}
	})
}

func TestGetFailsAtOnceWithMaxPendingComputations(t *testing.T) {
	withSharedCache(t, time.Hour, func(t *testing.T, _ *slowCounter, s *sharedCache[string, int64]) {
		t.Helper()
		for i := range maxShared {
			_, _, _ = s.get(t.Context(), strings.Repeat("x", i+1), time.Millisecond)
		}
		start := time.Now()
		if _, stale, err := s.get(t.Context(), "late", 0); !stale || !errors.Is(err, errComputing) || time.Since(start) > 0 {
			t.Errorf("get(another key): got stale %v, error %v after %s, want true and %v after 0s", stale, err, time.Since(start), errComputing)
		}
	})
}

func TestGetReturnsErrorsAndPanics(t *testing.T) {
	withSharedCache(t, time.Millisecond, func(t *testing.T, counter *slowCounter, s *sharedCache[string, int64]) {
		t.Helper()
		if _, _, err := s.get(t.Context(), "panics", 0); err == nil || !strings.HasSuffix(err.Error(), "panicked: string") {
			t.Errorf("panic in the computation: got error %v, want an error that ends with \"panicked: string\"", err)
		}
		counter.fails.Store(true)
		time.Sleep(time.Second)
		if _, _, err := s.get(t.Context(), "pinned", 0); err == nil || !strings.Contains(err.Error(), "no value") {
			t.Errorf("failing computation: got error %v, want an error with \"no value\"", err)
		}
		counter.fails.Store(false)
		time.Sleep(time.Second)
		if n, _, err := s.get(t.Context(), "pinned", 0); err != nil || n < 2 {
			t.Errorf("after the failed computation: got value %d, error %v; want at least 2 and no error", n, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		counter.delay = time.Hour
		if _, _, err := s.get(ctx, "long", 0); !errors.Is(err, context.Canceled) {
			t.Errorf("get with a canceled context: got error %v, want %v", err, context.Canceled)
		}
	})
}

// slowReports computes a new report for each call, in 400 ms.
type slowReports struct {
	report report.Report
	made   atomic.Int64 // number of computed reports
}

func (r *slowReports) Report(context.Context, ReportQuery) (report.Report, error) {
	time.Sleep(400 * time.Millisecond)
	r.made.Add(1)
	current := r.report
	current.GeneratedAt = time.Now()
	return current, nil
}

// A page with a stale report says so. The API computes a report for each request.
func TestPagesShareOneReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowReports{report: sampleReport()}
		for i := range 2000 {
			slow.report.Lessons = append(slow.report.Lessons, report.Row{Slug: "many-" + strings.Repeat("x", i%50), Arm: "many", State: "active"})
		}
		f := newFixture(t, func(o *Options) { o.Read.Report, o.Now = slow, time.Now })
		ctx, cancel := context.WithCancel(t.Context())
		var workers sync.WaitGroup
		for _, worker := range f.Workers() {
			workers.Go(func() { _ = worker(ctx) })
		}
		synctest.Wait()
		get := func(path string) string {
			res := f.do(t, "GET", path, bearer(token))
			if res.StatusCode != http.StatusOK {
				t.Fatalf("%s: got status %d, want 200", path, res.StatusCode)
			}
			return body(t, res)
		}
		for path, rows := range map[string]int{"/": overviewRows + 1, "/lessons": rowsPerPage, "/lessons?page=3&sort=name": rowsPerPage, "/lessons/helpful": 0} {
			page := get(path)
			if n := strings.Count(page, `<th scope="row" class="name">`); n > rows {
				t.Errorf("%s renders %d rows, want at most %d", path, n, rows)
			}
			if !strings.Contains(page, "Counted at") || strings.Contains(page, "Newer figures") {
				t.Errorf("%s lacks \"Counted at\" or has \"Newer figures\", the note on a stale report", path)
			}
		}
		if n := slow.made.Load(); n != 1 {
			t.Errorf("four pages computed %d reports, want 1", n)
		}
		time.Sleep(10 * time.Second)
		start := time.Now()
		page := get("/lessons")
		if waited := time.Since(start); waited > maxPageWait {
			t.Errorf("/lessons with a stale report took %s, want at most %s", waited, maxPageWait)
		}
		if !strings.Contains(page, "Newer figures are being counted") || !strings.Contains(page, `id="refresh"`) {
			t.Error("/lessons with a stale report lacks \"Newer figures are being counted\" or the automatic refresh")
		}
		before := slow.made.Load()
		for range 3 {
			get("/api/report")
		}
		if n := slow.made.Load() - before; n < 3 {
			t.Errorf("reports computed for 3 API requests = %d, want at least 3", n)
		}
		cancel()
		workers.Wait()
	})
}
