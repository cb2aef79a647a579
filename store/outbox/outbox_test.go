package outbox_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"precept/store/outbox"
	"precept/store/storetest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == childFlag {
		runChild(os.Args[2])
		return
	}
	goleak.VerifyTestMain(m)
}

// queue is an Outbox that records its damage reports.
type queue struct {
	*outbox.Outbox
	t             testing.TB
	dir           string
	damageReports []string
}

func open(t testing.TB, dir string) *queue {
	t.Helper()
	q, err := tryOpen(t, dir, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// tryOpen opens the outbox in dir with a quota in bytes.
func tryOpen(t testing.TB, dir string, quota int64) (*queue, error) {
	t.Helper()
	q := &queue{t: t, dir: dir}
	var err error
	q.Outbox, err = outbox.Open(outbox.Options{
		Path: outboxPath(dir), QuotaBytes: quota, Now: time.Now, OnDamage: func(err error) { q.damageReports = append(q.damageReports, err.Error()) },
	})
	if err == nil {
		t.Cleanup(func() { _ = q.Close() })
	}
	return q, err
}

func outboxPath(dir string) string { return filepath.Join(dir, "outbox.db") }

// newRow returns a row with one exchange.
func newRow(tenant string, session byte, text string) outbox.Row {
	return outbox.Row{Kind: outbox.KindTurns, Tenant: tenant, Session: outbox.SessionID{session}, Exchanges: 1, Document: []byte(text)}
}

func (q *queue) append(f outbox.Flush) int64 {
	q.t.Helper()
	last, err := q.Append(&f)
	if err != nil {
		q.t.Fatal(err)
	}
	return last
}

// appendRows appends a row for each text and returns the last sequence number.
func (q *queue) appendRows(texts ...string) int64 {
	q.t.Helper()
	var f outbox.Flush
	for _, text := range texts {
		f.Rows = append(f.Rows, newRow("default", 1, text))
	}
	return q.append(f)
}

// readDocuments joins the documents of the rows after a sequence number.
func (q *queue) readDocuments(after int64) string {
	q.t.Helper()
	var out []string
	for {
		rows, err := q.Read(after, math.MaxInt64, 1<<20)
		if err != nil {
			q.t.Fatal(err)
		}
		if len(rows) == 0 {
			return strings.Join(out, " ")
		}
		for _, r := range rows {
			out = append(out, string(r.Document))
			after = r.Sequence
		}
	}
}

// formatAccount formats an account as "admitted = stored + spooled + incomplete + dropped".
func formatAccount(a outbox.Account) string {
	text := fmt.Sprintf("%d = %d + %d + %d", a.Admitted, a.Stored, a.Spooled, a.Incomplete)
	if len(a.Dropped) > 0 {
		text += fmt.Sprint(" + ", a.Dropped)
	}
	return text
}

func checkAccount(t testing.TB, moment string, got outbox.Account, want string) {
	t.Helper()
	if formatAccount(got) != want {
		t.Errorf("account %s: got %s, want %s (admitted = stored + spooled + incomplete + dropped)", moment, formatAccount(got), want)
	}
}

// accountInFile returns the account in the file, without the state in memory.
func (q *queue) accountInFile() outbox.Account {
	q.t.Helper()
	a, err := outbox.ReadAccount(outboxPath(q.dir), false)
	if err != nil {
		q.t.Fatal(err)
	}
	return a
}

func checkEqual[T comparable](t testing.TB, subject string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", subject, got, want)
	}
}

// must ends the test if any of the errors is not nil.
func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// crashCopy returns a new directory with the files that a crash would leave.
func (q *queue) crashCopy() string {
	q.t.Helper()
	dir := q.t.TempDir()
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(outboxPath(q.dir) + suffix)
		must(q.t, err, os.WriteFile(outboxPath(dir)+suffix, b, 0o600))
	}
	return dir
}

