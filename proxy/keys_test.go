package proxy_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// sum returns the listed form of a key.
func sum(key string) string {
	s := sha256.Sum256([]byte(key))
	return hex.EncodeToString(s[:])
}

// keysOf returns a configuration with three of precept's own keys.
func keysOf(t *testing.T) map[string]string {
	t.Helper()
	flags := injectAll()
	flags["tenancy"] = "keys"
	flags["keys"] = fmt.Sprintf(`[{name: a, key_sha256: %s, tenant: team-a, agent: coder, upstream_key: sk-up-a},
		{name: b, key_sha256: %s, tenant: team-b, upstream_key: sk-up-b, roles: [reviewer]}, {name: q, key_sha256: %s, tenant: team-q, learn: off}]`, sum("pk-a"), sum("pk-b"), sum("pk-q"))
	return flags
}

// An unlisted key is refused in the shape of the API, and nothing reaches the upstream.
func TestUnlistedKeyIsRefused(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, up, "", nil, keysOf(t))
	for _, path := range []string{chatPath, "/v1/responses", "/v1/messages", "/v1/models", "/v1/feedback"} {
		for name, h := range map[string]http.Header{
			"none": {}, "unlisted": bearer("pk-x"), "empty": bearer(""), "the upstream's": bearer("sk-up-a"),
			"the hash": bearer(sum("pk-a")), "basic": {"Authorization": {"Basic pk-a"}}, "x": {"X-Api-Key": {"pk-x"}},
		} {
			res, b := r.send(t, "POST", path, h, `{"session_id":"s","source":"user","type":"approval"}`)
			if res.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s, key %s: got status %d, want 401", path, name, res.StatusCode)
			}
			checkShape(t, path, b)
		}
	}
	if n := up.count(); n != 0 {
		t.Errorf("%d requests reached the upstream, want 0", n)
	}
}

// checkShape checks that an error of precept's own has the shape of the API at that path.
func checkShape(t *testing.T, path string, body []byte) {
	t.Helper()
	var e struct {
		Type  string
		Error *struct{ Type, Message, Code string }
	}
	if err := json.Unmarshal(body, &e); err != nil || e.Error == nil || e.Error.Type != "precept_error" || e.Error.Message == "" {
		t.Errorf("%s: got %s, want an error of precept", path, body)
		return
	}
	if anthropic := strings.Contains(path, "/messages"); anthropic != (e.Type == "error") || anthropic == (e.Error.Code != "") {
		t.Errorf("%s: the error has the shape of another API: %s", path, body)
	}
}

// The key sets tenant and agent, and the upstream gets its own key in place of precept's.
func TestKeySetsTenantAgentAndUpstreamKey(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, up, "", nil, keysOf(t))
	body := `{"messages":[{"role":"user","content":"hi"}]}`
	for _, c := range []struct {
		name string
		in   http.Header
		want map[string]string
	}{
		{"bearer", bearer("pk-a"), map[string]string{"Authorization": "Bearer sk-up-a", "X-Api-Key": ""}},
		{"lower case", http.Header{"Authorization": {"bearer pk-a"}}, map[string]string{"Authorization": "Bearer sk-up-a"}},
		{"x-api-key", http.Header{"X-Api-Key": {"pk-b"}}, map[string]string{"X-Api-Key": "sk-up-b", "Authorization": ""}},
		{"api-key", http.Header{"Api-Key": {"pk-b"}}, map[string]string{"Api-Key": "sk-up-b", "Authorization": ""}},
		{"both", bearer("pk-a", "X-Api-Key", "pk-a"), map[string]string{"Authorization": "Bearer sk-up-a", "X-Api-Key": "sk-up-a"}},
		{"none of the upstream's", bearer("pk-q"), map[string]string{"Authorization": "Bearer pk-q"}},
	} {
		for _, path := range []string{chatPath, "/v1/messages", "/v1/models"} {
			r.send(t, "POST", path, c.in, body)
			for name, want := range c.want {
				if got := up.last(t).header.Get(name); got != want {
					t.Errorf("%s, %s: the upstream got %s %q, want %q", c.name, path, name, got, want)
				}
			}
		}
	}
	r.send(t, "POST", chatPath+"?x=1&key=pk-a&y=%20z", nil, body)
	if got := up.last(t); got.uri != chatPath+"?x=1&key=sk-up-a&y=%20z" || got.header.Get("Authorization") != "" {
		t.Errorf("a key in the query: the upstream got %s with the header %v, want the key in the query only", got.uri, got.header)
	}
	r.chat(t, bearer("pk-a", "Precept-Session", "s", "Precept-Agent", "forged", "User-Agent", "x/1"), body)
	r.chat(t, bearer("pk-b", "Precept-Session", "s", "Precept-Agent", "mine"), body)
	got := storedExchanges(t, r, "s")
	for tenant, agent := range map[string]string{"team-a": "coder", "team-b": "mine"} {
		if xs := got[tenant]; len(xs) != 1 || xs[0].Agent != agent || xs[0].Tenant != tenant {
			t.Errorf("tenant %s has the exchanges %v, want one exchange of agent %s", tenant, xs, agent)
		}
	}
	checkDisk(t, r, "pk-a", "pk-b", "sk-up-a", "sk-up-b")
}

