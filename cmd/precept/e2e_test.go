package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program is the real binary, built once a test run.
var program = sync.OnceValues(func() (string, error) { //nolint:gochecknoglobals // a build that all tests share
	dir, err := os.MkdirTemp("", "precept-e2e-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "precept")
	out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput() //nolint:noctx // bounded by the test's own time
	if err != nil {
		return "", fmt.Errorf("build precept: %w: %s", err, out)
	}
	return bin, nil
})

// running is a precept in a process of its own.
type running struct {
	Data  string `json:"data"`
	Admin string `json:"admin"`
	PID   int    `json:"pid"`
	dir   string
	flags []string
	cmd   *exec.Cmd
	log   *lockedBuffer
	ended chan struct{} // closed when the process has ended
	err   error         // how, once it has
}

// lockedBuffer collects a process's output while others read it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start runs `precept serve` on free ports and waits until it is ready.
func start(t *testing.T, dir string, flags ...string) *running {
	t.Helper()
	bin, err := program()
	if err != nil {
		t.Fatal(err)
	}
	r := &running{dir: dir, flags: flags, log: &lockedBuffer{}, ended: make(chan struct{})}
	args := append([]string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", dir}, flags...)
	r.cmd = exec.Command(bin, args...) //nolint:gosec,noctx // our own binary; it is stopped below, by its own id
	r.cmd.Env = append(os.Environ(), "PRECEPT_ADMIN_TOKEN=e2e-token")
	r.cmd.Stderr, r.cmd.Stdout = r.log, r.log
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		r.err = r.cmd.Wait()
		close(r.ended)
	}()
	t.Cleanup(func() { r.stop(t) })
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		select {
		case <-r.ended:
			t.Fatalf("precept ended at once: %v\n%s", r.err, r.log)
		default:
		}
		if b, err := os.ReadFile(filepath.Join(dir, "run.json")); err == nil && json.Unmarshal(b, r) == nil && r.PID == r.cmd.Process.Pid {
			return r
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("precept is not ready:\n%s", r.log)
	return nil
}

// stop ends the process, if it is not ended yet, and expects a clean end.
func (r *running) stop(t *testing.T) {
	t.Helper()
	_ = r.cmd.Process.Signal(syscall.SIGTERM) // an error says that it has ended
	select {
	case <-r.ended:
		if r.err != nil {
			t.Errorf("precept stopped with %v:\n%s", r.err, r.log)
		}
	case <-time.After(20 * time.Second):
		_ = r.cmd.Process.Kill()
		t.Errorf("precept did not stop:\n%s", r.log)
	}
}

// always are the flags under which whatever matches is injected.
func always(m *model, lessons string) []string {
	return []string{"--upstream", m.URL + "/v1", "--lessons", lessons, "--bandit-objective", "all", "--bandit-epsilon", "0", "--bandit-control", "0"}
}

// lessonDir holds one lesson that fires on a task about the build.
func lessonDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	writeLesson(t, dir, "check-the-target", "build script")
	return dir
}

func writeLesson(t *testing.T, dir, slug, keyword string) {
	t.Helper()
	text := strings.NewReplacer("SLUG", slug, "KEYWORD", keyword).Replace(`---
schema: learning/v1
slug: SLUG
title: Look at the targets before you build one (SLUG).
trigger:
  description: when KEYWORD is met
  metadata:
    precept:
      keywords: ["KEYWORD"]
outcome: success
evidence:
  - kind: run
    ref: e2e/1
---

# Look at the targets before you build one (SLUG).

## What to do (or avoid)

List the targets first.
`)
	if err := os.WriteFile(filepath.Join(dir, slug+".md"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// workDir is a project with a build that fails and another one that works.
func workDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"build.sh": "echo building demo\necho 'error: no rule to make target demo' >&2\nexit 3\n",
		"other.sh": "echo other ok\n", "README.md": "bench project\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const loopTask = "Precept e2e task: run the build script and tell me whether it works. Do not change files."

// loopScript calls the same failing command three times, then another one, then answers.
func loopScript() []step {
	return []step{
		{Text: "I will run the build script.", Command: "sh ./build.sh --target demo"},
		{Command: "sh ./build.sh --target demo"},
		{Command: "sh ./build.sh --target demo"},
		{Command: "sh ./other.sh"},
		{Text: "The build script fails with a missing target; the other script works."},
	}
}

// wanted says that a client of the end-to-end tests is missing; under CI that is a failure.
func wanted(t *testing.T, path, how string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(root, path)
	}
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%v; %s", err, how)
		}
		t.Skipf("%s is not here; %s", path, how)
	}
	return path
}

// ran is what a client did: its exit code, and what reached the model.
type ran struct {
	code  int
	out   string
	mains []asked
	all   []asked
}

// run runs a client against base and reports.
func run1(t *testing.T, m *model, base string, argv []string, env ...string) ran {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // the test's own clients
	c.Env = append(os.Environ(), append([]string{"OPENAI_BASE_URL=" + base, "OPENAI_API_KEY=sk-test", "NO_PROXY=127.0.0.1", "WORK=" + workDir(t)}, env...)...)
	before := len(m.all())
	out, err := c.CombinedOutput()
	res := ran{out: string(out), code: c.ProcessState.ExitCode(), all: m.all()[before:]}
	if err != nil && res.code < 0 {
		t.Fatalf("%v: %v\n%s", argv, err, out)
	}
	for _, a := range res.all {
		if a.main {
			res.mains = append(res.mains, a)
		}
	}
	return res
}

// compare holds a run through precept against the direct one: the same end, the same number of main requests, the list of
// each request a prefix of the next one's, one lesson block, one loop warning that is sent again unchanged.
func compare(t *testing.T, direct, through ran) {
	t.Helper()
	if through.code != direct.code || direct.code != 0 {
		t.Fatalf("exit code %d directly, %d through precept\n%s\n%s", direct.code, through.code, direct.out, through.out)
	}
	if len(direct.mains) == 0 || len(through.mains) != len(direct.mains) {
		t.Fatalf("%d main requests directly, %d through precept", len(direct.mains), len(through.mains))
	}
	for i := 1; i < len(through.mains); i++ {
		if !extends(through.mains[i-1].list(), through.mains[i].list()) {
			t.Errorf("request %d is no extension of the one before:\n%s\n%s", i, through.mains[i-1].raw, through.mains[i].raw)
		}
	}
	last := through.mains[len(through.mains)-1].raw
	for _, want := range []string{"[check-the-target]", "Lessons from past experience:", "[LOOP DETECTED]"} {
		if n := strings.Count(last, want); n != 1 {
			t.Errorf("%q stands %d times in the last request, not once:\n%s", want, n, last)
		}
	}
	for _, a := range through.all {
		if !a.main && strings.Contains(a.raw, "Lessons from past experience") {
			t.Errorf("a side request was changed: %s", a.raw)
		}
	}
}

// extends says whether list b begins with list a; cache_control moves, and a string is one text part.
func extends(a, b []any) bool {
	if len(a) > len(b) {
		return false
	}
	for i := range a {
		x, _ := json.Marshal(canonical(a[i]))
		y, _ := json.Marshal(canonical(b[i]))
		if !bytes.Equal(x, y) {
			return false
		}
	}
	return true
}

func canonical(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = canonical(v[i])
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			if k == "cache_control" {
				continue
			}
			if s, ok := x.(string); ok && k == "content" {
				x = []any{map[string]any{"type": "text", "text": s}}
			}
			out[k] = canonical(x)
		}
		return out
	}
	return v
}