func TestReadReturnsRowsInOrderUntilRelease(t *testing.T) {
	t.Parallel()
	q := open(t, t.TempDir())
	q.appendRows("a", "b")
	second := q.appendRows("c")
	q.appendRows("d")
	checkEqual(t, "rows before a release", q.readDocuments(0), "a b c d")
	checkEqual(t, "rows after the second flush", q.readDocuments(second), "d")
	q.MarkDelivered(second, 3 /* exchanges */, nil)
	must(t, q.Release(second))
	checkEqual(t, "rows after the release", q.readDocuments(0), "d")
	must(t, q.Close())
	q = open(t, q.dir)
	checkEqual(t, "rows after a restart", q.readDocuments(0), "d")
	delivered, last := q.Delivered()
	checkEqual(t, "last delivered row", delivered, second)
	checkEqual(t, "last row", last, second+1)
}

func TestSequenceNumbersContinueAfterRestart(t *testing.T) {
	t.Parallel()
	q := open(t, t.TempDir())
	last := q.appendRows("a", "b")
	q.MarkDelivered(last, 2, nil)
	must(t, q.Release(last), q.Close())
	q = open(t, q.dir)
	checkEqual(t, "first sequence number after a restart", q.appendRows("c"), last+1)
}

func TestReadEndsAtByteLimit(t *testing.T) {
	t.Parallel()
	q := open(t, t.TempDir())
	q.appendRows(strings.Repeat("a", 600), strings.Repeat("b", 600), strings.Repeat("c", 600))
	rows, err := q.Read(0, math.MaxInt64, 1000)
	checkEqual(t, "600-byte rows within 1000 bytes", len(rows), 2)
	must(t, err)
	rows, err = q.Read(rows[1].Sequence, math.MaxInt64, 1)
	checkEqual(t, "600-byte rows within 1 byte", len(rows), 1)
	must(t, err)
}

// A stub stands for a turn in progress. The account counts it as spooled, and after a crash as incomplete.
func TestAccountCountsEachExchangeOnce(t *testing.T) {
	t.Parallel()
	inProgress := outbox.Flush{Stubs: []outbox.Stub{{ID: "x", Tenant: "default", Document: []byte("a stub")}}}
	cases := map[string]struct {
		flushes          []outbox.Flush
		running, crashed string // accounts before and after a crash, as in formatAccount
	}{
		"row without a stub":     {[]outbox.Flush{{Rows: []outbox.Row{newRow("t", 1, "x")}}}, "1 = 0 + 1 + 0", "1 = 0 + 1 + 0"},
		"only a stub":            {[]outbox.Flush{inProgress}, "1 = 0 + 1 + 0", "1 = 0 + 0 + 1"},
		"stub, then a row":       {[]outbox.Flush{inProgress, {Rows: []outbox.Row{newRow("t", 1, "x")}, Ended: []string{"x"}}}, "1 = 0 + 1 + 0", "1 = 0 + 1 + 0"},
		"stub, then dropped":     {[]outbox.Flush{inProgress, {Ended: []string{"x"}, Dropped: map[string]int64{"bad": 1}}}, "1 = 0 + 0 + 0 + map[bad:1]", "1 = 0 + 0 + 0 + map[bad:1]"},
		"dropped without a stub": {[]outbox.Flush{{Dropped: map[string]int64{"full": 2}}}, "2 = 0 + 0 + 0 + map[full:2]", "2 = 0 + 0 + 0 + map[full:2]"},
		"ended without a stub":   {[]outbox.Flush{{Rows: []outbox.Row{newRow("t", 1, "x")}, Ended: []string{"x"}}}, "1 = 0 + 1 + 0", "1 = 0 + 1 + 0"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t, t.TempDir())
			for _, f := range tc.flushes {
				q.append(f)
			}
			checkAccount(t, "before a crash", q.Account(), tc.running)
			q = open(t, q.crashCopy())
			checkAccount(t, "after a crash", q.Account(), tc.crashed)
			checkAccount(t, "in the file after a crash", q.accountInFile(), tc.crashed)
		})
	}
}

