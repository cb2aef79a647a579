package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"precept/configs"
)

// configureLaunch configures the launch of an agent's command for a user whose home directory contains the given files.
// It returns the launch and the notes for the user, and fails the test if a file has changed.
func configureLaunch(t *testing.T, command string, files map[string]string) (*launch, *bytes.Buffer) {
	t.Helper()
	home := t.TempDir()
	for name, text := range files {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var notes bytes.Buffer
	p := &launch{
		cfg:     &configs.Config{Upstreams: map[string]configs.Upstream{"mine": {URL: "http://model.test/v1"}}},
		dataURL: "http://127.0.0.1:8080", agent: "co,der", session: "ci/42", args: strings.Fields(command),
		env: map[string]string{"NO_PROXY": "example.test"}, home: home, workDir: filepath.Join(home, "repo"), stderr: &notes,
	}
	if err := p.configure(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(p.tempPath) })
	for name, text := range files {
		if b, err := os.ReadFile(filepath.Join(home, name)); err != nil || string(b) != text {
			t.Errorf("user's file %s: got %q, error %v, want the unchanged content %q", name, b, err, text)
		}
	}
	return p, &notes
}

const (
	agentURL    = "http://127.0.0.1:8080/p/agent=co%2Cder,session=ci%2F42" // base URL with an agent and a session
	upstreamURL = agentURL + ",upstream=mine"                              // base URL with an upstream
)

func TestLaunchSetsBaseURLsForAnyAgent(t *testing.T) {
	p, _ := configureLaunch(t, "python3 my_agent.py --fast", nil)
	for name, want := range map[string]string{
		"OPENAI_BASE_URL": agentURL + "/v1", "OPENAI_API_BASE": agentURL + "/v1", "COPILOT_PROVIDER_BASE_URL": agentURL + "/v1",
		"ANTHROPIC_BASE_URL": agentURL, "NO_PROXY": "example.test,127.0.0.1", "PRECEPT_SESSION": "ci/42",
	} {
		if p.env[name] != want {
			t.Errorf("%s = %q, want %q", name, p.env[name], want)
		}
	}
}

// PRECEPT_SESSION contains the name of the session, or the name of the run if the session has no name.
func TestLaunchSeparatesRunAndSession(t *testing.T) {
	for _, tc := range []struct{ run, session, baseURL, sessionVariable string }{
		{"ci/7", "", "http://h/p/agent=a,run=ci%2F7", "ci/7"},
		{"r", "s,1", "http://h/p/agent=a,run=r,session=s%2C1", "s,1"},
		{"", "s", "http://h/p/agent=a,session=s", "s"},
	} {
		p := &launch{dataURL: "http://h", agent: "a", run: tc.run, session: tc.session, args: []string{"x"}, env: map[string]string{}, cfg: &configs.Config{}}
		if err := p.configure(); err != nil {
			t.Fatal(err)
		}
		if p.env["OPENAI_BASE_URL"] != tc.baseURL+"/v1" || p.env["PRECEPT_RUN"] != tc.run || p.env["PRECEPT_SESSION"] != tc.sessionVariable {
			t.Errorf(`run %q, session %q: got environment %v, want OPENAI_BASE_URL=%q, PRECEPT_RUN=%q, PRECEPT_SESSION=%q`, tc.run, tc.session, p.env, tc.baseURL+"/v1", tc.run, tc.sessionVariable)
		}
	}
}

func TestLaunchSetsCodexProvider(t *testing.T) {
	p, _ := configureLaunch(t, "codex exec x", nil)
	if got, want := strings.Join(p.args, " "), `codex -c openai_base_url="`+agentURL+`/v1" exec x`; got != want {
		t.Errorf("got command %q, want %q", got, want)
	}
	p, _ = configureLaunch(t, "codex exec x", map[string]string{".codex/config.toml": "model_provider = \"m\"\n[model_providers.m]\nbase_url = \"http://model.test/v1\"\n[other]\nbase_url = \"http://no.test\"\n"})
	if got, want := strings.Join(p.args, " "), `codex -c model_providers.m.base_url="`+upstreamURL+`/v1" exec x`; got != want {
		t.Errorf("got command %q, want %q", got, want)
	}
	p, notes := configureLaunch(t, "codex exec x", map[string]string{".codex/config.toml": "model_provider = \"m\"\n[model_providers.m]\nbase_url = \"http://elsewhere.test/v1\"\n"})
	if len(p.args) != 3 || !strings.Contains(notes.String(), "not a configured upstream") {
		t.Errorf(`provider that is not a configured upstream: got arguments %q, notes %q, want the user's three arguments and a note that contains "not a configured upstream"`, p.args, notes)
	}
}

