package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"precept/admin"
	"precept/cmd/precept/server"
)

// process is this test binary as precept serve, in a process of its own.
type process struct {
	server.RunFile
	t   *testing.T
	cmd *exec.Cmd
	log lockedBuffer
	end chan struct{}
	err error // of the process, once end is closed
}

// launch starts precept serve on free ports; ready waits for it.
func launch(t *testing.T, dir string, env []string, flags ...string) *process {
	t.Helper()
	return launchBy(t, []string{"precept"}, dir, env, flags...)
}

// launchBy is launch by a command that ends in precept.
func launchBy(t *testing.T, command []string, dir string, env []string, flags ...string) *process {
	t.Helper()
	args := slices.Concat(command[1:], []string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", dir}, flags)
	p := &process{t: t, cmd: exec.CommandContext(context.Background(), command[0], args...), end: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), "OPENAI_BASE_URL="), env...)
	p.cmd.Dir = t.TempDir()
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.end)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.end
	})
	return p
}

func (p *process) ready(dir string) *process {
	p.t.Helper()
	p.eventually("run.json", func() bool {
		r, err := server.ReadRunFile(dir)
		if err == nil && r.PID == p.cmd.Process.Pid {
			p.RunFile = r
			return true
		}
		return false
	})
	return p
}

// eventually waits for something that takes a moment; it fails at once when the process has ended.
func (p *process) eventually(what string, ok func() bool) {
	p.t.Helper()
	p.eventuallyAt(20*time.Millisecond, what, ok)
}

// eventuallyAt asks so often.
func (p *process) eventuallyAt(every time.Duration, what string, ok func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(every) {
		if ok() {
			return
		}
		select {
		case <-p.end:
			p.t.Fatalf("waiting for %s: precept has ended: %v\n%s", what, p.err, p.log.String())
		default:
		}
	}
	p.t.Fatalf("%s does not come\n%s", what, p.log.String())
}

// eventually waits for something that takes a moment, whoever does it.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not come", what)
		}
	}
}

// exit waits for the process's end and gives its code.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.end:
	case <-time.After(30 * time.Second):
		p.t.Fatalf("precept does not end\n%s", p.log.String())
	}
	if failed, ok := errors.AsType[*exec.ExitError](p.err); ok {
		return failed.ExitCode()
	}
	if p.err != nil {
		p.t.Fatal(p.err)
	}
	return 0
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// get asks with an admin token ("" none) and gives status and body.
func get(t *testing.T, url, token string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
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

// slowModel answers a chat request with a stream that lasts until its client is gone or stop is
// closed.
func slowModel(t *testing.T) (*httptest.Server, chan struct{}) {
	t.Helper()
	stop := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := 0; ; i++ {
			_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%d\"}}]}\n\n", i)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-stop:
				_, _ = io.WriteString(w, "data: [DONE]\n\n")
				return
			case <-r.Context().Done():
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}))
	t.Cleanup(s.Close)
	return s, stop
}