func TestStubBecomesRowAfterCrash(t *testing.T) {
	t.Parallel()
	q := open(t, t.TempDir())
	q.append(outbox.Flush{Rows: []outbox.Row{newRow("default", 1, "whole")}, Stubs: []outbox.Stub{{ID: "x", Tenant: "default", Session: outbox.SessionID{7}, Document: []byte("stub")}}})
	for range 3 { // later crashes must not add another row
		q = open(t, q.crashCopy())
		checkEqual(t, "rows after a crash", q.readDocuments(0), "whole stub")
	}
	rows, err := q.Read(1, math.MaxInt64, 1)
	must(t, err)
	checkEqual(t, "stub row's kind", rows[0].Kind, outbox.KindStub)
	checkEqual(t, "stub row's session", rows[0].Session, outbox.SessionID{7})
	q.MarkDelivered(2, 1, nil)
	checkAccount(t, "after delivery", q.Account(), "2 = 1 + 0 + 1")
}

// After a loss of data in the backend, the store calls Rewind to deliver all rows again.
func TestRewindMarksRemainingRowsUndelivered(t *testing.T) {
	t.Parallel()
	q := open(t, t.TempDir())
	q.appendRows("a", "b")
	q.MarkDelivered(2, 2, nil)
	must(t, q.Release(1))
	q.appendRows("c")
	q.MarkDelivered(3, 1, map[string]int64{"bad": 1})
	checkAccount(t, "before Rewind", q.Account(), "3 = 2 + 0 + 0 + map[bad:1]")
	must(t, q.Rewind())
	delivered, last := q.Delivered()
	checkEqual(t, "last delivered row", delivered, 1)
	checkEqual(t, "last row", last, 3)
	checkEqual(t, "undelivered rows", q.readDocuments(delivered), "b c")
}

func TestDeliveredPositionIsSavedWithTheNextWrite(t *testing.T) {
	t.Parallel()
	q := open(t, t.TempDir())
	q.appendRows("a")
	q.MarkDelivered(1, 1, nil)
	checkAccount(t, "in the file after MarkDelivered", q.accountInFile(), "1 = 0 + 1 + 0")
	q.appendRows("b")
	checkAccount(t, "in the file after the next flush", q.accountInFile(), "2 = 1 + 1 + 0")
	q.MarkDelivered(2, 1, nil)
	must(t, q.Release(0))
	checkAccount(t, "in the file after a release", q.accountInFile(), "2 = 2 + 0 + 0")
}

func TestQuotaRefusesOnlyRowsWithExchanges(t *testing.T) {
	t.Parallel()
	q, err := tryOpen(t, t.TempDir(), 256<<10)
	must(t, err)
	n := 0
	for ; err == nil && n < 100; n++ {
		_, err = q.Append(&outbox.Flush{Rows: []outbox.Row{newRow("default", 1, strings.Repeat("x", 16<<10))}})
	}
	if !errors.Is(err, outbox.ErrQuota) {
		t.Fatalf("Append error = %v, want ErrQuota", err)
	}
	if n < 8 {
		t.Fatalf("refused row %d, want 8 or later", n)
	}
	withoutExchange := newRow("default", 1, strings.Repeat("y", 16<<10))
	withoutExchange.Exchanges = 0
	q.append(outbox.Flush{Rows: []outbox.Row{withoutExchange}, Dropped: map[string]int64{"quota": 1}})
	last := q.appendRows()
	q.MarkDelivered(last, int64(n-1), nil)
	must(t, q.Release(last))
	q.appendRows("after release")
	checkAccount(t, "after a release and one more row", q.Account(), fmt.Sprintf("%d = %d + 1 + 0 + map[quota:1]", n+1, n-1))
}

