//go:build !race && linux

package ledger_test

import (
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// threadCPU returns the CPU time of this thread. Other processes hardly change the CPU time.
func threadCPU(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// The CPU time of a record in 5 MB is at most 8 times the CPU time in a quarter of the file, with 5 ms of tolerance.
func TestCostIsLinearInTheFileSize(t *testing.T) {
	if testing.Short() {
		t.Skip("the test measures the CPU time of records in a file of 5 MB")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	best := func(size int) time.Duration {
		var b strings.Builder
		b.WriteString("# Agent\n\n## Lessons Learned\n\n")
		for n := 0; b.Len() < size; n++ {
			b.WriteString(strings.Replace(bullet, "the sum is 1\n", fmt.Sprintf("the sum is -%d\n", n), 1))
		}
		l, least := ledgerWith(t, b.String()), time.Hour
		for n := range 3 {
			began := threadCPU(t)
			record(t, l, entry(n))
			least = min(least, threadCPU(t)-began)
		}
		return least
	}
	const times, allowed = 4, 8
	var small, large time.Duration
	for range 6 {
		small, large = best(5<<20/times), best(5<<20)
		if large <= allowed*small+5*time.Millisecond {
			return
		}
	}
	t.Errorf("a record takes %v in 5 MB and %v in a quarter of the file, want at most %d times as long", large, small, allowed)
}
