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

// threadCPU returns this thread's CPU time, which other processes hardly affect.
func threadCPU(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// If the file is four times as large, Record may take up to 8 times the CPU time, plus 5 ms.
func TestRecordCostIsLinearInFileSize(t *testing.T) {
	if testing.Short() {
		t.Skip("measures CPU time with a 5 MB file")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	minRecordTime := func(size int) time.Duration {
		var b strings.Builder
		b.WriteString("# Agent\n\n## Lessons Learned\n\n")
		for n := 0; b.Len() < size; n++ {
			b.WriteString(strings.Replace(bullet, "the sum is 1\n", fmt.Sprintf("the sum is -%d\n", n), 1))
		}
		l, shortest := newLedger(t, b.String()), time.Hour
		for n := range 3 {
			began := threadCPU(t)
			record(t, l, newEntry(n))
			shortest = min(shortest, threadCPU(t)-began)
		}
		return shortest
	}
	const sizeFactor, maxTimeFactor = 4, 8
	var small, large time.Duration
	for range 6 {
		small, large = minRecordTime(5<<20/sizeFactor), minRecordTime(5<<20)
		if large <= maxTimeFactor*small+5*time.Millisecond {
			return
		}
	}
	t.Errorf("Record took %v in 5 MB and %v in a quarter of that, want at most %d times as long", large, small, maxTimeFactor)
}
