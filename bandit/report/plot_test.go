package report

import "testing"

func TestPlotDrawsEffectAndInterval(t *testing.T) {
	a := axis(0.1)
	for _, tc := range []struct {
		e, lo, hi float64
		want      string
	}{
		{0.05, 0.02, 0.08, "          | ---o---  "},
		{0, -0.05, 0.05, "     -----o-----     "},
		{-0.05, -0.3, 0.3, "<----o----|--------->"},
		{0.5, 0.4, 0.6, "          |         o"},
		{0.03, 0.01, 0.1, "          |--o-------"},
	} {
		if got := a.plot(&tc.e, &tc.lo, &tc.hi); got != tc.want {
			t.Errorf("%+v: plot =\n%q, want\n%q", tc, got, tc.want)
		}
	}
	if got := a.plot(nil, nil, nil); got != "          |          " {
		t.Errorf("plot without an effect = %q, want only the axis", got)
	}
}

func TestShortCountHasAtMostFourCharacters(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 9999: "9999", 10_000: "10k", 999_999: "999k", 12_345_678: "12M", 1e12: "many"} {
		if got := shortCount(n); got != want {
			t.Errorf("shortCount(%d) = %q, want %q", n, got, want)
		}
	}
}
