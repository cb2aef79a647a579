package configs_test

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"precept/configs"
)

func variable(name, value string) func(string) (string, bool) {
	return func(other string) (string, bool) { return value, other == name }
}

func parseFaults(t *testing.T, src configs.Sources) configs.Faults {
	t.Helper()
	_, err := configs.Parse(src)
	faults, ok := configs.AsFaults(err)
	if !ok {
		t.Fatalf("Parse of the file %q with flags %v: got error %v, want Faults", src.File, src.Flags, err)
	}
	return faults
}

// otherValue returns a valid value for a key that differs from the default of the key, in the notation of a flag.
func otherValue(n configs.KeyInfo) string {
	values := map[string]string{
		"listen": "127.0.0.1:1", "admin.listen": "127.0.0.1:2", "admin.tokens": "0123456789abcdef", "admin.viewer_tokens": "fedcba9876543210",
		"admin.base_path": "/x", "upstream": "http://127.0.0.1:3/v1", "upstreams": "{x: {url: 'http://127.0.0.1:4'}, openai: {url: 'http://a'}, anthropic: {url: 'http://b'}}",
		"routes.chat": "anthropic", "routes.responses": "anthropic", "routes.messages": "openai", "routes.other": "anthropic",
		"tenancy": "by-credential", "prices": "[{model: x, input: 1, output: 2}]", "tags": "{x: [y]}", "inject.style": "pitfalls", "inject.placement": "system", "inject.budget_bytes": "1KiB",
		"admin.currency": "USD", "bandit.holdout": "fixed", "bandit.objective": "random", "reward.tiers": "user", "report.guardrails": "turns", "distill.judge": "http://127.0.0.1:5", "distill.every": "2s",
		"distill.gate": "auto", "writ.trust": "own", "ledger.trust": "own", "log.level": "warn", "log.format": "json", "otel.endpoint": "http://127.0.0.1:6", "otel.headers": "[\"a: b\"]",
		"otel.sample":               "0.25",
		"learning.opt_out_patterns": "*.pem", "bandit.epsilon": "0.25", "bandit.control": "0.25", "bandit.token_cost": "0.25",
		"match.embeddings.upstream": "openai", "match.like": "suggest", "match.like_rate": "0.02", "limits.outbox_bytes": "2MiB", "learning.capture_limit": "2KiB",
	}
	switch v, ok := values[n.Path]; {
	case ok:
		return v
	case n.Bool:
		return map[string]string{"true": "false", "false": "true"}[n.Default]
	case strings.HasSuffix(n.Path, "_timeout"), strings.HasSuffix(n.Path, "_delay"), n.Path == "reward.close_after", n.Path == "learning.retention", n.Path == "learning.hot":
		return "7s"
	case strings.HasPrefix(n.Path, "limits."), strings.HasPrefix(n.Path, "distill.max"), strings.Contains(n.Path, "price_"), n.Path == "admin.session_value", n.Path == "inject.k", n.Path == "distill.parallel", n.Path == "rules.at_once":
		return "7"
	}
	return "other"
}

func TestEveryKeyIsSetByFileVariableAndFlag(t *testing.T) {
	for _, n := range configs.KeyInfos() {
		value := otherValue(n)
		base := configs.Sources{Flags: map[string]string{}}
		want := []string{n.Path}
		switch n.Path {
		case "keys": // keys can change only together with tenancy
			continue
		case "upstream":
			want = []string{"upstream", "upstreams", "routes.chat", "routes.responses", "routes.messages", "routes.other"}
		case "ledger.trust":
			base.Flags["ledger.agent"], want = "a", append(want, "ledger.agent")
		case "match.embeddings.upstream":
			base.Flags["match.embeddings.model"], want = "m", append(want, "match.embeddings.model")
		case "distill.judge":
			base.Flags["distill.model"], want = "m", append(want, "distill.model")
		}
		sources := map[string]configs.Sources{"flag": base, "variable": base, "file": base}
		flag := base
		flag.Flags = map[string]string{n.Path: value}
		maps.Copy(flag.Flags, base.Flags)
		sources["flag"] = flag
		variables := base
		variables.Env = variable(n.Env, value)
		sources["variable"] = variables
		file := base
		line := value
		if !strings.ContainsAny(value, "[{") {
			line = fmt.Sprintf("%q", value)
		}
		file.File = []byte(strings.ReplaceAll(n.Path, ".", ": {") + ": " + line + strings.Repeat("}", strings.Count(n.Path, ".")))
		sources["file"] = file
		for name, src := range sources {
			c, err := configs.Parse(src)
			if err != nil {
				t.Errorf("%s set by a %s: got error %v, want none", n.Path, name, err)
				continue
			}
			got := configs.ChangedKeys(c)
			if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
				t.Errorf("%s set by a %s: got changed keys %v, want %v", n.Path, name, got, want)
			}
			_, pending := configs.ApplyReload(configs.Default(), c)
			if n.Path != "learning.enabled" && slices.Contains(pending, n.Path) != n.NeedsRestart {
				t.Errorf("reload with a changed %s: got pending keys %v, want the changed key among the pending keys: %t", n.Path, pending, n.NeedsRestart)
			}
		}
	}
}

