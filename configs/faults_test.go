package configs

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestAllFaultsAreReportedTogether(t *testing.T) {
	file := `listen: nowhere
bandit:
  epsilonn: 0.3
  control: 2
  objective: best
inject:
  k: three
  k: 4
  budget_bytes: 8 potatoes
upstreams:
  a: {url: "ftp://x", speed: 3}
routes: {chat: b, responses: a, messages: a, other: a}
reward:
  close_after: 10
  tiers: [user, mood]
limits: 5
nonsense: 1
debug_headers: maybe
`
	_, err := Parse(Sources{FileName: "my.yaml", File: []byte(file), Env: env("PRECEPT_LOG_LEVEL", "loud")})
	faults, ok := AsFaults(err)
	if !ok {
		t.Fatalf("got error %v, want Faults", err)
	}
	want := map[string]string{ // "SOURCE|TEXT" by key: the source of the fault, and a part of its problem
		"listen":              "my.yaml:1|host:port",
		"bandit.epsilonn":     "my.yaml:3|did you mean epsilon?",
		"bandit.control":      "my.yaml:4|from 0 to 1",
		"bandit.objective":    "my.yaml:5|uplift, raw, random, all",
		"inject.k":            "my.yaml:7|whole number",
		"inject.budget_bytes": "my.yaml:9|64KiB",
		"upstreams.a.url":     "my.yaml:11|http://",
		"upstreams.a.speed":   "my.yaml:11|the only key is url",
		"routes.chat":         "my.yaml:12|the only upstream is a",
		"reward.close_after":  "my.yaml:14|300ms, 10s, 24h",
		"reward.tiers[1]":     "my.yaml:15|user, verifier, implicit",
		"limits":              "my.yaml:16|not a mapping",
		"nonsense":            "my.yaml:17|is not a key",
		"debug_headers":       "my.yaml:18|neither true nor false",
		"log.level":           "PRECEPT_LOG_LEVEL|debug, info, warn, error",
	}
	twice := false
	for _, f := range faults {
		if f.Key == "inject.k" && strings.Contains(f.Problem, "twice") {
			twice = true
			continue
		}
		source, piece, ok := strings.Cut(want[f.Key], "|")
		if !ok {
			t.Errorf("got fault %s, want only the listed faults", f)
			continue
		}
		if f.Source != source || !strings.Contains(f.Problem, piece) {
			t.Errorf("got fault %s, want source %s and a problem that contains %q", f, source, piece)
		}
		delete(want, f.Key)
	}
	for key := range want {
		t.Errorf("key %s: got no fault, want one", key)
	}
	if !twice {
		t.Error("inject.k, which is twice in the file: got no fault about the second value, want one")
	}
	if !strings.HasPrefix(err.Error(), "16 faults in the configuration:\n") {
		t.Errorf("error text: got %.60q, want it to begin with \"16 faults in the configuration:\"", err)
	}
}