// filesWith returns the names of the outbox files that contain text.
func (q *queue) filesWith(text string) (names []string) {
	q.t.Helper()
	entries, err := os.ReadDir(q.dir)
	must(q.t, err)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(q.dir, e.Name()))
		must(q.t, err)
		if bytes.Contains(b, []byte(text)) {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestForgetErasesTextFromFiles(t *testing.T) {
	t.Parallel()
	q := open(t, t.TempDir())
	for i := range 40 { // the text is on many pages, even of deleted rows
		q.append(outbox.Flush{Rows: []outbox.Row{
			newRow("forgotten", 1, strings.Repeat("zanzibar ", 500)), newRow("kept", 1, strings.Repeat("madagascar ", 500)), newRow("kept", 2, strings.Repeat("comoros ", 500)),
		}})
		if i == 20 {
			q.MarkDelivered(30, 30, nil)
			must(t, q.Release(20))
		}
	}
	q.append(outbox.Flush{Stubs: []outbox.Stub{{ID: "x", Tenant: "forgotten", Document: []byte("zanzibar")}}})
	must(t, q.Forget("forgotten", nil), q.Forget("kept", []outbox.SessionID{{2}}), q.Forget("kept", []outbox.SessionID{}), q.Tidy())
	checkEqual(t, "files with the forgotten tenant's text", fmt.Sprint(q.filesWith("zanzibar")), "[]")
	checkEqual(t, "files with the forgotten session's text", fmt.Sprint(q.filesWith("comoros")), "[]")
	checkEqual(t, "files with the other session's text", fmt.Sprint(q.filesWith("madagascar")), "[outbox.db]")
	checkAccount(t, "after Forget", q.Account(), "121 = 30 + 91 + 0")
	undelivered, err := q.Read(30, math.MaxInt64, 1<<30)
	must(t, err)
	forgotten := 0
	for _, r := range undelivered {
		if r.Kind == outbox.KindForgotten && len(r.Document) == 0 {
			forgotten++
		}
	}
	checkEqual(t, "undelivered rows whose text was erased", forgotten, 60)
}

func TestOptOutErasesStub(t *testing.T) {
	t.Parallel()
	q := open(t, t.TempDir())
	must(t, q.Tidy())
	q.append(outbox.Flush{Stubs: []outbox.Stub{{ID: "x", Document: []byte("zanzibar")}, {ID: "y", Document: []byte("madagascar")}}})
	q.append(outbox.Flush{Ended: []string{"x"}, Dropped: map[string]int64{"opted_out": 1}, Scrub: true})
	must(t, q.Tidy())
	checkEqual(t, "files with the opted-out text", fmt.Sprint(q.filesWith("zanzibar")), "[]")
	checkEqual(t, "files with the text from the turn in progress", fmt.Sprint(q.filesWith("madagascar")), "[outbox.db]")
}

func TestTidyShrinksReleasedQueueFile(t *testing.T) {
	t.Parallel()
	q := open(t, t.TempDir())
	for range 64 {
		q.appendRows(strings.Repeat("x", 1<<20))
	}
	last := q.appendRows()
	q.MarkDelivered(last, last, nil)
	must(t, q.Release(last), q.Tidy())
	info, err := os.Stat(outboxPath(q.dir))
	must(t, err)
	if info.Size() > 1<<20 {
		t.Errorf("file size = %d, want at most %d", info.Size(), 1<<20)
	}
	if q.Bytes() > 1<<20 {
		t.Errorf("Bytes() = %d, want at most %d", q.Bytes(), 1<<20)
	}
}

// The last argument of AddMarks limits the number of marks.
func TestAddMarksDeletesTheOldestMarks(t *testing.T) {
	t.Parallel()
	q := open(t, t.TempDir())
	must(t, q.AddMarks([]outbox.Mark{{Name: 1, Turns: 1, Items: 2}, {Name: 1 << 63, Turns: 3, Items: 4}}, 2))
	must(t, q.AddMarks([]outbox.Mark{{Name: 1, Turns: 5, Items: 6}, {Name: 7, Turns: 8, Items: 9}}, 2), q.Close())
	list, err := open(t, q.dir).Marks()
	must(t, err)
	checkEqual(t, "stored opt-out marks", fmt.Sprint(list), "[{9223372036854775808 3 4} {7 8 9}]")
}

func TestNoteSurvivesReopen(t *testing.T) {
	t.Parallel()
	q := open(t, t.TempDir())
	must(t, q.SetNote("epoch", "a"), q.SetNote("epoch", "b"), q.Close())
	note, err := open(t, q.dir).Note("epoch")
	must(t, err)
	checkEqual(t, "note", note, "b")
}

func TestReadAccountWorksDuringWrites(t *testing.T) {
	t.Parallel()
	q := open(t, t.TempDir())
	stop := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for last := int64(0); ; {
			a, err := outbox.ReadAccount(outboxPath(q.dir), true)
			if err != nil {
				t.Error(err)
				return
			}
			if a.Admitted < last {
				t.Errorf("Admitted = %d, want at least %d", a.Admitted, last)
				return
			}
			if a.Admitted != a.Stored+a.Spooled {
				t.Errorf("account = %+v, want Admitted = Stored + Spooled", a)
				return
			}
			last = a.Admitted
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for range 60 {
		last := q.appendRows("a", "b", "c")
		q.MarkDelivered(last-1, 3, nil)
		must(t, q.Release(last-2))
	}
	close(stop)
	reading.Wait()
}

func TestReadAccountAcceptsRelativePath(t *testing.T) {
	dir := t.TempDir()
	q := open(t, dir)
	q.appendRows("a", "b")
	must(t, q.Close())
	t.Chdir(filepath.Dir(dir))
	a, err := outbox.ReadAccount(filepath.Join(filepath.Base(dir), filepath.Base(outboxPath(dir))), false)
	must(t, err)
	checkAccount(t, "with a relative path", a, "2 = 0 + 2 + 0")
}

func TestMissingFileHasZeroAccount(t *testing.T) {
	t.Parallel()
	a, err := outbox.ReadAccount(outboxPath(t.TempDir()), false)
	must(t, err)
	checkAccount(t, "in a missing file", a, "0 = 0 + 0 + 0")
}

func TestOpenRenamesForeignFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.WriteFile(outboxPath(dir), []byte("this is a letter"), 0o600))
	q := open(t, dir)
	q.appendRows("a")
	checkEqual(t, "rows in the new file", q.readDocuments(0), "a")
	checkEqual(t, "number of damage reports", len(q.damageReports), 1)
	checkEqual(t, "files with the letter", len(q.filesWith("this is a letter")), 1)
	must(t, q.DeleteDamagedFiles(time.Time{}))
	checkEqual(t, "files with the letter after DeleteDamagedFiles", len(q.filesWith("this is a letter")), 0)
}

