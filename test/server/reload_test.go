package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"precept/configs"
	"precept/inject/bank/banktest"
	"precept/test/harness"
)

// configFileServer is a running server whose configuration file the test changes.
type configFileServer struct {
	*harness.Process
	file, dir                    string
	scannedLogBytes, reloadCount int
}

func startWithFile(t *testing.T, text string, flags ...string) *configFileServer {
	t.Helper()
	s := &configFileServer{Process: &harness.Process{T: t}, file: filepath.Join(t.TempDir(), "precept.yaml"), dir: t.TempDir()}
	s.writeConfig(text)
	s.Process = harness.Launch(t, s.dir, []string{"PRECEPT_ADMIN_TOKEN="}, append([]string{"--config", s.file}, flags...)...).WaitUntilReady(s.dir)
	return s
}

func (s *configFileServer) writeConfig(text string) {
	s.T.Helper()
	if err := os.WriteFile(s.file, []byte(text), 0o600); err != nil {
		s.T.Fatal(err)
	}
}

func (s *configFileServer) acceptsToken(token string) bool {
	status, _ := harness.Get(s.T, s.AdminURL+"/api/report", token)
	return status == http.StatusOK
}

func TestRemovedConfigAndLessonsAreLogged(t *testing.T) {
	t.Parallel()
	lessons := filepath.Join(t.TempDir(), "lessons")
	if err := os.Mkdir(lessons, 0o700); err != nil {
		t.Fatal(err)
	}
	banktest.WriteLesson(t, lessons, "a", "some words")
	s := startWithFile(t, "admin: {tokens: [first]}\n", "--lessons", lessons)
	if err := errors.Join(os.Remove(s.file), os.Rename(lessons, lessons+".old")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"the configuration file is missing; the last configuration stays in effect", "the lesson directory does not exist; create the directory"} {
		s.Eventually(want, func() bool { return strings.Contains(s.Log.String(), want) })
	}
	if !s.acceptsToken("first") {
		t.Error("after the file was removed: the server refuses the token in the last configuration, want it accepted")
	}
}

// The reload error must disappear even if the restored file has the same content as before the error.
func TestReloadErrorEndsWhenFileIsRestored(t *testing.T) {
	t.Parallel()
	const text = "admin: {tokens: [first]}\n"
	s := startWithFile(t, text)
	if err := os.Remove(s.file); err != nil {
		t.Fatal(err)
	}
	s.Signal(syscall.SIGHUP)
	succeeded := func() bool {
		_, body := harness.Get(t, s.AdminURL+"/metrics", "first")
		return strings.Contains(body, "\nprecept_config_last_reload_successful 1\n")
	}
	s.Eventually("a failed reload in /metrics", func() bool { return !succeeded() })
	s.writeConfig(text)
	s.Eventually("a successful reload in /metrics", succeeded)
}

// The server reloads the changed file on a signal. The test restores the old content before the server polls the file
// again, and the server must notice this change as well.
func TestReloadAppliesARevertedChange(t *testing.T) {
	t.Parallel()
	const first, second = "admin: {tokens: [first]}\n", "admin: {tokens: [second]}\n"
	s := startWithFile(t, first)
	for range 3 {
		s.writeConfig(second)
		s.Signal(syscall.SIGHUP)
		s.Eventually("the second token", func() bool { return s.acceptsToken("second") })
		s.writeConfig(first)
		s.Eventually("the first token", func() bool { return s.acceptsToken("first") })
	}
}

// An editor may empty the file before it writes the new content. If the server applied the empty file, it would send
// requests to the default upstream.
func TestReloadRefusesAnEmptyFile(t *testing.T) {
	t.Parallel()
	s := startWithFile(t, "admin: {tokens: [first]}\n")
	s.writeConfig("")
	s.Signal(syscall.SIGHUP)
	s.Eventually("the refusal in the log", func() bool { return strings.Contains(s.Log.String(), "the configuration file is empty") })
	if !s.acceptsToken("first") {
		t.Error("after the file was emptied: the server refuses the token in the old configuration, want it accepted")
	}
	s.writeConfig("admin: {tokens: [second]}\n")
	s.Eventually("the second token", func() bool { return s.acceptsToken("second") })
}

