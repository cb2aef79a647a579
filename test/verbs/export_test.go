package verbs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"precept/test/harness"

	"github.com/parquet-go/parquet-go"

	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/cmd/precept/lake"
	"precept/cmd/precept/server"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/sqlite"
)

func runExport(t *testing.T, dir string, flags ...string) string {
	t.Helper()
	return harness.MustRun(t, append([]string{"export", "--data-dir", dir}, flags...)...)
}

func sessionID(n int) session.ID {
	return session.NamedID("default", session.NamespaceSession, fmt.Sprint(n))
}

// newExchange returns the first exchange in a session: the user message "question n" and the reply "answer n". If
// lesson is not empty, the exchange contains this lesson.
func newExchange(tenant string, id session.ID, n int, at time.Time, lesson string) sample.Exchange {
	x := sample.Exchange{
		ID: fmt.Sprintf("00000000-0000-4000-8000-%012x", n), Tenant: tenant, Agent: "coder", Session: id.String(), Turn: 1, At: at, Dialect: "chat", Model: "m-1",
		Status: 200, Outcome: sample.Complete, New: []json.RawMessage{json.RawMessage(fmt.Sprintf(`{"role":"user","content":"question %d"}`, n))},
		Reply: sample.Reply{Text: fmt.Sprint("answer ", n)},
	}
	if lesson != "" {
		x.Lessons = []sample.Lesson{{Slug: lesson, Arm: lesson + "@1", State: "injected", Propensity: 0.8}}
	}
	return x
}

