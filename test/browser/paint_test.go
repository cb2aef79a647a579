//go:build !race

package browser

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"precept/test/harness"

	"github.com/chromedp/chromedp"
	_ "modernc.org/sqlite" // the driver that wrote the store

	"precept/inject/bank/banktest"
	"precept/store"
)

// The store size if PRECEPT_PAINT is not set.
const (
	paintLessons  = 200
	paintSessions = 4000
	paintDays     = 60 // age of the oldest copied session
)

// paintSize returns how many lessons and sessions the store gets. The variable PRECEPT_PAINT contains both numbers;
// make paint sets it to "2000 1000000".
func paintSize(t *testing.T) (lessons, sessions int) {
	t.Helper()
	lessons, sessions = paintLessons, paintSessions
	if text := os.Getenv("PRECEPT_PAINT"); text != "" {
		if _, err := fmt.Sscan(text, &lessons, &sessions); err != nil {
			t.Fatalf("PRECEPT_PAINT: %v; want the numbers of lessons and sessions, such as \"2000 1000000\"", err)
		}
	}
	return lessons, sessions
}

// The test logs how long each page takes until its first contentful paint. The test has no limit for this time, because
// a busy machine would exceed any limit.
func TestFirstPaint(t *testing.T) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("chromium must be installed in CI: %v", err)
		}
		t.Skip("chromium is not installed; apt-get install chromium")
	}
	lessonCount, sessionCount := paintSize(t)
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		harness.ReplyJSON(w, http.StatusOK, map[string]any{"id": "chatcmpl-1", "object": "chat.completion", "model": "m", "choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": "Done."}}}, "usage": map[string]any{"prompt_tokens": 90, "completion_tokens": 2, "total_tokens": 92}})
	}))
	t.Cleanup(model.Close)
	dir, bank := t.TempDir(), t.TempDir()
	for i := range lessonCount {
		banktest.WriteLesson(t, bank, fmt.Sprintf("lesson-%04d", i), fmt.Sprintf("topic%04d", i))
	}
	flags := []string{"--upstream", model.URL + "/v1", "--lessons", bank, "--reward-close-after", "2s", "--log-level", "error"}
	seeds := seedSessions(t, dir, lessonCount, flags)
	copies := sessionCount/seeds - 1
	start := time.Now()
	multiplySessions(t, filepath.Join(dir, "precept.db"), copies)
	t.Logf("%d sessions for %d lessons, copied in %s", seeds*(copies+1), lessonCount, time.Since(start).Round(time.Second))

	p := harness.Start(t, dir, flags...)
	var list store.SessionList
	if p.GetAdmin(t, "/api/sessions?limit=1", &list); len(list.Sessions) != 1 {
		t.Fatalf("/api/sessions?limit=1: got %d sessions, want 1", len(list.Sessions))
	}
	allocator, cancel := chromedp.NewExecAllocator(t.Context(), chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.Headless,
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.Flag("disable-dev-shm-usage", true))
	t.Cleanup(cancel)
	ctx, cancelTab := chromedp.NewContext(allocator)
	t.Cleanup(cancelTab)
	ctx, stop := context.WithTimeout(ctx, 5*time.Minute)
	t.Cleanup(stop)
	if err := chromedp.Do(ctx, chromedp.Navigate(p.AdminURL+"/login?token=e2e-token"), chromedp.WaitReady(chromedp.CSS("main"))); err != nil {
		t.Fatal(err)
	}
	rows := min(lessonCount, 100)
	for _, page := range []struct {
		path, css string
		minimum   int // how many elements must match css
	}{
		{"/", "tbody th.name", min(lessonCount, 25)},
		{"/lessons", "tbody th.name", rows},
		{"/lessons?page=2&sort=-rewarded", "tbody th.name", min(lessonCount-rows, 100)},
		{"/lessons/lesson-0007", ".paper", 2},
		{"/breakdown", "h1", 1},
		{"/queue", ".empty", 1},
		{"/sessions", "tbody th.name", 50},
		{"/sessions?agent=nobody-like-that", "h1", 1},
		{"/sessions/" + list.Sessions[0].ID, ".turn", 1},
		{"/traffic", "svg.traffic", 4},
		{"/samples", ".sample", 50},
		{"/health", "table.config", 1},
		{"/help", ".guides a", 5},
	} {
		var paints []float64
		for range 4 {
			paints = append(paints, firstPaint(t, ctx, p.AdminURL+page.path))
		}
		n, err := chromedp.Run(ctx, chromedp.Evaluate[int](`document.querySelectorAll("main `+page.css+`").length`))
		if err != nil || n < page.minimum {
			t.Errorf("page %s: got %d elements that match %q, error %v, want at least %d elements and no error", page.path, n, page.css, err, page.minimum)
		}
		slices.Sort(paints[1:])
		t.Logf("%-34s first paint %4.0f ms, then %4.0f ms (median of 3)", page.path, paints[0], paints[2])
	}
}