// stream begins a streamed chat through precept and returns when its first bytes are here; the
// channel gives how it ended.
func stream(t *testing.T, data string) <-chan error {
	t.Helper()
	body := strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"count"}]}`)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, data+"/v1/chat/completions", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := res.Body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, res.Body)
		ended <- errors.Join(err, res.Body.Close())
	}()
	return ended
}

// The whole first start: ready line, run.json, a token of its own behind a link that works; and the
// whole stop.
func TestServeFirstStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := launch(t, dir, nil).ready(dir)
	line := regexp.MustCompile(`msg="precept ready" data=(http://127\.0\.0\.1:\d+) admin=(http://127\.0\.0\.1:\d+)`)
	p.eventually("the ready line", func() bool { return line.MatchString(p.log.String()) })
	if m := line.FindStringSubmatch(p.log.String()); m[1] != p.Data || m[2] != p.Admin {
		t.Errorf("the line says %v, run.json %+v", m[1:], p.RunFile)
	}
	link := regexp.MustCompile(`http://[^ ]+/login\?token=[0-9a-f]{64}`).FindString(p.log.String())
	if status, _ := get(t, link, ""); status != http.StatusSeeOther {
		t.Errorf("the login link %q: %d", link, status)
	}
	info, err := os.Stat(filepath.Join(dir, admin.TokenFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token file: %v, %v", info, err)
	}
	for _, url := range []string{p.Data + "/healthz", p.Data + "/readyz", p.Admin + "/healthz", p.Admin + "/readyz"} {
		if status, text := get(t, url, ""); status != 200 {
			t.Errorf("%s: %d %s", url, status, text)
		}
	}
	for _, url := range []string{p.Admin + "/", p.Admin + "/metrics", p.Admin + "/api/report", p.Admin + "/debug/pprof/"} {
		if status, _ := get(t, url, ""); status != 401 {
			t.Errorf("%s without a token: %d", url, status)
		}
	}
	token, _ := os.ReadFile(filepath.Join(dir, admin.TokenFile))
	if status, text := get(t, p.Admin+"/metrics", strings.TrimSpace(string(token))); status != 200 || !strings.Contains(text, "go_goroutines") {
		t.Errorf("/metrics: %d", status)
	} else if share := regexp.MustCompile(`go_gc_gogc_percent (\d+)\n`).FindStringSubmatch(text); share == nil || share[1] == "100" {
		t.Errorf("the collector's share of %v is Go's own: it is not set", share) // 250 or, of a larger heap, less
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != exitDone {
		t.Errorf("a stop without streams ends with %d\n%s", code, p.log.String())
	}
	if _, err := os.Stat(server.RunFilePath(dir)); !os.IsNotExist(err) {
		t.Errorf("run.json is still there: %v", err)
	}

	again := launch(t, dir, nil, "--log-format", "json", "--log-level", "error").ready(dir)
	again.eventually("the ready line", func() bool { return strings.Contains(again.log.String(), `"msg":"precept ready"`) })
	if strings.Contains(again.log.String(), "token=") {
		t.Error("the login link is shown a second time")
	}
}

func TestServeMistakes(t *testing.T) {
	taken := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(taken.Close)
	dir := t.TempDir()
	cases := []struct {
		name  string
		flags []string
		code  int
		says  string
	}{
		{"port taken", []string{"--listen", strings.TrimPrefix(taken.URL, "http://")}, exitFailed, "free the address"},
		{"configuration", []string{"--bandit-epsilon", "2"}, exitMisuse, "from 0 to 1"},
		{"flag", []string{"--epsilon", "2"}, exitMisuse, "unknown flag"},
		{"file", []string{"--config", "none.yaml"}, exitMisuse, "none.yaml"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			p := launch(t, dir, nil, tc.flags...)
			if code := p.exit(); code != tc.code || !strings.Contains(p.log.String(), tc.says) {
				t.Errorf("exit %d, want %d and %q:\n%s", code, tc.code, tc.says, p.log.String())
			}
		})
	}
}

// R082: two on one data directory.
func TestServeTwice(t *testing.T) {
	dir := t.TempDir()
	launch(t, dir, nil).ready(dir)
	second := launch(t, dir, nil)
	if code := second.exit(); code != exitFailed || !strings.Contains(second.log.String(), dir) {
		t.Errorf("the second ends with %d:\n%s", code, second.log.String())
	}
	if _, err := server.ReadRunFile(dir); err != nil {
		t.Errorf("the second took run.json away from the first: %v", err)
	}
}

// R091, R092: streams may end; a second signal, or the time, cuts them, and the exit code says so.
func TestServeDrains(t *testing.T) {
	model, stop := slowModel(t)
	dir := t.TempDir()
	p := launch(t, dir, nil, "--upstream", model.URL+"/v1", "--limits-drain-timeout", "25s").ready(dir)
	ended := stream(t, p.Data)
	p.signal(syscall.SIGTERM)
	p.eventually("the end of new connections", func() bool {
		c := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := c.Get(p.Data + "/healthz")
		if err == nil {
			_ = res.Body.Close()
		}
		return err != nil
	})
	if status, text := get(t, p.Admin+"/readyz", ""); status != http.StatusServiceUnavailable || text != "draining\n" {
		t.Errorf("ready while it drains: %d %s", status, text)
	}
	close(stop)
	if err := <-ended; err != nil {
		t.Errorf("the stream was cut: %v", err)
	}
	if code := p.exit(); code != exitDone {
		t.Errorf("exit %d\n%s", code, p.log.String())
	}
}

func TestServeCutsStreams(t *testing.T) {
	model, _ := slowModel(t)
	for name, second := range map[string]bool{"time": false, "second signal": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drain := "500ms"
			if second {
				drain = "1h"
			}
			dir := t.TempDir()
			p := launch(t, dir, nil, "--upstream", model.URL+"/v1", "--limits-drain-timeout", drain).ready(dir)
			ended := stream(t, p.Data)
			p.signal(syscall.SIGTERM)
			if second {
				p.eventually("the drain", func() bool { return strings.Contains(p.log.String(), "msg=stopping") })
				p.signal(syscall.SIGINT)
			}
			if code := p.exit(); code != exitCut {
				t.Errorf("exit %d, want %d\n%s", code, exitCut, p.log.String())
			}
			if err := <-ended; err == nil {
				t.Error("the client saw a clean end of a stream that was cut")
			}
			if _, err := os.Stat(server.RunFilePath(dir)); !os.IsNotExist(err) {
				t.Errorf("run.json is still there: %v", err)
			}
		})
	}
}

