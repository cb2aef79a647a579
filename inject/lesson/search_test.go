package lesson

import (
	"slices"
	"testing"
)

// Running one injection pattern takes longer than parsing a lesson, so the scan must run only few patterns.
func TestScanRunsFewPatternsOnOrdinaryLessons(t *testing.T) {
	tried, all := 0, 0
	for _, l := range starterBook(t).Lessons() {
		plain := lowerCompatible(l.Advice)
		forms := map[string]string{"plain": plain, "bare": unaccented(plain), "squeezed": confusableSkeleton(l.Advice)}
		for i := range injectionRules().rules {
			o := &injectionRules().rules[i]
			all++
			if slices.ContainsFunc(o.forms, func(form string) bool { return o.mayContain(forms[form]) }) {
				tried++
			}
		}
	}
	if all < 150 || tried*4 > all {
		t.Errorf("%d of %d patterns run, want at most a quarter, from at least 150 patterns", tried, all)
	}
}