func TestInvalidValuesAreFaults(t *testing.T) {
	const sum = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	cases := []struct{ name, file, want string }{ // want is "KEY|TEXT": the key, and a part of the problem
		{"invalid YAML", "a: [", "|is not YAML"},
		{"tab", "inject:\n\tk: 3\n", "|indent with spaces"},
		{"byte order mark", "\ufeffinject: {k: 30}", "inject.k|from 0 to 20"},
		{"two documents", "listen: 127.0.0.1:1\n---\nlisten: 127.0.0.1:2\n", "|more than one YAML document"},
		{"a list at the top", "- a\n", "|not a mapping"},
		{"alias", "data_dir: &d ./data\nlessons: *d\n", "data_dir|anchor"},
		{"port above 65535", "listen: 127.0.0.1:99999", "listen|port"},
		{"both listeners on one address", "listen: 127.0.0.1:8081", "admin.listen|data listener"},
		{"admin listener on all addresses", "admin: {listen: '0.0.0.0:8081'}", "admin.listen|PRECEPT_ADMIN_TOKEN"},
		{"admin listener without a host", "admin: {listen: ':8081'}", "admin.listen|PRECEPT_ADMIN_TOKEN"},
		{"upstream is the data listener", "upstream: http://localhost:8080/v1", "upstream|own address"},
		{"upstream is the admin listener", "upstream: http://127.0.0.1:8081", "upstream|own address"},
		{"upstream is the data listener on all addresses", "listen: ':8080'\nupstream: http://[::1]:8080/v1", "upstream|own address"},
		{"upstream without a scheme", "upstream: api.openai.com/v1", "upstream|http://"},
		{"upstream without a host", "upstream: 'http:///v1'", "upstream|no host"},
		{"upstream with a query", "upstream: http://h/v1?a=b", "upstream|query"},
		{"upstream with a password", "upstream: http://u:p@h/v1", "upstream|password"},
		{"upstreams without an entry", "upstreams: {}", "upstreams|is empty"},
		{"upstream name with a slash", "upstreams: {'a/b': {url: 'http://h'}}", "upstreams.a/b|not a valid name"},
		{"tenancy keys without keys", "tenancy: keys", "keys|is empty"},
		{"keys without tenancy keys", "keys: [{name: a, tenant: t, learn: on, key_sha256: " + sum + "}]", "keys|tenancy"},
		{"key without name", "tenancy: keys\nkeys: [{tenant: t, key_sha256: " + sum + "}]", "keys[0].name|missing"},
		{"key without tenant", "tenancy: keys\nkeys: [{name: a, key_sha256: " + sum + "}]", "keys[0].tenant|missing"},
		{"key with an invalid hash", "tenancy: keys\nkeys: [{name: a, tenant: t, key_sha256: abc}]", "keys[0].key_sha256|SHA-256"},
		{"two keys with one hash", "tenancy: keys\nkeys: [{name: a, tenant: t, key_sha256: " + sum + "}, {name: b, tenant: t, key_sha256: " + sum + "}]", "keys[1].key_sha256|another"},
		{"key with an invalid learn", "tenancy: keys\nkeys: [{name: a, tenant: t, learn: never, key_sha256: " + sum + "}]", "keys[0].learn|on, off"},
		{"keys that are not a list", "keys: {name: a}", "keys|is not a list"},
		{"store with an unknown scheme", "store: {url: 'postgres://h/db'}", "store.url|redis://"},
		{"store with a wrong port", "store: {url: 'redis://h:canary'}", "store.url|invalid Redis URL"},
		{"store without a scheme", "store: {url: 'cache.internal:6379'}", "store.url|redis://host:6379/0"},
		{"store without a scheme, with a database", "store: {url: 'redis:6379/0'}", "store.url|redis://host:6379/0"},
		{"store with one slash", "store: {url: 'redis:/h'}", "store.url|redis://host:6379/0"},
		{"store in memory", "store: {url: ':memory:'}", "store.url|a path"},
		{"store with an SQLite URL", "store: {url: 'sqlite:///abs/x.db'}", "store.url|such as /abs/x.db"},
		{"store with a file URL", "store: {url: 'file://'}", "store.url|such as ./data/precept.db"},
		{"store with a file URL without slashes", "store: {url: 'file:x.db'}", "store.url|a path"},
		{"lessons without a scheme", "lessons: 'cache:6379'", "lessons|redis://host:6379/0"},
		{"lessons in Redis without a Redis store", "lessons: 'redis://'", "lessons|store.url is not a Redis"},
		{"lessons with a wrong port", "lessons: 'redis://h:canary'", "lessons|invalid Redis URL"},
		{"listen address with a space", "listen: 'a b:8080'", "listen|invalid host"},
		{"listen address that is not an IP address", "listen: '999.1.1.1:8080'", "listen|invalid IP address"},
		{"upstream port above 65535", "upstream: 'http://h:99999/v1'", "upstream|port"},
		{"judge port above 65535", "distill: {judge: 'http://h:99999/v1', model: m}", "distill.judge|a valid URL"},
		{"line feed in a key", "distill: {api_key: \"a\\nb\"}", "distill.api_key|line break"},
		{"NUL in a token", "admin: {tokens: [\"0123456789abcdef\\0\"]}", "admin.tokens[0]|U+0000"},
		{"escape in an upstream key", "tenancy: keys\nkeys: [{name: a, tenant: t, learn: on, key_sha256: " + sum + ", upstream_key: \"\\e[1m\"}]", "keys[0].upstream_key|U+001B"},
		{"byte order mark in a key", "distill: {api_key: \"\\ufeffsk-1\"}", "distill.api_key|U+FEFF"},
		{"tab in an address", "listen: \"127.0.0.1\\t:1\"", "listen|U+0009"},
		{"lessons with an unknown scheme", "lessons: 's3://bucket'", "lessons|redis://"},
		{"empty lessons", "lessons: ''", "lessons|empty"},
		{"empty data_dir", "data_dir: ''", "data_dir|empty"},
		{"invalid opt-out pattern", "learning: {opt_out_patterns: ['[']}", "learning.opt_out_patterns[0]|pattern"},
		{"empty token", "admin: {tokens: ['']}", "admin.tokens[0]|empty"},
		{"viewer token with an invalid hash", "admin: {viewer_tokens: ['sha256:12']}", "admin.viewer_tokens[0]|SHA-256"},
		{"short viewer token", "admin: {listen: '0.0.0.0:8081', tokens: [0123456789abcdef], viewer_tokens: [hunter2]}", "admin.viewer_tokens[0]|16"},
		{"role before a hash", "admin: {tokens: ['viewer:sha256:" + sum + "']}", "admin.tokens[0]|viewer_tokens"},
		{"base path without slash", "admin: {base_path: precept}", "admin.base_path|/precept"},
		{"base path with two slashes", "admin: {base_path: //evil.example}", "admin.base_path|/precept"},
		{"base path that ends with a slash", "admin: {base_path: /precept/}", "admin.base_path|/precept"},
		{"base path that goes up", "admin: {base_path: /a/../b}", "admin.base_path|/precept"},
		{"base path in quotes", "admin: {base_path: '/a\"b'}", "admin.base_path|/precept"},
		{"viewer token that is also a token", "admin: {tokens: [one-for-both], viewer_tokens: [one-for-both]}", "admin.viewer_tokens[0]|another token for viewers"},
		{"short token", "admin: {listen: '0.0.0.0:8081', tokens: [hunter2]}", "admin.tokens[0]|16"},
		{"token with an invalid hash", "admin: {tokens: ['sha256:12']}", "admin.tokens[0]|SHA-256"},
		{"no tiers", "reward: {tiers: []}", "reward.tiers|empty"},
		{"inject.k above 20", "inject: {k: 21}", "inject.k|from 0 to 20"},
		{"size below 256", "inject: {budget_bytes: 1}", "inject.budget_bytes|from 256 to 64KiB"},
		{"timeout 0", "limits: {header_timeout: 0s}", "limits.header_timeout|more than 0s"},
		{"negative time", "learning: {retention: -1s}", "learning.retention|at least 0s"},
		{"tag without words", "tags: {a: []}", "tags.a|no phrase"},
		{"embeddings by an unknown upstream", "match: {embeddings: {upstream: other, model: m}}", "match.embeddings.upstream|the upstreams are"},
		{"embeddings without a model", "match: {embeddings: {upstream: openai}}", "match.embeddings.model|missing"},
		{"traces to an address without a scheme", "otel: {endpoint: 'h:4318'}", "otel.endpoint|http or https URL"},
		{"two keys with one name", "tenancy: keys\nkeys: [{name: a, tenant: t, key_sha256: " + sum + "}, {name: a, tenant: t, key_sha256: " + sum + "}]", "keys[1].name|another"},
		{"trust own without an agent", "ledger: {trust: own}", "ledger.agent|an agent's name"},
		{"header without a colon", "otel: {headers: ['x-key']}", "otel.headers|entry 1"},
		{"header name with a space", "otel: {headers: ['a: b', 'x key: v']}", "otel.headers|entry 2"},
		{"header without a name", "otel: {headers: [': v']}", "otel.headers|entry 1"},
		{"header with two lines", "otel: {headers: [\"a: b\\nc: d\"]}", "otel.headers[0]|line break"},
		{"invalid pattern in match.system", "match: {system: ['[']}", "match.system[0]|not a pattern"},
		{"empty pattern in match.system", "match: {system: [crew-*, '']}", "match.system[1]|not a pattern"},
		{"tag in upper case", "tags: {Build: [make]}", "tags.Build|not a tag"},
		{"tag that begins with a digit", "tags: {1a: [make]}", "tags.1a|not a tag"},
		{"tag with a blank word", "tags: {build: [make, ' ']}", "tags.build|empty one"},
		{"lessons with a password", "lessons: 'redis://u:p@h/0'", "lessons|password"},
		{"upstream that is not a URL", "upstream: 'http://h:x y/v1'", "upstream|not a URL"},
		{"upstream with a fragment", "upstream: http://h/v1#a", "upstream|fragment"},
		{"upstream is the data listener by the https port", "listen: 127.0.0.1:443\nupstream: https://127.0.0.1/v1", "upstream|own address"},
		{"upstream is the data listener by the http port", "listen: 127.0.0.1:80\nupstream: http://localhost/v1", "upstream|own address"},
		{"empty opt-out agent pattern", "learning: {opt_out_agents: ['']}", "learning.opt_out_agents[0]|pattern"},
		{"invalid opt-out tenant pattern", "learning: {opt_out_tenants: [a, '{']}", "learning.opt_out_tenants[1]|pattern"},
		{"judge without a model", "distill: {judge: 'http://h/v1'}", "distill.model|name the judge's model"},
		{"judge that is not a URL", "distill: {judge: gpt}", "distill.judge|a valid URL"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			redis := func(url string) error {
				if strings.Contains(url, "canary") {
					return errors.New("invalid Redis URL")
				}
				return nil
			}
			_, err := Parse(Sources{File: []byte(tc.file), CheckRedisURL: redis})
			faults, _ := AsFaults(err)
			if len(faults) == 0 {
				t.Fatal("Parse of an invalid configuration: err = nil, want faults")
			}
			key, piece, _ := strings.Cut(tc.want, "|")
			for _, f := range faults {
				if f.Key == key && strings.Contains(f.Problem, piece) {
					return
				}
			}
			t.Fatalf("got error %v, want a fault in key %s that contains %q", err, key, piece)
		})
	}
}

