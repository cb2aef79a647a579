package admin

import (
	"errors"
	"fmt"
	"time"

	"github.com/labstack/echo/v4"

	"precept/report"
)

// survey fills in what single sessions tell: how rewards are spread, and on demand where the lesson
// would have fired. reading says that the sessions are being read, and the page is worth another
// look in a moment.
func (v *lessonView) survey(c echo.Context, s *Server, tenant string) (reading bool) {
	if s.options.Survey == nil {
		v.RewardsNote = "Sessions are not stored here, so the spread of their rewards is not known."
		return false
	}
	ctx := c.Request().Context()
	sv, reading, err := s.surveys.get(ctx, tenant, patience)
	switch {
	case errors.Is(err, errBeingMade):
		v.RewardsNote = "The stored sessions are being read; the spread of their rewards stands here in a moment."
	case err != nil:
		v.RewardsNote = "The stored sessions cannot be read: " + err.Error() + "."
	case sv.Rewards(v.Slug) == nil:
		v.RewardsAt = sv.Made
		v.RewardsNote = "None of the stored sessions that closed with a reward picked this lesson."
	default:
		v.RewardsAt = sv.Made
		v.Rewards = bars(sv.Rewards(v.Slug))
		v.RewardsNote = fmt.Sprintf("Of %s stored sessions since %s, all texts of the lesson together.", count(sv.Sessions), sv.Since.UTC().Format(time.DateOnly))
	}
	v.RewardsOld = reading
	if sv != nil {
		v.recall(ctx, s, tenant, sv)
	}
	if c.QueryParam("backtest") == "" || v.Lesson == nil {
		return reading
	}
	b, err := s.options.Survey.Backtest(ctx, tenant, v.Lesson)
	if err != nil {
		v.BacktestNote = "The captured sessions cannot be read: " + err.Error() + "."
		return reading
	}
	v.Backtest = &b
	return reading
}

// barWidth is the longest bar of the spread of rewards, in units of its SVG.
const barWidth = 200.0

// bars are the tenths of both arms, as shares, so that arms of different sizes can be compared.
func bars(r *report.Rewards) (out []bar) {
	total := func(arm [10]int64) (n int64) {
		for _, x := range arm {
			n += x
		}
		return n
	}
	share := func(n, of int64) float64 {
		if of == 0 {
			return 0
		}
		return float64(n) / float64(of)
	}
	with, without := total(r.Injected), total(r.Withheld)
	for i := range r.Injected {
		a, b := share(r.Injected[i], with), share(r.Withheld[i], without)
		out = append(out, bar{
			Range: fmt.Sprintf("%.1f to %.1f", float64(i)/10, float64(i+1)/10), Injected: r.Injected[i], Withheld: r.Withheld[i],
			InjectedShare: percent(&a), WithheldShare: percent(&b), InjectedWidth: coordinate(a * barWidth), WithheldWidth: coordinate(b * barWidth),
		})
	}
	return out
}