func TestFaultNamesTheSource(t *testing.T) {
	for name, tc := range map[string]struct {
		src         configs.Sources
		key, source string
	}{
		"a file without a name":                      {configs.Sources{File: []byte("\nlisten: x")}, "listen", "precept.yaml:2"},
		"a file with a name":                         {configs.Sources{FileName: "my.yaml", File: []byte("listen: x")}, "listen", "my.yaml:1"},
		"a flag":                                     {configs.Sources{Flags: map[string]string{"data_dir": ""}}, "data_dir", "--data-dir"},
		"a flag with a wrong value":                  {configs.Sources{Flags: map[string]string{"inject.k": "x"}}, "inject.k", "--inject-k"},
		"an unknown flag":                            {configs.Sources{Flags: map[string]string{"listen": "127.0.0.1:1", "bogus": "x"}}, "bogus", "flags"},
		"a variable":                                 {configs.Sources{Env: variable("PRECEPT_LESSONS", "s3://x")}, "lessons", "PRECEPT_LESSONS"},
		"a variable with a YAML flow mapping":        {configs.Sources{Env: variable("PRECEPT_UPSTREAMS", "{openai: {url: 'http://h', speed: 1}, anthropic: {url: 'http://h'}}")}, "upstreams.openai.speed", "PRECEPT_UPSTREAMS"},
		"the variable OPENAI_BASE_URL":               {configs.Sources{Env: variable("OPENAI_BASE_URL", "ftp://h")}, "upstream", "OPENAI_BASE_URL"},
		"an unset key required by a key in the file": {configs.Sources{File: []byte("\n\nledger: {trust: own}")}, "ledger.agent", "precept.yaml:3"},
		"an unset key required by a variable":        {configs.Sources{Env: variable("PRECEPT_DISTILL_JUDGE", "http://h")}, "distill.model", "default"},
	} {
		faults := parseFaults(t, tc.src)
		i := slices.IndexFunc(faults, func(f configs.Fault) bool { return f.Key == tc.key })
		if i < 0 || len(faults) != 1 {
			t.Errorf("%s: got faults %v, want one fault, in key %s", name, faults, tc.key)
			continue
		}
		if f := faults[i]; f.Source != tc.source || !strings.HasPrefix(f.String(), tc.source+": "+tc.key) {
			t.Errorf("%s: got fault %s, want source %s", name, f, tc.source)
		}
		if want := "1 fault in the configuration:\n  " + faults[0].String(); faults.Error() != want {
			t.Errorf("%s: got error text %q, want %q", name, faults.Error(), want)
		}
	}
}

func TestFaultsAreSortedByKey(t *testing.T) {
	var keys []string
	for _, f := range parseFaults(t, configs.Sources{File: []byte("writ: {trust: x}\nlessons: ''\nlisten: x\nbandit: {control: 2}\ndata_dir: ''\n")}) {
		keys = append(keys, f.Key)
	}
	if want := []string{"bandit.control", "data_dir", "lessons", "listen", "writ.trust"}; !slices.Equal(keys, want) {
		t.Errorf("keys of the faults, in order: got %v, want %v", keys, want)
	}
}