func TestUnusualButValidValuesAreAccepted(t *testing.T) {
	for name, file := range map[string]string{
		"lessons in the store's Redis": "lessons: 'redis://'\nstore: {url: 'redis://h:6379/0'}",
		"a cluster":                    "store: {url: 'redis://h:1,h:2/0'}",
		"a password for the store":     "store: {url: 'redis://u:p@h:6379/0?x=1'}",
		"another port on this machine": "upstream: http://127.0.0.1:8090/v1",
		"another host's port":          "upstream: http://10.0.0.1:8080/v1",
		"every agent's system prompts": "match: {system: [true]}",
		"a tag":                        "tags: {go-build: [go build, 'go vet']}",
		"traces":                       "otel: {endpoint: 'http://h:4318', headers: ['x-key: a:b']}",
		"a store path":                 "store: {url: '/tmp/x.db'}",
		"a path with a colon":          "store: {url: './a:1/x.db'}\nlessons: 'C:\\lessons'",
		"keys with a line feed":        "distill: {api_key: \"sk-1\\r\\n\"}\nadmin: {tokens: [\"0123456789abcdef\\n\"]}",
		"this machine's addresses":     "listen: '[::1]:0'\nadmin: {listen: 'localhost:0'}",
		"a judge":                      "distill: {judge: 'http://h/v1', model: m}",
		"a ledger by one agent":        "ledger: {trust: own, agent: coder}",
	} {
		if _, err := Parse(Sources{File: []byte(file)}); err != nil {
			t.Errorf("configuration with %s: got error %v, want none", name, err)
		}
	}
}

