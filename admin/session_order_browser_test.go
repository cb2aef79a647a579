package admin

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

func TestBrowserSortsSessionsAndKeepsFilters(t *testing.T) {
	tb := newTab(t)
	server := httptest.NewServer(newCostFixture(t))
	t.Cleanup(server.Close)
	size := emulation.SetDeviceMetricsOverrideParams{Width: 390, Height: 900, DeviceScaleFactor: 1}
	if _, err := chromedp.Call(tb.ctx, emulation.SetDeviceMetricsOverride, size); err != nil {
		t.Fatal(err)
	}
	tb.do(t, chromedp.Navigate(LoginLink(server.URL, token)), chromedp.WaitVisible(chromedp.CSS("main")))
	tb.do(t, chromedp.Navigate(server.URL+"/sessions?agent=coder"), chromedp.WaitVisible(chromedp.CSS("caption")))
	for _, step := range []struct{ click, expression, want string }{
		{"caption a[href$='order=cheapest']", `document.querySelector("th.name a").textContent`, "task of cheap"},
		{"caption a[href$='order=shortest']", `document.querySelector("th.name a").textContent`, "task of unpriced"},
		{"nav a[href^='/samples']", `location.search`, "?agent=coder&order=shortest"},
		{"nav a[href^='/compare']", `location.search`, "?agent=coder&order=shortest"},
		{"nav a[href^='/sessions']", `document.querySelector("caption").textContent.split(" Show")[0]`, "2 of 3 sessions. Shortest first."},
	} {
		tb.do(t, chromedp.WaitVisible(chromedp.CSS(step.click)), chromedp.Click(chromedp.CSS(step.click)))
		expression, want := `document.documentElement?.scrollWidth + " px " + `+step.expression, "390 px "+step.want
		var got string
		for range 400 { // the page that the click opens may not be loaded yet
			if got, _ = chromedp.Run(tb.ctx, chromedp.Evaluate[string](expression)); got == want {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		if got != want {
			t.Fatalf("after a click on %s: got page width and %s = %q, want %q", step.click, step.expression, got, want)
		}
	}
	if got := tb.reportedErrors(); len(got) > 0 {
		t.Errorf("browser errors: got %v, want none", got)
	}
}
