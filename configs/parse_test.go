package configs

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// env returns a look-up function for environment variables. pairs alternates between names and values.
func env(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

func mustParse(t *testing.T, src Sources) *Config {
	t.Helper()
	c, err := Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDefaultsAreTheDocumentedValues(t *testing.T) {
	c := Default()
	want := []struct {
		name      string
		got, want any
	}{
		{"listen", c.Listen, "127.0.0.1:8080"},
		{"admin.listen", c.Admin.Listen, "127.0.0.1:8081"},
		{"lessons", c.Lessons, "./lessons"},
		{"data_dir", c.DataDir, "./data"},
		{"tenancy", c.Tenancy, "single"},
		{"inject.k", c.Inject.K, 3},
		{"inject.budget_bytes", c.Inject.BudgetBytes, Size(2 << 10)},
		{"bandit.epsilon", c.Bandit.Epsilon, 0.2},
		{"bandit.control", c.Bandit.Control, 0.05},
		{"bandit.objective", c.Bandit.Objective, "uplift"},
		{"bandit.holdout", c.Bandit.Holdout, "prove"},
		{"reward.close_after", c.Reward.CloseAfter, 24 * time.Hour},
		{"reward.sentiment", c.Reward.Sentiment, false},
		{"reward.tiers", strings.Join(c.Reward.Tiers, " "), "user verifier implicit"},
		{"learning.enabled", c.Learning.Enabled, true},
		{"learning.anonymize_pii", c.Learning.AnonymizePII, true},
		{"writ.enabled", c.Writ.Enabled, false},
		{"distill.gate", c.Distill.Gate, "human"},
		{"limits.inspect_bytes", c.Limits.InspectBytes, Size(8 << 20)},
		{"limits.items", c.Limits.Items, 20_000},
		{"limits.sessions", c.Limits.Sessions, 20_000},
		{"limits.tenant_sessions", c.Limits.TenantSessions, 0},
		{"limits.tenant_bytes", c.Limits.TenantBytes, Size(0)},
		{"limits.tenant_lessons", c.Limits.TenantLessons, 0},
		{"limits.feedback", c.Limits.Feedback, 2_000},
		{"limits.body_bytes", c.Limits.BodyBytes, Size(64 << 20)},
		{"limits.capture_bytes", c.Limits.CaptureBytes, Size(1 << 20)},
		{"limits.capture_total_bytes", c.Limits.CaptureTotalBytes, Size(64 << 20)},
		{"limits.header_timeout", c.Limits.HeaderTimeout, 10 * time.Second},
		{"limits.upstream_header_timeout", c.Limits.UpstreamHeaderTimeout, 600 * time.Second},
		{"limits.stream_idle_timeout", c.Limits.StreamIdleTimeout, 300 * time.Second},
		{"limits.client_write_timeout", c.Limits.ClientWriteTimeout, 60 * time.Second},
		{"limits.drain_timeout", c.Limits.DrainTimeout, 30 * time.Second},
		{"debug_headers", c.DebugHeaders, false},
		{"metrics.public", c.Metrics.Public, false},
		{"store", c.StoreURL(), "./data/precept.db"},
		{"routes.messages", c.Upstreams[c.Routes.Messages].URL, "https://api.anthropic.com"},
	}
	for _, tc := range want {
		if !reflect.DeepEqual(tc.got, tc.want) {
			t.Errorf("%s = %v, want %v", tc.name, tc.got, tc.want)
		}
	}
}

func TestSourcePrecedence(t *testing.T) {
	file := []byte("bandit: {epsilon: 0.3, control: 0.3, objective: random}\ninject: {k: 4}\n")
	c := mustParse(t, Sources{
		File:  file,
		Env:   env("PRECEPT_BANDIT_EPSILON", "0.4", "PRECEPT_BANDIT_CONTROL", "0.4", "PRECEPT_INJECT_K", ""),
		Flags: map[string]string{"bandit.epsilon": "0.5"},
	})
	got := fmt.Sprintf("%v %v %v %v %v", c.Bandit.Epsilon, c.Bandit.Control, c.Bandit.Objective, c.Inject.K, c.Inject.Style)
	if got != "0.5 0.4 random 4 advice" {
		t.Fatalf("values = %s, want 0.5 from the flag, 0.4 from the variable, random and 4 from the file, and the default advice; an empty variable counts as not set", got)
	}
}

func TestFlagAndVariableSetEveryKeyType(t *testing.T) {
	cases := []struct{ path, text, want string }{
		{"listen", "127.0.0.1:0", "127.0.0.1:0"},
		{"debug_headers", "true", "true"},
		{"debug_headers", "off", "false"},
		{"inject.k", "0", "0"},
		{"inject.budget_bytes", "4KiB", "4KiB"},
		{"reward.close_after", "1s", "1s"},
		{"learning.retention", "30d", "720h0m0s"},
		{"learning.hot", "7d", "168h0m0s"},
		{"reward.tiers", "user, verifier", "[user verifier]"},
		{"reward.tiers", "[user]", "[user]"},
		{"learning.opt_out_patterns", "*.env,**/secret/**", "[*.env **/secret/**]"},
		{"learning.opt_out_patterns", "", "[]"},
		{"admin.tokens", "one,two", "[(hidden) (hidden)]"},
		{"upstreams", "{openai: {url: 'http://a.test/v1'}, anthropic: {url: 'http://b.test'}}", "map[anthropic:{http://b.test} openai:{http://a.test/v1}]"},
		{"tags", "{deploy: [kubectl, helm]}", "map[deploy:[kubectl helm]]"},
		{"bandit.salt", "0x10", "(hidden)"},
		{"store.url", "redis://127.0.0.1:6379/0", "(hidden)"},
		{"lessons", "# not a comment", "# not a comment"},
	}
	for _, tc := range cases {
		for name, src := range map[string]Sources{
			"flag":     {Flags: map[string]string{tc.path: tc.text}},
			"variable": {Env: env(envName(tc.path), tc.text)},
		} {
			if name == "variable" && tc.text == "" {
				continue // not set
			}
			t.Run(tc.path+"/"+name, func(t *testing.T) {
				c := mustParse(t, src)
				for _, f := range leafFields() {
					if f.path == tc.path {
						got := fmt.Sprint(reflect.ValueOf(c).Elem().FieldByIndex(f.index).Interface())
						if got != tc.want {
							t.Fatalf("value = %s, want %s", got, tc.want)
						}
					}
				}
			})
		}
	}
}

func TestVariableTextIsNotParsedAsYAML(t *testing.T) {
	file := []byte("lessons: ${HOME_OF}/lessons-${STAGE:-dev}\nstore: {url: \"${URL}\"}\nbandit:\n  salt: $${not}\n  epsilon: ${EPS:-0.1}\n")
	c := mustParse(t, Sources{File: file, Env: env("HOME_OF", "/srv", "URL", "{a: [b]}, c: d")})
	if c.Lessons != "/srv/lessons-dev" {
		t.Errorf("lessons = %q, want \"/srv/lessons-dev\"", c.Lessons)
	}
	if got := c.Store.URL.Reveal(); got != "{a: [b]}, c: d" {
		t.Errorf("store URL = %q, want \"{a: [b]}, c: d\", the unchanged text of the variable", got)
	}
	if got := c.Bandit.Salt.Reveal(); got != "${not}" {
		t.Errorf("salt = %q, want \"${not}\"", got)
	}
	if c.Bandit.Epsilon != 0.1 {
		t.Errorf("epsilon = %v, want 0.1", c.Bandit.Epsilon)
	}
	_, err := Parse(Sources{File: []byte("lessons: ${NOPE}/x\ndata_dir: ${open\n")})
	for _, want := range []string{"lessons", "NOPE", "not set", "data_dir", "without a }"} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("error = %v, want it to contain %q", err, want)
		}
	}
}