// R096: a changed file is taken over; one with faults is not, which is told in the log and on the
// dashboard.
func TestServeReloads(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "precept.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("admin: {tokens: [first]}\nmetrics: {public: false}\n")
	p := launch(t, dir, nil, "--config", file).ready(dir)
	opens := func(token string) bool {
		status, _ := get(t, p.Admin+"/api/report", token)
		return status == 200
	}
	if !opens("first") {
		t.Fatal("the first token does not open")
	}
	write("admin: {tokens: [second], viewer_tokens: [looker]}\nmetrics: {public: true}\n") // seen by itself
	p.eventually("the second token", func() bool { return opens("second") })
	if opens("first") {
		t.Error("the first token still opens")
	}
	if status, said := get(t, p.Admin+"/api/export", "looker"); !opens("looker") || status != 403 || !strings.Contains(said, "viewer") {
		t.Errorf("a viewer's token came with the reload: %d %s", status, said)
	}
	if status, _ := get(t, p.Admin+"/metrics", ""); status != 200 {
		t.Errorf("/metrics is public now: %d", status)
	}

	write("admin: {tokens: [third]}\nbandit: {epsilon: 7}\n")
	p.signal(syscall.SIGHUP)
	p.eventually("the fault in the log", func() bool { return strings.Contains(p.log.String(), "bandit.epsilon") })
	if opens("third") || !opens("second") {
		t.Error("half of a configuration with faults was taken over")
	}
	_, page := get(t, p.Admin+"/", "second")
	if !strings.Contains(page, "bandit.epsilon") {
		t.Error("the dashboard does not tell the fault")
	}

	write("admin: {tokens: [fourth], listen: '127.0.0.1:1'}\n")
	p.signal(syscall.SIGHUP)
	p.eventually("the fourth token", func() bool { return opens("fourth") })
	if _, page := get(t, p.Admin+"/", "fourth"); strings.Contains(page, "bandit.epsilon") {
		t.Error("the dashboard still tells a fault that was mended")
	}
	if strings.Contains(p.log.String(), "fourth") {
		t.Error("a token is in the log")
	}
}

// R081: with a data directory that cannot be made precept starts, proxies and says so.
func TestServeWithoutDataDir(t *testing.T) {
	const dir = "/proc/precept" // where not even root can make one
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc here")
	}
	p := launch(t, dir, nil)
	line := regexp.MustCompile(`data=(http://\S+) admin=(http://\S+)`)
	p.eventually("the ready line", func() bool { return line.MatchString(p.log.String()) })
	m := line.FindStringSubmatch(p.log.String())
	if status, _ := get(t, m[1]+"/readyz", ""); status != 200 {
		t.Errorf("not ready: %d", status)
	}
	link := regexp.MustCompile(`http://[^ ]+/login\?token=[0-9a-f]{64}`).FindString(p.log.String())
	if status, _ := get(t, link, ""); status != http.StatusSeeOther {
		t.Errorf("the login link %q: %d", link, status)
	}
	if !strings.Contains(p.log.String(), "runs from memory") {
		t.Errorf("nothing is said of the directory:\n%s", p.log.String())
	}
}

