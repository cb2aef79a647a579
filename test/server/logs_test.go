package server

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"precept/store/storetest"
	"precept/test/harness"
)

func TestLogHasRequestIDsWithoutContent(t *testing.T) {
	t.Parallel()
	const canary = "heliotrope-4711"
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		switch {
		case strings.HasSuffix(r.URL.Path, "/unknown/chat/completions"):
			http.Error(w, "no such path, "+canary, http.StatusNotFound)
		case strings.Contains(string(b), "hang up"):
			panic(http.ErrAbortHandler)
		case strings.Contains(string(b), "talk nonsense"):
			c, _, _ := http.NewResponseController(w).Hijack()
			_, _ = io.WriteString(c, "SMTP "+canary+"\r\n")
			_ = c.Close()
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, harness.ChatReply("chatcmpl-1", canary))
		}
	}))
	t.Cleanup(model.Close)
	redis, dir, lessons := storetest.StartRedis(t), t.TempDir(), filepath.Join(t.TempDir(), "lessons")
	p := harness.Launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=token"}, "--upstream", model.URL+"/v1", "--store-url", redis.URL(), "--lessons", lessons, "--log-level", "debug", "--log-format", "json").WaitUntilReady(dir)
	send := func(method, url, body string, want int) (request string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer sk-"+canary)
		req.Header.Set("Precept-Session", "session of "+canary)
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		if b, _ := io.ReadAll(res.Body); res.StatusCode != want {
			t.Fatalf("%s %s: got status %d, body %s, want %d", method, url, res.StatusCode, b, want)
		}
		return res.Header.Get("Precept-Request-Id")
	}
	chat := func(text string) string {
		return `{"model":"m","messages":[{"role":"user","content":"` + text + `, ` + canary + `"}],"tools":[{"type":"function","function":{"name":"` + canary + `"}}]}`
	}
	requestIDs := map[string]string{ // by failure
		"a path unknown to the upstream":        send(http.MethodPost, p.DataURL+"/unknown/chat/completions?key="+canary, chat("hello"), http.StatusNotFound),
		"an upstream that hangs up":             send(http.MethodPost, p.DataURL+"/v1/chat/completions", chat("hang up"), http.StatusBadGateway),
		"an upstream that does not answer HTTP": send(http.MethodPost, p.DataURL+"/v1/chat/completions", chat("talk nonsense"), http.StatusBadGateway),
		"an admin request with a wrong token":   send(http.MethodGet, p.AdminURL+"/api/report", "", http.StatusUnauthorized),
	}
	send(http.MethodPost, p.DataURL+"/v1/chat/completions", chat("hello"), http.StatusOK)
	send(http.MethodPost, p.DataURL+"/v1/chat/completions", `{"messages": [`+canary, http.StatusOK) // precept forwards invalid JSON unchanged
	send(http.MethodPost, p.DataURL+"/v1/feedback", `{"`+canary, http.StatusBadRequest)
	if err := os.RemoveAll(lessons); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(lessons, []byte("not a directory"), 0o600); err != nil {
		t.Fatal(err)
	}
	lesson := `{"signature":"tests of ` + canary + `","lesson_text":"Run the tests of ` + canary + ` before you commit.","keywords":["` + canary + `"]}`
	requestIDs["an unwritable lesson"] = send(http.MethodPost, p.DataURL+"/v1/lessons", lesson, http.StatusServiceUnavailable)
	redis.Freeze(t)
	send(http.MethodPost, p.DataURL+"/v1/feedback", `{"session_id":"elsewhere of `+canary+`","source":"user","type":"score","score":1,"comment":"`+canary+`"}`, http.StatusAccepted) // kept in the outbox
	redis.Thaw(t)
	p.Stop()

	logged := map[string]bool{}
	lines := bufio.NewScanner(strings.NewReader(p.Log.String()))
	for lines.Scan() {
		if strings.Contains(lines.Text(), canary) {
			t.Errorf("log line %s contains words from a request or a reply, want none", lines.Text())
		}
		var line struct{ Request, Msg string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			continue // a line that is not JSON has no request id
		}
		logged[line.Request] = true
	}
	for failure, id := range requestIDs {
		if id == "" || !logged[id] {
			t.Errorf("%s: log lines with the request id %q: got none, want at least one", failure, id)
		}
	}
	if t.Failed() {
		t.Log(p.Log.String())
	}
}

// The server writes the log to a pipe. The process that reads the pipe has exited, and the server must continue.
func TestServerOutlivesLogReader(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := harness.LaunchWith(t, []string{"bash", "-c", `exec precept "$@" > >(exit) 2>&1`, "bash"}, dir, nil, "--upstream", "http://127.0.0.1:1/v1", "--lessons", t.TempDir()).WaitUntilReady(dir)
	p.Signal(syscall.SIGHUP)
	p.Signal(syscall.SIGTERM)
	if code := p.ExitCode(); code != harness.ExitOK {
		t.Errorf("precept serve without a log reader: got exit code %d, want 0", code)
	}
}