func TestRoutesSelectUpstreamByDialect(t *testing.T) {
	all := func(url string) string { return strings.Repeat(url+" ", 4) }
	cases := []struct {
		name string
		src  Sources
		want string // URLs for the routes chat, responses, messages and other
	}{
		{"defaults", Sources{}, "https://api.openai.com/v1 https://api.openai.com/v1 https://api.anthropic.com https://api.openai.com/v1 "},
		{"flag", Sources{Flags: map[string]string{"upstream": "http://u.test/v1"}}, all("http://u.test/v1")},
		{"OPENAI_BASE_URL", Sources{Env: env("OPENAI_BASE_URL", "http://o.test/v1")}, all("http://o.test/v1")},
		{"flag beats OPENAI_BASE_URL", Sources{Env: env("OPENAI_BASE_URL", "http://o.test/v1"), Flags: map[string]string{"upstream": "http://u.test/v1"}}, all("http://u.test/v1")},
		{"file beats OPENAI_BASE_URL", Sources{Env: env("OPENAI_BASE_URL", "http://o.test/v1"), File: []byte("upstreams: {mine: {url: 'http://f.test/v1'}}")}, all("http://f.test/v1")},
		{"flag beats file", Sources{Flags: map[string]string{"upstream": "http://u.test/v1"}, File: []byte("upstreams: {mine: {url: 'http://f.test/v1'}}")}, all("http://u.test/v1")},
		{"routes", Sources{File: []byte("upstreams: {a: {url: 'http://a.test'}, b: {url: 'http://b.test'}}\nroutes: {chat: a, responses: a, messages: b, other: a}")}, "http://a.test http://a.test http://b.test http://a.test "},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c := mustParse(t, tc.src)
			got := ""
			for _, dialect := range []string{"chat", "responses", "messages", "other"} {
				got += c.AllUpstreams()[c.UpstreamByRoute()[dialect]] + " "
			}
			if got != tc.want {
				t.Fatalf("URLs for the routes chat, responses, messages and other = %s, want %s", got, tc.want)
			}
		})
	}
	c := mustParse(t, Sources{Flags: map[string]string{"upstream": "http://u.test"}, File: []byte("upstreams: {mine: {url: 'http://f.test/v1'}}")})
	if c.Upstreams["mine"].URL != "http://f.test/v1" {
		t.Errorf("URL of the named upstream mine, with --upstream: got %q, want http://f.test/v1", c.Upstreams["mine"].URL)
	}
}