// Each round flips one bit, clears 5000 bytes or truncates the file.
func TestDamagedFileReturnsOnlyAppendedDocuments(t *testing.T) {
	t.Parallel()
	q := open(t, t.TempDir())
	var want []string
	for i := range 40 {
		text := fmt.Sprint(i, " ", strings.Repeat(fmt.Sprint("text", i, "-"), 1000))
		want = append(want, text)
		q.appendRows(text)
	}
	for i := range 8 {
		text := fmt.Sprint("post ", i, " ", strings.Repeat(fmt.Sprint("post", i, "-"), 1000))
		want = append(want, text)
		must(t, q.AddPosts([]outbox.Post{{Tenant: "default", At: time.Now(), Document: []byte(text)}}))
	}
	q.MarkDelivered(5, 5, nil)
	must(t, q.Tidy(), q.Close())
	original, err := os.ReadFile(outboxPath(q.dir))
	must(t, err)
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 150 {
		dir := t.TempDir()
		b := bytes.Clone(original)
		switch round % 3 {
		case 0:
			b[rnd.IntN(len(b))] ^= 1 << rnd.IntN(8)
		case 1:
			at := rnd.IntN(len(b))
			clear(b[at:min(at+5000, len(b))])
		case 2:
			b = b[:rnd.IntN(len(b))]
		}
		must(t, os.WriteFile(outboxPath(dir), b, 0o600))
		q, err := tryOpen(t, dir, 1<<30)
		if err != nil {
			t.Fatalf("round %d: Open error = %v, want none", round, err)
		}
		delivered, _ := q.Delivered()
		rows, err := q.Read(delivered, math.MaxInt64, 1<<30)
		must(t, err)
		for _, r := range rows {
			if !slices.Contains(want, string(r.Document)) {
				t.Fatalf("round %d: row %d = %.60q, want an appended document", round, r.Sequence, r.Document)
			}
		}
		posts, err := q.Posts(0, 1<<30)
		must(t, err)
		for _, p := range posts {
			if !slices.Contains(want, string(p.Document)) {
				t.Fatalf("round %d: post %d = %.60q, want an appended document", round, p.Number, p.Document)
			}
		}
		checkEqual(t, "PostCount after damage", q.PostCount(), int64(len(posts)))
		a := q.Account()
		if a.Admitted != a.Stored+a.Spooled+a.Incomplete+a.Dropped[outbox.DroppedDamaged] {
			t.Errorf("round %d: account = %+v, want each exchange counted once", round, a)
		}
		if a.Spooled != int64(len(rows)) {
			t.Errorf("round %d: Spooled = %d, want %d", round, a.Spooled, len(rows))
		}
		if round%3 == 0 && len(rows) < 30 && len(q.damageReports) > 0 {
			t.Logf("round %d: lost %d rows, damage reports %v", round, 35-len(rows), q.damageReports)
		}
		q.appendRows("more")
		must(t, q.Close())
	}
}

