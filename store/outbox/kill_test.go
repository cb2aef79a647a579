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

// child appends, ships and releases until the parent kills it. child prints the number of each row
// that Append has acknowledged.
func child(dir string) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	q, err := outbox.Open(outbox.Options{Path: pathIn(dir), QuotaBytes: 1 << 30, Now: time.Now, Damaged: fail})
	fail(err)
	_, end := q.Delivered()
	for i := 0; ; i++ {
		var f outbox.Flush
		for range 5 {
			end++
			f.Rows = append(f.Rows, row("default", 1, fmt.Sprint(end, strings.Repeat(" text", 300))))
		}
		f.Stubs = []outbox.Stub{{ID: fmt.Sprint("turn ", i), Tenant: "default", Document: []byte("stub")}}
		if i > 0 {
			f.Ended, f.Dropped = []string{fmt.Sprint("turn ", i-1)}, map[string]int64{"bad": 1}
		}
		last, err := q.Append(&f)
		fail(err)
		fmt.Println(last)
		if i%3 == 2 {
			to, _ := q.Delivered()
			rows, err := q.Read(to, math.MaxInt64, 4<<10)
			fail(err)
			sum := int64(0)
			for _, r := range rows {
				sum += r.Exchanges
			}
			q.Advance(rows[len(rows)-1].Sequence, sum, nil)
			fail(q.Release(to))
		}
		if i%50 == 0 {
			fail(q.Tidy())
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
		before, err := outbox.ReadAccount(pathIn(dir), false)
		must(t, err)
		balanced(t, before)
		q := open(t, dir)
		same(t, "damage", len(q.damages), 0)
		after := q.Account()
		balanced(t, after)
		same(t, "admitted", after.Admitted, before.Admitted)
		same(t, "incomplete", after.Incomplete, before.Incomplete)
		to, end := q.Delivered()
		if end < acknowledged {
			t.Fatalf("round %d: the last row is %[3]d, want at least %[2]d as acknowledged", round, acknowledged, end)
		}
		rows, err := q.Read(to, math.MaxInt64, 1<<30)
		must(t, err)
		sum := int64(0)
		for i, r := range rows {
			if r.Sequence != to+int64(i)+1 {
				t.Fatalf("round %d: got row %d, want %d", round, r.Sequence, to+int64(i)+1)
			}
			sum += r.Exchanges
		}
		same(t, "spooled", after.Spooled, sum)
		must(t, q.Close())
	}
}

// balanced fails the test unless the account balances.
func balanced(t *testing.T, a outbox.Account) {
	t.Helper()
	sum := a.Stored + a.Spooled + a.Incomplete
	for _, n := range a.Dropped {
		sum += n
	}
	if sum != a.Admitted || a.Stored < 0 || a.Spooled < 0 {
		t.Errorf("the account does not balance: %+v", a)
	}
}