func TestTraceHeadersAreParsed(t *testing.T) {
	h, err := Otel{Headers: []Secret{"X-Key: a:b", " x-key :c", "Empty:"}}.Header()
	if err != nil || !slices.Equal(h["X-Key"], []string{"a:b", "c"}) || !slices.Equal(h["Empty"], []string{""}) || len(h) != 2 {
		t.Errorf(`got headers %v, error %v; want X-Key with the values "a:b" and "c", Empty with the value "", no other header, no error`, h, err)
	}
}

func TestSystemAgentsAcceptsPatternsTrueAndFalse(t *testing.T) {
	for want, list := range map[string][]string{"": {"false", "no"}, "*": {"crew-*", "true"}, "crew-* x": {"crew-*", "false", "x"}} {
		m := Match{System: list}
		if got := strings.Join(m.SystemAgents(), " "); got != want {
			t.Errorf("match.system %v: got patterns %q, want %q", list, got, want)
		}
	}
}

func TestUnknownKeyFaultNamesTheLikelyKey(t *testing.T) {
	for file, want := range map[string]string{
		"port: 8080":                      "did you mean listen?",
		"LISTEN: 127.0.0.1:8080":          "did you mean listen?",
		"admin: {port: 8081}":             "did you mean listen?",
		"admin: {host: example.org}":      "did you mean hosts?",
		"admin: {token: x}":               "did you mean tokens?",
		"reward: {close-after: 10s}":      "did you mean close_after?",
		"admin_port: 8081":                "write the key admin.listen as admin: {listen: ...}",
		"log_level: debug":                "write the key log.level as log: {level: ...}",
		"reward.close_after: 10s":         "write the key reward.close_after as reward: {close_after: ...}",
		"close_after: 10s":                "write the key reward.close_after as reward: {close_after: ...}",
		"bandit: {close_after: 10s}":      "write the key reward.close_after as reward: {close_after: ...}",
		"redis: redis://h:6379":           "write the key store.url as store: {url: ...}",
		"api_key: x":                      "did you mean distill.api_key or match.embeddings.api_key?",
		"enabled: false":                  "did you mean distill.enabled or learning.enabled or writ.enabled?",
		"reward:close_after: 10s":         "write the key reward.close_after as reward: {close_after: ...}",
		"nonsense: 1":                     "the keys are admin, bandit,",
		"upstreams: {a: {base_url: b}}":   "did you mean url?",
		"upstreams: {a: {api_key: sk-1}}": "precept forwards each agent's own key",
	} {
		_, err := Parse(Sources{File: []byte(file)})
		faults, _ := AsFaults(err)
		if !slices.ContainsFunc(faults, func(f Fault) bool { return strings.Contains(f.Problem, want) }) {
			t.Errorf("%s: got error %v, want a fault that contains %q", file, err, want)
		}
	}
}