func TestReloadReportsSettingsThatNeedARestart(t *testing.T) {
	t.Parallel()
	const format = "admin: {tokens: [token]}\nmetrics: {public: %v}\n%s"
	s := startWithFile(t, fmt.Sprintf(format, false, ""))
	s.writeConfig(fmt.Sprintf(format, true, "data_dir: /nowhere\nreward: {close_after: 1s}\nlimits: {sessions: 7, upstream_header_timeout: 7s}\n"))
	s.Signal(syscall.SIGHUP)
	s.Eventually("the log line with the keys that need a restart", func() bool {
		return strings.Contains(s.Log.String(), `keys="reward.close_after limits.sessions"`) // without data_dir, because the flag takes precedence over the file
	})
	settings := func() map[string]string {
		_, text := harness.Get(t, s.AdminURL+"/api/health", "token")
		var health struct{ Config []configs.Setting }
		if err := json.Unmarshal([]byte(text), &health); err != nil {
			t.Fatal(err)
		}
		values := map[string]string{}
		for _, s := range health.Config {
			values[s.Path] = s.Value
		}
		return values
	}
	if got := settings(); got["reward.close_after"] != "24h0m0s" || got["limits.sessions"] != "20000" || got["limits.upstream_header_timeout"] != "7s" || got["metrics.public"] != "true" {
		t.Errorf("settings after the reload: got reward.close_after %s, limits.sessions %s, limits.upstream_header_timeout %s, metrics.public %s, want 24h0m0s, 20000, 7s and true", got["reward.close_after"], got["limits.sessions"], got["limits.upstream_header_timeout"], got["metrics.public"])
	}
	s.writeConfig(fmt.Sprintf(format, false, "limits: {sessions: 7}\n")) // the next reload must still report this setting
	s.Signal(syscall.SIGHUP)
	s.Eventually("the second reload", func() bool { return settings()["metrics.public"] == "false" })
	if _, page := harness.Get(t, s.AdminURL+"/", "token"); !strings.Contains(page, "changed keys that need a restart: limits.sessions") {
		t.Error("the dashboard lacks \"changed keys that need a restart: limits.sessions\"")
	}
	s.writeConfig(fmt.Sprintf(format, false, ""))
	s.Signal(syscall.SIGHUP)
	s.Eventually("no setting waiting for a restart", func() bool {
		_, page := harness.Get(t, s.AdminURL+"/", "token")
		return !strings.Contains(page, "need a restart")
	})
}

func TestReloadSwitchesOnAnonymization(t *testing.T) {
	t.Parallel()
	model := harness.InstantModel(t)
	s := startWithFile(t, "learning: {anonymize_pii: false}\n", "--upstream", model.URL+"/v1")
	sendChat := func(address string) {
		t.Helper()
		s.Chat(t, nil, `{"model":"m","messages":[{"role":"user","content":"write to `+address+`"}]}`)
	}
	sendChat("before@example.com")
	s.Eventually("the address before@example.com in a file", func() bool { return len(harness.FilesWith(harness.Files(t, s.dir), "before@example.com")) > 0 })
	s.writeConfig("learning: {anonymize_pii: true}\n")
	s.Signal(syscall.SIGHUP)
	s.Eventually("the log line about the reload", func() bool { return strings.Contains(s.Log.String(), "configuration reloaded") })
	sendChat("after@example.com")
	s.Eventually("the placeholder for after@example.com in a file", func() bool { return len(harness.FilesWith(harness.Files(t, s.dir), "[REDACTED:email:1]")) > 0 })
	if left := harness.FilesWith(harness.Files(t, s.dir), "after@example.com"); len(left) > 0 {
		t.Errorf("files with after@example.com: got %v, want none", left)
	}
}

func TestServerStopsDuringManyReloads(t *testing.T) {
	t.Parallel()
	s := startWithFile(t, "log: {level: error}\n")
	for range 200 {
		s.Signal(syscall.SIGHUP)
	}
	s.Stop()
}
