package ledger_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"precept/inject/ledger"
)

func clock() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) }

func newEntry(n int) ledger.Entry {
	return ledger.Entry{
		IntentID: "INT-1", Type: ledger.TypeTest, File: "src/cart.go", Error: fmt.Sprintf("the sum is %d", n),
		Cause: "An off-by-one.", Resolution: "The loop ends one earlier.", Rule: "Test the empty list.",
	}
}

// newLedger returns a ledger in a file with text. If text is empty, the file does not exist.
func newLedger(t *testing.T, text string) *ledger.Ledger {
	t.Helper()
	path := filepath.Join(t.TempDir(), ledger.FileName)
	if text != "" {
		if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	return &ledger.Ledger{Path: path, Now: clock}
}

func record(t *testing.T, l *ledger.Ledger, entries ...ledger.Entry) []ledger.Result {
	t.Helper()
	results, traceErr, err := l.Record(t.Context(), entries...)
	if err != nil || traceErr != nil {
		t.Fatalf("Record: err = %v, trace error = %v, want none", err, traceErr)
	}
	return results
}

func readLedger(t *testing.T, l *ledger.Ledger) string {
	t.Helper()
	b, err := os.ReadFile(l.Path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func readTrace(t *testing.T, l *ledger.Ledger) []map[string]any {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(filepath.Dir(l.Path), ledger.TraceFile))
	if err != nil {
		t.Fatal(err)
	}
	var out []map[string]any
	for line := range strings.Lines(string(b)) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

// bullet is the text of newEntry(1) in a ledger.
const bullet = `- [2026-03-04T05:06:07Z] **Failure Type:** test
    - **Intent ID:** INT-1
    - **File:** ` + "`src/cart.go`" + `
    - **Error Summary:** the sum is 1
    - **Cause:** An off-by-one.
    - **Resolution:** The loop ends one earlier.
    - **Corrective Rule:** Test the empty list.
`

func TestEntryIsAddedToSection(t *testing.T) {
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
	const head = "## Lessons Learned\n\n"
	for name, tc := range map[string]struct{ before, after string }{
		"no file":                             {"", head + bullet},
		"no section":                          {"# Agent\n\nBe kind.\n", "# Agent\n\nBe kind.\n\n" + head + bullet},
		"no newline at end":                   {"# Agent\n\nBe kind.", "# Agent\n\nBe kind.\n\n" + head + bullet},
		"crlf":                                {"# Agent\r\n\r\nBe kind.", "# Agent\r\n\r\nBe kind.\r\n\r\n" + crlf(head+bullet)},
		"empty section":                       {"## Lessons Learned\n", head + bullet},
		"bare heading":                        {"## Lessons Learned", head + bullet},
		"entry list":                          {head + "- old\n", head + "- old\n" + bullet},
		"list without a line feed at the end": {head + "- old", head + "- old\n" + bullet},
		"prose":                               {head + "What we know.\n", head + "What we know.\n\n" + bullet},
		"section before another section":      {head + "- old\n\n## Style\n\n- tabs\n", head + "- old\n" + bullet + "\n## Style\n\n- tabs\n"},
		"crlf section before another section": {crlf(head + "- old\n\n\n# Style\n"), crlf(head + "- old\n" + bullet + "\n\n# Style\n")},
		"subheadings":                         {head + "### 2025\n- old\n\n### 2026\n- new\n## End\n", head + "### 2025\n- old\n\n### 2026\n- new\n" + bullet + "## End\n"},
		"heading in a fence": {
			"```\n## Lessons Learned\n```\n", "```\n## Lessons Learned\n```\n\n" + head + bullet,
		},
		"heading in a comment": {
			"<!--\n## Lessons Learned\n-->\n", "<!--\n## Lessons Learned\n-->\n\n" + head + bullet,
		},
		"unclosed fence":                     {"text\n~~~~ md\nx\n", "text\n~~~~ md\nx\n~~~~\n\n" + head + bullet},
		"unclosed fence in section":          {head + "- old\n```\nx\n", head + "- old\n```\nx\n```\n\n" + bullet},
		"heading in a different letter case": {"## LESSONS learned ##\n\n- old\n", "## LESSONS learned ##\n\n- old\n" + bullet},
		"blank lines at the end, no section": {"# Agent\n\n\n", "# Agent\n\n\n\n" + head + bullet},
		"a comment with three lines": {
			"<!--\none\n## Lessons Learned\n-->\n", "<!--\none\n## Lessons Learned\n-->\n\n" + head + bullet,
		},
		"a comment in a fence":             {"```\n<!--\n```\n" + head + "- old\n", "```\n<!--\n```\n" + head + "- old\n" + bullet},
		"a blank crlf line at the start":   {"\r\n## Lessons Learned\r\n", "\r\n## Lessons Learned\r\n\r\n" + strings.ReplaceAll(bullet, "\n", "\r\n")},
		"byte order mark":                  {"\ufeff## Lessons Learned\n\n- old\n", "\ufeff## Lessons Learned\n\n- old\n" + bullet},
		"heading at a different level":     {"# Lessons Learned\n\n- old\n", "# Lessons Learned\n\n- old\n\n" + head + bullet},
		"a comment on one line":            {head + "- old\n<!-- x -->\n## End\n", head + "- old\n<!-- x -->\n\n" + bullet + "## End\n"},
		"a comment on two lines":           {head + "<!-- x\n## No\nend -->\n- old\n## End\n", head + "<!-- x\n## No\nend -->\n- old\n" + bullet + "## End\n"},
		"unclosed comment":                 {"text\n<!-- x\n", "text\n<!-- x\n-->\n\n" + head + bullet},
		"another section":                  {"## Style\n\n- tabs\n", "## Style\n\n- tabs\n\n" + head + bullet},
		"an entry in another section":      {"## Style\n\n" + bullet, "## Style\n\n" + bullet + "\n" + head + bullet},
		"indented code":                    {head + "- old\n\n    ```\n## End\n", head + "- old\n\n    ```\n" + bullet + "## End\n"},
		"one line feed":                    {"\n", "\n\n" + head + bullet},
		"blank lines at the section's end": {head + "- old\n\n\n\n", head + "- old\n" + bullet + "\n\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(t, tc.before)
			if r := record(t, l, newEntry(1)); r[0].Status != ledger.Recorded {
				t.Fatalf("first Record = %+v, want status %s", r, ledger.Recorded)
			}
			if got := readLedger(t, l); got != tc.after {
				t.Fatalf("file =\n%q\nwant\n%q", got, tc.after)
			}
			if r := record(t, l, newEntry(1)); r[0].Status != ledger.Duplicate {
				t.Fatalf("second Record = %+v, want status %s", r, ledger.Duplicate)
			}
			if got := readLedger(t, l); got != tc.after {
				t.Fatalf("file after the second Record =\n%q\nwant\n%q", got, tc.after)
			}
			record(t, l, newEntry(2), newEntry(2))
			if n := strings.Count(readLedger(t, l), "**Error Summary:** the sum is 2"); n != 1 {
				t.Fatalf("file has %d entries after two equal entries in one call, want 1", n)
			}
		})
	}
}

func TestRecordKeepsAllOtherBytes(t *testing.T) {
	pieces := []string{
		"## Lessons Learned\n", "## Lessons Learned\r\n", "# Agent\n", "- old\n", "    - inner\n", "```\n", "~~~\r\n", "<!-- x\n", "-->\n",
		"text", "\n", "\r\n", "## Next\n", "\ufeff", "\xff\xfe", "   ## Lessons Learned\n", "    ## Lessons Learned\n", "\t\n", "<!-- y -->\n",
	}
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		before := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 12).Draw(t, "pieces"), "")
		path := filepath.Join(dir, ledger.FileName)
		if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		l := &ledger.Ledger{Path: path, Now: clock}
		for n := range 3 {
			if r, _, err := l.Record(context.Background(), newEntry(1)); err != nil || (r[0].Status == ledger.Recorded) != (n == 0) {
				t.Fatalf("Record call %d in file %q = %+v, %v, want status recorded only for call 0", n, before, r, err)
			}
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		after := string(b)
		prefix := 0
		for prefix < len(before) && before[prefix] == after[prefix] {
			prefix++
		}
		if !strings.HasSuffix(after, before[prefix:]) {
			// The common prefix may include part of the inserted text. In that case, try shorter prefixes until the
			// rest of before is a suffix of after.
			for prefix >= 0 && !(strings.HasPrefix(after, before[:prefix]) && strings.HasSuffix(after, before[prefix:])) {
				prefix--
			}
		}
		if prefix < 0 {
			t.Fatalf("file %q became %q, want only an insertion", before, after)
		}
	})
}

