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

func keyHash(key string) string {
	s := sha256.Sum256([]byte(key))
	return hex.EncodeToString(s[:])
}

func keySettings(t *testing.T) map[string]string {
	t.Helper()
	flags := injectAll()
	flags["tenancy"] = "keys"
	flags["keys"] = fmt.Sprintf(`[{name: a, key_sha256: %s, tenant: team-a, agent: coder, upstream_key: sk-up-a},
		{name: b, key_sha256: %s, tenant: team-b, upstream_key: sk-up-b, roles: [reviewer]}, {name: q, key_sha256: %s, tenant: team-q, learn: off}]`, keyHash("pk-a"), keyHash("pk-b"), keyHash("pk-q"))
	return flags
}

func TestUnlistedKeyIsRefused(t *testing.T) {
	up := newUpstream(t, nil)
	f := newFixture(t, up, "", nil, keySettings(t))
	for _, path := range []string{chatPath, "/v1/responses", "/v1/messages", "/v1/models", "/v1/feedback"} {
		for name, h := range map[string]http.Header{
			"no key": {}, "unlisted": bearerHeader("pk-x"), "empty": bearerHeader(""), "upstream_key": bearerHeader("sk-up-a"),
			"hash of a listed key": bearerHeader(keyHash("pk-a")), "Basic authentication": {"Authorization": {"Basic pk-a"}}, "unlisted X-Api-Key": {"X-Api-Key": {"pk-x"}},
		} {
			res, body := f.send(t, "POST", path, h, `{"session_id":"s","source":"user","type":"approval"}`)
			if res.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s, key %s: got status %d, want 401", path, name, res.StatusCode)
			}
			checkErrorFormat(t, path, body)
		}
	}
	if n := up.requestCount(); n != 0 {
		t.Errorf("the upstream got %d requests, want 0", n)
	}
}

func checkErrorFormat(t *testing.T, path string, body []byte) {
	t.Helper()
	var e struct {
		Type  string
		Error *struct{ Type, Message, Code string }
	}
	if err := json.Unmarshal(body, &e); err != nil {
		t.Errorf("%s: error = %v", path, err)
		return
	} else if e.Error == nil {
		t.Errorf("%s: Error = nil", path)
		return
	} else if e.Error.Type != "precept_error" {
		t.Errorf(`%s: Type = %q, want "precept_error"`, path, e.Error.Type)
		return
	} else if e.Error.Message == "" {
		t.Errorf("%s: Message is empty", path)
		return
	}
	if anthropic := strings.Contains(path, "/messages"); anthropic != (e.Type == "error") {
		t.Errorf("%s: type = %q, want error only from the Messages API", path, e.Type)
	} else if anthropic == (e.Error.Code != "") {
		t.Errorf("%s: code = %q, want a code only from other APIs", path, e.Error.Code)
	}
}

// If a client key has an upstream_key, precept sends this key to the upstream instead of the client's key.
func TestKeySetsTenantAgentAndUpstreamKey(t *testing.T) {
	up := newUpstream(t, nil)
	f := newFixture(t, up, "", nil, keySettings(t))
	body := `{"messages":[{"role":"user","content":"hi"}]}`
	for _, tc := range []struct {
		name string
		sent http.Header
		want map[string]string
	}{
		{"Authorization", bearerHeader("pk-a"), map[string]string{"Authorization": "Bearer sk-up-a", "X-Api-Key": ""}},
		{"bearer in lower case", http.Header{"Authorization": {"bearer pk-a"}}, map[string]string{"Authorization": "Bearer sk-up-a"}},
		{"X-Api-Key", http.Header{"X-Api-Key": {"pk-b"}}, map[string]string{"X-Api-Key": "sk-up-b", "Authorization": ""}},
		{"Api-Key", http.Header{"Api-Key": {"pk-b"}}, map[string]string{"Api-Key": "sk-up-b", "Authorization": ""}},
		{"two headers", bearerHeader("pk-a", "X-Api-Key", "pk-a"), map[string]string{"Authorization": "Bearer sk-up-a", "X-Api-Key": "sk-up-a"}},
		{"no upstream key", bearerHeader("pk-q"), map[string]string{"Authorization": "Bearer pk-q"}},
	} {
		for _, path := range []string{chatPath, "/v1/messages", "/v1/models"} {
			f.send(t, "POST", path, tc.sent, body)
			for name, want := range tc.want {
				if got := up.lastRequest(t).header.Get(name); got != want {
					t.Errorf("%s, %s: the upstream got %s %q, want %q", tc.name, path, name, got, want)
				}
			}
		}
	}
	f.send(t, "POST", chatPath+"?x=1&key=pk-a&y=%20z", nil, body)
	if got := up.lastRequest(t); got.uri != chatPath+"?x=1&key=sk-up-a&y=%20z" {
		t.Errorf("key in the query: uri = %q, want %q", got.uri, chatPath+"?x=1&key=sk-up-a&y=%20z")
	} else if got.header.Get("Authorization") != "" {
		t.Errorf(`key in the query: Authorization = %q, want ""`, got.header.Get("Authorization"))
	}
	f.chat(t, bearerHeader("pk-a", "Precept-Session", "s", "Precept-Agent", "forged", "User-Agent", "x/1"), body)
	f.chat(t, bearerHeader("pk-b", "Precept-Session", "s", "Precept-Agent", "mine"), body)
	got := storedExchanges(t, f, "s")
	for tenant, agent := range map[string]string{"team-a": "coder", "team-b": "mine"} {
		if xs := got[tenant]; len(xs) != 1 {
			t.Errorf("tenant %s: got %+v, want 1 exchange", tenant, xs)
		} else if xs[0].Agent != agent {
			t.Errorf("tenant %s: Agent = %q, want %q", tenant, xs[0].Agent, agent)
		} else if xs[0].Tenant != tenant {
			t.Errorf("tenant %s = %q, want %q", tenant, xs[0].Tenant, tenant)
		}
	}
	checkNotOnDisk(t, f, "pk-a", "pk-b", "sk-up-a", "sk-up-b")
}