func TestLaunchSetsOpencodeProviders(t *testing.T) {
	p, notes := configureLaunch(t, "opencode run x", map[string]string{
		".config/opencode/opencode.jsonc": "// mine\n{\"provider\": {\"my.own\": {\"options\": {\"baseURL\": \"http://model.test/v1\"}}, /* x */ \"far\": {\"options\": {\"baseURL\": \"http://elsewhere.test\"}},}}",
	})
	var got struct {
		Provider map[string]struct{ Options struct{ BaseURL string } }
	}
	if err := json.Unmarshal([]byte(p.env["OPENCODE_CONFIG_CONTENT"]), &got); err != nil {
		t.Fatalf("OPENCODE_CONFIG_CONTENT=%s: %v", p.env["OPENCODE_CONFIG_CONTENT"], err)
	}
	if got.Provider["my.own"].Options.BaseURL != upstreamURL+"/v1" || got.Provider["openai"].Options.BaseURL != agentURL+"/v1" || len(got.Provider) != 3 {
		t.Errorf("got providers %+v, want three providers, with base URL %q for my.own and %q for openai", got.Provider, upstreamURL+"/v1", agentURL+"/v1")
	}
	if !strings.Contains(notes.String(), "far uses http://elsewhere.test") {
		t.Errorf(`notes about the providers: got %q, want them to contain "far uses http://elsewhere.test"`, notes)
	}
}

func TestLaunchSetsPiProviders(t *testing.T) {
	p, _ := configureLaunch(t, "/usr/bin/pi -p x", map[string]string{
		".pi/agent/models.json": `{"providers": {"m": {"baseUrl": "http://model.test", "big": 12345678901234567890}}}`,
		".pi/agent/auth.json":   `{}`,
	})
	dir := p.env["PI_CODING_AGENT_DIR"]
	b, err := os.ReadFile(filepath.Join(dir, "models.json"))
	if err != nil || !strings.Contains(string(b), `"baseUrl": "`+upstreamURL+`"`) || !strings.Contains(string(b), "12345678901234567890") {
		t.Errorf("models.json: got %s, error %v, want base URL %q and the unchanged number 12345678901234567890", b, err, upstreamURL)
	}
	if to, err := os.Readlink(filepath.Join(dir, "auth.json")); err != nil || to != filepath.Join(p.home, ".pi/agent/auth.json") {
		t.Errorf("auth.json: got a link to %q, error %v, want a link to %q", to, err, filepath.Join(p.home, ".pi/agent/auth.json"))
	}
}

func TestLaunchSetsContinueAndQwenProviders(t *testing.T) {
	p, _ := configureLaunch(t, "cn -p x", map[string]string{".continue/config.yaml": "models:\n  - name: a\n    apiBase: http://model.test/v1\n  - apiBase: \"http://elsewhere.test/v1\"\n"})
	at := slices.Index(p.args, "--config")
	if at != 1 {
		t.Fatalf("cn: got arguments %q, want --config as the first argument", p.args)
	}
	b, err := os.ReadFile(p.args[2])
	if want := "models:\n  - name: a\n    apiBase: " + upstreamURL + "/v1\n  - apiBase: \"http://elsewhere.test/v1\"\n"; err != nil || string(b) != want {
		t.Errorf("cn: got configuration %q, error %v, want %q", b, err, want)
	}
	p, _ = configureLaunch(t, "qwen -p x", nil)
	if got := strings.Join(p.args, " "); got != "qwen --auth-type openai -p x" {
		t.Errorf(`got command %q, want "qwen --auth-type openai -p x"`, got)
	}
	p, _ = configureLaunch(t, "qwen --auth-type=other -p x", nil)
	if len(p.args) != 4 {
		t.Errorf("qwen started with --auth-type by the user: got arguments %q, want the user's arguments unchanged", p.args)
	}
}

func TestProgramNameReturnsAgentName(t *testing.T) {
	for command, want := range map[string]string{
		"codex exec x": "codex", "/usr/local/bin/pi -p x": "pi", "python3.12 agents/triage.py": "triage", "npx -y cline@3 x": "cline",
		"node ./bot.mjs": "bot", "sh -c x": "sh", "python -m pkg": "python", "uv run agent.py": "agent",
	} {
		if got := programName(strings.Fields(command)); got != want {
			t.Errorf("programName(%q) = %q, want %q", command, got, want)
		}
	}
}