func TestClearedPageLosesOnlyOwnRows(t *testing.T) {
	t.Parallel()
	const pageBytes, count = 8192, 40
	q := open(t, t.TempDir())
	document := func(i int) string { return fmt.Sprintf("document-%02d-%s", i, strings.Repeat("x", pageBytes/4)) }
	for i := range count {
		q.appendRows(document(i))
	}
	must(t, q.Tidy(), q.Close())
	file, err := os.ReadFile(outboxPath(q.dir))
	must(t, err)
	at := bytes.Index(file, []byte("document-20-"))
	cleared := file[at-at%pageBytes:][:pageBytes]
	lost := map[string]bool{}
	for i := range count {
		lost[document(i)] = bytes.Contains(cleared, fmt.Appendf(nil, "document-%02d-", i))
	}
	clear(cleared)
	must(t, os.WriteFile(outboxPath(q.dir), file, 0o600))
	q = open(t, q.dir)
	got := strings.Fields(q.readDocuments(0))
	for i := range count {
		checkEqual(t, fmt.Sprintf("row with document %d is readable", i), slices.Contains(got, document(i)), !lost[document(i)])
	}
	checkEqual(t, "number of damage reports", len(q.damageReports), 1)
}

// A directory with the name of the new file prevents the first replacement.
func TestDamagedFileReplacementIsRetried(t *testing.T) {
	t.Parallel()
	q := open(t, t.TempDir())
	for i := range 40 {
		q.appendRows(fmt.Sprint(i, " ", strings.Repeat("x", 4096)))
	}
	must(t, q.Tidy())
	file, err := os.ReadFile(outboxPath(q.dir))
	must(t, err)
	const pageBytes = 8192
	clear(file[pageBytes:]) // the header stays
	must(t, os.WriteFile(outboxPath(q.dir), file, 0o600))
	obstacle := outboxPath(q.dir) + ".new"
	must(t, os.MkdirAll(filepath.Join(obstacle, "x"), 0o700))
	row := []outbox.Row{newRow("default", 1, "after the damage")}
	if _, err := q.Read(0, math.MaxInt64, 1<<30); err == nil {
		t.Fatal("Read error = nil, want an error")
	}
	if _, err := q.Append(&outbox.Flush{Rows: row}); err == nil {
		t.Fatal("Append error = nil, want an error")
	}
	must(t, os.RemoveAll(obstacle))
	if _, err := q.Append(&outbox.Flush{Rows: row}); err != nil {
		t.Fatalf("Append without the directory: %v", err)
	}
	checkEqual(t, "rows with the new document", strings.Count(q.readDocuments(0), "after the damage"), 1)
}

