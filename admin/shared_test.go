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

// slowCounter computes the values 1, 2, 3 and so on. Each computation takes as long as delay.
type slowCounter struct {
	delay time.Duration
	made  atomic.Int64 // number of computed values, which is also the last value
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

// withSharedCache calls test in a synctest bubble with a cache and the counter that computes its values. A worker runs
// the cache, and its pinned key is "pinned".
func withSharedCache(t *testing.T, delay time.Duration, test func(t *testing.T, counter *slowCounter, s *sharedCache[string, int64])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		counter := &slowCounter{delay: delay}
		maxAge := func(elapsed time.Duration) time.Duration { return 10 * elapsed } // elapsed is how long a computation took
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
			t.Errorf("get after the worker has stopped: got value %d, error %v, want a computed value, no error", n, err)
		}
	})
}

// Concurrent calls of get share one computation. If the cache has an old value, get waits for a newer value at most
// maxPageWait.
func TestConcurrentGetsShareOneComputation(t *testing.T) {
	withSharedCache(t, 300*time.Millisecond, func(t *testing.T, counter *slowCounter, s *sharedCache[string, int64]) {
		t.Helper()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if n, stale, err := s.get(t.Context(), "pinned", 0); n != 1 || stale || err != nil {
					t.Errorf("get before the first value: got value %d, stale %v, error %v, want 1, false, no error", n, stale, err)
				}
			})
		}
		all.Wait()
		time.Sleep(2500 * time.Millisecond) // the computation then began 2.8 s ago and took 0.3 s
		if n, stale, _ := s.get(t.Context(), "pinned", 0); n != 1 || stale {
			t.Errorf("get 2.8 s after the start of the computation: got value %d, stale %v, want 1, false", n, stale)
		}
		time.Sleep(time.Second)
		start := time.Now()
		for range 50 {
			all.Go(func() {
				if n, stale, err := s.get(t.Context(), "pinned", 0); n != 1 || !stale || err != nil {
					t.Errorf("get during the second computation: got value %d, stale %v, error %v, want 1, true, no error", n, stale, err)
				}
			})
		}
		all.Wait()
		if waited := time.Since(start); waited != maxPageWait {
			t.Errorf("get during the second computation: got a wait of %s, want %s", waited, maxPageWait)
		}
		time.Sleep(300 * time.Millisecond)
		if n, stale, _ := s.get(t.Context(), "pinned", 0); n != 2 || stale {
			t.Errorf("get after the second computation: got value %d, stale %v, want 2, false", n, stale)
		}
		if n := counter.made.Load(); n != 2 {
			t.Errorf("computations for 102 calls of get: got %d, want 2", n)
		}
	})
}

// Requests to the API call get with waitForCurrent, because their clients could not see that a value is old.
func TestGetWithWaitForCurrentReturnsNewValue(t *testing.T) {
	withSharedCache(t, 300*time.Millisecond, func(t *testing.T, _ *slowCounter, s *sharedCache[string, int64]) {
		t.Helper()
		for want := range int64(3) {
			if n, stale, err := s.get(t.Context(), "pinned", waitForCurrent); n != want+1 || stale || err != nil {
				t.Errorf("get with waitForCurrent: got value %d, stale %v, error %v, want %d, false, no error", n, stale, err, want+1)
			}
			time.Sleep(4 * time.Second) // longer than the 3 s for which the cache returns a value
		}
	})
}

func TestFastComputedValueIsNeverStale(t *testing.T) {
	withSharedCache(t, time.Millisecond, func(t *testing.T, _ *slowCounter, s *sharedCache[string, int64]) {
		t.Helper()
		for i := range int64(20) {
			time.Sleep(20 * time.Millisecond)
			if n, stale, err := s.get(t.Context(), "pinned", 0); n != i+2 || stale || err != nil {
				t.Fatalf("call %d of get with a fast computation: got value %d, stale %v, error %v, want %d, false, no error", i+1, n, stale, err, i+2)
			}
		}
	})
}

