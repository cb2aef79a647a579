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

// workDir returns a project with a build that fails and another build that works.
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

// loopScript calls the same failing command three times, then another command, and then answers.
func loopScript() []harness.Step {
	return []harness.Step{
		{Text: "I will run the build script.", Command: "sh ./build.sh --target demo"},
		{Command: "sh ./build.sh --target demo"},
		{Command: "sh ./build.sh --target demo"},
		{Command: "sh ./other.sh"},
		{Text: "The build script fails with a missing target; the other script works."},
	}
}

// installedProgram returns the absolute path of a program, and skips the test if the program is missing. Under CI a
// missing program is a failure.
func installedProgram(t *testing.T, path, how string) string {
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
			t.Fatalf("%s: got error %v, want the program installed under CI; %s", path, err, how)
		}
		t.Skipf("%s is not installed; %s", path, how)
	}
	return path
}

// clientRun is the result of a client: its exit code, and the requests that reached the model.
type clientRun struct {
	code  int
	out   string
	mains []harness.ModelRequest
	all   []harness.ModelRequest
}

// runClient runs a client against base (without /v1) and returns the result.
func runClient(t *testing.T, m *harness.Model, base string, argv []string, env ...string) clientRun {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // the test's own clients
	c.Env = append(os.Environ(), append([]string{"OPENAI_BASE_URL=" + base + "/v1", "OPENAI_API_KEY=sk-test", "ANTHROPIC_BASE_URL=" + base, "ANTHROPIC_API_KEY=sk-test", "NO_PROXY=127.0.0.1", "WORK=" + workDir(t)}, env...)...)
	before := len(m.All())
	out, err := c.CombinedOutput()
	res := clientRun{out: string(out), code: c.ProcessState.ExitCode(), all: m.All()[before:]}
	if err != nil && res.code < 0 {
		t.Fatalf("the start of %v: got error %v, want none; output %s", argv, err, out)
	}
	for _, a := range res.all {
		if a.Main {
			res.mains = append(res.mains, a)
		}
	}
	return res
}

// compare compares a run through precept with the direct run: equal exit codes and equal numbers of main requests. In
// the run through precept, the list of each request begins with the list before, and the last request has one lesson
// and one loop warning.
func compare(t *testing.T, direct, through clientRun) {
	t.Helper()
	if through.code != direct.code || direct.code != 0 {
		t.Fatalf("exit code %d directly and %d through precept, want 0 both times\n%s\n%s", direct.code, through.code, direct.out, through.out)
	}
	if len(direct.mains) == 0 || len(through.mains) != len(direct.mains) {
		t.Fatalf("the client sent %d main requests directly and %d through precept, want equal numbers above 0", len(direct.mains), len(through.mains))
	}
	for i := 1; i < len(through.mains); i++ {
		if !extends(through.mains[i-1].List(), through.mains[i].List()) {
			t.Errorf("request %[1]d does not begin with the list of request %[2]d, want that list first:\n%[3]s\n%[4]s", i, i-1, through.mains[i-1].Raw, through.mains[i].Raw)
		}
	}
	last := through.mains[len(through.mains)-1].Raw
	for _, want := range []string{"[check-the-target]", "Lessons from past experience:", "[LOOP DETECTED]"} {
		if n := strings.Count(last, want); n != 1 {
			t.Errorf("%q is %d times in the last request, want once:\n%s", want, n, last)
		}
	}
	for _, a := range through.all {
		if !a.Main && strings.Contains(a.Raw, "Lessons from past experience") {
			t.Errorf("got side request %s, want no lesson in it", a.Raw)
		}
	}
}

// extends reports whether list b begins with list a. cache_control may move, and a string is equal to one text part.
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

// canonical returns a body without cache_control, and with each text as a list of one part.
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

// clients returns small agents on the official SDKs, with their programs.
func clients() []struct{ name, needs, program, mode string } {
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

// client returns the command of a client.
func client(t *testing.T, needs, program, mode string) (argv []string, env string) {
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

// Each official SDK completes the task through precept as in a direct run; see compare.
func TestE2EOfficialSDKsWorkThroughPrecept(t *testing.T) {
	for _, c := range clients() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // most of the time is the start of an interpreter
			argv, env := client(t, c.needs, c.program, c.mode)
			m := harness.NewModel(t, loopScript())
			direct := runClient(t, m, m.URL, argv, env)
			p := harness.Start(t, t.TempDir(), harness.Always(m, harness.LessonDir(t))...)
			through := runClient(t, m, p.Data, argv, env)
			compare(t, direct, through)
			if !strings.Contains(through.out, "the other script works") {
				t.Errorf("the client printed %q, want the words of the upstream", through.out)
			}
		})
	}
}

// A repeated request after a 429 or a 500 is the same request with the same block. A truncated
// stream of the model is truncated for the client: the official SDKs report an error and not the
// end of an answer.
func TestE2ERetriesSendTheSameRequest(t *testing.T) {
	for name, f := range map[string]harness.Fault{
		"429": {At: 1, Times: 1, Status: 429}, "500": {At: 2, Times: 1, Status: 500}, "cut": {At: 2, Times: 1, Cut: true},
	} {
		for _, c := range clients() {
			if c.name == "python/responses" || strings.HasPrefix(c.name, "node/chat") || c.mode == "plain" {
				continue // the same library or the same dialect as another client
			}
			t.Run(name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				argv, env := client(t, c.needs, c.program, c.mode)
				m := harness.NewModel(t, loopScript(), f)
				p := harness.Start(t, t.TempDir(), harness.Always(m, harness.LessonDir(t))...)
				res := runClient(t, m, p.Data, argv, env)
				if f.Cut {
					if res.code != 1 || len(res.mains) != 2 {
						t.Fatalf("client with a truncated stream: got exit code %d after %d requests, want 1 after 2\n%s", res.code, len(res.mains), res.out)
					}
					return
				}
				if res.code != 0 || len(res.mains) != 6 {
					t.Fatalf("client with one retry: got exit code %d after %d requests, want 0 after 6\n%s", res.code, len(res.mains), res.out)
				}
				if first, again := res.mains[f.At-1].Raw, res.mains[f.At].Raw; first != again || strings.Count(first, taskSlug) != 1 {
					t.Errorf("the request with the fault has %d lessons, want 1; the retry must be equal to the request:\n%s\n%s", strings.Count(first, taskSlug), first, again)
				}
			})
		}
	}
}