func TestAdminTokenVariableIsTheFirstToken(t *testing.T) {
	c := mustParse(t, Sources{Env: env("PRECEPT_ADMIN_TOKEN", "extra"), Flags: map[string]string{"admin.tokens": "one"}})
	if len(c.Admin.Tokens) != 2 || c.Admin.Tokens[0].Reveal() != "extra" {
		t.Fatalf("admin tokens from a variable and a flag: got %d, want 2, with the token from the variable first", len(c.Admin.Tokens))
	}
}

func TestKeyHashIsConvertedToLowerCase(t *testing.T) {
	sum := strings.Repeat("AB", 32)
	c := mustParse(t, Sources{File: []byte("tenancy: keys\nkeys: [{name: a, tenant: t, key_sha256: " + sum + "}]")})
	if c.Keys[0].KeySHA256 != strings.ToLower(sum) {
		t.Fatalf("key hash = %q, want %q", c.Keys[0].KeySHA256, strings.ToLower(sum))
	}
}

func TestAbsentValuesKeepDefaults(t *testing.T) {
	c := mustParse(t, Sources{File: []byte("admin:\n  # listen: x\nbandit:\n  epsilon:\n  control: 0\n")})
	if c.Admin.Listen != "127.0.0.1:8081" || c.Bandit.Epsilon != 0.2 || c.Bandit.Control != 0 {
		t.Fatalf(`got Admin %+v, Bandit %+v, want Admin.Listen = "127.0.0.1:8081", Bandit.Epsilon = 0.2 and Bandit.Control = 0`, c.Admin, c.Bandit)
	}
	if c := mustParse(t, Sources{File: []byte("# nothing\n")}); !reflect.DeepEqual(c, Default()) {
		t.Error("file with only comments: got a configuration other than the default, want the default")
	}
}

func TestSecretsAreNeverPrinted(t *testing.T) {
	const canary = "canary-7f3a"
	file := `
admin: {listen: not-an-address, tokens: ["sha256:canary-7f3a"]}
store: {url: "nosuch://user:canary-7f3a@host"}
upstreams: {a: {url: "http://u:canary-7f3a@h/v1"}, b: {url: "http://h/v1?key=canary-7f3a"}}
routes: {chat: a, responses: a, messages: a, other: a}
tenancy: keys
keys: [{name: k, key_sha256: canary-7f3a, tenant: t, learn: on, upstream_key: [canary-7f3a]}]
distill: {api_key: {a: canary-7f3a}, judge: "ftp://canary-7f3a"}
`
	_, err := Parse(Sources{File: []byte(file)})
	if err == nil {
		t.Fatal("Parse of an invalid configuration: err = nil, want faults")
	}
	faults, _ := AsFaults(err)
	asJSON, _ := json.Marshal(faults)
	c := mustParse(t, Sources{Flags: map[string]string{"admin.tokens": canary, "bandit.salt": canary, "store.url": "redis://:" + canary + "@h"}})
	effective, _ := c.Effective()
	configJSON, _ := json.Marshal(c)
	for name, s := range map[string]string{
		"faults": err.Error(), "json": string(asJSON), "%+v": fmt.Sprintf("%+v %#v", c.Admin, c.Bandit),
		"effective": effective, "config as json": string(configJSON),
	} {
		if strings.Contains(s, canary) {
			t.Errorf("text in the form %s: got a secret in it, want none; text:\n%s", name, s)
		}
	}
}

