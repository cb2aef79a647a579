package proxy_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"precept/detect"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/sqlite"
)

// recordedRequest is a line in testdata/recordings, in a real agent's format, with invented content.
type recordedRequest struct {
	// Kind is main (the message list extends the previous one), edited (earlier messages changed), replaced (a
	// compaction), delta (only new items), or side (a request outside the conversation).
	Kind   string
	Method string
	Path   string
	Header map[string]string
	Body   json.RawMessage
	Reply  string
	Loop   bool // whether the request that the upstream receives must contain the loop warning
}

func readRecording(t *testing.T, path string) []recordedRequest {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var all []recordedRequest
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r recordedRequest
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	if lines.Err() != nil {
		t.Fatal(lines.Err())
	}
	if len(all) == 0 {
		t.Fatalf("recording %s is empty", path)
	}
	return all
}

// In each recorded conversation, the upstream gets the lesson and the loop warning once. Side requests (such as one for
// a title) stay unchanged. A second run of each recording restarts the proxy halfway.
func TestRecordedAgentHasOneSession(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "recordings", "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) < 17 {
		t.Fatalf("found %d recordings, want at least 17", len(paths))
	}
	for _, path := range paths {
		all := readRecording(t, path)
		name := strings.TrimSuffix(filepath.Base(path), ".jsonl")
		t.Run(name, func(t *testing.T) { t.Parallel(); (&replayer{restartAt: -1}).replay(t, all) })
		t.Run(name+" restarted", func(t *testing.T) { t.Parallel(); (&replayer{restartAt: len(all) / 2}).replay(t, all) })
	}
}

type replayer struct {
	restartAt int // request before which the proxy restarts; -1 means never
	session   string
	previous  string
	turns     int
	dir       string // proxy's data directory
}

func (r *replayer) replay(t *testing.T, all []recordedRequest) {
	t.Helper()
	var reply string
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if fault := orderProblem(b); fault != "" {
			t.Errorf("invalid order of calls and results: %s: %s", fault, b)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		if strings.HasPrefix(reply, "{") {
			w.Header().Set("Content-Type", "application/json")
		}
		_, _ = io.WriteString(w, reply)
	})
	book, dir := newBook(t, "build: repair the build"), t.TempDir()
	r.dir = dir
	f := newFixture(t, up, dir, book, injectAll())
	for i := range all {
		if i == r.restartAt {
			f.stop()
			f = newFixture(t, up, dir, book, injectAll())
		}
		rec := &all[i]
		h := bearerHeader("k")
		for name, value := range rec.Header {
			h.Set(name, value)
		}
		reply = rec.Reply
		res, got := f.send(t, rec.Method, rec.Path, h, string(rec.Body))
		if res.StatusCode != http.StatusOK {
			t.Fatalf("request %d: status = %d, want 200, body %s", i, res.StatusCode, reply)
		}
		if string(got) != reply {
			t.Fatalf("request %d = %q, want %q", i, string(got), reply)
		}
		sent := string(up.lastRequest(t).body)
		if rec.Kind == "side" {
			if sent != string(rec.Body) {
				t.Errorf("side request %d: the upstream got\n%s\nwant\n%s", i, sent, rec.Body)
			}
			continue
		}
		r.checkTurn(t, i, rec, res.Header.Get("Precept-Session"), sent)
	}
	f.stop()
}

