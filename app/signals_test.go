package app_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"precept/app"
)

// alone makes a server that hears signals.
func alone(o *app.Options) { o.Within = false }

// signalled sends this process a signal, which the server that is alone in it hears.
func signalled(t *testing.T, s os.Signal) {
	t.Helper()
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Signal(s)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Between a signal and the end of the drain delay a server says that it wants no more, and answers
// all the same who comes. A second signal ends the delay.
func TestDrainDelay(t *testing.T) {
	l := starts(t, flags(t, map[string]string{"upstream": model(t), "limits.drain_delay": "1h"}), alone)
	signalled(t, syscall.SIGTERM)
	eventually(t, "/readyz that says no", func() bool { return get(t, l.data+"/readyz", "") == http.StatusServiceUnavailable })
	if status, answer := send(t, http.MethodPost, l.data+"/v1/chat/completions", nil, `{"messages":[{"role":"user","content":"hi"}]}`); status != http.StatusOK {
		t.Errorf("while it drains: %d %s", status, answer)
	}
	if get(t, l.data+"/healthz", "") != http.StatusOK {
		t.Error("it is not healthy while it drains")
	}
	signalled(t, syscall.SIGTERM)
	if err := <-l.over; err != nil && !errors.Is(err, app.ErrCut) { // a connection of ours may have been closing
		t.Error(err)
	}
	l.stop()
}

// A reload takes the file over whole or not at all: what is wrong in it is told in the log and by
// the health page until a right one comes, and so is what waits for a new start.
func TestReload(t *testing.T) {
	source := flags(t, map[string]string{"admin.tokens": "[token]"})
	source.File = filepath.Join(t.TempDir(), "precept.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(source.File, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("bandit: {epsilon: 0.3}\n")
	l := starts(t, source, alone)
	health := func() string {
		_, body := send(t, http.MethodGet, l.admin+"/api/health", map[string]string{"Authorization": "Bearer token"}, "")
		return body
	}
	for _, wrong := range []struct{ text, says string }{
		{"bandit: {epsilon: 3}\nlog: {level: debug}\n", "out of bounds"},
		{"", "the configuration file is empty"},
		{"bandit: [\n", "is no YAML"},
	} {
		write(wrong.text)
		eventually(t, wrong.says+" in the log", func() bool { return l.console.says(wrong.says) })
		eventually(t, wrong.says+" on the health page", func() bool { return strings.Contains(health(), wrong.says) })
		if l.console.says("level=DEBUG") {
			t.Errorf("%q: a part of it was taken over", wrong.text)
		}
	}
	right := filepath.Join(t.TempDir(), "next.yaml") // put in its place by a rename, as editors do
	if err := os.WriteFile(right, []byte("bandit: {epsilon: 0.4}\nreward: {close_after: 1h}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(right, source.File); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the right one", func() bool { return l.console.says("configuration taken over") })
	if now := health(); strings.Contains(now, "config_fault") || !strings.Contains(now, `"0.4"`) {
		t.Errorf("the health page after it: %s", now)
	}
	if !l.console.says("these keys need a new start") || !l.console.says("keys=reward.close_after") {
		t.Error("what waits for a start is not told")
	}
	// A signal reads it again, without a change.
	count := func() int { return l.console.times("configuration taken over") }
	before := count()
	signalled(t, syscall.SIGHUP)
	eventually(t, "another reading", func() bool { return count() > before })
	if err := l.ends(); err != nil {
		t.Error(err)
	}
}
