package outbox_test

import (
	"bufio"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"precept/store/outbox"
)

const childFlag = "outbox-child"

// runChild is what a child process runs: it appends, delivers and releases rows until the parent process kills it.
// After each flush, the child prints the sequence number of the last acknowledged row.
func runChild(dir string) {
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	q, err := outbox.Open(outbox.Options{Path: outboxPath(dir), QuotaBytes: 1 << 30, Now: time.Now, OnDamage: check})
	check(err)
	_, sequence := q.Delivered()
	for i := 0; ; i++ {
		var f outbox.Flush
		for range 5 {
			sequence++
			f.Rows = append(f.Rows, newRow("default", 1, fmt.Sprint(sequence, strings.Repeat(" text", 300))))
		}
		f.Stubs = []outbox.Stub{{ID: fmt.Sprint("turn ", i), Tenant: "default", Document: []byte("stub")}}
		if i > 0 {
			f.Ended, f.Dropped = []string{fmt.Sprint("turn ", i-1)}, map[string]int64{"bad": 1}
		}
		last, err := q.Append(&f)
		check(err)
		fmt.Println(last)
		if i%3 == 2 {
			delivered, _ := q.Delivered()
			rows, err := q.Read(delivered, math.MaxInt64, 4<<10)
			check(err)
			exchanges := int64(0)
			for _, r := range rows {
				exchanges += r.Exchanges
			}
			q.MarkDelivered(rows[len(rows)-1].Sequence, exchanges, nil)
			check(q.Release(delivered))
		}
		if i%50 == 0 {
			check(q.Tidy())
		}
	}
}

func TestKillLosesNoAcknowledgedRow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rnd := rand.New(rand.NewPCG(3, 4))
	acknowledged := int64(0)
	rounds := 12
	if testing.Short() {
		rounds = 4
	}
	for round := range rounds {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", childFlag, dir)
		out, err := cmd.StdoutPipe()
		must(t, err, cmd.Start())
		timer := time.AfterFunc(time.Duration(50+rnd.IntN(250))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		for lines := bufio.NewScanner(out); lines.Scan(); {
			_, _ = fmt.Sscan(lines.Text(), &acknowledged)
		}
		_ = cmd.Wait()
		timer.Stop()
		before, err := outbox.ReadAccount(outboxPath(dir), false)
		must(t, err)
		checkBalanced(t, before)
		q := open(t, dir)
		checkEqual(t, "number of damage reports", len(q.damageReports), 0)
		after := q.Account()
		checkBalanced(t, after)
		checkEqual(t, "admitted exchanges after the restart", after.Admitted, before.Admitted)
		checkEqual(t, "incomplete exchanges after the restart", after.Incomplete, before.Incomplete)
		delivered, last := q.Delivered()
		if last < acknowledged {
			t.Fatalf("round %d: last row after the restart: got %d, want at least %d, the last acknowledged row", round, last, acknowledged)
		}
		rows, err := q.Read(delivered, math.MaxInt64, 1<<30)
		must(t, err)
		exchanges := int64(0)
		for i, r := range rows {
			if want := delivered + int64(i) + 1; r.Sequence != want {
				t.Fatalf("round %d: sequence number of the undelivered row at index %d: got %d, want %d", round, i, r.Sequence, want)
			}
			exchanges += r.Exchanges
		}
		checkEqual(t, "spooled exchanges after the restart", after.Spooled, exchanges)
		must(t, q.Close())
	}
}

// checkBalanced fails the test unless Admitted is the sum of the other counts, and neither Stored nor Spooled is
// negative.
func checkBalanced(t *testing.T, a outbox.Account) {
	t.Helper()
	sum := a.Stored + a.Spooled + a.Incomplete
	for _, n := range a.Dropped {
		sum += n
	}
	if sum != a.Admitted {
		t.Errorf("account: sum = %d, want %d", sum, a.Admitted)
	}
	if a.Stored < 0 {
		t.Errorf("account: Stored = %d, want at least 0", a.Stored)
	}
	if a.Spooled < 0 {
		t.Errorf("account: Spooled = %d, want at least 0", a.Spooled)
	}
}