func TestFullDiskRefusesRowsAndAllowsRelease(t *testing.T) {
	t.Parallel()
	disk := storetest.SmallDisk(t, 12<<20)
	q := open(t, disk.Dir)
	text := strings.Repeat("x", 40<<10)
	n := int64(0)
	var err error
	for ; err == nil && n < 1000; n++ {
		_, err = q.Append(&outbox.Flush{Rows: []outbox.Row{newRow("default", 1, text)}})
	}
	if !errors.Is(err, outbox.ErrFull) {
		t.Fatalf("Append error = %v, want ErrFull", err)
	}
	if n--; n < 50 {
		t.Fatalf("%d rows on a small disk, want at least 50", n)
	}
	disk.Fill(t, 0)
	checkAccount(t, "on a full disk", q.Account(), fmt.Sprintf("%d = 0 + %d + 0", n, n))
	_, err = q.Append(&outbox.Flush{Rows: []outbox.Row{newRow("default", 1, text)}})
	if !errors.Is(err, outbox.ErrFull) {
		t.Errorf("Append error on a full disk = %v, want ErrFull", err)
	}
	for at := int64(10); at < n; at += 10 {
		q.MarkDelivered(at, 10, nil)
		if err := q.Release(at); err != nil {
			t.Fatalf("Release(%d) on a full disk: %v", at, err)
		}
	}
	q.appendRows("after release")
	rows, err := q.Read(0, math.MaxInt64, 1<<30)
	must(t, err)
	checkEqual(t, "last row's document", string(rows[len(rows)-1].Document), "after release")
	checkAccount(t, "after a crash", open(t, q.crashCopy()).accountInFile(), formatAccount(q.accountInFile()))
}

func TestFileFromNewerReleaseIsRefused(t *testing.T) {
	t.Parallel()
	q := open(t, t.TempDir())
	must(t, q.Close())
	b, err := os.ReadFile(outboxPath(q.dir))
	must(t, err)
	b[63]++ // user_version
	must(t, os.WriteFile(outboxPath(q.dir), b, 0o600))
	if _, err := tryOpen(t, q.dir, 1<<30); !errors.Is(err, outbox.ErrNewer) {
		t.Errorf("Open error = %v, want ErrNewer", err)
	}
}

// A run can have more sessions than SQLite accepts parameters (32,766).
func TestForgetHandlesVeryLargeRun(t *testing.T) {
	t.Parallel()
	q := open(t, t.TempDir())
	ids := make([]outbox.SessionID, 33_000)
	for i := range ids {
		ids[i] = outbox.SessionID{byte(i >> 16), byte(i >> 8), byte(i), 1}
	}
	first, last, other := newRow("t", 1, "zanzibar"), newRow("t", 1, "zanzibar"), newRow("t", 1, "madagascar")
	first.Session, last.Session, other.Session = ids[0], ids[len(ids)-1], outbox.SessionID{255}
	q.append(outbox.Flush{Rows: []outbox.Row{first, last, other}})
	must(t, q.Forget("t", ids), q.Tidy())
	checkEqual(t, "files with the forgotten sessions' text", fmt.Sprint(q.filesWith("zanzibar")), "[]")
	checkEqual(t, "files with the other session's text", fmt.Sprint(q.filesWith("madagascar")), "[outbox.db]")
}
