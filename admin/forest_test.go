package admin_test

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"precept/admin"
	"precept/bandit/report"
)

// forestRow contains the positions of the marks in one row of a forest plot, which draws effects with their intervals.
// The position of a missing mark is NaN.
type forestRow struct {
	lo, effect, hi, truth float64 // x coordinates
	cutLow, cutHigh       bool    // whether the interval is clipped at its lower or upper end
}

// forestPlot returns the rows of the forest plot on the page at target, and the number of ticks on the axis. The page
// shows the given report rows and true effects.
func forestPlot(
	t interface {
		Fatalf(format string, args ...any)
	}, rows []report.Row, truth func(string) (float64, bool), target string,
) (out []forestRow, ticks int) {
	w := newWordSource("word")
	w.report.Lessons, w.report.Global.Bands = rows, nil
	o := w.options()
	o.TrueEffect = truth
	h, err := admin.New(o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	page := readBody(serve(h, target, serve(h, "/login?token=key", nil).Cookies()[0]))
	number := func(text, pattern string) float64 {
		m := regexp.MustCompile(pattern).FindStringSubmatch(text)
		if m == nil {
			return math.NaN()
		}
		x, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatalf("parsing %q: got error %v, want a number", m[1], err)
		}
		return x
	}
	_, table, _ := strings.Cut(page, "<tbody>")
	for _, svg := range regexp.MustCompile(`<svg class="forest .*?</svg>`).FindAllString(table, -1) {
		out = append(out, forestRow{
			lo: number(svg, `class="reach" d="M([^ ]+) `), hi: number(svg, `class="reach" d="M[^ ]+ 15H([^"]+)"`),
			effect: number(svg, `cx="([^"]+)"`), truth: number(svg, `class="truth" d="M([^ ]+) `),
			cutLow: strings.Contains(svg, "11l-6 4 6 4z"), cutHigh: strings.Contains(svg, "11l6 4-6 4z"), // arrow heads
		})
	}
	return out, strings.Count(page, `class="tick"`)
}

func newRow(n int, effect, lo, hi float64) report.Row {
	slug := fmt.Sprintf("l-%02d", n)
	return report.Row{
		Slug: slug, Arm: slug + "@1", State: "active", Verdict: report.Unproven, Picked: 1,
		Effect: new(effect), Lo: new(lo), Hi: new(hi),
	}
}

func TestForestPlotStaysInsidePicture(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rows []report.Row
		for i := range rapid.IntRange(1, 4).Draw(t, "rows") {
			effect := rapid.Float64Range(-1, 1).Draw(t, "effect")
			halfWidth := rapid.Float64Range(0, 3).Draw(t, "half-width")
			rows = append(rows, newRow(i, effect, effect-halfWidth, effect+halfWidth))
		}
		scale := rapid.SampledFrom([]string{"", "all", "5", "100"}).Draw(t, "scale")
		trueEffect := rapid.Float64Range(-9, 9).Draw(t, "truth")
		truth := func(string) (float64, bool) { return trueEffect, true }
		got, ticks := forestPlot(t, rows, truth, "/lessons?zoom="+scale)
		if len(got) != len(rows) {
			t.Fatalf("forest plot = %+v, want %d items", got, len(rows))
		}
		if ticks < 3 || ticks > 12 {
			t.Fatalf("forest plot: ticks = %d, want 3 to 12", ticks)
		}
		for _, p := range got {
			if p.lo > p.hi {
				t.Fatalf("lo = %v, want at most %v", p.lo, p.hi)
			}
			if p.lo < 0 {
				t.Fatalf("lo = %v, want at least 0", p.lo)
			}
			if p.hi > 240 {
				t.Fatalf("hi = %v, want at most 240", p.hi)
			}
			if p.truth < 0 || p.truth > 240 {
				t.Fatalf("truth = %v, want 0 to 240", p.truth)
			}
			if p.effect < p.lo || p.effect > p.hi {
				t.Fatalf("effect = %v, want %v to %v", p.effect, p.lo, p.hi)
			}
			if scale != "5" && math.IsNaN(p.effect) {
				t.Fatalf("got row %+v, want a mark for the effect", p)
			}
		}
	})
}

func TestForestScaleIgnoresOneOutlier(t *testing.T) {
	var rows []report.Row
	for i := range 19 {
		e := 0.01 * float64(i%5)
		rows = append(rows, newRow(i, e, e-0.03, e+0.03))
	}
	rows = append(rows, newRow(19, 0.02, -0.9, 0.9))
	draw := func(scale string) (usual, wide forestRow) {
		got, _ := forestPlot(t, rows, nil, "/lessons?sort=name&zoom="+scale)
		return got[4], got[19]
	}
	usual, wide := draw("")
	if usual.hi-usual.lo < 60 || usual.cutLow || usual.cutHigh || !wide.cutLow || !wide.cutHigh || math.IsNaN(wide.effect) {
		t.Errorf("without zoom: got usual interval %+v, want one at least 60 wide and not clipped; got wide interval %+v, want one clipped at both ends and a mark for the effect", usual, wide)
	}
	if usual, wide = draw("all"); usual.hi-usual.lo > 20 {
		t.Errorf("with zoom=all: usual.hi-usual.lo = %v, want at most 20", usual.hi-usual.lo)
	} else if wide.cutLow {
		t.Error("with zoom=all: cutLow = true, want false")
	} else if wide.cutHigh {
		t.Error("with zoom=all: cutHigh = true, want false")
	}
	if usual, _ = draw("1"); !math.IsNaN(usual.effect) || usual.cutLow || !usual.cutHigh {
		t.Errorf("effect of 4 points with zoom=1: got %+v, want no mark for the effect, and an interval clipped only at the upper end", usual)
	}
	for _, scale := range []string{"101", "0.5", "-1", "NaN", "wide"} {
		if usual, wide = draw(scale); usual.hi-usual.lo < 60 {
			t.Errorf("with the invalid zoom=%s: usual.hi-usual.lo = %v, want at least 60", scale, usual.hi-usual.lo)
		} else if !wide.cutLow {
			t.Errorf("with the invalid zoom=%s: cutLow = false, want true", scale)
		}
	}
	truth := func(string) (float64, bool) { return 0.3, true }
	if got, _ := forestPlot(t, rows[:1], truth, "/lessons"); got[0].truth < got[0].hi || got[0].truth > 230 {
		t.Errorf("true effect above the interval: got %+v, want a mark for the true effect above the interval and at most at 230", got[0])
	}
}

func TestInvalidRowsAreNotPlotted(t *testing.T) {
	valid, invalid := newRow(0, 0.02, 0, 0.04), newRow(1, 0.9, 0.8, 1)
	invalid.Verdict = report.Invalid
	got, _ := forestPlot(t, []report.Row{valid, invalid}, nil, "/lessons?sort=name")
	if !math.IsNaN(got[1].lo) || !math.IsNaN(got[1].effect) || got[0].hi < 150 {
		t.Errorf("a valid and an invalid row: got %+v, want neither an interval nor an effect in the second row, and an upper end of at least 150 in the first row", got)
	}
}
