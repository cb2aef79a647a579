package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"precept/sample"
	"precept/session"
	"precept/store/sqlite"
)

// bearer are the headers of a client with that key.
func bearer(key string, more ...string) http.Header {
	h := http.Header{"Authorization": {"Bearer " + key}}
	for i := 0; i+1 < len(more); i += 2 {
		h.Set(more[i], more[i+1])
	}
	return h
}

// kept reads what a stopped rig has kept of a named session, by tenant.
func kept(t *testing.T, r *rig, name string) map[string][]sample.Exchange {
	t.Helper()
	r.stop()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(r.dir, "precept.db"), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	tenants, err := db.Tenants(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]sample.Exchange{}
	for _, tenant := range tenants {
		x, err := db.Exchanges(t.Context(), tenant, session.KeyOf(tenant, session.SpaceName, name))
		if err != nil {
			t.Fatal(err)
		}
		out[tenant] = x
	}
	return out
}

// sameCalls answers with a tool call whose id depends on the length of the history alone: every client gets the same ids,
// as from servers that count from zero.
func sameCalls(w http.ResponseWriter, r *http.Request) {
	var b struct{ Messages []json.RawMessage }
	_ = json.NewDecoder(r.Body).Decode(&b)
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":"chatcmpl-%[1]d","model":"m-1","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_%[1]d","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}}]}}]}`, len(b.Messages))
}

// Under single everyone is one tenant; an echo still counts only under the key that was there when it went by.
func TestSingleTenant(t *testing.T) {
	up := newUpstream(t, sameCalls)
	r := newRig(t, up, "", nil, nil)
	for _, key := range []string{"k-one", "k-two"} {
		r.chat(t, bearer(key, "Precept-Session", "shared"), newAgent("Fix it.").body())
	}
	a := newAgent("Nameless.")
	res, reply := r.send(t, "POST", chatPath, bearer("k-one"), a.body())
	a.next(callOf(t, reply), "ls", "x")
	same, _ := r.send(t, "POST", chatPath, bearer("k-one"), a.body())
	other, _ := r.send(t, "POST", chatPath, bearer("k-two"), a.body())
	if got := same.Header.Get("Precept-Session"); got != res.Header.Get("Precept-Session") {
		t.Errorf("the session became %s under its own key", got)
	}
	if got := other.Header.Get("Precept-Session"); got == res.Header.Get("Precept-Session") {
		t.Errorf("another key's echo led into session %s", got)
	}
	got := kept(t, r, "shared")
	if len(got) != 1 || len(got["default"]) != 2 {
		t.Errorf("kept of %d tenants, %d of the default one", len(got), len(got["default"]))
	}
}

// The same name under two keys is two sessions: two states of loops, two rewards, and no echo leads across (R058).
func TestByCredential(t *testing.T) {
	up := newUpstream(t, sameCalls)
	r := newRig(t, up, "", nil, map[string]string{"tenancy": "by-credential", "bandit.control": "0", "bandit.epsilon": "0", "bandit.objective": "all"})
	one, two := bearer("k-one", "Precept-Session", "build"), bearer("k-two", "Precept-Session", "build")
	fails := "make: *** No rule to make target 'x'.  Stop.\nExit code 2"
	a := newAgent("Fix the build.")
	for range 2 {
		a.next(callOf(t, r.chat(t, one, a.body())), "make x", fails)
	}
	res, _ := r.send(t, "POST", chatPath, one, a.body())
	if !strings.Contains(string(up.last(t).body), "[LOOP DETECTED]") {
		t.Fatal("the first key's loop was not found")
	}
	b := newAgent("Fix the build.")
	b.next(callOf(t, r.chat(t, two, b.body())), "make x", fails)
	other, _ := r.send(t, "POST", chatPath, two, b.body())
	if strings.Contains(string(up.last(t).body), "[LOOP DETECTED]") {
		t.Error("one key's state counts for another")
	}
	if res.Header.Get("Precept-Request-Id") == other.Header.Get("Precept-Request-Id") {
		t.Error("two requests have one id")
	}

	mine := res.Header.Get("Precept-Request-Id")
	for _, by := range []string{`"session_id":"build"`, `"request_id":"` + mine + `"`, `"response_id":"chatcmpl-6"`} {
		for key, want := range map[string]string{"k-one": "joined", "k-three": "parked"} {
			if status := postAs(t, r, bearer(key), by); status != want {
				t.Errorf("feedback of %s by %s is %s, not %s", key, by, status, want)
			}
		}
	}
	if status := postAs(t, r, bearer("k-two"), `"request_id":"`+mine+`"`); status != "parked" {
		t.Errorf("feedback by another key's request id is %s", status)
	}
	got := kept(t, r, "build")
	if len(got) != 3 && len(got) != 2 {
		t.Errorf("%d tenants", len(got))
	}
	var sizes []int
	for tenant, xs := range got {
		if !strings.HasPrefix(tenant, "t-") || strings.Contains(tenant, "k-") {
			t.Errorf("tenant %q", tenant)
		}
		if len(xs) > 0 {
			sizes = append(sizes, len(xs))
		}
	}
	if len(sizes) != 2 || sizes[0]+sizes[1] != 5 {
		t.Errorf("exchanges of the two: %v", sizes)
	}
	checkDisk(t, r, "k-one", "k-two", "k-three")
}

// postAs posts an approval, and tells its status.
func postAs(t *testing.T, r *rig, h http.Header, by string) string {
	t.Helper()
	res, b := r.send(t, "POST", "/v1/feedback", h, `{`+by+`,"source":"user","type":"approval"}`)
	var a answer
	if err := json.Unmarshal(b, &a); err != nil || res.StatusCode != http.StatusAccepted {
		t.Fatalf("feedback: %d %s", res.StatusCode, b)
	}
	return a.Status
}

// Fifty tenants at once, with the same words, the same names for their sessions and the same call ids from the upstream:
// each upstream request holds what its own tenant said, and what is kept is told apart (R107).
func TestFiftyTenants(t *testing.T) {
	up := newUpstream(t, sameCalls)
	r := newRig(t, up, "", bookOf(t, "one: build"), map[string]string{"tenancy": "by-credential", "bandit.control": "0", "bandit.epsilon": "0", "bandit.objective": "all"})
	const tenants, turns = 50, 5
	c := client(t)
	var wg sync.WaitGroup
	for i := range tenants {
		for _, named := range []bool{true, false} {
			wg.Go(func() {
				h, task := bearer(fmt.Sprintf("key-%d", i)), "Fix the build."
				if named {
					h.Set("Precept-Session", "build")
				} else {
					task = "Build it anew."
				}
				if err := converse(t, r, c, h, newAgent(fmt.Sprintf("%s canary-%d-", task, i)), turns); err != nil {
					t.Errorf("tenant %d: %v", i, err)
				}
			})
		}
	}
	wg.Wait()
	for _, s := range up.got {
		key := strings.TrimPrefix(s.header.Get("Authorization"), "Bearer key-")
		own := strings.Count(string(s.body), "canary-"+key+"-")
		if all := strings.Count(string(s.body), "canary-"); own == 0 || own != all {
			t.Errorf("a request of key %s holds %d canaries, %d of them its own", key, all, own)
		}
	}
	got := kept(t, r, "build")
	if len(got) != tenants {
		t.Errorf("%d tenants are known", len(got))
	}
	for tenant, xs := range got {
		if len(xs) != turns {
			t.Errorf("%s has %d exchanges", tenant, len(xs))
		}
		seen := map[string]bool{}
		for _, x := range xs {
			for _, item := range x.New {
				for word := range strings.FieldsSeq(string(item)) {
					if _, c, ok := strings.Cut(word, "canary-"); ok {
						n, _, _ := strings.Cut(c, "-")
						seen[n] = true
					}
				}
			}
		}
		if len(seen) != 1 {
			t.Errorf("%s keeps the canaries of %v", tenant, seen)
		}
	}
}

// converse plays one agent of few turns. It is for goroutines: it returns its fault.
func converse(t *testing.T, r *rig, c *http.Client, h http.Header, a *agent, turns int) error {
	t.Helper()
	session := ""
	for turn := range turns {
		req, err := http.NewRequestWithContext(t.Context(), "POST", r.url+chatPath, strings.NewReader(a.body()))
		if err != nil {
			return err
		}
		req.Header = h.Clone()
		res, err := c.Do(req)
		if err != nil {
			return err
		}
		b, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != 200 {
			return fmt.Errorf("turn %d: %d %s %w", turn, res.StatusCode, b, err)
		}
		if got := res.Header.Get("Precept-Session"); session != "" && got != session {
			return fmt.Errorf("turn %d is in session %s, not %s", turn, got, session)
		} else if session = got; session == "" {
			return fmt.Errorf("turn %d has no session", turn)
		}
		a.next(callOf(t, b), "ls", fmt.Sprint("line ", turn))
	}
	return nil
}

// sum is how a key is listed.
func sum(key string) string {
	s := sha256.Sum256([]byte(key))
	return hex.EncodeToString(s[:])
}

// keysOf is a configuration with three of precept's own keys.
func keysOf(t *testing.T) map[string]string {
	t.Helper()
	flags := certain()
	flags["tenancy"] = "keys"
	flags["keys"] = fmt.Sprintf(`[{name: a, key_sha256: %s, tenant: team-a, agent: coder, upstream_key: sk-up-a},
		{name: b, key_sha256: %s, tenant: team-b, upstream_key: sk-up-b, roles: [reviewer]}, {name: q, key_sha256: %s, tenant: team-q, learn: off}]`, sum("pk-a"), sum("pk-b"), sum("pk-q"))
	return flags
}

// A key that is not listed is refused, in the shape of the API that was called, and nothing reaches the upstream.
func TestUnlistedKey(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, up, "", nil, keysOf(t))
	for _, path := range []string{chatPath, "/v1/responses", "/v1/messages", "/v1/models", "/v1/feedback"} {
		for name, h := range map[string]http.Header{
			"none": {}, "unlisted": bearer("pk-x"), "empty": bearer(""), "the upstream's": bearer("sk-up-a"),
			"the hash": bearer(sum("pk-a")), "basic": {"Authorization": {"Basic pk-a"}}, "x": {"X-Api-Key": {"pk-x"}},
		} {
			res, b := r.send(t, "POST", path, h, `{"session_id":"s","source":"user","type":"approval"}`)
			if res.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s, key %s: %d", path, name, res.StatusCode)
			}
			checkShape(t, path, b)
		}
	}
	if n := up.count(); n != 0 {
		t.Errorf("%d requests reached the upstream", n)
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
		t.Errorf("%s: no error of ours: %s", path, body)
		return
	}
	if anthropic := strings.Contains(path, "/messages"); anthropic != (e.Type == "error") || anthropic == (e.Error.Code != "") {
		t.Errorf("%s: the wrong shape: %s", path, body)
	}
}

// The tenant and the agent are the key's, and the upstream gets its own key where the client had put ours.
func TestKeys(t *testing.T) {
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
					t.Errorf("%s, %s: the upstream got %s %q, not %q", c.name, path, name, got, want)
				}
			}
		}
	}
	r.send(t, "POST", chatPath+"?x=1&key=pk-a&y=%20z", nil, body)
	if got := up.last(t); got.uri != chatPath+"?x=1&key=sk-up-a&y=%20z" || got.header.Get("Authorization") != "" {
		t.Errorf("a key in the query became %s, %v", got.uri, got.header)
	}
	r.chat(t, bearer("pk-a", "Precept-Session", "s", "Precept-Agent", "forged", "User-Agent", "x/1"), body)
	r.chat(t, bearer("pk-b", "Precept-Session", "s", "Precept-Agent", "mine"), body)
	got := kept(t, r, "s")
	for tenant, agent := range map[string]string{"team-a": "coder", "team-b": "mine"} {
		if xs := got[tenant]; len(xs) != 1 || xs[0].Agent != agent || xs[0].Tenant != tenant {
			t.Errorf("%s keeps %v", tenant, xs)
		}
	}
	checkDisk(t, r, "pk-a", "pk-b", "sk-up-a", "sk-up-b")
}

// learn: off keeps nothing, and lessons are given nevertheless.
func TestKeyThatIsNotLearnedFrom(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, up, "", bookOf(t, "one: alpha"), keysOf(t))
	r.chat(t, bearer("pk-q", "Precept-Session", "quiet-name"), `{"messages":[{"role":"user","content":"alpha zanzibar"}]}`)
	if !strings.Contains(string(up.last(t).body), "[one]") {
		t.Error("no lesson was given")
	}
	for tenant, xs := range kept(t, r, "quiet-name") {
		if len(xs) > 0 {
			t.Errorf("%s keeps %v", tenant, xs)
		}
	}
	checkDisk(t, r, "zanzibar", "quiet-name", "team-q")
}

// Who pays is told by the key alone: no header, path or body under one key's name leads to another's (R108).
func TestForgedTenant(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, up, "", nil, keysOf(t))
	h := bearer("pk-a", "Precept-Session", "s")
	for _, name := range []string{"Precept-Tenant", "X-Tenant", "X-Tenant-Id", "Openai-Organization", "Openai-Project", "X-Organization", "X-Precept-Tenant", "X-Forwarded-User", "X-Forwarded-For"} {
		h.Set(name, "team-b")
	}
	h.Set("X-Api-Key", "pk-b") // a second credential beside the one that counts
	for i, path := range []string{chatPath, "/p/agent=team-b,tenant=team-b" + chatPath, chatPath + "?tenant=team-b&key=pk-b"} {
		res, b := r.send(t, "POST", path, h, fmt.Sprintf(`{"user":"team-b","tenant":"team-b","metadata":{"tenant":"team-b","user_id":"team-b"},"messages":[{"role":"user","content":"hi %d"}]}`, i))
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", path, res.StatusCode, b)
		}
	}
	got := kept(t, r, "s")
	if len(got) != 1 || len(got["team-a"]) != 3 {
		t.Errorf("kept %v", got)
	}
}

// A key with roles speaks for these alone: a role that it may not speak for is none.
func TestRolesOfAKey(t *testing.T) {
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
			who, ok := r.set.Load().identify(req)
			c := session.Identify(req.Header, chatPath, nil)
			who.claims(&c)
			if !ok || c.Role != role2 {
				t.Errorf("%s as %s speaks for %q", key, role, c.Role)
			}
		}
	}
}