// The verbs that read the store work beside a running server and after it.
func TestVerbsBesideServer(t *testing.T) {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"chatcmpl-1","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"four"}}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`)
	}))
	t.Cleanup(model.Close)
	const canary = "sk-canary-41c9d7" // the client's key: it may be nowhere but upstream (R127)
	dir := t.TempDir()
	p := launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=verbs-token"}, "--upstream", model.URL+"/v1", "--reward-close-after", "1s", "--log-level", "debug").ready(dir)
	for i := range 3 {
		body := strings.NewReader(fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"what is %d and two?"}]}`, i))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.Data+"/v1/chat/completions", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+canary)
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
	verb := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "precept", append(args, "--data-dir", dir)...)
		cmd.Env = append(os.Environ(), "OPENAI_BASE_URL=", "PRECEPT_ADMIN_TOKEN=verbs-token")
		var complaints strings.Builder
		cmd.Stderr = &complaints
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("precept %s: %v\n%s", strings.Join(args, " "), err, complaints.String())
		}
		return string(out)
	}
	p.eventually("three samples", func() bool { return strings.Count(verb("export"), "\n") == 3 })
	var sample map[string]any
	line, _, _ := strings.Cut(verb("export", "--format", "mplp", "--family", "dialog_response"), "\n")
	if err := json.Unmarshal([]byte(line), &sample); err != nil || sample["sample_family"] != "dialog_response" {
		t.Errorf("mplp: %s, %v", line, err)
	}
	if chat := verb("export", "--format", "openai"); strings.Count(chat, "\n") != 3 || !strings.Contains(chat, `"content":"four"`) {
		t.Errorf("openai: %s", chat)
	}
	for _, args := range [][]string{{"export", "--format", "experiment"}, {"export", "--format", "preference"}, {"export", "--until", "2020-01-01"}, {"export", "--tenant", "nobody"}} {
		if out := verb(args...); out != "" {
			t.Errorf("%v: %s", args, out)
		}
	}
	check := func(when string) {
		t.Helper()
		var d diagnosis
		if err := json.Unmarshal([]byte(verb("doctor", "--json")), &d); err != nil {
			t.Fatal(err)
		}
		if d.Admitted != 3 || d.Stored != 3 || d.Spooled != 0 || d.Incomplete != 0 || d.Dropped == nil || (d.Running != nil) != (when == "beside") {
			t.Errorf("%s: %+v", when, d)
		}
		if text := verb("doctor"); !strings.Contains(text, "exchanges admitted") {
			t.Errorf("%s: %s", when, text)
		}
		var r map[string]any
		if err := json.Unmarshal([]byte(verb("report", "--json")), &r); err != nil || r["lessons"] == nil || r["global"] == nil {
			t.Errorf("%s: report %v, %v", when, r, err)
		}
		if text := verb("report"); !strings.Contains(text, "all lessons together") || !strings.Contains(text, "not enough data") {
			t.Errorf("%s: %s", when, text)
		}
	}
	check("beside")
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != exitDone {
		t.Errorf("exit %d\n%s", code, p.log.String())
	}
	check("after")
	if strings.Contains(p.log.String(), canary) || strings.Contains(p.log.String(), "verbs-token") {
		t.Error("a key is in the log")
	}
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if b, _ := os.ReadFile(path); strings.Contains(string(b), canary) || strings.Contains(string(b), "verbs-token") {
			t.Errorf("a key is in %s", path)
		}
		return err
	})
}

// TestExitCodes holds the codes of the package's documentation.
func TestExitCodes(t *testing.T) {
	cases := []struct {
		args string
		want int
	}{
		{"version", exitDone},
		{"check --data-dir x", exitDone},
		{"check --bandit-epsilon 2", exitMisuse},
		{"check --nonsense", exitMisuse},
		{"check --config /no/such/file", exitMisuse},
		{"nonsense", exitMisuse},
		{"export --format nonsense", exitMisuse},
		{"lessons show", exitMisuse},
		{"lessons list --lessons /no/such/dir", exitFailed},
		{"doctor --data-dir /no/such/dir", exitFailed},
		{"inspect /no/such/file", exitFailed},
	}
	for _, tc := range cases {
		t.Run(tc.args, func(t *testing.T) {
			var out, complaints strings.Builder
			w := &world{in: strings.NewReader(""), out: &out, err: &complaints, env: func(string) (string, bool) { return "", false }, Tools: server.Tools{Now: time.Now, Random: rand.Reader}}
			if got := w.execute(t.Context(), strings.Fields(tc.args)); got != tc.want {
				t.Errorf("exit %d, want %d\n%s", got, tc.want, complaints.String())
			}
			if failed := tc.want != exitDone; failed != strings.HasPrefix(complaints.String(), "precept: ") {
				t.Errorf("it says %q", complaints.String())
			}
		})
	}
}