// firstPaint opens the address and returns the time until the first contentful paint, in milliseconds.
func firstPaint(t *testing.T, ctx context.Context, address string) float64 {
	t.Helper()
	const painted = `performance.getEntriesByName("first-contentful-paint").length > 0`
	if err := chromedp.Do(ctx, chromedp.Navigate(address), chromedp.WaitReady(chromedp.CSS("main"))); err != nil {
		t.Fatalf("navigation to %s: got error %v, want none", address, err)
	}
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](painted, chromedp.WithPollingTimeout(time.Minute))); err != nil {
		t.Fatalf("firstPaint(%s) error = %v, want a paint within a minute", address, err)
	}
	ms, err := chromedp.Run(ctx, chromedp.Evaluate[float64](`performance.getEntriesByName("first-contentful-paint")[0].startTime`))
	if err != nil || ms <= 0 {
		t.Fatalf("firstPaint(%s) = %v ms, error %v, want more than 0 ms and no error", address, ms, err)
	}
	return ms
}

// seedSessions sends two sessions for each lesson, waits until all are closed, and returns the session count.
func seedSessions(t *testing.T, dir string, lessons int, flags []string) int {
	t.Helper()
	p := harness.Start(t, dir, flags...)
	n := 2 * lessons
	postTurn := func(address, name, body string) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Precept-Session", name)
		req.Header.Set("Precept-Agent", "coder-"+strconv.Itoa(len(name)%3))
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			return err
		}
		defer res.Body.Close() //nolint:errcheck // only read
		_, err = io.Copy(io.Discard, res.Body)
		return err
	}
	errs := make(chan error, 8)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < n; i += 8 {
				name := fmt.Sprint("run-", i)
				chat, err := json.Marshal(map[string]any{"model": "m", "messages": []any{map[string]any{"role": "user", "content": fmt.Sprintf("Please look at topic%04d and report what you find.", i/2)}}})
				if err == nil {
					err = postTurn(p.DataURL+"/v1/chat/completions", name, string(chat))
				}
				if err == nil {
					err = postTurn(p.DataURL+"/v1/feedback", name, fmt.Sprintf(`{"session_id":%q,"source":"user","type":"score","score":%.1f}`, name, float64(i%11)/10))
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		t.Fatal(err)
	default:
	}
	harness.Eventually(t, "all sessions to close", func() bool {
		var h struct {
			Store struct{ Counts map[string]int }
			Since struct {
				Closed int `json:"sessions_closed"`
			} `json:"since_start"`
		}
		p.GetAdmin(t, "/api/health", &h)
		return h.Since.Closed >= n
	})
	p.Stop()
	return n
}

// multiplySessions adds copies of every session in the store, and spreads the copies over the last paintDays days.
func multiplySessions(t *testing.T, file string, copies int) {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // the transaction is already committed
	db.SetMaxOpenConns(1)
	do := func(statement string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
			t.Fatalf("%s: got %v, want no error", statement, err)
		}
	}
	do("PRAGMA synchronous = OFF")
	var maxID int
	if err := db.QueryRowContext(t.Context(), "SELECT max(sid) FROM sessions").Scan(&maxID); err != nil {
		t.Fatal(err)
	}
	do("BEGIN")
	for k := 1; k <= copies; k++ {
		idOffset, age := k*maxID, int64(k)*int64(paintDays)*86_400_000_000/int64(copies+1)
		do("INSERT INTO sessions(sid, tenant, started, seen, state, id, data, standin) SELECT sid + ?, tenant, started - ?, seen - ?, state, randomblob(16), data, standin FROM sessions WHERE sid <= ? AND data IS NOT NULL", idOffset, age, age, maxID)
		do("INSERT INTO settled SELECT sid + ?, version, told, reward, tier, frozen FROM settled WHERE sid <= ?", idOffset, maxID)
		do("INSERT INTO exchanges(sid, k, tenant, at, data, items) SELECT sid + ?, k, tenant, at - ?, data, items FROM exchanges WHERE sid <= ?", idOffset, age, maxID)
		do("INSERT INTO samples(sid, k, tenant, at, agent, data) SELECT sid + ?, k, tenant, at - ?, agent, data FROM samples WHERE sid <= ?", idOffset, age, maxID)
	}
	do("UPDATE totals SET n = n * ?", copies+1)
	// A counter for a day gets a row for each earlier day. A counter without a date has the day 0, and keeps its only
	// row.
	do("WITH RECURSIVE back(d) AS (SELECT 1 UNION ALL SELECT d + 1 FROM back WHERE d < ?) INSERT OR IGNORE INTO counters SELECT tenant, scope, day - d, v FROM counters, back WHERE day > 1000", paintDays-1)
	do("COMMIT")
}