func TestEffectiveTextParsesToTheSameConfiguration(t *testing.T) {
	c := mustParse(t, Sources{Flags: map[string]string{"bandit.epsilon": "0.125", "limits.body_bytes": "1000", "tags": "{a: [b]}", "learning.retention": "90m"}})
	text, err := c.Effective()
	if err != nil {
		t.Fatal(err)
	}
	decoded := mustParse(t, Sources{File: []byte(text)})
	if !reflect.DeepEqual(c, decoded) {
		t.Fatalf("Parse(printed configuration) =\n%+v\nwant\n%+v", decoded, c)
	}
	if c.Hash() != decoded.Hash() || c.Hash() == Default().Hash() || len(c.Hash()) != 12 {
		t.Fatalf("hashes of the configuration, the parsed configuration and the default: got %s, %s and %s; want the first two equal, 12 characters long, and different from the third", c.Hash(), decoded.Hash(), Default().Hash())
	}
}

func TestInvalidNumbersAreRefused(t *testing.T) {
	for _, text := range []string{"NaN", "nan", "Inf", "-Inf", "+inf", ".nan", ".inf", "-0.1", "1.1", "1e400", "", "x"} {
		_, err := Parse(Sources{Flags: map[string]string{"bandit.epsilon": text}})
		faults, ok := AsFaults(err)
		if !ok || len(faults) != 1 || faults[0].Key != "bandit.epsilon" || faults[0].Source != "--bandit-epsilon" {
			t.Errorf("bandit.epsilon = %q in a flag: got error %v, want one fault in --bandit-epsilon", text, err)
		}
		_, err = Parse(Sources{File: fmt.Appendf(nil, "bandit: {control: %q}", text)})
		if _, ok := AsFaults(err); !ok {
			t.Errorf("bandit.control = %q in a file: got it accepted, want a fault", text)
		}
	}
	if math.IsNaN(Default().Bandit.Epsilon) {
		t.Error("default of bandit.epsilon: got NaN, want a number")
	}
}

func TestUnquotedVariableReferencesAreExpanded(t *testing.T) {
	file := []byte("tenancy: keys\nkeys:\n  - {name: a, key_sha256: ${SUM}, tenant: ${T:-team}, upstream_key: ${KEY}, learn: on, roles: []}\n" +
		"hooks: {github: [{tenant: team, secret: ${SECRET}}]} # ${COMMENT}\nupstreams: {mine: {url: ${U:-http://h/v1}}}\n" +
		"admin: {tokens: [${TOKEN}, second-token-of-the-test]}\ninject: {k: ${K:-2}}\nreward: {close_after: ${AFTER:-2h}}\nbandit: {salt: \"$${plain}\"}\n")
	set := map[string]string{
		"SUM": strings.Repeat("a", 64), "KEY": "up}stream", "SECRET": "s3cret, with: all", "TOKEN": "token-of-the-test-in-a-list",
	}
	c, err := Parse(Sources{File: file, Env: func(name string) (string, bool) { v, ok := set[name]; return v, ok }})
	if err != nil {
		t.Fatal(err)
	}
	got := []string{
		c.Keys[0].Tenant, c.Keys[0].UpstreamKey.Reveal(), c.Hooks.GitHub[0].Secret.Reveal(), c.Upstreams["mine"].URL, c.Admin.Tokens[0].Reveal(),
		strconv.Itoa(c.Inject.K), c.Reward.CloseAfter.String(), c.Bandit.Salt.Reveal(),
	}
	want := []string{"team", "up}stream", "s3cret, with: all", "http://h/v1", "token-of-the-test-in-a-list", "2", "2h0m0s", "${plain}"}
	if !slices.Equal(got, want) {
		t.Errorf("values of the keys with variable references = %q, want %q", got, want)
	}
}

