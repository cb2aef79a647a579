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

// agentProcess returns the process that precept run would start for an agent, in a home directory with files, and
// the messages to the user. The test fails if the files of the user change.
func agentProcess(t *testing.T, command string, files map[string]string) (*pointing, *bytes.Buffer) {
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
	p := &pointing{
		cfg:  &configs.Config{Upstreams: map[string]configs.Upstream{"mine": {URL: "http://model.test/v1"}}},
		data: "http://127.0.0.1:8080", agent: "co,der", session: "ci/42", args: strings.Fields(command),
		env: map[string]string{"NO_PROXY": "example.test"}, home: home, work: filepath.Join(home, "repo"), notes: &notes,
	}
	if err := p.point(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(p.temp) })
	for name, text := range files {
		if b, err := os.ReadFile(filepath.Join(home, name)); err != nil || string(b) != text {
			t.Errorf("the user's file %s is %q, error %v, want %q as before", name, b, err, text)
		}
	}
	return p, &notes
}

const (
	agentURL    = "http://127.0.0.1:8080/p/agent=co%2Cder,session=ci%2F42" // base URL with the names of agent and session
	upstreamURL = agentURL + ",upstream=mine"                              // the same for the upstream mine
)

func TestPointSetsAddressesForAnyAgent(t *testing.T) {
	p, _ := agentProcess(t, "python3 my_agent.py --fast", nil)
	for name, want := range map[string]string{
		"OPENAI_BASE_URL": agentURL + "/v1", "OPENAI_API_BASE": agentURL + "/v1", "COPILOT_PROVIDER_BASE_URL": agentURL + "/v1",
		"ANTHROPIC_BASE_URL": agentURL, "NO_PROXY": "example.test,127.0.0.1", "PRECEPT_SESSION": "ci/42",
	} {
		if p.env[name] != want {
			t.Errorf("variable %s is %q, want %q", name, p.env[name], want)
		}
	}
}

// A run and a session have separate places in the base URL and in the environment. A run without a session is also in
// PRECEPT_SESSION.
func TestPointSeparatesRunAndSession(t *testing.T) {
	for _, c := range []struct{ run, session, base, sessionVariable string }{
		{"ci/7", "", "http://h/p/agent=a,run=ci%2F7", "ci/7"},
		{"r", "s,1", "http://h/p/agent=a,run=r,session=s%2C1", "s,1"},
		{"", "s", "http://h/p/agent=a,session=s", "s"},
	} {
		p := &pointing{data: "http://h", agent: "a", run: c.run, session: c.session, args: []string{"x"}, env: map[string]string{}, cfg: &configs.Config{}}
		if err := p.point(); err != nil {
			t.Fatal(err)
		}
		if p.env["OPENAI_BASE_URL"] != c.base+"/v1" || p.env["PRECEPT_RUN"] != c.run || p.env["PRECEPT_SESSION"] != c.sessionVariable {
			t.Errorf(`run %q, session %q: the environment is %v, want OPENAI_BASE_URL=%q, PRECEPT_RUN=%q and PRECEPT_SESSION=%q`, c.run, c.session, p.env, c.base+"/v1", c.run, c.sessionVariable)
		}
	}
}

func TestPointSetsTheProviderOfCodex(t *testing.T) {
	p, _ := agentProcess(t, "codex exec x", nil)
	if got, want := strings.Join(p.args, " "), `codex -c openai_base_url="`+agentURL+`/v1" exec x`; got != want {
		t.Errorf("the command is %q, want %q", got, want)
	}
	p, _ = agentProcess(t, "codex exec x", map[string]string{".codex/config.toml": "model_provider = \"m\"\n[model_providers.m]\nbase_url = \"http://model.test/v1\"\n[other]\nbase_url = \"http://no.test\"\n"})
	if got, want := strings.Join(p.args, " "), `codex -c model_providers.m.base_url="`+upstreamURL+`/v1" exec x`; got != want {
		t.Errorf("the command is %q, want %q", got, want)
	}
	p, notes := agentProcess(t, "codex exec x", map[string]string{".codex/config.toml": "model_provider = \"m\"\n[model_providers.m]\nbase_url = \"http://elsewhere.test/v1\"\n"})
	if len(p.args) != 3 || !strings.Contains(notes.String(), "not an upstream of precept") {
		t.Errorf(`with a provider that is no upstream: got arguments %q, notes %q, want three arguments and a note with "not an upstream of precept"`, p.args, notes)
	}
}

