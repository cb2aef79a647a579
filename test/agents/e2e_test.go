package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"precept/test/harness"
)

func newProject(t *testing.T) string {
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

func loopScript() []harness.Step {
	return []harness.Step{
		{Text: "I will run the build script.", Command: "sh ./build.sh --target demo"},
		{Command: "sh ./build.sh --target demo"},
		{Command: "sh ./build.sh --target demo"},
		{Command: "sh ./other.sh"},
		{Text: "The build script fails with a missing target; the other script works."},
	}
}

// installedProgram returns a program's absolute path. A missing program fails the test in CI, and skips it elsewhere.
func installedProgram(t *testing.T, path, hint string) string {
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
			t.Fatalf("%s is not installed, but CI needs it: %v; %s", path, err, hint)
		}
		t.Skipf("%s is not installed; %s", path, hint)
	}
	return path
}

type clientRun struct {
	code         int
	out          string
	mainRequests []harness.ModelRequest
	requests     []harness.ModelRequest
}

func runClient(t *testing.T, m *harness.Model, baseURL string, argv []string, env ...string) clientRun {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // the test's own clients
	c.Env = append(os.Environ(), append([]string{"OPENAI_BASE_URL=" + baseURL + "/v1", "OPENAI_API_KEY=sk-test", "ANTHROPIC_BASE_URL=" + baseURL, "ANTHROPIC_API_KEY=sk-test", "NO_PROXY=127.0.0.1", "WORK=" + newProject(t)}, env...)...)
	before := len(m.GenerationRequests())
	out, err := c.CombinedOutput()
	res := clientRun{out: string(out), code: c.ProcessState.ExitCode(), requests: m.GenerationRequests()[before:]}
	if err != nil && res.code < 0 {
		t.Fatalf("start %v: %v\n%s", argv, err, out)
	}
	for _, a := range res.requests {
		if a.IsMain {
			res.mainRequests = append(res.mainRequests, a)
		}
	}
	return res
}

// compareRuns compares a run through precept with a direct run. Only the run through precept has a lesson and a
// loop warning.
func compareRuns(t *testing.T, direct, through clientRun) {
	t.Helper()
	if through.code != direct.code || direct.code != 0 {
		t.Fatalf("exit code: got %d directly and %d through precept, want 0\n%s\n%s", direct.code, through.code, direct.out, through.out)
	}
	if len(direct.mainRequests) == 0 || len(through.mainRequests) != len(direct.mainRequests) {
		t.Fatalf("main requests: got %d directly and %d through precept, want equal numbers above 0", len(direct.mainRequests), len(through.mainRequests))
	}
	for i := 1; i < len(through.mainRequests); i++ {
		if !isPrefix(through.mainRequests[i-1].Items(), through.mainRequests[i].Items()) {
			t.Errorf("request %d does not begin with request %d's list:\n%[4]s\n%[3]s", i, i-1, through.mainRequests[i-1].Raw, through.mainRequests[i].Raw)
		}
	}
	last := through.mainRequests[len(through.mainRequests)-1].Raw
	for _, want := range []string{"[check-the-target]", "Lessons from past experience:", "[LOOP DETECTED]"} {
		if n := strings.Count(last, want); n != 1 {
			t.Errorf("last request: got %q %d times, want once:\n%s", want, n, last)
		}
	}
	for _, a := range through.requests {
		if !a.IsMain && strings.Contains(a.Raw, "Lessons from past experience") {
			t.Errorf("side request %s has a lesson", a.Raw)
		}
	}
}

// isPrefix reports whether list begins with prefix. isPrefix ignores cache_control, and treats a string content as a
// list of one text part.
func isPrefix(prefix, list []any) bool {
	if len(prefix) > len(list) {
		return false
	}
	for i := range prefix {
		want, _ := json.Marshal(canonical(prefix[i]))
		got, _ := json.Marshal(canonical(list[i]))
		if !bytes.Equal(got, want) {
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

func sdkClients() []struct{ name, needs, program, mode string } {
	const python, node = ".cache/venv/bin/python", ".cache/node/node_modules"
	return []struct{ name, needs, program, mode string }{
		{"python/chat/plain", python, "e2e/sdk.py", "plain"},
		{"python/chat/stream", python, "e2e/sdk.py", "stream"},
		{"python/responses", python, "agents/responses_agent.py", ""},
		{"python/messages", python, "agents/anthropic_agent.py", ""},
		{"node/chat/plain", node, "e2e/sdk.mjs", "plain"},
		{"node/chat/stream", node, "e2e/sdk.mjs", "stream"},
		{"node/responses", node, "agents/openai-responses.mjs", ""},
	}
}

func clientCommand(t *testing.T, needs, program, mode string) (argv []string, env string) {
	t.Helper()
	path := installedProgram(t, needs, "make e2e-deps installs it")
	argv = []string{path, filepath.Join("testdata", program)}
	if filepath.Ext(program) == ".mjs" {
		argv[0] = filepath.Join(path, "node/bin/node")
	}
	if mode != "" {
		argv = append(argv, mode)
	}
	return append(argv, loopTask), "MODULES=" + path
}

func TestE2EOfficialSDKsWorkThroughPrecept(t *testing.T) {
	for _, c := range sdkClients() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // starting an interpreter takes most of the time
			argv, env := clientCommand(t, c.needs, c.program, c.mode)
			m := harness.NewModel(t, loopScript())
			direct := runClient(t, m, m.URL, argv, env)
			p := harness.Start(t, t.TempDir(), harness.AlwaysInject(m, harness.LessonDir(t))...)
			through := runClient(t, m, p.DataURL, argv, env)
			compareRuns(t, direct, through)
			if !strings.Contains(through.out, "the other script works") {
				t.Errorf("client output = %q, want the model's answer", through.out)
			}
		})
	}
}

// After a truncated stream, the SDK reports an error and does not retry.
func TestE2EOfficialSDKsHandleFaults(t *testing.T) {
	for name, f := range map[string]harness.Fault{
		"429": {FirstRequest: 1, Times: 1, Status: 429}, "500": {FirstRequest: 2, Times: 1, Status: 500}, "cut": {FirstRequest: 2, Times: 1, Cut: true},
	} {
		for _, c := range sdkClients() {
			if c.name == "python/responses" || strings.HasPrefix(c.name, "node/chat") || c.mode == "plain" {
				continue // the same library or the same dialect as another client
			}
			t.Run(name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				argv, env := clientCommand(t, c.needs, c.program, c.mode)
				m := harness.NewModel(t, loopScript(), f)
				p := harness.Start(t, t.TempDir(), harness.AlwaysInject(m, harness.LessonDir(t))...)
				res := runClient(t, m, p.DataURL, argv, env)
				if f.Cut {
					if res.code != 1 || len(res.mainRequests) != 2 {
						t.Fatalf("client with a truncated stream: got exit code %d after %d requests, want 1 after 2\n%s", res.code, len(res.mainRequests), res.out)
					}
					return
				}
				if res.code != 0 || len(res.mainRequests) != 6 {
					t.Fatalf("client with one retry: got exit code %d after %d requests, want 0 after 6\n%s", res.code, len(res.mainRequests), res.out)
				}
				if first, again := res.mainRequests[f.FirstRequest-1].Raw, res.mainRequests[f.FirstRequest].Raw; first != again || strings.Count(first, taskSlug) != 1 {
					t.Errorf("request with %d lessons, want 1:\n%s\nretry, want the same request:\n%s", strings.Count(first, taskSlug), first, again)
				}
			})
		}
	}
}
