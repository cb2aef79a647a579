package server

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"precept/admin"
	"precept/cmd/precept/server"
	"precept/test/harness"
)

// Without a configured admin token, precept generates a token and logs the login link once.
func TestServeGeneratesAdminToken(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := harness.Launch(t, dir, nil).WaitUntilReady(dir)
	readyLine := regexp.MustCompile(`msg="precept ready" data=(http://127\.0\.0\.1:\d+) admin=(http://127\.0\.0\.1:\d+)`)
	p.Eventually("the ready line", func() bool { return readyLine.MatchString(p.Log.String()) })
	if m := readyLine.FindStringSubmatch(p.Log.String()); m[1] != p.DataURL || m[2] != p.AdminURL {
		t.Errorf("addresses in the log line that reports readiness: got %v, want %s and %s as in run.json", m[1:], p.DataURL, p.AdminURL)
	}
	link := regexp.MustCompile(`http://[^ ]+/login\?token=[0-9a-f]{64}`).FindString(p.Log.String())
	if status, _ := harness.Get(t, link, ""); status != http.StatusSeeOther {
		t.Errorf("login link %q: got status %d, want 303", link, status)
	}
	info, err := os.Stat(filepath.Join(dir, admin.TokenFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("token file: got %v, error %v, want mode 0600", info, err)
	}
	for _, url := range []string{p.DataURL + "/healthz", p.DataURL + "/readyz", p.AdminURL + "/healthz", p.AdminURL + "/readyz"} {
		if status, text := harness.Get(t, url, ""); status != 200 {
			t.Errorf("%s: got status %d, body %s, want 200", url, status, text)
		}
	}
	for _, url := range []string{p.AdminURL + "/", p.AdminURL + "/metrics", p.AdminURL + "/api/report", p.AdminURL + "/debug/pprof/"} {
		if status, _ := harness.Get(t, url, ""); status != 401 {
			t.Errorf("%s without a token: got status %d, want 401", url, status)
		}
	}
	token, _ := os.ReadFile(filepath.Join(dir, admin.TokenFile))
	if status, text := harness.Get(t, p.AdminURL+"/metrics", strings.TrimSpace(string(token))); status != 200 || !strings.Contains(text, "go_goroutines") {
		t.Errorf("/metrics: got status %d, want 200 and a body with go_goroutines", status)
	} else if percent := regexp.MustCompile(`go_gc_gogc_percent (\d+)\n`).FindStringSubmatch(text); percent == nil || percent[1] == "100" {
		t.Errorf("go_gc_gogc_percent in /metrics: got %v, want a value other than Go's default 100", percent)
	}
	p.Signal(syscall.SIGTERM)
	if code := p.ExitCode(); code != harness.ExitOK {
		t.Errorf("precept serve after SIGTERM: got exit code %d, want 0\n%s", code, p.Log.String())
	}
	if _, err := os.Stat(server.RunFilePath(dir)); !os.IsNotExist(err) {
		t.Errorf("run.json after shutdown: got error %v, want no file", err)
	}

	restarted := harness.Launch(t, dir, nil, "--log-format", "json", "--log-level", "error").WaitUntilReady(dir)
	restarted.Eventually("the ready line", func() bool { return strings.Contains(restarted.Log.String(), `"msg":"precept ready"`) })
	if strings.Contains(restarted.Log.String(), "token=") {
		t.Error("the second start logged a login link")
	}
}

// precept removes a newline at the end of a secret, because secrets in mounted files often end with one.
func TestLineFeedAfterASecretIsTrimmed(t *testing.T) {
	keys := make(chan string, 1)
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { keys <- r.Header.Get("Authorization") }))
	t.Cleanup(upstream.Close)
	dir := t.TempDir()
	config := filepath.Join(dir, "precept.yaml")
	sum := sha256.Sum256([]byte("client-key"))
	text := fmt.Sprintf("tenancy: keys\nkeys: [{name: a, tenant: t, learn: on, key_sha256: %x, upstream_key: '${UPSTREAM_KEY}'}]\n", sum)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"PRECEPT_ADMIN_TOKEN=token-of-a-file\n", "UPSTREAM_KEY=sk-upstream\n"}
	p := harness.Launch(t, dir, env, "--config", config, "--upstream", upstream.URL).WaitUntilReady(dir)
	if status, text := harness.Get(t, p.AdminURL+"/api/report", "token-of-a-file"); status != http.StatusOK {
		t.Errorf("/api/report with the admin token: got status %d, body %s, want 200", status, text)
	}
	status, reply := harness.Post(t, p.DataURL+"/v1/chat/completions", http.Header{"Authorization": {"Bearer client-key"}}, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`)
	if status != http.StatusOK {
		t.Fatalf("chat request: got status %d, body %s, want 200", status, reply)
	}
	if key := <-keys; key != "Bearer sk-upstream" {
		t.Errorf("Authorization header that the upstream received = %q, want Bearer sk-upstream", key)
	}
}

func TestServeExplainsStartErrors(t *testing.T) {
	taken := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(taken.Close)
	dir := t.TempDir()
	cases := []struct {
		name    string
		flags   []string
		code    int
		wantLog string
	}{
		{"address in use", []string{"--listen", strings.TrimPrefix(taken.URL, "http://")}, harness.ExitFailed, "another process, perhaps another precept, uses " + strings.TrimPrefix(taken.URL, "http://") + "; stop that process, or choose another address with --listen"},
		{"value out of range", []string{"--bandit-epsilon", "2"}, harness.ExitMisuse, "from 0 to 1"},
		{"unknown flag", []string{"--epsilon", "2"}, harness.ExitMisuse, "unknown flag"},
		{"configuration is a directory", []string{"--config", dir}, harness.ExitFailed, dir + " is a directory; name the file in it, such as " + filepath.Join(dir, "precept.yaml")},
		{"another machine's address", []string{"--listen", "192.0.2.1:0"}, harness.ExitFailed, "choose an address on this machine"},
		{"missing configuration file", []string{"--config", "none.yaml"}, harness.ExitFailed, "none.yaml"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			p := harness.Launch(t, dir, nil, tc.flags...)
			if code := p.ExitCode(); code != tc.code || !strings.Contains(p.Log.String(), tc.wantLog) {
				t.Errorf("precept serve: got exit code %d, want %d and a log with %q:\n%s", code, tc.code, tc.wantLog, p.Log.String())
			}
		})
	}
}

func TestSecondServerOnADataDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	harness.Launch(t, dir, nil).WaitUntilReady(dir)
	second := harness.Launch(t, dir, nil)
	if code := second.ExitCode(); code != harness.ExitFailed || !strings.Contains(second.Log.String(), dir) {
		t.Errorf("second server: got exit code %d, want %d and a log with the directory:\n%s", code, harness.ExitFailed, second.Log.String())
	}
	if _, err := server.ReadRunFile(dir); err != nil {
		t.Errorf("run.json of the first server after the second server's failed start: got error %v, want the file", err)
	}
}

func TestServeDrainsStreams(t *testing.T) {
	model, stop := harness.SlowModel(t)
	dir := t.TempDir()
	p := harness.Launch(t, dir, nil, "--upstream", model.URL+"/v1", "--limits-drain-timeout", "25s").WaitUntilReady(dir)
	ended := harness.Stream(t, p.DataURL)
	p.Signal(syscall.SIGTERM)
	p.Eventually("a refused new connection", func() bool {
		c := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := c.Get(p.DataURL + "/healthz")
		if err == nil {
			_ = res.Body.Close()
		}
		return err != nil
	})
	if status, text := harness.Get(t, p.AdminURL+"/readyz", ""); status != http.StatusServiceUnavailable || text != "draining\n" {
		t.Errorf("/readyz during the drain: got status %d, body %q, want status 503 and a body with draining", status, text)
	}
	close(stop)
	if err := <-ended; err != nil {
		t.Errorf("stream during the drain: got error %v, want a complete stream", err)
	}
	if code := p.ExitCode(); code != harness.ExitOK {
		t.Errorf("precept serve: got exit code %d, want 0\n%s", code, p.Log.String())
	}
}

// On shutdown, precept cuts the streams that are still open after limits.drain_timeout, or immediately on a second
// signal.
func TestServeCutsStreamsAfterTheDrain(t *testing.T) {
	model, _ := harness.SlowModel(t)
	for name, secondSignal := range map[string]bool{"drain timeout": false, "second signal": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drain := "500ms"
			if secondSignal {
				drain = "1h"
			}
			dir := t.TempDir()
			p := harness.Launch(t, dir, nil, "--upstream", model.URL+"/v1", "--limits-drain-timeout", drain).WaitUntilReady(dir)
			ended := harness.Stream(t, p.DataURL)
			p.Signal(syscall.SIGTERM)
			if secondSignal {
				p.Eventually("the log line about the start of the drain", func() bool { return strings.Contains(p.Log.String(), "msg=stopping") })
				p.Signal(syscall.SIGINT)
			}
			if code := p.ExitCode(); code != harness.ExitCut {
				t.Errorf("precept serve with a cut stream: got exit code %d, want %d\n%s", code, harness.ExitCut, p.Log.String())
			}
			if err := <-ended; err == nil {
				t.Error("client whose stream was cut: got no error, want an error")
			}
			if _, err := os.Stat(server.RunFilePath(dir)); !os.IsNotExist(err) {
				t.Errorf("run.json after shutdown: got error %v, want no file", err)
			}
		})
	}
}

func TestServeReloadsConfig(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "precept.yaml")
	writeConfig := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	writeConfig("admin: {tokens: [first]}\nmetrics: {public: false}\n")
	p := harness.Launch(t, dir, nil, "--config", file).WaitUntilReady(dir)
	accepts := func(token string) bool {
		status, _ := harness.Get(t, p.AdminURL+"/api/report", token)
		return status == 200
	}
	if !accepts("first") {
		t.Fatal("the server refuses the configured token")
	}
	writeConfig("admin: {tokens: [second], viewer_tokens: [looker]}\nmetrics: {public: true}\n") // no signal is sent, so the server must notice the change by polling
	p.Eventually("the second token", func() bool { return accepts("second") })
	if accepts("first") {
		t.Error("the server still accepts the removed token")
	}
	if !accepts("looker") {
		t.Error("/api/report refuses the new viewer token")
	}
	if status, body := harness.Get(t, p.AdminURL+"/api/export", "looker"); status != 403 || !strings.Contains(body, "viewer") {
		t.Errorf("/api/export with the new viewer token: got status %d, body %s, want status 403 and a body with \"viewer\"", status, body)
	}
	if status, _ := harness.Get(t, p.AdminURL+"/metrics", ""); status != 200 {
		t.Errorf("/metrics without a token: got status %d, want 200", status)
	}

	writeConfig("admin: {tokens: [third]}\nbandit: {epsilon: 7}\n")
	p.Signal(syscall.SIGHUP)
	p.Eventually("the invalid bandit.epsilon in the log", func() bool { return strings.Contains(p.Log.String(), "bandit.epsilon") })
	if accepts("third") || !accepts("second") {
		t.Errorf("after a reload of an invalid file: third token accepted: %v, second token accepted: %v; want false and true",
			accepts("third"), accepts("second"))
	}
	_, page := harness.Get(t, p.AdminURL+"/", "second")
	if !strings.Contains(page, "bandit.epsilon") {
		t.Error("the dashboard does not report the invalid bandit.epsilon")
	}

	writeConfig("admin: {tokens: [fourth], listen: '127.0.0.1:1'}\n")
	p.Signal(syscall.SIGHUP)
	p.Eventually("the fourth token", func() bool { return accepts("fourth") })
	if _, page := harness.Get(t, p.AdminURL+"/", "fourth"); strings.Contains(page, "bandit.epsilon") {
		t.Error("the dashboard still reports bandit.epsilon after a valid reload")
	}
	if strings.Contains(p.Log.String(), "fourth") {
		t.Error("the log contains the fourth token, want no token")
	}
}

func TestServeWithoutDataDirWorksFromMemory(t *testing.T) {
	const dir = "/proc/precept" // even root cannot create a directory in /proc
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	p := harness.Launch(t, dir, nil)
	readyLine := regexp.MustCompile(`data=(http://\S+) admin=(http://\S+)`)
	p.Eventually("the ready line", func() bool { return readyLine.MatchString(p.Log.String()) })
	m := readyLine.FindStringSubmatch(p.Log.String())
	if status, _ := harness.Get(t, m[1]+"/readyz", ""); status != 200 {
		t.Errorf("/readyz: got status %d, want 200", status)
	}
	link := regexp.MustCompile(`http://[^ ]+/login\?token=[0-9a-f]{64}`).FindString(p.Log.String())
	if status, _ := harness.Get(t, link, ""); status != http.StatusSeeOther {
		t.Errorf("login link %q: got status %d, want 303", link, status)
	}
	if !strings.Contains(p.Log.String(), "runs from memory") {
		t.Errorf("the log lacks \"runs from memory\":\n%s", p.Log.String())
	}
}

func TestCommandsReadTheStoreDuringAndAfterServe(t *testing.T) {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"chatcmpl-1","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"four"}}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`)
	}))
	t.Cleanup(model.Close)
	const canary = "sk-canary-41c9d7" // the client's key, which only the upstream is allowed to receive
	dir := t.TempDir()
	p := harness.Launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=admin-token-1"}, "--upstream", model.URL+"/v1", "--reward-close-after", "1s", "--log-level", "debug").WaitUntilReady(dir)
	for i := range 3 {
		body := strings.NewReader(fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"what is %d and two?"}]}`, i))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.DataURL+"/v1/chat/completions", body)
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
	runPrecept := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "precept", append(args, "--data-dir", dir)...)
		cmd.Env = append(os.Environ(), "OPENAI_BASE_URL=", "PRECEPT_ADMIN_TOKEN=admin-token-1")
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("precept %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
		}
		return string(out)
	}
	p.Eventually("three samples", func() bool { return strings.Count(runPrecept("export"), "\n") == 3 })
	var sample map[string]any
	line, _, _ := strings.Cut(runPrecept("export", "--format", "mplp", "--family", "dialog_response"), "\n")
	if err := json.Unmarshal([]byte(line), &sample); err != nil || sample["sample_family"] != "dialog_response" {
		t.Errorf("export --format mplp: got first line %s, error %v, want a line with the family dialog_response", line, err)
	}
	if chat := runPrecept("export", "--format", "openai"); strings.Count(chat, "\n") != 3 || !strings.Contains(chat, `"content":"four"`) {
		t.Errorf("export --format openai: got %s, want 3 lines, each with the reply \"four\"", chat)
	}
	for _, args := range [][]string{{"export", "--format", "experiment"}, {"export", "--format", "preference"}, {"export", "--until", "2020-01-01"}, {"export", "--tenant", "nobody"}} {
		if out := runPrecept(args...); out != "" {
			t.Errorf("precept %v: got %s, want no output", args, out)
		}
	}
	checkCommands := func(when string, running bool) {
		t.Helper()
		var d harness.Diagnosis
		if err := json.Unmarshal([]byte(runPrecept("doctor", "--json")), &d); err != nil {
			t.Fatal(err)
		}
		if d.Admitted != 3 || d.Stored != 3 || d.Spooled != 0 || d.Incomplete != 0 || d.Dropped == nil || (d.Running != nil) != running {
			t.Errorf("doctor --json %s: got %+v, running: %v, want 3 exchanges admitted and stored, none spooled or incomplete, and running: %v",
				when, d, d.Running != nil, running)
		}
		if text := runPrecept("doctor"); !strings.Contains(text, "exchanges admitted") {
			t.Errorf(`doctor %s: got %s, want "exchanges admitted"`, when, text)
		}
		var r map[string]any
		if err := json.Unmarshal([]byte(runPrecept("report", "--json")), &r); err != nil || r["lessons"] == nil || r["global"] == nil {
			t.Errorf("report --json %s: got %v, error %v, want the keys lessons and global", when, r, err)
		}
		if text := runPrecept("report"); !strings.Contains(text, "all lessons together") || !strings.Contains(text, "not enough data") {
			t.Errorf(`report %s: got %s, want "all lessons together" and "not enough data"`, when, text)
		}
	}
	checkCommands("while the server runs", true)
	p.Signal(syscall.SIGTERM)
	if code := p.ExitCode(); code != harness.ExitOK {
		t.Errorf("precept serve: got exit code %d, want 0\n%s", code, p.Log.String())
	}
	checkCommands("after the server stopped", false)
	secrets := []string{canary, "admin-token-1"}
	for _, secret := range secrets {
		if strings.Contains(p.Log.String(), secret) {
			t.Errorf("the log contains the secret %q, want no secret", secret)
		}
	}
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		b, _ := os.ReadFile(path)
		for _, secret := range secrets {
			if strings.Contains(string(b), secret) {
				t.Errorf("file %s contains the secret %q, want no secret", path, secret)
			}
		}
		return err
	})
}

func TestExitCodesDistinguishMisuseAndFailure(t *testing.T) {
	cases := []struct {
		args string
		want int
	}{
		{"version", harness.ExitOK},
		{"check --data-dir x --lessons .", harness.ExitOK},
		{"check --bandit-epsilon 2", harness.ExitMisuse},
		{"check --nonsense", harness.ExitMisuse},
		{"check --config /no/such/file", harness.ExitFailed},
		{"nonsense", harness.ExitMisuse},
		{"export --format nonsense", harness.ExitMisuse},
		{"lessons show", harness.ExitMisuse},
		{"lessons list --lessons /no/such/dir", harness.ExitFailed},
		{"doctor --data-dir /no/such/dir", harness.ExitFailed},
		{"inspect /no/such/file", harness.ExitFailed},
	}
	for _, tc := range cases {
		t.Run(tc.args, func(t *testing.T) {
			_, stderr, got := harness.RunCommand(t, "", strings.Fields(tc.args)...)
			if got != tc.want {
				t.Errorf("precept %s: got exit code %d, want %d\n%s", tc.args, got, tc.want, stderr)
			}
			if failed := tc.want != harness.ExitOK; failed != strings.HasPrefix(stderr, "precept: ") {
				t.Errorf("precept %s: got standard error %q, want the prefix \"precept: \" if the command fails, and no such prefix otherwise", tc.args, stderr)
			}
		})
	}
}
