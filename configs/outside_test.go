package configs_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"precept/configs"
)

func TestEveryFaultNamesKeyLineAndRemedy(t *testing.T) {
	lines := []struct{ line, key, want string }{
		{"listen: 8080", "listen", "write host:port"},
		{"admin: {base_path: /a/../b, bogus: 1}", "admin.base_path", "write one such as /precept"},
		{"routes: {chat: nowhere, foo: b}", "routes.chat", "is not a configured upstream; the upstreams are b, c, d"},
		{"upstreams: {b: {url: ftp://x}, c: {}, d: {url: 'https://user:pw@x/v1'}}", "upstreams.b.url", "must begin with http:// or https://"},
		{"tenancy: many", "tenancy", "must be one of single, by-credential, keys"},
		{"store: {url: 'mysql://x'}", "store.url", "write a path, or redis://host:6379/0"},
		{"data_dir: ''", "data_dir", "name a directory"},
		{"lessons: 'redis://user:pw@h/0'", "lessons", "write redis:// alone"},
		{"match: {system: ['[a'], user: 1}", "match.system[0]", "an agent's name such as crew-*"},
		{"tags: {Deploy: [kubectl], empty: []}", "tags.Deploy", "write lower-case letters"},
		{"inject: {k: 21, style: shiny, placement: sideways, budget_bytes: -1}", "inject.k", "it must be from 0 to 20"},
		{"bandit: {epsilon: 1.5, control: abc, holdout: never, objective: best}", "bandit.epsilon", "it must be from 0 to 1"},
		{"detect: {loops: perhaps}", "detect.loops", "is neither true nor false"},
		{"learning: {enabled: maybe, opt_out_patterns: ['[a'], capture_limit: 3MX, retention: 36501d}", "learning.retention", "such as 300ms, 10s, 24h or 30d"},
		{"reward: {close_after: 0s, sentiment: 2, tiers: [nobody]}", "reward.close_after", "it must be more than 0s"},
		{"distill: {every: 1, gate: robot, judge: 'ftp://x'}", "distill.every", "write a number with a unit"},
		{"writ: {enabled: x, trust: all}", "writ.trust", "must be one of quarantined, own"},
		{"ledger: {trust: own}", "ledger.agent", "set ledger.agent to an agent's name, or ledger.trust to quarantined"},
		{"limits: {body_bytes: 0, drain_timeout: -5s, upstream_header_timeout: soon, sessions: 0, outbox_bytes: 1}", "limits.outbox_bytes", "at least 1MiB"},
		{"log: {level: loud, format: xml}", "log.level", "must be one of debug, info, warn, error"},
		{"metrics: {pubic: true}", "metrics.pubic", "did you mean public?"},
		{"otel: {endpoint: nowhere, headers: [x], sample: 2}", "otel.endpoint", "is not an http or https URL"},
		{"debug_headers: perhaps", "debug_headers", "is neither true nor false"},
		{"epsilonn: 3", "epsilonn", "the keys are admin, bandit,"},
		{"keys: [{name: a}, {name: a, key_sha256: zz}]", "keys[1].name", "is also another key's name; choose another name"},
	}
	furtherFaults := map[string]int{ // line of the fault by key, for the other keys with faults
		"admin.bogus": 2, "routes.foo": 3, "upstreams.c.url": 4, "upstreams.d.url": 4, "match.user": 9, "tags.empty": 10, "inject.style": 11, "inject.placement": 11,
		"inject.budget_bytes": 11, "bandit.control": 12, "bandit.holdout": 12, "bandit.objective": 12, "learning.enabled": 14, "learning.opt_out_patterns[0]": 14,
		"learning.capture_limit": 14, "reward.sentiment": 15, "reward.tiers[0]": 15, "distill.gate": 16, "distill.judge": 16, "writ.enabled": 17, "limits.body_bytes": 19,
		"limits.drain_timeout": 19, "limits.upstream_header_timeout": 19, "limits.sessions": 19, "log.format": 20, "otel.sample": 22, "otel.headers": 22,
		"keys[0].key_sha256": 25, "keys[0].tenant": 25, "keys[1].key_sha256": 25, "keys[1].tenant": 25,
	}
	var file strings.Builder
	for _, tc := range lines {
		file.WriteString(tc.line + "\n")
	}
	_, err := configs.Parse(configs.Sources{FileName: "my.yaml", File: []byte(file.String())})
	faults, ok := configs.AsFaults(err)
	if !ok {
		t.Fatalf("got error %v, want the faults in the file", err)
	}
	faultByKey := map[string]configs.Fault{}
	for _, f := range faults {
		if faultByKey[f.Key].Key != "" {
			t.Errorf("key %s: got two faults, want one", f.Key)
		}
		faultByKey[f.Key] = f
		if strings.Contains(f.Value+f.Problem, "pw") {
			t.Errorf("got a fault that shows a password, want none in it; fault: %s", f)
		}
		if !strings.Contains(err.Error(), f.String()) || f.Value != "" && !strings.Contains(f.String(), fmt.Sprintf("%s = %q ", f.Key, f.Value)) {
			t.Errorf("fault %s: got an error text without this fault or a fault without the value, want both", f)
		}
	}
	for i, tc := range lines {
		if f := faultByKey[tc.key]; f.Source != fmt.Sprintf("my.yaml:%d", i+1) || !strings.Contains(f.Problem, tc.want) {
			t.Errorf("line %q, key %s: got fault %q, want line number %d and a problem that contains %q", tc.line, tc.key, f, i+1, tc.want)
		}
	}
	remedy := regexp.MustCompile(`write|must|the (only )?(key|upstream)s? (is|are)|neither|set |name|say|list|prints the h|is not a key|not a (whole )?number|use keys`)
	for key, line := range furtherFaults {
		if f := faultByKey[key]; f.Source != fmt.Sprintf("my.yaml:%d", line) || !remedy.MatchString(f.Problem) {
			t.Errorf("key %s: got fault %q, want line number %d and a remedy", key, f, line)
		}
	}
}