func TestFaultsShowNoSecret(t *testing.T) {
	const canary = "canary${"
	for path, secret := range map[string]bool{
		"data_dir": false, "log.level": false, "learning.opt_out_agents": false,
		"bandit.salt": true, "store.url": true, "distill.api_key": true, "match.embeddings.api_key": true, "admin.tokens": true, "admin.viewer_tokens": true, "otel.headers": true,
	} {
		faults := parseFaults(t, configs.Sources{Flags: map[string]string{path: canary}})
		shown := strings.Contains(faults.Error(), "canary")
		if len(faults) != 1 || shown == secret || !strings.HasPrefix(faults[0].Key, path) {
			t.Errorf("invalid %s: got faults %v, want one fault in this key, with the value shown = %v", path, faults, !secret)
		}
	}
	file := "tenancy: keys\nkeys: [{name: a, tenant: t, key_sha256: " + strings.Repeat("ab", 32) + ", upstream_key: '" + canary + "'}]"
	if faults := parseFaults(t, configs.Sources{File: []byte(file)}); len(faults) != 1 || strings.Contains(faults.Error(), "canary") {
		t.Errorf("invalid keys: got faults %v, want one fault, without the secret", faults)
	}
}

func TestWrongShapeFaultNamesTheExpectedShape(t *testing.T) {
	for file, want := range map[string]string{
		"upstreams: {a: {url: 'http://h'}, a: {url: 'http://i'}}\nroutes: {chat: a, responses: a, messages: a, other: a}": "upstreams.a is given twice; keep one",
		"learning: {opt_out_patterns: {a: b}}":                          "is not a list; write [a, b]",
		"listen: [a]":                                                   "must be a single value, not a list",
		"listen: {a: b}":                                                "must be a single value, not a list",
		"upstreams: [a]":                                                "is not a mapping; write upstreams: {NAME: {url: ...}}",
		"store: redis://h:6379":                                         "is not a mapping; write store: {url: ...}",
		"reward:\n  close_after:10s":                                    "is not a mapping; write reward: {close_after: ...}, with a space after each colon",
		"tags: [deploy]":                                                "is not a mapping; write tags: {NAME: ...}",
		"learning: {opt_out_patterns: [*.env]}":                         "begins with *, which YAML reads as an alias; write the value in quotes",
		"distill: {every: 1ms}":                                         "it must be at least 1s",
		"inject: {budget_bytes: 100000000000000000000}":                 "is not a size",
		"inject: {budget_bytes: 9000000TiB}":                            "is too large",
		"limits: {drain_timeout: -1ms}":                                 "it must be at least 0s",
		"otel: {sample: -0.5}":                                          "it must be from 0 to 1",
		"data_dir: ${UNSET}":                                            "names the environment variable UNSET, which is not set; set the variable, or write ${UNSET:-text}",
		"match: {system: [true, '[']}":                                  "is not a pattern; write true",
		"tenancy: by-credential\nkeys: [{name: a}]":                     "has no effect while tenancy is by-credential",
		"admin: {tokens: [x], viewer_tokens: ['sha256:zz']}":            "does not consist of the prefix sha256: and a SHA-256 hash in hex digits; printf",
		"admin: {listen: 'localhost:8080'}\nlisten: 'localhost:8080'":   "is also the data listener's address",
		"store: {url: 'redis://h:6379,i:6379/0'}\nlessons: 'redis://@'": "contains a password",
	} {
		if faults := parseFaults(t, configs.Sources{File: []byte(file)}); !strings.Contains(faults.Error(), want) {
			t.Errorf("configuration %q: got faults %v, want one that contains %q", file, faults, want)
		}
	}
}