// A stored exchange lists the results that are errors. Without this list, sample.Build classifies the results again.
func TestResultJudgementsGiveSameSamples(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "recordings", "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var storedResults, failed atomic.Int64
	t.Run("agents", func(t *testing.T) {
		for _, path := range paths {
			t.Run(strings.TrimSuffix(filepath.Base(path), ".jsonl"), func(t *testing.T) {
				t.Parallel()
				r := &replayer{restartAt: -1}
				r.replay(t, readRecording(t, path))
				for _, stored := range r.storedExchanges(t) {
					withoutJudgements := slices.Clone(stored)
					for i := range withoutJudgements {
						if v := withoutJudgements[i].ResultJudgements; v != nil {
							storedResults.Add(int64(v.Results))
							failed.Add(int64(len(v.Failed)))
						}
						withoutJudgements[i].ResultJudgements = nil
					}
					got, want := buildSamples(stored), buildSamples(withoutJudgements)
					if !reflect.DeepEqual(got, want) {
						t.Errorf("samples with ResultJudgements:\n%v\nwant the samples without ResultJudgements:\n%v", got, want)
					}
				}
			})
		}
	})
	if storedResults.Load() < 20 {
		t.Errorf("storedResults = %d, want at least 20", storedResults.Load())
	}
	if failed.Load() < 5 {
		t.Errorf("failed = %d, want at least 5", failed.Load())
	}
}

func (r *replayer) storedExchanges(t *testing.T) (all [][]sample.Exchange) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(r.dir, "precept.db"), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var rows []session.Row
	err = db.EachSession(t.Context(), "", time.Time{}, time.Time{}, func(row session.Row, _ session.SettledState) error {
		rows = append(rows, row)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		list, err := db.Exchanges(t.Context(), row.Tenant, row.ID)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, list)
	}
	return all
}

func buildSamples(list []sample.Exchange) []sample.Sample {
	return sample.Build(sample.Session{Tenant: "default", ID: "x", Exchanges: list, IsFailure: func(tool, args, text string, isError int8) bool {
		return detect.Classify(tool, args, text, isError).Outcome == detect.Error
	}})
}

func (r *replayer) checkTurn(t *testing.T, i int, rec *recordedRequest, session, sent string) {
	t.Helper()
	if r.session == "" {
		r.session = session
	}
	if session == "" {
		t.Errorf("request %d: session is empty", i)
	}
	if session != r.session {
		t.Errorf("request %d: session = %q, want %q", i, session, r.session)
	}
	list := ""
	if rec.Kind != "delta" {
		list = normalizedList(t, []byte(sent))
	}
	if rec.Kind == "main" && !strings.HasPrefix(list, r.previous) {
		t.Errorf("request %d: list:\n%s\nwant prefix:\n%s", i, list, r.previous)
	}
	r.previous = list
	lessons, loops := 1, 0
	if rec.Loop {
		loops = 1
	}
	if r.turns++; rec.Kind == "delta" && r.turns > 1 { // the history at the provider already contains the lesson
		lessons = 0
	}
	for text, want := range map[string]int{"[build]": lessons, "End of lessons.": lessons, "[LOOP DETECTED]": loops, "[END LOOP DETECTED]": loops} {
		if n := strings.Count(sent, text); n != want {
			t.Errorf("request %d: %s occurs %d times, want %d:\n%s", i, text, n, want, sent)
		}
	}
	if got, want := withoutBlocks(t, sent), withoutBlocks(t, string(rec.Body)); got != want {
		t.Errorf("request %d: body without the inserted blocks:\n%s\nwant the client's body:\n%s", i, got, want)
	}
}

func withoutBlocks(t *testing.T, body string) string {
	t.Helper()
	for _, marks := range [][2]string{{"Lessons from past experience:", `End of lessons.\n\n`}, {"[LOOP DETECTED]", `[END LOOP DETECTED]\n\n`}} {
		for {
			i := strings.Index(body, marks[0])
			if i < 0 {
				break
			}
			n := strings.Index(body[i:], marks[1])
			if n < 0 {
				t.Fatalf("inserted text has no end line %q; body from the start of the text: %s", marks[1], body[i:])
			}
			body = body[:i] + body[i+n+len(marks[1]):]
		}
	}
	for _, part := range []string{`{"type":"text","text":""},`, `{"type":"input_text","text":""},`} {
		body = strings.ReplaceAll(body, part, "")
	}
	return body
}