// storeFourSessions stores four sessions, numbered 0 to 3, of two tenants and with different ratings. It returns the
// data directory.
func storeFourSessions(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(dir, "precept.db"), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rating := func(kind string, score float64) []feedback.Entry {
		return []feedback.Entry{{ID: "f", At: day(9), Source: "user", Type: kind, Score: score, Tier: 1}}
	}
	for n, tc := range []struct {
		tenant, lesson string
		entries        []feedback.Entry
	}{
		{"default", "look-twice", rating("approval", 1)},
		{"default", "", rating("rejection", 0)},
		{"default", "look-twice", nil},
		{"acme", "", rating("score", 0.5)},
	} {
		id := sessionID(n)
		record := &session.Record{
			Identity: session.Identity{ID: id, Tenant: tc.tenant, Agent: "coder", Name: fmt.Sprint(n), Started: day(n + 1), Seen: day(n + 1)},
			Thread:   session.Thread{Turns: 1},
		}
		if tc.lesson != "" {
			record.Assignment = trial.Assignment{Decided: true, Picks: []trial.Pick{{Slug: tc.lesson, Arm: trial.Arm(tc.lesson + "@1"), Injected: true, Propensity: 0.8, Eps: 0.2}}}
		}
		row, err := record.Row(func(text string) (string, bool) { return text, true })
		if err != nil {
			t.Fatal(err)
		}
		b := session.Batch{Rows: []session.Row{row}, Exchanges: []sample.Exchange{newExchange(tc.tenant, id, n, day(n+1), tc.lesson)}}
		rated := sample.Session{Tenant: tc.tenant, Agent: "coder", ID: id.String(), Exchanges: slices.Clone(b.Exchanges)}
		for _, e := range tc.entries {
			rated.Ratings = append(rated.Ratings, sample.Rating{At: e.At, Source: e.Source, Type: e.Type, Score: e.Score})
		}
		for _, m := range sample.Build(rated) {
			b.Samples = append(b.Samples, session.StoredSample{Tenant: tc.tenant, Agent: "coder", ID: id, Sample: m})
		}
		if err := db.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if _, err := db.AddFeedback(t.Context(), tc.tenant, map[session.ID][]feedback.Entry{id: tc.entries}); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func day(n int) time.Time { return time.Date(2031, 5, n, 12, 0, 0, 0, time.UTC) }

func TestExportFiltersApplyToEachFormat(t *testing.T) {
	dir := storeFourSessions(t)
	for _, tc := range []struct {
		flags string
		want  string
	}{
		{"", "0 1 2 3"},
		{"--tenant acme", "3"},
		{"--tenant nobody", ""},
		{"--since 2031-05-02 --until 2031-05-04", "1 2"},
		{"--until 2031-05-02T12:00:00Z", "0"},
		{"--lesson look-twice", "0 2"},
		{"--lesson other", ""},
		{"--quality good", "0"},
		{"--quality poor,unrated", "1 2"},
		{"--quality acceptable", "3"},
		{"--family dialog_response", "0 1 2 3"},
		{"--family error_correction,plan_optimization", ""},
		{"--lesson look-twice --quality good --tenant default", "0"},
	} {
		for _, format := range []string{"mplp", "openai", "parquet"} {
			out := runExport(t, dir, append(strings.Fields(tc.flags), "--format", format)...)
			if format == "parquet" {
				out = parquetInputs(t, []byte(out))
			}
			var found []string
			for n := range 4 {
				if strings.Contains(out, fmt.Sprintf("question %d", n)) {
					found = append(found, fmt.Sprint(n))
				}
			}
			if got := strings.Join(found, " "); got != tc.want {
				t.Errorf("export %s --format %s: got sessions %q, want %q", tc.flags, format, got, tc.want)
			}
		}
	}
	if n := strings.Count(runExport(t, dir, "--format", "experiment", "--lesson", "look-twice"), "\n"); n != 2 {
		t.Errorf("export --format experiment --lesson look-twice: got %d lines, want 2", n)
	}
	if out := runExport(t, dir, "--format", "experiment", "--lesson", "other"); out != "" {
		t.Errorf("export --format experiment --lesson other: got %s, want no output", out)
	}
}

func readParquet(t *testing.T, file []byte) []lake.Row {
	t.Helper()
	rows, err := parquet.Read[lake.Row](bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func parquetInputs(t *testing.T, file []byte) string {
	t.Helper()
	var b strings.Builder
	for _, r := range readParquet(t, file) {
		b.WriteString(r.Input)
	}
	return b.String()
}

func TestParquetExportMatchesDefaultExport(t *testing.T) {
	dir := storeFourSessions(t)
	var lines []sample.Sample
	for d := json.NewDecoder(strings.NewReader(runExport(t, dir))); ; {
		var s sample.Sample
		err := d.Decode(&s)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, s)
	}
	path := filepath.Join(t.TempDir(), "samples.parquet")
	if out := runExport(t, dir, "--format", "parquet", "--output", path); out != "" {
		t.Errorf("export --output: got standard output %q, want an empty one", out)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rows := readParquet(t, file)
	if len(rows) != len(lines) || len(rows) != 4 {
		t.Fatalf("exports of the same sessions: got %d Parquet rows and %d JSON lines, want 4 of each", len(rows), len(lines))
	}
	for i, r := range rows {
		s := lines[i]
		var input, meta map[string]any
		if json.Unmarshal([]byte(r.Input), &input) != nil || json.Unmarshal([]byte(r.Meta), &meta) != nil || !reflect.DeepEqual(input, s.Input) || !reflect.DeepEqual(meta, s.Meta) {
			t.Errorf("row %d: got input %s and meta %s, want %v and %v", i, r.Input, r.Meta, s.Input, s.Meta)
		}
		label := ""
		if r.QualityLabel != nil {
			label = *r.QualityLabel
		}
		if r.SampleID != s.ID || r.Family != s.Family || r.CreatedAt != s.CreatedAt.UnixMilli() || label != s.Feedback.QualityLabel ||
			r.QualityScore != s.Meta["quality_score"] || r.Tenant != s.Meta["tenant"] || r.Turns != 1 || r.Model != "m-1" {
			t.Errorf("row %d: got %+v, want the values in %+v", i, r, s)
		}
	}
}

func TestExportExplainsMissingPreferencePairs(t *testing.T) {
	dir := storeFourSessions(t)
	out, stderr, code := harness.RunCommand(t, "", "export", "--data-dir", dir, "--format", "preference")
	const want = "precept: the export is empty: of 4 sessions, 3 had feedback from a person, and 1 of these had a correction or a rejection; " +
		"a preference pair needs a correction, or a rejected and an approved answer to the same user words\n"
	if code != harness.ExitOK || out != "" || !strings.Contains(stderr, want) {
		t.Errorf("export --format preference: got exit code %d, output %q, standard error %q, want exit code 0, no output, and the message %q", code, out, stderr, want)
	}
}

func TestEmptyExportIsExplained(t *testing.T) {
	dir := storeFourSessions(t)
	for _, format := range []string{"mplp", "openai", "experiment"} {
		out, stderr, code := harness.RunCommand(t, "", "export", "--data-dir", dir, "--format", format, "--session", "no-such-session")
		if code != harness.ExitOK || out != "" || !strings.Contains(stderr, "precept: the export is empty: no stored data matches the flags;") {
			t.Errorf("export of an unknown session as %s: got exit code %d, output %q, standard error %q, want exit code 0, no output, and a note that the export is empty", format, code, out, stderr)
		}
	}
}

func TestExportCountsRecords(t *testing.T) {
	dir, file := storeFourSessions(t), filepath.Join(t.TempDir(), "out")
	for format, want := range map[string]int{"mplp": 4, "openai": 4, "preference": 0, "experiment": 2, "parquet": 4} {
		var got struct {
			Output, Format string
			Records        int
		}
		if err := json.Unmarshal([]byte(runExport(t, dir, "--format", format, "--output", file, "--json")), &got); err != nil {
			t.Fatal(err)
		}
		if got.Output != file || got.Format != format || got.Records != want {
			t.Errorf("export --format %s --output --json: got %+v, want output %s, format %[1]s and %[4]d records", format, got, file, want)
		}
	}
	if got := runExport(t, dir, "--stats", "--output", file, "--json"); !strings.Contains(got, `"format": "stats"`) || !strings.Contains(got, `"records": 1`) {
		t.Errorf("export --stats --output --json = %s, want format stats and 1 record", got)
	}
}

func TestExportStatsCountRatings(t *testing.T) {
	dir := storeFourSessions(t)
	var r struct {
		Samples, Rated, Approved, Corrected, Rejected int
		Approval                                      *float64       `json:"approval_rate"`
		Rejection                                     *float64       `json:"rejection_rate"`
		Correction                                    *float64       `json:"correction_rate"`
		Mean                                          *float64       `json:"mean_score"`
		Labels                                        map[string]int `json:"by_label"`
	}
	read := func(flags ...string) {
		t.Helper()
		if err := json.Unmarshal([]byte(runExport(t, dir, append(flags, "--stats")...)), &r); err != nil {
			t.Fatal(err)
		}
	}
	read()
	if r.Samples != 4 || r.Rated != 3 || r.Approved != 1 || r.Rejected != 1 || *r.Approval != 1.0/3 || *r.Rejection != 1.0/3 || *r.Correction != 0 || *r.Mean != 0.5 || r.Labels["acceptable"] != 1 {
		t.Errorf("export --stats: got %+v, want 4 samples, of which 3 are rated (1 approved, 1 rejected, 1 acceptable, 0 corrected), with the mean 0.5", r)
	}
	read("--quality", "unrated")
	if r.Samples != 1 || r.Approval != nil {
		t.Errorf("export --stats --quality unrated: got %+v, want 1 sample and no approval rate", r)
	}
}

func TestExportMisuseIsRefused(t *testing.T) {
	for _, flags := range []string{"--format xml", "--quality splendid", "--family other", "--since yesterday", "--format experiment --quality good", "more"} {
		out, stderr, code := harness.RunCommand(t, "", append([]string{"export", "--data-dir", t.TempDir()}, strings.Fields(flags)...)...)
		if code != harness.ExitMisuse || stderr == "" || out != "" {
			t.Errorf("export %s: got exit code %d, output %q, standard error %q, want exit code %d, no output and an error message",
				flags, code, out, stderr, harness.ExitMisuse)
		}
	}
}

// generatedSamples is a store that generates each of its n samples when the sample is read.
type generatedSamples struct {
	server.StoreReader
	sampleCount int
}

func (g generatedSamples) Stats(context.Context) (map[string]int64, error) {
	return map[string]int64{"samples": int64(g.sampleCount)}, nil
}

func (g generatedSamples) EachSample(_ context.Context, _ string, _, _ time.Time, fn func(session.StoredSample) error) error {
	for n := range g.sampleCount {
		s := sample.Build(sample.Session{Tenant: "t", ID: "s", Exchanges: []sample.Exchange{newExchange("t", sessionID(n%64), n, day(1), "look-twice")}})[0]
		s.Output["response_text"] = strings.Repeat(fmt.Sprintf("answer %d. ", n), 100)
		if err := fn(session.StoredSample{Tenant: "t", Agent: "a", ID: sessionID(n % 64), Sample: s}); err != nil {
			return err
		}
	}
	return nil
}

// heapMeter is a writer that measures the heap at every 64th write.
type heapMeter struct {
	bytes, writes int64
	largestHeap   uint64
}

func (hm *heapMeter) Write(b []byte) (int, error) {
	hm.bytes += int64(len(b))
	if hm.writes++; hm.writes%64 == 0 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		hm.largestHeap = max(hm.largestHeap, m.HeapAlloc)
	}
	return len(b), nil
}

func TestExportMemoryIsBounded(t *testing.T) {
	const samples, maxHeap = 30_000, 48 << 20 // maxHeap is three times what the test measured, including garbage
	for _, format := range []string{"mplp", "parquet"} {
		meter := &heapMeter{}
		job := &server.ExportJob{StoreReader: generatedSamples{sampleCount: samples}, Filter: &sample.Filter{}, Out: meter}
		runtime.GC()
		if err := job.Write(t.Context(), format); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes, at most %d MiB on the heap", format, meter.bytes, meter.largestHeap>>20)
		if meter.largestHeap > maxHeap {
			t.Errorf("heap size during export --format %s: got %d MiB, want at most %d MiB", format, meter.largestHeap>>20, maxHeap>>20)
		}
	}
}
