package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"precept/admin"
	"precept/cmd/precept/lake"
	"precept/cmd/precept/server"
	"precept/configs"
	"precept/inject/bank/banktest"
	"precept/internal/sample"
)

func startModel(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"chatcmpl-1","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"done"}}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

func send(t *testing.T, method, url string, header map[string]string, body string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// sendSession sends one chat request in the session called name, and then feedback on this session. feedback contains
// the JSON members of the feedback.
func (s *runningServer) sendSession(agent, name, text, feedback string) {
	s.t.Helper()
	header := map[string]string{"Precept-Session": name, "Precept-Agent": agent, "Content-Type": "application/json"}
	if status, answer := send(s.t, http.MethodPost, s.dataURL+"/v1/chat/completions", header, fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]}`, text)); status != http.StatusOK {
		s.t.Fatalf("%s chat request: got status %d, body %q, want status 200", name, status, answer)
	}
	if status, answer := send(s.t, http.MethodPost, s.dataURL+"/v1/feedback", nil, fmt.Sprintf(`{"session_id":%q,"source":"user",%s}`, name, feedback)); status != http.StatusAccepted {
		s.t.Fatalf("feedback on %s: got status %d, body %q, want status 202", name, status, answer)
	}
}

// While the server runs, its report counts the sessions. After the server has stopped, the test exports the sessions
// from the store, as the export command does.
func TestServedSessionsAreReportedAndExported(t *testing.T) {
	lessons := t.TempDir()
	banktest.WriteLesson(t, lessons, "look-first", "targets")
	source := newFlagSource(t, map[string]string{
		"upstream": startModel(t), "lessons": lessons, "admin.tokens": "[token]", "reward.close_after": "50ms",
		"bandit.objective": "all", "bandit.epsilon": "0", "bandit.control": "0",
	})
	s := startServer(t, source)
	for i := range 4 {
		s.sendSession("coder", fmt.Sprint("with-", i), "build the targets", fmt.Sprintf(`"type":"score","score":%d`, i%2))
	}
	s.sendSession("other", "without", "hello", `"type":"correction","correction":"Good morning."`)
	eventually(t, "rewards in the report", func() bool {
		r, err := s.server.Report(t.Context(), admin.ReportQuery{Tenant: "default"})
		return err == nil && len(r.Lessons) == 1 && r.Lessons[0].NInjected == 4
	})
	eventually(t, "samples in the admin API", func() bool {
		_, body := send(t, http.MethodGet, s.adminURL+"/api/samples", map[string]string{"Authorization": "Bearer token"}, "")
		return strings.Count(body, `"sample_id"`) == 5
	})
	r, err := s.server.Report(t.Context(), admin.ReportQuery{Tenant: "default"})
	if err != nil {
		t.Fatal(err)
	}
	_, body := send(t, http.MethodGet, s.adminURL+"/api/report", map[string]string{"Authorization": "Bearer token"}, "")
	var listing struct {
		Lessons []struct {
			Slug     string   `json:"slug"`
			Injected int64    `json:"n_injected"`
			Mean     *float64 `json:"mean_injected"`
		} `json:"lessons"`
	}
	if err := json.Unmarshal([]byte(body), &listing); err != nil || len(listing.Lessons) != 1 || listing.Lessons[0].Slug != "look-first" {
		t.Fatalf(`/api/report: got error %v, body %s, want only the lesson "look-first"`, err, body)
	}
	if row := listing.Lessons[0]; row.Injected != r.Lessons[0].NInjected || row.Mean == nil || *row.Mean != 0.5 {
		t.Errorf("/api/report: got row %+v, want %d injections and a mean reward of 0.5", row, r.Lessons[0].NInjected)
	}
	if err := s.stopAndWait(); err != nil {
		t.Fatal(err)
	}
	cfg := loadConfig(t, source)
	for format, want := range map[string]int{"mplp": 5, "openai": 5, "experiment": 8} { // each of the 4 matching sessions has two assignments: control and the lesson
		if lines := exportLines(t, cfg, format, nil); len(lines) != want {
			t.Errorf("export as %s: got %d lines, want %d", format, len(lines), want)
		}
	}
	onlyOther := func(j *server.ExportJob) { j.Agent = "other" }
	if lines := exportLines(t, cfg, "mplp", onlyOther); len(lines) != 1 || !strings.Contains(lines[0], `"hello"`) {
		t.Errorf("export for one agent: got lines %q, want one line, which contains \"hello\"", lines)
	}
	onlyGood := func(j *server.ExportJob) {
		j.Filter = &sample.Filter{Quality: []string{sample.Good}, Lesson: "look-first"}
	}
	if lines := exportLines(t, cfg, "openai", onlyGood); len(lines) != 2 {
		t.Errorf("export of the good sessions with the lesson: got lines %q, want two lines", lines)
	}
	if lines := exportLines(t, cfg, "preference", nil); len(lines) != 1 || !strings.Contains(lines[0], "Good morning.") || !strings.Contains(lines[0], "done") {
		t.Errorf("preference export: got lines %q, want one line, which contains the replies \"Good morning.\" and \"done\"", lines)
	}
	checkParquet(t, cfg, exportLines(t, cfg, "mplp", nil))
}

// addConfigFile lets source read a configuration file, and returns a function that writes this file.
func addConfigFile(t *testing.T, source *server.Source) (write func(text string)) {
	t.Helper()
	source.File = filepath.Join(t.TempDir(), "precept.yaml")
	return func(text string) {
		t.Helper()
		if err := os.WriteFile(source.File, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func loadConfig(t *testing.T, source *server.Source) *configs.Config {
	t.Helper()
	cfg, err := source.Load()
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func exportLines(t *testing.T, cfg *configs.Config, format string, change func(*server.ExportJob)) []string {
	t.Helper()
	out := writeExport(t, cfg, format, change)
	return slices.DeleteFunc(strings.Split(out, "\n"), func(s string) bool { return s == "" })
}

// writeExport exports the sessions in the store and returns the output. It fails the test unless the export reads five
// sessions. change, which may be nil, changes the job before the export.
func writeExport(t *testing.T, cfg *configs.Config, format string, change func(*server.ExportJob)) string {
	t.Helper()
	tools := testTools()
	e, err := tools.OpenFiltered(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close() //nolint:errcheck // nothing was written
	var out bytes.Buffer
	seen := 0
	j := &server.ExportJob{StoreReader: e, Filter: &sample.Filter{}, Out: &out, OnRead: func() { seen++ }}
	if change != nil {
		change(j)
	}
	if err := j.Write(t.Context(), format); err != nil {
		t.Fatal(err)
	}
	if seen != 5 {
		t.Errorf("export as %s: got %d calls of OnRead, want 5, one for each session", format, seen)
	}
	return out.String()
}

func checkParquet(t *testing.T, cfg *configs.Config, lines []string) {
	t.Helper()
	raw := writeExport(t, cfg, "parquet", nil)
	rows, err := parquet.Read[lake.Row](strings.NewReader(raw), int64(len(raw)))
	if err != nil || len(rows) != len(lines) {
		t.Fatalf("Parquet file: got %d rows, error %v, want %d rows", len(rows), err, len(lines))
	}
	for i, line := range lines {
		var s sample.Sample
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatal(err)
		}
		input, err := json.Marshal(s.Input)
		if err != nil {
			t.Fatal(err)
		}
		row := rows[i]
		if row.SampleID != s.ID || row.Family != s.Family || row.CreatedAt != s.CreatedAt.UnixMilli() || row.Tenant != "default" ||
			row.Agent != s.Meta["agent"] || row.Model != "m" || row.Session == "" || row.Input != string(input) || row.Turns != 1 {
			t.Errorf("Parquet row = %+v, want the values of the sample %s", row, line)
		}
		if row.QualityLabel == nil || *row.QualityLabel != s.Feedback.QualityLabel || row.QualityScore != s.Meta["quality_score"] || row.Type != s.Feedback.Type || row.Source != "user" {
			t.Errorf("Parquet row = %+v, want the feedback of the sample %s", row, line)
		}
	}
}

// A server that cannot listen on its port must not leave a data directory behind.
func TestPortInUseErrorNamesKey(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for _, key := range []string{"listen", "admin.listen"} {
		data := filepath.Join(t.TempDir(), "data")
		cfg := loadConfig(t, newFlagSource(t, map[string]string{key: taken.Addr().String(), "data_dir": data}))
		err := server.New(server.Options{Tools: testTools(), Config: cfg, Console: io.Discard, Embedded: true}).Run(t.Context())
		if err == nil || !strings.HasPrefix(err.Error(), key+": ") || !strings.Contains(err.Error(), "choose another") {
			t.Errorf(`%s with a port in use: err = %v, want an error that begins with %q and contains "choose another"`, key, err, key+": ")
		}
		if _, err := os.Stat(data); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s with a port in use: Stat(data directory) error = %v, want os.ErrNotExist", key, err)
		}
	}
}

// The server starts even if the service manager (systemd) does not accept its messages.
func TestStartReportsAddresses(t *testing.T) {
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprint("service manager fails: ", fails), func(t *testing.T) {
			source := newFlagSource(t, map[string]string{"log.format": "json", "log.level": "error"})
			cfg := loadConfig(t, source)
			var output console
			states := make(chan string, 10)
			s := server.New(server.Options{
				Tools: testTools(), Config: cfg, Source: source, Console: &output,
				Notify: func(_ context.Context, state string) error {
					states <- state
					if fails {
						return errors.New("no service manager")
					}
					return nil
				},
			})
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			up := <-states
			run, err := server.ReadRunFile(cfg.DataDir)
			if err != nil || run.PID != os.Getpid() {
				t.Fatalf("run.json: got %+v, error %v, want PID = %d", run, err, os.Getpid())
			}
			if want := "READY=1\nSTATUS=data " + run.DataURL + ", admin " + run.AdminURL; up != want {
				t.Errorf("message to the service manager after the start: got %q, want %q", up, want)
			}
			line := fmt.Sprintf(`"msg":"precept ready","data":%q,"admin":%q}`, run.DataURL, run.AdminURL)
			if !output.contains(line) {
				t.Errorf("the log lacks %s", line)
			}
			if !server.IsLocked(cfg.DataDir) {
				t.Error("IsLocked(data directory) while the server runs = false, want true")
			}
			stop()
			if down := <-states; !strings.HasPrefix(down, "STOPPING=1") {
				t.Errorf("message to the service manager on shutdown: got %q, want a message that begins with STOPPING=1", down)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if _, err := server.ReadRunFile(cfg.DataDir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("ReadRunFile after shutdown: err = %v, want %v", err, os.ErrNotExist)
			}
			if server.IsLocked(cfg.DataDir) {
				t.Error("IsLocked(data directory) after shutdown = true, want false")
			}
		})
	}
}
