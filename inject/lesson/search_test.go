package lesson

import (
	"slices"
	"testing"
)

// A single injection pattern takes longer than the rest of the parsing, so the scan runs only patterns whose words
// occur in a lesson. At most a quarter of them run on the starter lessons.
func TestOrdinaryLessonRunsFewPatterns(t *testing.T) {
	tried, all := 0, 0
	for _, l := range starterBook(t).Lessons() {
		plain := lowerCompatible(l.Advice)
		forms := map[string]string{"plain": plain, "bare": unaccented(plain), "squeezed": skeleton(l.Advice)}
		for i := range orders().orders {
			o := &orders().orders[i]
			all++
			if slices.ContainsFunc(o.forms, func(form string) bool { return o.mayContain(forms[form]) }) {
				tried++
			}
		}
	}
	if all < 150 || tried*4 > all {
		t.Errorf("got %d of %d patterns that run, want at most a quarter of at least 150", tried, all)
	}
}