// Parse removes line feeds at the end of values, because a secret in a mounted file may end with one.
func TestTrailingLineFeedsAreTrimmed(t *testing.T) {
	file := []byte("store: {url: 'redis://:${PASSWORD}@h:6379/0'}\ntenancy: keys\nkeys: [{name: a, tenant: t, key_sha256: '${SUM}', upstream_key: '${KEY}'}]\n" +
		"distill:\n  api_key: |\n    sk-1\notel: {headers: ['Authorization: Bearer ${KEY}']}\n")
	sum := strings.Repeat("0a", 32)
	c := mustParse(t, Sources{
		File: file, Flags: map[string]string{"admin.viewer_tokens": "viewer-0123456789\n"},
		Env: env("PASSWORD", "pa ss\n", "SUM", sum+"\r\n", "KEY", "sk-2\n", "PRECEPT_ADMIN_TOKEN", "token-0123456789 \n", "OPENAI_BASE_URL", "http://h/v1\n", "PRECEPT_DATA_DIR", "/data\n"),
	})
	for want, got := range map[string]string{
		"redis://:pa ss@h:6379/0": c.Store.URL.Reveal(), sum: c.Keys[0].KeySHA256, "sk-2": c.Keys[0].UpstreamKey.Reveal(), "sk-1": c.Distill.APIKey.Reveal(),
		"Authorization: Bearer sk-2": c.Otel.Headers[0].Reveal(), "token-0123456789": c.Admin.Tokens[0].Reveal(), "viewer-0123456789": c.Admin.ViewerTokens[0].Reveal(),
		"http://h/v1": c.Upstream, "/data": c.DataDir,
	} {
		if got != want {
			t.Errorf("value that ends with a line feed: got %q, want %q", got, want)
		}
	}
	_, err := Parse(Sources{Env: env("PRECEPT_ADMIN_TOKEN", "to\x00ken-0123456789")})
	if want := "PRECEPT_ADMIN_TOKEN: admin.tokens contains the control character U+0000; remove it"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("token with a NUL character: got error %v, want an error that contains %s", err, want)
	}
	_, err = Parse(Sources{File: []byte("upstreams: {\x10: {url: http://h}}")})
	if want := `upstreams = "\x10" contains the control character U+0010; remove it`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("upstream name with a control character: got error %v, want an error that contains %s", err, want)
	}
}

func TestMisspeltVariableFaultSuggestsLikelyKey(t *testing.T) {
	parse := func(file string, pairs ...string) error {
		names := []string{"HOME"}
		for i := 0; i < len(pairs); i += 2 {
			names = append(names, pairs[i])
		}
		_, err := Parse(Sources{File: []byte(file), Env: env(pairs...), EnvNames: names, Offline: true})
		return err
	}
	for name, want := range map[string]string{
		"PRECEPT_UPSTREM": "PRECEPT_UPSTREAM", "PRECEPT_BANDIT_EPSILN": "PRECEPT_BANDIT_EPSILON", "PRECEPT_EPSILON": "PRECEPT_BANDIT_EPSILON", "PRECEPT_LOGLEVEL": "PRECEPT_LOG_LEVEL",
		"PRECEPT_ADMIN_TOKN": "PRECEPT_ADMIN_TOKEN", "PRECEPT_LESSONS_DIR": "PRECEPT_LESSONS", "PRECEPT_STORE": "PRECEPT_STORE_URL", "PRECEPT_UPSTREAM_URL": "PRECEPT_UPSTREAM",
		"PRECEPT_data_dir": "PRECEPT_DATA_DIR",
	} {
		if err := parse("", name, "x"); err == nil || !strings.Contains(err.Error(), "environment: "+name+" is not a variable that precept reads; did you mean "+want+"?") {
			t.Errorf("misspelt variable %s: got error %v, want one that suggests %s", name, err, want)
		}
	}
	if err := parse("lessons: ${PRECEPT_LESSONS_DIR}", "PRECEPT_LESSONS_DIR", "x"); err != nil {
		t.Errorf("unknown variable to which the file refers: got error %v, want none", err)
	}
	for _, name := range []string{
		"PRECEPT_PORT", "PRECEPT_SERVICE_HOST", "PRECEPT_SERVICE_PORT_DATA", "PRECEPT_PORT_8080_TCP_ADDR", "PRECEPT_ADMIN_PORT", "PRECEPT_ADMIN_SERVICE_HOST", "PRECEPT_ADMIN_PORT_8081_TCP",
		"PRECEPT_SESSION", "PRECEPT_RUN", "PRECEPT_URL", "PRECEPT_KEY", "PRECEPT_CONFIG", "PRECEPT_BIN", "PRECEPT_CHAOS", "PRECEPT_AGENTS", "PRECEPT_EVAL", "PRECEPT_VIEWS", "PRECEPTOR_LISTEN",
	} {
		if err := parse("", name, "x"); err != nil {
			t.Errorf("variable %s: got error %v, want none", name, err)
		}
	}
	if err := parse("", "PRECEPT_UPSTREM", ""); err != nil {
		t.Errorf("misspelt variable with an empty value: got error %v, want none", err)
	}
}