func TestE2EOfficialSDKs(t *testing.T) {
	venv, modules := ".cache/venv/bin/python", ".cache/node/node_modules"
	for _, c := range []struct {
		name, needs, how string
		argv             func(path, mode string) []string
	}{
		{"python", venv, "make e2e-deps installs it", func(path, mode string) []string {
			return []string{path, "testdata/e2e/sdk.py", mode, loopTask}
		}},
		{"node", modules, "make e2e-deps installs it", func(_, mode string) []string {
			return []string{"node", "testdata/e2e/sdk.mjs", mode, loopTask}
		}},
	} {
		for _, mode := range []string{"plain", "stream"} {
			t.Run(c.name+"/"+mode, func(t *testing.T) {
				path := wanted(t, c.needs, c.how)
				m := newModel(t, loopScript())
				env := "MODULES=" + filepath.Dir(path)
				direct := run1(t, m, m.URL+"/v1", c.argv(path, mode), env)
				p := start(t, t.TempDir(), always(m, lessonDir(t))...)
				through := run1(t, m, p.Data+"/v1", c.argv(path, mode), env)
				compare(t, direct, through)
				if !strings.Contains(through.out, "the other script works") {
					t.Errorf("the client printed %q", through.out)
				}
			})
		}
	}
}

// A retry after a 429, a 500 and a cut stream gets the same block, and the official SDKs get through.
func TestE2ERetries(t *testing.T) {
	python := wanted(t, ".cache/venv/bin/python", "make e2e-deps installs it")
	for name, f := range map[string]fault{"429": {at: 2, times: 1, status: 429}, "500": {at: 2, times: 1, status: 500}} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, loopScript(), f)
			p := start(t, t.TempDir(), always(m, lessonDir(t))...)
			res := run1(t, m, p.Data+"/v1", []string{python, "testdata/e2e/sdk.py", "stream", loopTask})
			if res.code != 0 || len(res.mains) != 6 {
				t.Fatalf("exit %d after %d requests\n%s", res.code, len(res.mains), res.out)
			}
			if res.mains[1].raw != res.mains[2].raw {
				t.Errorf("the retry differs:\n%s\n%s", res.mains[1].raw, res.mains[2].raw)
			}
		})
	}
}
