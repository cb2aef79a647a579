//go:build !race && linux

package rules_test

import (
	"fmt"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"precept/inject/rules"
	"precept/internal/wire"
)

func manySections(n int) string {
	var b strings.Builder
	for i := range n / 2 {
		fmt.Fprintf(&b, "- Use tabs in %d.\n- Use tabs\n", i)
	}
	return b.String()
}

// minCPUTime returns the smallest of three CPU times, at least 1 ms.
func minCPUTime(t *testing.T, f func()) time.Duration {
	t.Helper()
	now := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	shortest := time.Duration(math.MaxInt64)
	for range 3 {
		begun := now()
		f()
		shortest = min(shortest, now()-begun)
	}
	return max(shortest, time.Millisecond)
}

// A malicious prompt can have a section on each line. Eight times as many sections take about 8 times as long if the
// cost is linear, and 64 times as long if it is quadratic. The test allows 28 times, and measures up to six times.
func TestScanTimeIsLinear(t *testing.T) {
	scan := func(n int) func() {
		file := "Instructions from: /shop/AGENTS.md\n" + manySections(n)
		return func() {
			var scan rules.Scan
			scan.Add([]wire.Passage{{Text: file}}, 1, 0)
			scan.Add([]wire.Passage{{Text: file}}, 1, 0)
			if files := scan.Files(); len(files) != 1 || len(files[0].Sections) != n || files[0].Sections[1].Sessions != 2 {
				t.Errorf("got %d files, want 1 file with %d sections, the second of which is in 2 sessions", len(files), n)
			}
		}
	}
	var few, more time.Duration
	for range 6 {
		if few, more = minCPUTime(t, scan(2_000)), minCPUTime(t, scan(16_000)); more <= 28*few {
			break
		}
	}
	if more > 28*few {
		t.Errorf("2,000 sections took %v and 16,000 took %v, want at most 28 times as long", few, more)
	}
	twice := 0
	for _, s := range rules.Split(manySections(2_000)) {
		if s.Repeated {
			twice++
		}
	}
	if twice != 1_000 {
		t.Errorf("%d of 2000 sections have Repeated set, want 1000", twice)
	}
}