// With learn: off, precept stores nothing from the request.
func TestKeyWithLearningOffGetsLessons(t *testing.T) {
	up := newUpstream(t, nil)
	f := newFixture(t, up, "", newBook(t, "one: alpha"), keySettings(t))
	f.chat(t, bearerHeader("pk-q", "Precept-Session", "quiet-name"), `{"messages":[{"role":"user","content":"alpha zanzibar"}]}`)
	if !strings.Contains(string(up.lastRequest(t).body), "[one]") {
		t.Errorf("the upstream got %s, want lesson one", up.lastRequest(t).body)
	}
	for tenant, xs := range storedExchanges(t, f, "quiet-name") {
		if len(xs) > 0 {
			t.Errorf("tenant %s: stored exchanges = %v, want none", tenant, xs)
		}
	}
	checkNotOnDisk(t, f, "zanzibar", "quiet-name", "team-q")
}

func TestOnlyKeyDeterminesTenant(t *testing.T) {
	up := newUpstream(t, nil)
	f := newFixture(t, up, "", nil, keySettings(t))
	h := bearerHeader("pk-a", "Precept-Session", "s")
	for _, name := range []string{"Precept-Tenant", "X-Tenant", "X-Tenant-Id", "Openai-Organization", "Openai-Project", "X-Organization", "X-Precept-Tenant", "X-Forwarded-User", "X-Forwarded-For"} {
		h.Set(name, "team-b")
	}
	h.Set("X-Api-Key", "pk-b") // Authorization, with pk-a, takes precedence
	for i, path := range []string{chatPath, "/p/agent=team-b,tenant=team-b" + chatPath, chatPath + "?tenant=team-b&key=pk-b"} {
		res, body := f.send(t, "POST", path, h, fmt.Sprintf(`{"user":"team-b","tenant":"team-b","metadata":{"tenant":"team-b","user_id":"team-b"},"messages":[{"role":"user","content":"hi %d"}]}`, i))
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s: got status %d, body %s, want status 200", path, res.StatusCode, body)
		}
	}
	got := storedExchanges(t, f, "s")
	if len(got) != 1 {
		t.Fatalf("stored exchanges = %+v, want 1 item", got)
	}
	if len(got["team-a"]) != 3 {
		t.Errorf(`stored exchanges: ["team-a"] = %+v, want 3 exchanges`, got["team-a"])
	}
}

func TestKeyWithRolesIgnoresOtherRoles(t *testing.T) {
	up := newUpstream(t, nil)
	f := newFixture(t, up, "", nil, keySettings(t))
	for key, want := range map[string]map[string]string{
		"pk-a": {"reviewer": "reviewer", "admin": "admin"},
		"pk-b": {"reviewer": "reviewer", "Reviewer": "Reviewer", "admin": ""},
	} {
		for sent, role := range want {
			req, err := http.NewRequestWithContext(t.Context(), "POST", chatPath, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header = bearerHeader(key, "Precept-Role", sent)
			c, err := f.RequestClaim(req)
			if err != nil {
				t.Fatalf("key %s with Precept-Role %s: %v", key, sent, err)
			}
			if c.Role != role {
				t.Errorf("key %s with Precept-Role %s = %q, want %q", key, sent, c.Role, role)
			}
		}
	}
}