// The worker renews the value for the pinned key again and again. It renews any other value only until an hour after
// the last request for the value.
func TestWorkerRenewsPinnedValue(t *testing.T) {
	withSharedCache(t, 300*time.Millisecond, func(t *testing.T, counter *slowCounter, s *sharedCache[string, int64]) {
		t.Helper()
		if _, _, err := s.get(t.Context(), "other", 10*time.Millisecond); !errors.Is(err, errComputing) {
			t.Errorf("get for the key \"other\" before its first value: got error %v, want %v", err, errComputing)
		}
		time.Sleep(24 * time.Hour)
		s.mu.Lock()
		pinnedAge, otherAge := time.Since(s.values["pinned"].startedAt), time.Since(s.values["other"].startedAt)
		s.mu.Unlock()
		if pinnedAge > 2*time.Minute || otherAge < 22*time.Hour {
			t.Errorf("age of the values after a day: got %s for \"pinned\", %s for \"other\", want at most 2m for \"pinned\", at least 22h for \"other\"", pinnedAge, otherAge)
		}
		if n := counter.made.Load(); n > 24*60+61 { // one each minute for "pinned", and in the first hour also for "other"
			t.Errorf("computations in a day: got %d, want at most %d", n, 24*60+61)
		}
		for i := range 100 {
			if _, _, err := s.get(t.Context(), strings.Repeat("x", i), 0); err != nil {
				t.Fatal(err)
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.values) > maxShared || s.values["pinned"] == nil || s.values["other"] != nil {
			t.Errorf("values after requests for 100 other keys: got %d, want at most %d, among them \"pinned\" but not \"other\"", len(s.values), maxShared)
		}
	})
}

func TestClearDiscardsRunningComputations(t *testing.T) {
	withSharedCache(t, time.Second, func(t *testing.T, counter *slowCounter, s *sharedCache[string, int64]) {
		t.Helper()
		if n, _, err := s.get(t.Context(), "pinned", 0); n != 1 || err != nil {
			t.Fatalf("get before clear: got value %d, error %v, want 1, no error", n, err)
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
			t.Errorf("after clear during a computation: got %d stored values (want 0), %d computations (want 2)", kept, counter.made.Load())
		}
	})
}

// expire removes the values that were not requested in the last minute, and lets the worker compute the others again.
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
			t.Error("value for the key \"unused\" after expire: got it kept, want it removed")
		}
		time.Sleep(8 * time.Second)
		for _, key := range []string{"pinned", "other"} {
			if n, stale, err := s.get(t.Context(), key, 0); n <= before+1 || stale || err != nil {
				t.Errorf("get for the key %q after expire: got value %d, stale %v, error %v, want a value above %d, not stale, no error", key, n, stale, err, before+1)
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
			t.Errorf("stored values an hour after the last request: got %d, want 0", len(s.values))
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
			t.Errorf("get for one more key than can wait: got stale %v, error %v after %s, want true, %v after 0s", stale, err, time.Since(start), errComputing)
		}
	})
}

func TestGetReturnsErrorsAndPanics(t *testing.T) {
	withSharedCache(t, time.Millisecond, func(t *testing.T, counter *slowCounter, s *sharedCache[string, int64]) {
		t.Helper()
		if _, _, err := s.get(t.Context(), "panics", 0); err == nil || !strings.HasSuffix(err.Error(), "panicked: string") {
			t.Errorf("get with a panic in the computation: got error %v, want an error that ends with \"panicked: string\"", err)
		}
		counter.fails.Store(true)
		time.Sleep(time.Second)
		if _, _, err := s.get(t.Context(), "pinned", 0); err == nil || !strings.Contains(err.Error(), "no value") {
			t.Errorf("get with a computation that fails: got error %v, want an error that contains \"no value\"", err)
		}
		counter.fails.Store(false)
		time.Sleep(time.Second)
		if n, _, err := s.get(t.Context(), "pinned", 0); err != nil || n < 2 {
			t.Errorf("get after the computation has failed: got value %d, error %v; want at least 2, no error", n, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		counter.delay = time.Hour
		if _, _, err := s.get(ctx, "long", 0); !errors.Is(err, context.Canceled) {
			t.Errorf("get with a canceled context: got error %v, want %v", err, context.Canceled)
		}
	})
}

// slowReports is a source of reports. Each call computes a new report and takes 400 ms.
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

// Pages share a report and say so if it is stale. The API computes a report for each request.
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
				t.Errorf("%s: got %d rows, want at most %d", path, n, rows)
			}
			if !strings.Contains(page, "Counted at") || strings.Contains(page, "Newer figures") {
				t.Errorf("%s with a current report: got no text \"Counted at\" or the note \"Newer figures\", want the text without the note", path)
			}
		}
		if n := slow.made.Load(); n != 1 {
			t.Errorf("reports computed for four pages: got %d, want 1", n)
		}
		time.Sleep(10 * time.Second)
		start := time.Now()
		page := get("/lessons")
		if waited := time.Since(start); waited > maxPageWait {
			t.Errorf("/lessons with a stale report: got a response after %s, want one after at most %s", waited, maxPageWait)
		}
		if !strings.Contains(page, "Newer figures are being counted") || !strings.Contains(page, `id="refresh"`) {
			t.Error("/lessons with a stale report: got no note \"Newer figures are being counted\" or no automatic refresh, want both")
		}
		before := slow.made.Load()
		for range 3 {
			get("/api/report")
		}
		if n := slow.made.Load() - before; n < 3 {
			t.Errorf("reports computed for 3 API requests: got %d, want at least 3", n)
		}
		cancel()
		workers.Wait()
	})
}
