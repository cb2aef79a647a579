package admin

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

func TestBrowserClickOnBarOpensSessions(t *testing.T) {
	tb := newTab(t)
	server := httptest.NewServer(newTrafficFixture(t))
	t.Cleanup(server.Close)
	size := emulation.SetDeviceMetricsOverrideParams{Width: 390, Height: 900, DeviceScaleFactor: 1}
	if _, err := chromedp.Call(tb.ctx, emulation.SetDeviceMetricsOverride, size); err != nil {
		t.Fatal(err)
	}
	tb.do(t, chromedp.Navigate(LoginLink(server.URL, token)), chromedp.WaitVisible(chromedp.CSS("main")))
	tb.do(t, chromedp.Navigate(server.URL+"/traffic?agent=coder"), chromedp.WaitVisible(chromedp.CSS("svg.traffic")))
	tb.eval(t, `document.querySelectorAll("details").forEach(e => e.open = true)`)
	for expression, want := range map[string]string{
		`document.documentElement.scrollWidth`:                                                "390",
		`document.querySelector("svg.traffic").getBoundingClientRect().width > 300`:           "true",
		`document.querySelectorAll("svg.traffic a[href]").length > 10`:                        "true",
		`document.querySelector(".strip p").textContent`:                                      "Sessions 3, at most 1 in 5 minutes",
		`getComputedStyle(document.querySelector("svg.bad .bar")).fill != "rgb(0, 0, 0)"`:     "true",
		`document.querySelector("nav a[aria-current=page]").textContent`:                      "Traffic",
		`document.querySelector("nav a[href^='/sessions']").search`:                           "?agent=coder",
		`[...document.querySelectorAll(".browse h2")].some(h => h.textContent == "By model")`: "true",
	} {
		if got := tb.eval(t, expression); got != want {
			t.Errorf("value of %s: got %q, want %q", expression, got, want)
		}
	}
	const click = `document.querySelector("svg.traffic a[href]").dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, view: window }))`
	tb.eval(t, click)
	const rows = `location.pathname + " " + document.querySelectorAll("table.list tbody tr").length`
	got := ""
	for range 200 { // the list that the click opens may not be loaded yet
		if got, _ = chromedp.Run(tb.ctx, chromedp.Evaluate[string](rows)); got == "/sessions 1" {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if got != "/sessions 1" {
		t.Errorf("page and number of sessions after a click on the first bar: got %q, want \"/sessions 1\"", got)
	}
	if errs := tb.reportedErrors(); len(errs) > 0 {
		t.Errorf("browser errors: got %v, want none", errs)
	}
}
