package browser

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

func TestOperatorTasksTakeAtMostThreeClicks(t *testing.T) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed; apt-get install chromium")
	}
	link := runDemo(t, 1500)
	allocator, cancel := chromedp.NewExecAllocator(t.Context(), chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.Headless,
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.Flag("disable-dev-shm-usage", true))
	t.Cleanup(cancel)
	ctx, cancelTab := chromedp.NewContext(allocator)
	t.Cleanup(cancelTab)
	ctx, stop := context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(stop)
	base, _, _ := strings.Cut(link, "/login")
	if err := chromedp.Do(ctx, chromedp.Navigate(link), chromedp.WaitVisible(chromedp.CSS("nav"))); err != nil {
		t.Fatal(err)
	}
	for _, task := range []struct {
		name   string
		clicks []string // CSS selectors for the elements to click, beginning in the overview
		result string   // JavaScript expression that is true when the task is done
	}{
		{"see this week's costs", nil, `/[\d.]+\sUSD/.test(document.querySelector(".net").textContent)`},
		{
			"find a lesson to retire", nil,
			`[...document.querySelectorAll("main tbody tr")].some(r => r.textContent.includes("benched") && /retir/i.test(r.textContent))`,
		},
		{
			"approve a lesson",
			[]string{"nav a[href='/queue']", "main form[action$='/approve'] button"},
			`document.querySelector("main").textContent.includes("is active now") || document.body.textContent.includes("is active now")`,
		},
		{
			"find a change's author and time",
			[]string{"nav a[href='/lessons']", "main a[href^='/lessons/run-the-suite-of-the-package']"},
			`/approved the lesson/.test(document.querySelector(".decided").textContent) && document.querySelector(".decided time") != null`,
		},
		{
			"retire a lesson",
			[]string{"main a[href^='/lessons/add-more-comments']", ".actions details:has(form[action$='/retire']) summary", ".actions form[action$='/retire'] button"},
			`document.body.textContent.includes("is archived now")`,
		},
		{
			"undo the retirement",
			[]string{"nav a[href='/lessons']", "main a[href^='/lessons/add-more-comments']", ".decided form[action$='/restore'] button"},
			`document.body.textContent.includes("is active now")`,
		},
	} {
		if err := chromedp.Do(ctx, chromedp.Navigate(base+"/"), chromedp.WaitVisible(chromedp.CSS("nav"))); err != nil {
			t.Fatal(err)
		}
		for _, selector := range task.clicks {
			if err := chromedp.Do(ctx, chromedp.WaitVisible(chromedp.CSS(selector)), chromedp.Click(chromedp.CSS(selector))); err != nil {
				t.Fatalf("%s: got error %v from a click on %s, want none", task.name, err, selector)
			}
		}
		if len(task.clicks) > 3 {
			t.Errorf("task %s: got %d clicks, want at most 3", task.name, len(task.clicks))
		}
		done := waitForTrue(ctx, task.result)
		if !done && len(task.clicks) == 0 { // the overview may not contain the last sessions yet
			done = chromedp.Do(ctx, chromedp.Reload()) == nil && waitForTrue(ctx, task.result)
		}
		if !done {
			page, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + " " + document.querySelector("main").textContent.slice(0, 1500)`))
			t.Errorf("task %s: got page %s, want a page on which %s is true", task.name, page, task.result)
		}
	}
}

// waitForTrue waits until an expression becomes true, for at most about 20 seconds. It reports whether the expression
// became true.
func waitForTrue(ctx context.Context, expression string) bool {
	for range 400 {
		if ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression)); err == nil && ok {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
	return false
}