func TestConcurrentRecordsLoseNoEntry(t *testing.T) {
	l := newLedger(t, "# Agent\n\n## Lessons Learned\n\n- by hand\n\n## Style\n")
	var all sync.WaitGroup
	for n := range 50 {
		all.Go(func() {
			own := *l
			for _, e := range []ledger.Entry{newEntry(n), newEntry(1000)} {
				if _, traceErr, err := own.Record(t.Context(), e); err != nil || traceErr != nil {
					t.Errorf("Record: err = %v, trace error = %v, want none", err, traceErr)
				}
			}
		})
	}
	all.Wait()
	got := readLedger(t, l)
	for n := range 50 {
		if c := strings.Count(got, fmt.Sprintf("    - **Error Summary:** the sum is %d\n", n)); c != 1 {
			t.Errorf("ledger has entry %d %d times, want once", n, c)
		}
	}
	if c := strings.Count(got, "the sum is 1000\n"); c != 1 {
		t.Errorf("fifty Record calls with the same failure: got %d entries, want 1", c)
	}
	if !strings.HasPrefix(got, "# Agent\n\n## Lessons Learned\n\n- by hand\n- [") || !strings.HasSuffix(got, "\n\n## Style\n") {
		t.Errorf("ledger = %q, want the entries after \"- by hand\" and before \"## Style\"", got)
	}
	if lines := readTrace(t, l); len(lines) != 100 {
		t.Errorf("trace after 100 Record calls: got %d lines, want 100", len(lines))
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(l.Path), ".AGENT.md.*"))
	if err != nil || len(left) != 0 {
		t.Errorf("temporary files remain: %q, err = %v", left, err)
	}
}