func TestPointSetsTheProvidersOfOpencode(t *testing.T) {
	p, notes := agentProcess(t, "opencode run x", map[string]string{
		".config/opencode/opencode.jsonc": "// mine\n{\"provider\": {\"my.own\": {\"options\": {\"baseURL\": \"http://model.test/v1\"}}, /* x */ \"far\": {\"options\": {\"baseURL\": \"http://elsewhere.test\"}},}}",
	})
	var got struct {
		Provider map[string]struct{ Options struct{ BaseURL string } }
	}
	if err := json.Unmarshal([]byte(p.env["OPENCODE_CONFIG_CONTENT"]), &got); err != nil {
		t.Fatal(err, p.env["OPENCODE_CONFIG_CONTENT"])
	}
	if got.Provider["my.own"].Options.BaseURL != upstreamURL+"/v1" || got.Provider["openai"].Options.BaseURL != agentURL+"/v1" || len(got.Provider) != 3 {
		t.Errorf("the providers are %+v, want three, with the base URLs %q for my.own and %q for openai", got.Provider, upstreamURL+"/v1", agentURL+"/v1")
	}
	if !strings.Contains(notes.String(), "far uses http://elsewhere.test") {
		t.Errorf(`the notes are %q, want "far uses http://elsewhere.test"`, notes)
	}
}

func TestPointSetsTheProvidersOfPi(t *testing.T) {
	p, _ := agentProcess(t, "/usr/bin/pi -p x", map[string]string{
		".pi/agent/models.json": `{"providers": {"m": {"baseUrl": "http://model.test", "big": 12345678901234567890}}}`,
		".pi/agent/auth.json":   `{}`,
	})
	dir := p.env["PI_CODING_AGENT_DIR"]
	b, err := os.ReadFile(filepath.Join(dir, "models.json"))
	if err != nil || !strings.Contains(string(b), `"baseUrl": "`+upstreamURL+`"`) || !strings.Contains(string(b), "12345678901234567890") {
		t.Errorf("models.json is %s, error %v, want the base URL %q and the number 12345678901234567890 unchanged", b, err, upstreamURL)
	}
	if to, err := os.Readlink(filepath.Join(dir, "auth.json")); err != nil || to != filepath.Join(p.home, ".pi/agent/auth.json") {
		t.Errorf("auth.json is a link to %q, error %v, want a link to %q", to, err, filepath.Join(p.home, ".pi/agent/auth.json"))
	}
}

func TestPointSetsTheProvidersOfContinueAndQwen(t *testing.T) {
	p, _ := agentProcess(t, "cn -p x", map[string]string{".continue/config.yaml": "models:\n  - name: a\n    apiBase: http://model.test/v1\n  - apiBase: \"http://elsewhere.test/v1\"\n"})
	at := slices.Index(p.args, "--config")
	if at != 1 {
		t.Fatalf("the arguments of cn are %q, want --config as the first argument", p.args)
	}
	b, err := os.ReadFile(p.args[2])
	if want := "models:\n  - name: a\n    apiBase: " + upstreamURL + "/v1\n  - apiBase: \"http://elsewhere.test/v1\"\n"; err != nil || string(b) != want {
		t.Errorf("the configuration of cn is %q, error %v, want %q", b, err, want)
	}
	p, _ = agentProcess(t, "qwen -p x", nil)
	if got := strings.Join(p.args, " "); got != "qwen --auth-type openai -p x" {
		t.Errorf(`the command is %q, want "qwen --auth-type openai -p x"`, got)
	}
	p, _ = agentProcess(t, "qwen --auth-type=other -p x", nil)
	if len(p.args) != 4 {
		t.Errorf("with an auth type of the user the arguments are %q, want four unchanged arguments", p.args)
	}
}

func TestProgramNameIsTheNameOfTheAgent(t *testing.T) {
	for command, want := range map[string]string{
		"codex exec x": "codex", "/usr/local/bin/pi -p x": "pi", "python3.12 agents/triage.py": "triage", "npx -y cline@3 x": "cline",
		"node ./bot.mjs": "bot", "sh -c x": "sh", "python -m pkg": "python", "uv run agent.py": "agent",
	} {
		if got := programName(strings.Fields(command)); got != want {
			t.Errorf("the agent of %q is named %q, want %q", command, got, want)
		}
	}
}
