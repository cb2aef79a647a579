package sample_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"precept/internal/sample"
)

// newOptOut returns an OptOut for the paths, the agents ci-* and the tenant Acme.
func newOptOut(t testing.TB, paths ...string) *sample.OptOut {
	t.Helper()
	o, err := sample.NewOptOut(paths, []string{"ci-*"}, []string{"Acme"})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestNamesPathMatchesPatterns(t *testing.T) {
	o := newOptOut(t, "*.env", "secrets/**", "**/id_rsa", `private\*.PEM`, "./vault.{yml,yaml}")
	tests := []struct {
		args string
		want bool
	}{
		{`{"path":"config/.env"}`, true},
		{`{"path":"C:\\x\\.ENV"}`, true},
		{`{"path":"./.env."}`, true},
		{`{"path":".env. "}`, true},
		{`{"file_path":"/home/u/app/prod.env","limit":3}`, true},
		{`{"command":"cat config/.env | grep KEY"}`, true},
		{`{"command":["bash","-lc","source ./.env && run"]}`, true},
		{`{"command":"docker run --env-file=prod.env x"}`, true},
		{`{"command":"cat '.env'"}`, true},
		{`{"command":"cat <.env"}`, true},
		{`{"patch":"*** Update File: app/.env\n+X=1"}`, true},
		{`{"a":{"b":[{"c":"{\"path\":\"x/.env\"}"}]}}`, true},
		{`{"x/.env":1}`, true},
		{`cat .env`, true},
		{`{"path":"\u002eenv"}`, true},
		{`{"path":"src/../.env"}`, true},
		{`{"path":"file:///srv/.env"}`, true},
		{`{"path":"a/secrets/db/key"}`, true},
		{`{"path":"secrets/key"}`, true},
		{`{"path":"My Documents/prod.env"}`, true},
		{`{"path":"/root/.ssh/id_rsa"}`, true},
		{`{"path":"x/private/a.pem"}`, true},
		{`{"path":"deploy/vault.yaml"}`, true},
		{`{"path":"app/.env:12"}`, true},
		{`{"command":"cat .env*"}`, true},
		{`{"command":"diff .env~ b"}`, true},
		{`{"url":"file:///srv/.env?raw=1"}`, true},
		{`{"prompt":"请读取config/.env文件"}`, true},
		{`{"prompt":"read “config/.env”\u00a0now"}`, true},
		{`{"path":"environment.go"}`, false},
		{`{"path":".envrc"}`, false},
		{`{"path":"mysecrets/x"}`, false},
		{`{"path":"a.pem"}`, false},
		{`{"text":"the env is fine, no secrets here"}`, false},
		{`{"path":""}`, false},
		{``, false},
		{`{"n":1.5,"b":null}`, false},
	}
	for _, tc := range tests {
		if got := o.NamesPath(tc.args); got != tc.want {
			t.Errorf("NamesPath(%s) = %v, want %v", tc.args, got, tc.want)
		}
	}
	if newOptOut(t).NamesPath(`{"path":".env"}`) {
		t.Error("no pattern: NamesPath = true, want false")
	}
}

func TestNamesPathFindsPathInAnyForm(t *testing.T) {
	o := newOptOut(t, "*.env")
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.SampledFrom([]string{"", "./", "../", "/a/b c/", `C:\x\`, "config//"}).Draw(t, "dir") +
			rapid.SampledFrom([]string{".env", "prod.env", ".ENV", ".Env", ".env.", "PROD.env.."}).Draw(t, "name")
		text := path
		if !strings.Contains(path, " ") && rapid.Bool().Draw(t, "command") {
			text = rapid.SampledFrom([]string{"cat ", "a=1; less ", "x|y >", "--file=", "vi \""}).Draw(t, "before") + path + rapid.SampledFrom([]string{"", " ", "\"", ";ls", "\n"}).Draw(t, "after")
		}
		var v any = text
		for range rapid.IntRange(0, 3).Draw(t, "depth") {
			switch rapid.IntRange(0, 2).Draw(t, "wrapper") {
			case 0:
				v = map[string]any{"k": v, "n": 1}
			case 1:
				v = []any{"x", v}
			default:
				raw, err := json.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				v = string(raw)
			}
		}
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if !o.NamesPath(string(raw)) {
			t.Fatalf("NamesPath(%s) = false, want true", raw)
		}
	})
}

func TestAgentsAndTenantsOptOut(t *testing.T) {
	o := newOptOut(t)
	if !o.OptsOutAgent("CI-42") || o.OptsOutAgent("coder") || !o.OptsOutTenant("acme") || o.OptsOutTenant("acme2") {
		t.Errorf("OptsOutAgent(CI-42) = %v, OptsOutAgent(coder) = %v, OptsOutTenant(acme) = %v, OptsOutTenant(acme2) = %v, want only OptsOutAgent(CI-42) and OptsOutTenant(acme) true",
			o.OptsOutAgent("CI-42"), o.OptsOutAgent("coder"), o.OptsOutTenant("acme"), o.OptsOutTenant("acme2"))
	}
	var zero sample.OptOut
	if zero.OptsOutAgent("x") || zero.OptsOutTenant("x") || zero.NamesPath(".env") {
		t.Error("zero OptOut opts out an agent, a tenant or a path, want none")
	}
}

func TestNewOptOutRejectsInvalidPatterns(t *testing.T) {
	for _, bad := range []string{"", "[a", "{a"} {
		if _, err := sample.NewOptOut([]string{bad}, nil, nil); err == nil || !strings.Contains(err.Error(), "opt_out_patterns") {
			t.Errorf(`path pattern %q: err = %v, want an error with "opt_out_patterns"`, bad, err)
		}
		if _, err := sample.NewOptOut(nil, []string{bad}, nil); err == nil || !strings.Contains(err.Error(), "opt_out_agents") {
			t.Errorf(`agent pattern %q: err = %v, want an error with "opt_out_agents"`, bad, err)
		}
	}
}

func FuzzOptOut(f *testing.F) {
	f.Add(`{"path":".env"}`)
	f.Add(`[["{\"a\":\"b\\\\c\"}"]]`)
	f.Fuzz(func(t *testing.T, args string) {
		o := newOptOut(t, "*.env", "a/**/b")
		if hit := o.NamesPath(args); !hit && strings.HasSuffix(args, "/.env") && !strings.ContainsAny(args, "{[\"'\n") && len(args) < 4000 {
			t.Errorf("NamesPath(%q) = false, want true", args)
		}
	})
}

func TestExchangeNamesPathFindsPathsInAllCalls(t *testing.T) {
	o := newOptOut(t, "*.env")
	item := func(s string) sample.Exchange {
		return sample.Exchange{New: []json.RawMessage{json.RawMessage(`{"role":"user","content":"hi"}`), json.RawMessage(s)}}
	}
	for name, tc := range map[string]struct {
		x    sample.Exchange
		want bool
	}{
		"a reply's call":          {sample.Exchange{Reply: sample.Reply{Calls: []sample.Call{{Args: `{"path":"a.go"}`}, {Args: `{"path":"config/.env"}`}}}}, true},
		"chat":                    {item(`{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"read","arguments":"{\"path\":\"C:\\\\x\\\\.ENV\"}"}}]}`), true},
		"chat, legacy call":       {item(`{"role":"assistant","function_call":{"name":"read","arguments":"{\"path\":\"./.env.\"}"}}`), true},
		"chat, custom":            {item(`{"role":"assistant","tool_calls":[{"id":"1","custom":{"name":"sh","input":"cat x/.env"}}]}`), true},
		"messages":                {item(`{"role":"assistant","content":[{"type":"text","text":"Reading."},{"type":"tool_use","id":"1","name":"Read","input":{"file_path":"/a/.env"}}]}`), true},
		"responses":               {item(`{"type":"function_call","call_id":"1","name":"read","arguments":"{\"path\":\".env\"}"}`), true},
		"responses, shell":        {item(`{"type":"local_shell_call","call_id":"1","action":{"type":"exec","command":["cat","prod.env"]}}`), true},
		"responses, escaped":      {item(`{"type":"\u0066unction_call","call_id":"1","arguments":"{\"path\":\"\\u002eenv\"}"}`), true},
		"responses, unknown call": {item(`{"type":"browser_call","call_id":"1","action":{"open":"a/prod.env"}}`), true},
		"provider's tool":         {item(`{"role":"assistant","content":[{"type":"server_tool_use","id":"1","name":"fetch","input":{"url":"file:///srv/.env"}}]}`), true},
		"duplicate content":       {item(`{"role":"assistant","content":[],"content":[{"type":"tool_use","id":"1","input":{"file":".env"}}]}`), true},
		"string input":            {item(`"call me when .env is there"`), false},
		"a tool's name":           {item(`{"role":"assistant","content":[{"type":"tool_use","id":".env","name":".env","input":{}}]}`), false},
		"another file":            {item(`{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"read","arguments":"{\"path\":\"env.go\"}"}}]}`), false},
		"user text":               {item(`{"role":"user","content":"call me when .env is there"}`), false},
		"assistant text":          {item(`{"role":"assistant","content":"I call cat .env now."}`), false},
		"an empty exchange":       {sample.Exchange{}, false},
		"invalid JSON":            {sample.Exchange{New: []json.RawMessage{json.RawMessage(`{"tool_calls": cat .env`)}}, true},
	} {
		if got := o.ExchangeNamesPath(&tc.x); got != tc.want {
			t.Errorf("%s: ExchangeNamesPath = %v, want %v", name, got, tc.want)
		}
	}
	if x := item(`{"type":"function_call","arguments":".env"}`); newOptOut(t).ExchangeNamesPath(&x) {
		t.Error("no pattern: ExchangeNamesPath = true, want false")
	}
}

func TestMayNamePathIgnoresCase(t *testing.T) {
	o, err := sample.NewOptOut([]string{"*.env", "id_rsa*", "**/.ssh/**", "secrets/**", "*.kiß", "*.key"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	parts := []string{".", "env", "ENV", "id", "ID", "_", "rsa", "Rsa", "ssh", ".SSH/", "secrets", "SECRETS", ".KIß", ".\u212aey", "\u0130d_rsa", "é", "\xff", " ", "k", "/"}
	rapid.Check(t, func(t *rapid.T) {
		args := strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 12).Draw(t, "args"), "")
		want := false
		for _, literal := range sample.Literals(o) {
			want = want || strings.Contains(strings.ToLower(args), literal)
		}
		if got := sample.MayNamePath(o, args); got != want {
			t.Errorf("mayNamePath(%q) = %v, want %v", args, got, want)
		}
	})
}