func TestBasePathIsValidated(t *testing.T) {
	for path, ok := range map[string]bool{
		"": true, "/precept": true, "/a/b-c_d.e": true, "/A1": true, "/.well-known/x": true,
		"precept": false, "/": false, "/a/": false, "//a": false, "/a/../b": false, "/.": false, "/a b": false, "/a?b": false, "/%61": false, "/é": false,
	} {
		_, err := configs.Parse(configs.Sources{Flags: map[string]string{"admin.base_path": path}})
		if (err == nil) != ok {
			t.Errorf("base path %q: got error %v, want the base path accepted = %v", path, err, ok)
		}
	}
}

// The key upstream names a single upstream for all requests, so a route next to it would have no effect.
func TestRouteNextToUpstreamIsAFault(t *testing.T) {
	_, err := configs.Parse(configs.Sources{File: []byte("upstream: http://h/v1\nroutes: {chat: foo}\n")})
	if faults, _ := configs.AsFaults(err); len(faults) != 1 || faults[0].Key != "routes.chat" || !strings.Contains(faults[0].Problem, "remove the route") {
		t.Errorf("configuration with upstream and routes.chat: got error %v, want one fault in routes.chat, with a remedy", err)
	}
}

func TestSingleUpstreamServesAllRoutes(t *testing.T) {
	c, err := configs.Parse(configs.Sources{File: []byte("upstreams: {mine: {url: 'http://h/v1'}}\nlearning: {retention: 36500d}\n")})
	if err != nil {
		t.Fatal(err)
	}
	if r := c.UpstreamByRoute(); len(r) != 4 || r["chat"] != "mine" || r["responses"] != "mine" || r["messages"] != "mine" || r["other"] != "mine" {
		t.Errorf("routes with a single upstream: got %v, want four routes to the upstream mine", r)
	}
	if days := c.Learning.Retention.Hours() / 24; days != 36500 {
		t.Errorf("learning.retention: got %v days, want 36500", days)
	}
	_, err = configs.Parse(configs.Sources{File: []byte("upstreams: {a: {url: 'http://h/v1'}, b: {url: 'http://i/v1'}}\nroutes: {chat: a, responses: a, other: b}\n")})
	if faults, _ := configs.AsFaults(err); len(faults) != 1 || faults[0].Key != "routes.messages" {
		t.Errorf("two upstreams, neither of them for messages: got error %v, want one fault in routes.messages", err)
	}
}
