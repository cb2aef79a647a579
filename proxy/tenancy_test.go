package proxy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/sqlite"
)

// bearer returns the headers of a client with the key.
func bearer(key string, more ...string) http.Header {
	h := http.Header{"Authorization": {"Bearer " + key}}
	for i := 0; i+1 < len(more); i += 2 {
		h.Set(more[i], more[i+1])
	}
	return h
}

// storedExchanges stops the fixture, and returns the stored exchanges of a named session by tenant.
func storedExchanges(t *testing.T, r *fixture, name string) map[string][]sample.Exchange {
	t.Helper()
	return storedExchangesIn(t, r, session.SpaceName, name)
}

// storedExchangesIn is like storedExchanges, for a session name from the source space, such as the header of an agent.
func storedExchangesIn(t *testing.T, r *fixture, space session.Space, name string) map[string][]sample.Exchange {
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
		x, err := db.Exchanges(t.Context(), tenant, session.KeyOf(tenant, space, name))
		if err != nil {
			t.Fatal(err)
		}
		out[tenant] = x
	}
	return out
}

// sameCalls answers each request with a tool call. The id of the call is the number of messages in the request, so that
// all clients get the same ids. Some model servers count the calls of each conversation in this way.
func sameCalls(w http.ResponseWriter, r *http.Request) {
	var b struct{ Messages []json.RawMessage }
	_ = json.NewDecoder(r.Body).Decode(&b)
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":"chatcmpl-%[1]d","model":"m-1","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_%[1]d","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}}]}}]}`, len(b.Messages))
}

// With tenancy single, all clients are one tenant. A request with another key does not continue a session by an id that
// only counts calls.
func TestSingleTenancySharesOneTenant(t *testing.T) {
	up := newUpstream(t, sameCalls)
	r := newFixture(t, up, "", nil, nil)
	for _, key := range []string{"k-one", "k-two"} {
		r.chat(t, bearer(key, "Precept-Session", "shared"), newAgent("Fix it.").body())
	}
	a := newAgent("Nameless.")
	res, reply := r.send(t, "POST", chatPath, bearer("k-one"), a.body())
	a.addCall(firstCallID(t, reply), "ls", "x")
	same, _ := r.send(t, "POST", chatPath, bearer("k-one"), a.body())
	other, _ := r.send(t, "POST", chatPath, bearer("k-two"), a.body())
	if got := same.Header.Get("Precept-Session"); got != res.Header.Get("Precept-Session") {
		t.Errorf("the second request with the same key has session %s, want %s", got, res.Header.Get("Precept-Session"))
	}
	if got := other.Header.Get("Precept-Session"); got == res.Header.Get("Precept-Session") {
		t.Errorf("a request with another key and the call id of the first reply has session %s, want a new session", got)
	}
	got := storedExchanges(t, r, "shared")
	if len(got) != 1 || len(got["default"]) != 2 {
		t.Errorf("exchanges of %d tenants are stored, want 1; %d of the default tenant, want 2", len(got), len(got["default"]))
	}
}

// With tenancy by-credential, the same session name under two keys is two sessions with separate loops and feedback.
func TestCredentialTenancySeparatesEqualNames(t *testing.T) {
	up := newUpstream(t, sameCalls)
	r := newFixture(t, up, "", nil, map[string]string{"tenancy": "by-credential", "bandit.control": "0", "bandit.epsilon": "0", "bandit.objective": "all"})
	one, two := bearer("k-one", "Precept-Session", "build"), bearer("k-two", "Precept-Session", "build")
	fails := "make: *** No rule to make target 'x'.  Stop.\nExit code 2"
	a := newAgent("Fix the build.")
	for range 2 {
		a.addCall(firstCallID(t, r.chat(t, one, a.body())), "make x", fails)
	}
	res, _ := r.send(t, "POST", chatPath, one, a.body())
	if !strings.Contains(string(up.last(t).body), "[LOOP DETECTED]") {
		t.Fatalf("the third turn of the first key is %s at the upstream, want a loop warning", up.last(t).body)
	}
	b := newAgent("Fix the build.")
	b.addCall(firstCallID(t, r.chat(t, two, b.body())), "make x", fails)
	other, _ := r.send(t, "POST", chatPath, two, b.body())
	if strings.Contains(string(up.last(t).body), "[LOOP DETECTED]") {
		t.Error("a loop of one key causes a warning for another key, want no warning")
	}
	if res.Header.Get("Precept-Request-Id") == other.Header.Get("Precept-Request-Id") {
		t.Errorf("two requests have id %s, want two ids", other.Header.Get("Precept-Request-Id"))
	}

	mine := res.Header.Get("Precept-Request-Id") // the id of the response is chatcmpl-6, see sameCalls
	for _, by := range []string{`"session_id":"build"`, `"request_id":"` + mine + `"`, `"response_id":"chatcmpl-6"`} {
		for key, want := range map[string]string{"k-one": "joined", "k-three": "parked"} {
			if status := postAs(t, r, bearer(key), by); status != want {
				t.Errorf("feedback of %s by %s is %s, want %s", key, by, status, want)
			}
		}
	}
	if status := postAs(t, r, bearer("k-two"), `"request_id":"`+mine+`"`); status != "parked" {
		t.Errorf("feedback by another key's request id is %s, want \"parked\"", status)
	}
	got := storedExchanges(t, r, "build")
	if len(got) != 3 && len(got) != 2 {
		t.Errorf("the store has %d tenants, want 2 or 3", len(got))
	}
	var sizes []int
	for tenant, xs := range got {
		if !strings.HasPrefix(tenant, "t-") || strings.Contains(tenant, "k-") {
			t.Errorf("the store has tenant %q, want a name with t- that does not hold the key", tenant)
		}
		if len(xs) > 0 {
			sizes = append(sizes, len(xs))
		}
	}
	if len(sizes) != 2 || sizes[0]+sizes[1] != 5 {
		t.Errorf("the tenants with exchanges have %v exchanges, want two tenants with 5 in total", sizes)
	}
	checkDisk(t, r, "k-one", "k-two", "k-three")
}

// postAs posts an approval with the JSON member by, such as "session_id":"build", and returns the status of the
// feedback.
func postAs(t *testing.T, r *fixture, h http.Header, by string) string {
	t.Helper()
	res, b := r.send(t, "POST", "/v1/feedback", h, `{`+by+`,"source":"user","type":"approval"}`)
	var a struct{ Status string }
	if err := json.Unmarshal(b, &a); err != nil || res.StatusCode != http.StatusAccepted {
		t.Fatalf("feedback by %s: got status %d, body %s, want 202", by, res.StatusCode, b)
	}
	return a.Status
}

// Fifty concurrent tenants have equal session names and call ids. Their words are equal except for a canary, a text
// that names the tenant. A request at the upstream and the stored exchanges of a tenant contain the canary of this
// tenant only.
func TestConcurrentTenantsAreSeparate(t *testing.T) {
	up := newUpstream(t, sameCalls)
	r := newFixture(t, up, "", newBook(t, "one: build"), map[string]string{"tenancy": "by-credential", "bandit.control": "0", "bandit.epsilon": "0", "bandit.objective": "all"})
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
					t.Errorf("the conversation of tenant %d: got error %v, want none", i, err)
				}
			})
		}
	}
	wg.Wait()
	for _, s := range up.got {
		key := strings.TrimPrefix(s.header.Get("Authorization"), "Bearer key-")
		own := strings.Count(string(s.body), "canary-"+key+"-")
		if all := strings.Count(string(s.body), "canary-"); own == 0 || own != all {
			t.Errorf("a request of key %s contains %d canaries, %d of this key; want only those of this key, at least 1", key, all, own)
		}
	}
	got := storedExchanges(t, r, "build")
	if len(got) != tenants {
		t.Errorf("the store has %d tenants, want %d", len(got), tenants)
	}
	for tenant, xs := range got {
		if len(xs) != turns {
			t.Errorf("tenant %s has %d exchanges, want %d", tenant, len(xs), turns)
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
			t.Errorf("the exchanges of tenant %s contain the canaries of keys %v, want one key", tenant, seen)
		}
	}
}

// converse sends the turns of one agent. converse returns its error, because goroutines call it.
func converse(t *testing.T, r *fixture, c *http.Client, h http.Header, a *agent, turns int) error {
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
		if err != nil {
			return fmt.Errorf("turn %d: the body cannot be read: %w", turn, err)
		}
		if res.StatusCode != 200 {
			return fmt.Errorf("turn %d: got status %d, body %s, want status 200", turn, res.StatusCode, b)
		}
		if got := res.Header.Get("Precept-Session"); session != "" && got != session {
			return fmt.Errorf("turn %d is in session %s, want %s", turn, got, session)
		} else if session = got; session == "" {
			return fmt.Errorf("turn %d has no session, want one", turn)
		}
		call, err := findCall(b)
		if err != nil {
			return fmt.Errorf("turn %d: %w", turn, err)
		}
		a.addCall(call, "ls", fmt.Sprint("line ", turn))
	}
	return nil
}