func TestSummaryIsOneShortSafeLine(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{strings.Repeat("x", 500), strings.Repeat("x", 500)},
		{strings.Repeat("x", 501), strings.Repeat("x", 500) + "..."},
		{strings.Repeat("é", 501), strings.Repeat("é", 500) + "..."},
		{"two\nlines\r\n\tand \x1b[31mred\x1b[0m", "two lines and red"},
		{"## Lessons Learned", "## Lessons Learned"},
		{"a <!-- b", "a &lt;!-- b"},
		{"right\u202eto left\u200b", "rightto left"},
	} {
		if got := ledger.Summary(tc.in); got != tc.want {
			t.Errorf("Summary(%.40q) = %q, want %q", tc.in, got, tc.want)
		}
	}
}

func TestSecretsAreRedactedInLedgerAndTrace(t *testing.T) {
	l := newLedger(t, "")
	e := newEntry(1)
	const key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"
	e.Error, e.Cause = "401 for key "+key, "OPENAI_API_KEY="+key
	record(t, l, e)
	if r := record(t, l, e); r[0].Status != ledger.Duplicate {
		t.Errorf("second Record = %+v, want status %s", r, ledger.Duplicate)
	}
	raw, err := os.ReadFile(filepath.Join(filepath.Dir(l.Path), ledger.TraceFile))
	if err != nil || strings.Contains(readLedger(t, l), key) || bytes.Contains(raw, []byte(key)) {
		t.Errorf("ledger = %q, trace = %q, err = %v, want both without the key %q", readLedger(t, l), raw, err, key)
	}
}

// If Record cannot write an entry, it tries again after 100 ms. If the second attempt also fails, only the trace has
// the entry.
func TestFailedWriteIsRetriedAndTraced(t *testing.T) {
	l := newLedger(t, "x\n")
	if err := os.Remove(l.Path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(l.Path, 0o755); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := record(t, l, newEntry(1))
		if r[0].Status != ledger.Failed || r[0].Message == "" {
			t.Fatalf("Record = %+v, want status %s and a message", r, ledger.Failed)
		}
		if elapsed := time.Since(start); elapsed != 100*time.Millisecond {
			t.Errorf("Record took %v, want 100ms", elapsed)
		}
	})
	line := readTrace(t, l)[0]
	if line["status"] != "failed" || line["entry"].(map[string]any)["rule"] != "Test the empty list." {
		t.Errorf("trace line = %+v, want status failed and the entry with the rule", line)
	}
}

