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
		if n, _, err := s.get(t.Context(), "pinned", 0); err != nil {
			t.Error(err)
		} else if n == 0 {
			t.Error("get after the worker has stopped = 0, want at least 1")
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
				if n, stale, err := s.get(t.Context(), "pinned", 0); err != nil {
					t.Error(err)
				} else if n != 1 {
					t.Errorf("get before the first value = %d, want 1", n)
				} else if stale {
					t.Error("get before the first value: stale = true, want false")
				}
			})
		}
		all.Wait()
		time.Sleep(2500 * time.Millisecond) // the computation then began 2.8 s ago and took 0.3 s
		if n, stale, _ := s.get(t.Context(), "pinned", 0); n != 1 {
			t.Errorf("get 2.8 s after the start of the computation = %d, want 1", n)
		} else if stale {
			t.Error("get 2.8 s after the start of the computation: stale = true, want false")
		}
		time.Sleep(time.Second)
		start := time.Now()
		for range 50 {
			all.Go(func() {
				if n, stale, err := s.get(t.Context(), "pinned", 0); err != nil {
					t.Error(err)
				} else if n != 1 {
					t.Errorf("get during the second computation = %d, want 1", n)
				} else if !stale {
					t.Error("get during the second computation: stale = false, want true")
				}
			})
		}
		all.Wait()
		if waited := time.Since(start); waited != maxPageWait {
			t.Errorf("get during the second computation: got a wait of %s, want %s", waited, maxPageWait)
		}
		time.Sleep(300 * time.Millisecond)
		if n, stale, _ := s.get(t.Context(), "pinned", 0); n != 2 {
			t.Errorf("get after the second computation = %d, want 2", n)
		} else if stale {
			t.Error("get after the second computation: stale = true, want false")
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
			if n, stale, err := s.get(t.Context(), "pinned", waitForCurrent); err != nil {
				t.Error(err)
			} else if n != want+1 {
				t.Errorf("get with waitForCurrent = %d, want %d", n, want+1)
			} else if stale {
				t.Error("get with waitForCurrent: stale = true, want false")
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
			if n, stale, err := s.get(t.Context(), "pinned", 0); err != nil {
				t.Fatalf("call %d of get with a fast computation: %v", i+1, err)
			} else if n != i+2 {
				t.Fatalf("call %d of get with a fast computation = %d, want %d", i+1, n, i+2)
			} else if stale {
				t.Fatalf("call %d of get with a fast computation: stale = true, want false", i+1)
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
		if pinnedAge > 2*time.Minute {
			t.Errorf("age of the values after a day: pinnedAge = %v, want at most %v", pinnedAge, 2*time.Minute)
		} else if otherAge < 22*time.Hour {
			t.Errorf("age of the values after a day: otherAge = %v, want at least %v", otherAge, 22*time.Hour)
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
		if len(s.values) > maxShared {
			t.Errorf("values after requests for 100 other keys = %+v, want at most %d items", s.values, maxShared)
		} else if s.values["pinned"] == nil {
			t.Error(`values after requests for 100 other keys: values["pinned"] = nil`)
		} else if s.values["other"] != nil {
			t.Errorf(`values after requests for 100 other keys: values["other"] = %+v, want nil`, s.values["other"])
		}
	})
}

func TestClearDiscardsRunningComputations(t *testing.T) {
	withSharedCache(t, time.Second, func(t *testing.T, counter *slowCounter, s *sharedCache[string, int64]) {
		t.Helper()
		if n, _, err := s.get(t.Context(), "pinned", 0); err != nil {
			t.Fatal(err)
		} else if n != 1 {
			t.Fatalf("get before clear = %d, want 1", n)
		}
		if _, _, err := s.get(t.Context(), "other", time.Millisecond); !errors.Is(err, errComputing) {
			t.Fatalf("get(another key), waiting 1 ms: got error %v, want errComputing", err)
		}
		s.clear()
		time.Sleep(2 * time.Second)
		s.mu.Lock()
		kept := len(s.values)
		s.mu.Unlock()
		if kept != 0 {
			t.Errorf("after clear during a computation: kept = %d, want 0", kept)
		} else if counter.made.Load() != 2 {
			t.Errorf("after clear during a computation: made = %d, want 2", counter.made.Load())
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
			if n, stale, err := s.get(t.Context(), key, 0); err != nil {
				t.Errorf("get for the key %q after expire: %v", key, err)
			} else if n <= before+1 {
				t.Errorf("get for the key %q after expire = %d, want more than %d", key, n, before+1)
			} else if stale {
				t.Errorf("get for the key %q after expire: stale = true, want false", key)
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
		if _, stale, err := s.get(t.Context(), "late", 0); !stale {
			t.Error("get for one more key than can wait: stale = false, want true")
		} else if !errors.Is(err, errComputing) {
			t.Errorf("get for one more key than can wait: error = %v, want errComputing", err)
		} else if time.Since(start) > 0 {
			t.Errorf("get for one more key than can wait: duration = %v, want 0", time.Since(start))
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
		if _, _, err := s.get(t.Context(), "pinned", 0); err == nil {
			t.Error("get with a computation that fails: error = nil, want an error")
		} else if !strings.Contains(err.Error(), "no value") {
			t.Errorf(`get with a computation that fails: error = %q, want substring "no value"`, err.Error())
		}
		counter.fails.Store(false)
		time.Sleep(time.Second)
		if n, _, err := s.get(t.Context(), "pinned", 0); err != nil {
			t.Error(err)
		} else if n < 2 {
			t.Errorf("get after the computation has failed = %d, want at least 2", n)
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
			if !strings.Contains(page, "Counted at") {
				t.Errorf(`%s with a current report = %q, want substring "Counted at"`, path, page)
			}
			if strings.Contains(page, "Newer figures") {
				t.Errorf(`%s with a current report = %q, want no "Newer figures"`, path, page)
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
		if !strings.Contains(page, "Newer figures are being counted") {
			t.Errorf(`/lessons with a stale report = %q, want substring "Newer figures are being counted"`, page)
		}
		if !strings.Contains(page, `id="refresh"`) {
			t.Errorf(`/lessons with a stale report = %q, want substring "id=\"refresh\""`, page)
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