func TestUpstreamMayBeWrittenAsItsURL(t *testing.T) {
	c, err := Parse(Sources{File: []byte("upstreams: {mine: http://h/v1}")})
	if err != nil || c.Upstreams["mine"].URL != "http://h/v1" {
		t.Errorf("upstream written as a URL: got %v, error %v, want http://h/v1 and no error", c.Upstreams, err)
	}
}

func TestBrokenYAMLNamesTheLine(t *testing.T) {
	_, err := Parse(Sources{File: []byte("listen: 127.0.0.1:1\ninject:\n\tk: 3\n"), FileName: "p.yaml"})
	if faults, _ := AsFaults(err); len(faults) != 1 || faults[0].Source != "p.yaml:3" {
		t.Fatalf("got error %v, want one fault at p.yaml:3", err)
	}
}

func TestUnknownFlagIsAFault(t *testing.T) {
	_, err := Parse(Sources{Flags: map[string]string{"no.such": "1"}})
	if faults, _ := AsFaults(err); len(faults) != 1 || faults[0].Key != "no.such" {
		t.Fatalf("got error %v, want one fault in the key no.such", err)
	}
}

// With Offline, Parse ignores the faults that matter only to a server, for example an upstream that is precept itself.
func TestOfflineParseAcceptsServerOnlyFaults(t *testing.T) {
	src := Sources{Env: env("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1"), File: []byte("admin: {listen: '0.0.0.0:8081'}\ntenancy: keys\n")}
	if _, err := Parse(src); err == nil {
		t.Fatal("Parse without Offline: err = nil, want an error")
	}
	src.Offline = true
	if _, err := Parse(src); err != nil {
		t.Fatal(err)
	}
	src.File = []byte("admin: {lisen: x}\nlog: {level: loud}")
	faults, _ := AsFaults(func() error { _, err := Parse(src); return err }())
	if len(faults) != 2 {
		t.Fatalf("Parse with Offline, a misspelt key and an invalid log level: got faults %v, want 2", faults)
	}
}

func TestDecoderReadsAllKeyTypes(t *testing.T) {
	for _, f := range leafFields() {
		d := &decoder{env: env(), sources: map[string]string{}}
		v := reflect.New(f.typ).Elem()
		for _, text := range []string{"1", "{a: {url: b}}", "[{name: a}]"} {
			if n, ok := d.parse(text); ok {
				d.readValue(f.path, v, "", n)
			}
		}
		for _, fault := range d.faults {
			if strings.Contains(fault.Problem, "cannot be read") {
				t.Errorf(`key %s: got fault %q, want a problem without "cannot be read"`, f.path, fault.Problem)
			}
		}
	}
}