func TestOfflineParseIgnoresServerKeyFaults(t *testing.T) {
	const server = "listen: x\nadmin: {listen: y}\nupstreams: {}\nroutes: {chat: z}\ntenancy: keys\nkeys: [{name: a}]\n" +
		"otel: {endpoint: x}\ndistill: {judge: x}\nupstream: ftp://x\n"
	if c, err := configs.Parse(configs.Sources{File: []byte(server), Offline: true}); err != nil || c == nil {
		t.Errorf("Parse of invalid server keys with Offline: got error %v, want none", err)
	}
	faults := parseFaults(t, configs.Sources{File: []byte(server)})
	if len(faults) < 8 {
		t.Errorf("Parse of invalid server keys without Offline: got faults %v, want at least 8", faults)
	}
	for _, file := range []string{"adminn: {listen: x}", "admin: {lissten: x}", "keys: [{nam: a}]", "data_dir: ''", "lessons: ''", "store: {url: 'x://y'}"} {
		if faults := parseFaults(t, configs.Sources{File: []byte(file), Offline: true}); len(faults) != 1 {
			t.Errorf("Parse of %q with Offline: got faults %v, want one", file, faults)
		}
	}
}

func TestFileVariableReadsValueFromFile(t *testing.T) {
	files := map[string]string{"/run/secrets/token": "0123456789abcdef\n", "/run/secrets/password": "pass\n", "/run/secrets/empty": "\n"}
	sourcesWith := func(env map[string]string) configs.Sources {
		return configs.Sources{
			EnvNames: slices.Collect(maps.Keys(env)),
			Env:      func(name string) (string, bool) { v, ok := env[name]; return v, ok },
			ReadFile: func(name string) ([]byte, error) {
				if text, ok := files[name]; ok {
					return []byte(text), nil
				}
				return nil, fs.ErrNotExist
			},
		}
	}
	c, err := configs.Parse(sourcesWith(map[string]string{
		"PRECEPT_ADMIN_TOKEN_FILE": "/run/secrets/token", "PRECEPT_REDIS_PASSWORD_FILE": "/run/secrets/password",
		"PRECEPT_STORE_URL": "redis://:${PRECEPT_REDIS_PASSWORD}@redis:6379/0", "PRECEPT_LISTEN_FILE": "",
	}))
	if err != nil || c.StoreURL() != "redis://:pass@redis:6379/0" || len(c.Admin.Tokens) != 1 || c.Admin.Tokens[0].Reveal() != "0123456789abcdef" {
		t.Errorf("variables that name files with values: got error %v, store %s, %d tokens; want no error, the store redis://:pass@redis:6379/0, only the token in the file", err, c.StoreURL(), len(c.Admin.Tokens))
	}
	for want, env := range map[string]map[string]string{
		"cannot be read":      {"PRECEPT_ADMIN_TOKEN_FILE": "/run/secrets/other"},
		"names an empty file": {"PRECEPT_ADMIN_TOKEN_FILE": "/run/secrets/empty"},
		"set only one":        {"PRECEPT_ADMIN_TOKEN_FILE": "/run/secrets/token", "PRECEPT_ADMIN_TOKEN": "0123456789abcdef"},
		"did you mean":        {"PRECEPT_ADMIN_TOKNE_FILE": "/run/secrets/token"},
	} {
		if faults := parseFaults(t, sourcesWith(env)); len(faults) != 1 || !strings.Contains(faults[0].Problem, want) {
			t.Errorf("variables %v: got faults %v, want one that contains %q", env, faults, want)
		}
	}
	unreadable := sourcesWith(map[string]string{"PRECEPT_ADMIN_TOKEN_FILE": "/run/secrets/other", "PRECEPT_HOOK_FILE": "/run/secrets/other"})
	unreadable.File = []byte("hooks: {github: {secret: '${PRECEPT_HOOK}'}}\n")
	if faults := parseFaults(t, unreadable); len(faults) != 2 || !strings.Contains(faults.Error(), "PRECEPT_HOOK_FILE") || !strings.Contains(faults.Error(), "PRECEPT_ADMIN_TOKEN_FILE") {
		t.Errorf("two variables that name unreadable files: got faults %v, want one for each variable", faults)
	}
	unreadable.Offline = true
	if _, err := configs.Parse(unreadable); err != nil {
		t.Errorf("Parse with Offline and unreadable files for server keys: got error %v, want none", err)
	}
	for _, n := range configs.KeyInfos() {
		if slices.ContainsFunc(configs.KeyInfos(), func(other configs.KeyInfo) bool { return other.Env == n.Env+"_FILE" }) {
			t.Errorf("variable %[1]s_FILE: got a separate key with this variable, want it free to name a file with the value of %[1]s", n.Env)
		}
	}
}