// learn: off stores nothing, and lessons are injected nevertheless.
func TestKeyWithoutLearningStillGetsLessons(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, up, "", bookOf(t, "one: alpha"), keysOf(t))
	r.chat(t, bearer("pk-q", "Precept-Session", "quiet-name"), `{"messages":[{"role":"user","content":"alpha zanzibar"}]}`)
	if !strings.Contains(string(up.last(t).body), "[one]") {
		t.Errorf("the upstream got %s, want lesson one", up.last(t).body)
	}
	for tenant, xs := range storedExchanges(t, r, "quiet-name") {
		if len(xs) > 0 {
			t.Errorf("%s keeps %v, want none", tenant, xs)
		}
	}
	checkDisk(t, r, "zanzibar", "quiet-name", "team-q")
}

// The key alone determines the tenant: no header, path or body under one key's name leads to another tenant.
func TestTenantComesFromTheKeyOnly(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, up, "", nil, keysOf(t))
	h := bearer("pk-a", "Precept-Session", "s")
	for _, name := range []string{"Precept-Tenant", "X-Tenant", "X-Tenant-Id", "Openai-Organization", "Openai-Project", "X-Organization", "X-Precept-Tenant", "X-Forwarded-User", "X-Forwarded-For"} {
		h.Set(name, "team-b")
	}
	h.Set("X-Api-Key", "pk-b") // a second credential next to the key
	for i, path := range []string{chatPath, "/p/agent=team-b,tenant=team-b" + chatPath, chatPath + "?tenant=team-b&key=pk-b"} {
		res, b := r.send(t, "POST", path, h, fmt.Sprintf(`{"user":"team-b","tenant":"team-b","metadata":{"tenant":"team-b","user_id":"team-b"},"messages":[{"role":"user","content":"hi %d"}]}`, i))
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s: got status %d, body %s, want status 200", path, res.StatusCode, b)
		}
	}
	got := storedExchanges(t, r, "s")
	if len(got) != 1 || len(got["team-a"]) != 3 {
		t.Errorf("got the exchanges %v, want 3 of tenant team-a only", got)
	}
}

// A key with roles accepts these roles only: another role is ignored.
func TestKeyWithRolesRefusesOtherRoles(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, up, "", nil, keysOf(t))
	for key, want := range map[string]map[string]string{
		"pk-a": {"reviewer": "reviewer", "admin": "admin"},
		"pk-b": {"reviewer": "reviewer", "Reviewer": "Reviewer", "admin": ""},
	} {
		for role, role2 := range want {
			req, err := http.NewRequestWithContext(t.Context(), "POST", chatPath, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header = bearer(key, "Precept-Role", role)
			c, err := r.Speaks(req)
			if err != nil || c.Role != role2 {
				t.Errorf("the key %s with the role %s became %q with the error %v, want %q", key, role, c.Role, err, role2)
			}
		}
	}
}
