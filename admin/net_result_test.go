package admin

import (
	"html"
	"strings"
	"testing"
	"time"

	"precept/bandit/report"
	"precept/internal/price"
)

func TestNetResultShowsPartsAndInterval(t *testing.T) {
	for name, tc := range map[string]struct {
		effect *float64
		lo     float64
		prices Prices
		want   []string
	}{
		"interval above 0": {new(0.05), 0.01, Prices{Models: price.Flat(2, 0), SuccessValue: 10, Currency: "USD"}, []string{
			"<p class=\"value good\">+92.00\u00a0USD</p>", "+12.00\u00a0USD to +192.00\u00a0USD",
		}},
		"interval contains 0": {new(0.05), 0, Prices{Models: price.Flat(2, 0), SuccessValue: 10, Currency: "USD"}, []string{
			"not known yet", "best estimate +92.00\u00a0USD", "−8.00\u00a0USD to +192.00\u00a0USD", `+10 of <a href="/sessions?arm=treated&min_reward=0&range=7d">200 treated sessions</a> with a reward (a run counts once) × 10.00`, "+100.00\u00a0USD", "4,000,000 × 2 a million", "−8.00\u00a0USD",
		}},
		"loss below one session": {new(-0.001375), -0.01, Prices{Models: price.Flat(2, 0), SuccessValue: 2, Currency: "USD"}, []string{
			`−0.275 of <a`, "× 2.00", "−0.55\u00a0USD",
		}},
		"fractional gain in sessions": {new(0.269), 0.01, Prices{Models: price.Flat(2, 0), SuccessValue: 2, Currency: "USD"}, []string{
			`+53.8 of <a`, "× 2.00", "+107.60\u00a0USD",
		}},
		"no model price":                         {new(0.05), 0, Prices{SuccessValue: 10, Currency: "USD"}, []string{"+10 sessions", "Set admin.session_value and prices"}},
		"no prices":                              {new(0.05), 0, Prices{}, []string{"+10 sessions", "0 to +20, with 95% confidence", "Set admin.session_value"}},
		"interval beyond the number of sessions": {new(0.05), -1.46, Prices{}, []string{"−200 to +20, with 95% confidence"}},
		"tokens below a cent":                    {nil, 0, Prices{Models: price.Flat(0.0005, 0), Currency: "USD"}, []string{"−0.0020\u00a0USD"}},
		"no effect yet":                          {nil, 0, Prices{Models: price.Flat(2, 0), SuccessValue: 10}, []string{"counting …", "too few control sessions", "−8.00"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, func(o *Options) { o.Program.Prices = func() Prices { return tc.prices } })
			r := &f.reports.report
			r.Global.Days = []report.Day{{Date: r.GeneratedAt.Format("2006-01-02"), NTreated: 200, TokensAdded: 8_000_000, Treated: report.Spending{Sessions: 400}}}
			if r.Global.Effect = tc.effect; tc.effect != nil {
				r.Global.Lo, r.Global.Hi = new(tc.lo), new(max(0.1, *tc.effect))
			}
			page := html.UnescapeString(body(t, f.do(t, "GET", "/", bearer(token))))
			_, page, _ = strings.Cut(page, `<section class="net"`)
			page, _, _ = strings.Cut(page, "</section>")
			for _, want := range tc.want {
				if !strings.Contains(page, want) {
					t.Errorf("net result: got no text %q, want this text; page:\n%s", want, page)
				}
			}
		})
	}
}

func TestLastWeekSumsSevenDates(t *testing.T) {
	now := time.Date(2031, 3, 10, 15, 0, 0, 0, time.UTC)
	var days []report.Day
	for daysAgo := range 10 {
		days = append(days, report.Day{Date: now.AddDate(0, 0, -daysAgo).Format(time.DateOnly), NTreated: 1})
	}
	if sum := lastWeek(days, now); sum.NTreated != 7 {
		t.Errorf("lastWeek of ten days with one session a day: got %d sessions, want 7", sum.NTreated)
	}
}