func TestEntryIsRecordedAtSecondAttempt(t *testing.T) {
	l := newLedger(t, "")
	if err := os.Mkdir(l.Path, 0o755); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		time.AfterFunc(30*time.Millisecond, func() { _ = os.Remove(l.Path) })
		if r := record(t, l, newEntry(1)); r[0].Status != ledger.Recorded {
			t.Fatalf("Record = %+v, want status %s", r, ledger.Recorded)
		}
	})
}

func TestRecordFollowsAbsoluteLinks(t *testing.T) {
	l, target := newLedger(t, ""), filepath.Join(t.TempDir(), "AGENTS.md")
	if err := errors.Join(os.Symlink(l.Path+".link", l.Path), os.Symlink(target, l.Path+".link")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first record creates the target
		record(t, l, newEntry(1))
	}
	if data, err := os.ReadFile(target); err != nil || strings.Count(string(data), "Error Summary") != 1 {
		t.Fatalf("link target = %q, err = %v, want one entry", data, err)
	}
}

func TestRecordKeepsFileModeAndLinks(t *testing.T) {
	l := newLedger(t, "")
	dir := filepath.Dir(l.Path)
	target := filepath.Join(dir, "docs", "AGENTS.md")
	if err := os.Mkdir(filepath.Dir(target), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join("docs", "AGENTS.md"), l.Path); err != nil {
		t.Fatal(err)
	}
	record(t, l, newEntry(1)) // through a link to a missing file
	if err := os.Chmod(target, 0o600); err != nil {
		t.Fatal(err)
	}
	record(t, l, newEntry(2))
	info, err := os.Lstat(l.Path)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Fatalf("Lstat(ledger) = %+v, %v, want a link", info, err)
	}
	if info, err = os.Stat(target); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("Stat(target) = %+v, %v, want mode 0o600", info, err)
	}
	if b, _ := os.ReadFile(target); strings.Count(string(b), "Error Summary") != 2 {
		t.Fatalf("link target = %q, want two entries", b)
	}
	if err := os.Chmod(target, 0o444); err != nil {
		t.Fatal(err)
	}
	if r := record(t, l, newEntry(3)); r[0].Status != ledger.Failed {
		t.Errorf("Record into a read-only file = %+v, want status %s", r, ledger.Failed)
	}
}

func TestDecodeRefusesInvalidEntries(t *testing.T) {
	good := `{"intent_id":"I","type":"lint","file":"a.go","error":"e","cause":"c","resolution":"r","rule":"do"}`
	if e, err := ledger.Decode(strings.NewReader(good)); err != nil || e.Rule != "do" {
		t.Fatalf(`Decode of a valid entry = %+v, %v, want the rule "do"`, e, err)
	}
	for name, tc := range map[string]struct{ body, want string }{
		"empty":            {"", "standard input is empty"},
		"array":            {"[]", "not one JSON object"},
		"two objects":      {good + good, "text follows"},
		"unknown field":    {strings.Replace(good, `"rule"`, `"severity":"x","rule"`, 1), `"severity" is not an entry field`},
		"missing field":    {strings.Replace(good, `"cause":"c",`, "", 1), "cause is missing"},
		"blank field":      {strings.Replace(good, `"c"`, `"  "`, 1), "cause is missing"},
		"field twice":      {strings.Replace(good, `"cause":"c"`, `"cause":"c","cause":"d"`, 1), "cause appears twice"},
		"number":           {strings.Replace(good, `"c"`, `3`, 1), "cause is not a string"},
		"null":             {strings.Replace(good, `"c"`, `null`, 1), "cause is not a string"},
		"unknown type":     {strings.Replace(good, `"lint"`, `"LINT"`, 1), "write lint, test or static-analysis"},
		"long field":       {strings.Replace(good, `"do"`, `"`+strings.Repeat("x", 4097)+`"`, 1), "rule has 4097 characters"},
		"misspelled field": {strings.Replace(good, `"rule"`, `"rulez"`, 1), "(the fields are intent_id, type, file, error, cause, resolution, rule)"},
		"truncated":        {good[:40], "not one JSON object"},
	} {
		if _, err := ledger.Decode(strings.NewReader(tc.body)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: err = %v, want %q", name, err, tc.want)
		}
	}
}
