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

func bearerHeader(key string, pairs ...string) http.Header {
	h := http.Header{"Authorization": {"Bearer " + key}}
	for i := 0; i+1 < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

// storedExchanges stops the fixture, and returns a named session's exchanges by tenant.
func storedExchanges(t *testing.T, f *fixture, name string) map[string][]sample.Exchange {
	t.Helper()
	return storedExchangesIn(t, f, session.NamespaceSession, name)
}

// storedExchangesIn works like storedExchanges, but for a session name from another namespace, such as an agent's
// header.
func storedExchangesIn(t *testing.T, f *fixture, space session.Namespace, name string) map[string][]sample.Exchange {
	t.Helper()
	f.stop()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(f.dir, "precept.db"), Now: time.Now})
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
		x, err := db.Exchanges(t.Context(), tenant, session.NamedID(tenant, space, name))
		if err != nil {
			t.Fatal(err)
		}
		out[tenant] = x
	}
	return out
}

// sequentialCallsModel is a model with the same sequential call ids for all clients. The id is the number of messages.
func sequentialCallsModel(w http.ResponseWriter, r *http.Request) {
	var b struct{ Messages []json.RawMessage }
	_ = json.NewDecoder(r.Body).Decode(&b)
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":"chatcmpl-%[1]d","model":"m-1","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_%[1]d","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}}]}}]}`, len(b.Messages))
}

// In one tenant, sessions of clients with different keys stay separate, even if the clients send equal call ids.
func TestSingleTenancyHasOneTenant(t *testing.T) {
	up := newUpstream(t, sequentialCallsModel)
	f := newDefaultFixture(t, up)
	for _, key := range []string{"k-one", "k-two"} {
		f.chat(t, bearerHeader(key, "Precept-Session", "shared"), newAgent("Fix it.").body())
	}
	a := newAgent("Nameless.")
	res, reply := f.send(t, "POST", chatPath, bearerHeader("k-one"), a.body())
	a.addCall(firstCallID(t, reply), "ls", "x")
	sameKey, _ := f.send(t, "POST", chatPath, bearerHeader("k-one"), a.body())
	otherKey, _ := f.send(t, "POST", chatPath, bearerHeader("k-two"), a.body())
	if got := sameKey.Header.Get("Precept-Session"); got != res.Header.Get("Precept-Session") {
		t.Errorf("second request with the same key: session = %s, want %s", got, res.Header.Get("Precept-Session"))
	}
	if got := otherKey.Header.Get("Precept-Session"); got == res.Header.Get("Precept-Session") {
		t.Errorf("different key with the first reply's call id: session = %s, want a new one", got)
	}
	got := storedExchanges(t, f, "shared")
	if len(got) != 1 {
		t.Fatalf("got = %+v, want 1 item", got)
	}
	if len(got["default"]) != 2 {
		t.Errorf(`["default"] = %+v, want 2 exchanges`, got["default"])
	}
}

func TestCredentialTenancySeparatesEqualNames(t *testing.T) {
	up := newUpstream(t, sequentialCallsModel)
	f := newFixture(t, up, "", nil, map[string]string{"tenancy": "by-credential", "bandit.control": "0", "bandit.epsilon": "0", "bandit.objective": "all"})
	firstKey, secondKey := bearerHeader("k-one", "Precept-Session", "build"), bearerHeader("k-two", "Precept-Session", "build")
	failure := "make: *** No rule to make target 'x'.  Stop.\nExit code 2"
	firstAgent := newAgent("Fix the build.")
	for range 2 {
		firstAgent.addCall(firstCallID(t, f.chat(t, firstKey, firstAgent.body())), "make x", failure)
	}
	res, _ := f.send(t, "POST", chatPath, firstKey, firstAgent.body())
	if !strings.Contains(string(up.lastRequest(t).body), "[LOOP DETECTED]") {
		t.Fatalf("first key's third turn: the upstream got %s, want a loop warning", up.lastRequest(t).body)
	}
	secondAgent := newAgent("Fix the build.")
	secondAgent.addCall(firstCallID(t, f.chat(t, secondKey, secondAgent.body())), "make x", failure)
	secondResponse, _ := f.send(t, "POST", chatPath, secondKey, secondAgent.body())
	if strings.Contains(string(up.lastRequest(t).body), "[LOOP DETECTED]") {
		t.Error("a loop of the first key caused a warning for another key")
	}
	if res.Header.Get("Precept-Request-Id") == secondResponse.Header.Get("Precept-Request-Id") {
		t.Errorf("two requests have the same id %s", secondResponse.Header.Get("Precept-Request-Id"))
	}

	requestID := res.Header.Get("Precept-Request-Id")
	for _, idMember := range []string{`"session_id":"build"`, `"request_id":"` + requestID + `"`, `"response_id":"chatcmpl-6"`} {
		for key, want := range map[string]string{"k-one": "joined", "k-three": "parked"} {
			if status := postApproval(t, f, bearerHeader(key), idMember); status != want {
				t.Errorf("feedback by key %s with %s: status = %s, want %s", key, idMember, status, want)
			}
		}
	}
	if status := postApproval(t, f, bearerHeader("k-two"), `"request_id":"`+requestID+`"`); status != "parked" {
		t.Errorf("feedback with a different key's request id: status = %s, want parked", status)
	}
	got := storedExchanges(t, f, "build")
	if len(got) != 3 && len(got) != 2 {
		t.Errorf("got %d stored tenants, want 2 or 3", len(got))
	}
	var sizes []int
	for tenant, xs := range got {
		if !strings.HasPrefix(tenant, "t-") {
			t.Errorf(`stored tenant = %q, want prefix "t-"`, tenant)
		}
		if strings.Contains(tenant, "k-") {
			t.Errorf(`stored tenant = %q, want no "k-"`, tenant)
		}
		if len(xs) > 0 {
			sizes = append(sizes, len(xs))
		}
	}
	if len(sizes) != 2 {
		t.Fatalf("exchange counts by tenant: sizes = %v, want 2 items", sizes)
	}
	if sizes[0]+sizes[1] != 5 {
		t.Errorf("exchange counts by tenant: sizes[0]+sizes[1] = %d, want 5", sizes[0]+sizes[1])
	}
	checkNotOnDisk(t, f, "k-one", "k-two", "k-three")
}

// postApproval posts an approval, and returns the status: "joined" if the session is known, otherwise "parked".
func postApproval(t *testing.T, f *fixture, h http.Header, idMember string) string {
	t.Helper()
	res, body := f.send(t, "POST", "/v1/feedback", h, `{`+idMember+`,"source":"user","type":"approval"}`)
	var a struct{ Status string }
	if err := json.Unmarshal(body, &a); err != nil {
		t.Fatalf("feedback with %s: %v", idMember, err)
	} else if res.StatusCode != http.StatusAccepted {
		t.Fatalf("feedback with %s: status = %d, want 202, body %s", idMember, res.StatusCode, body)
	}
	return a.Status
}

// Fifty tenants use the same session names, call ids and texts, except for the canary, a word with the tenant's number.
func TestConcurrentTenantsDoNotMix(t *testing.T) {
	up := newUpstream(t, sequentialCallsModel)
	f := newFixture(t, up, "", newBook(t, "one: build"), map[string]string{"tenancy": "by-credential", "bandit.control": "0", "bandit.epsilon": "0", "bandit.objective": "all"})
	const tenants, turns = 50, 5
	c := client(t)
	var wg sync.WaitGroup
	for i := range tenants {
		for _, named := range []bool{true, false} {
			wg.Go(func() {
				h, task := bearerHeader(fmt.Sprintf("key-%d", i)), "Fix the build."
				if named {
					h.Set("Precept-Session", "build")
				} else {
					task = "Build it anew."
				}
				if err := converse(t, f, c, h, newAgent(fmt.Sprintf("%s canary-%d-", task, i)), turns); err != nil {
					t.Errorf("tenant %d: %v", i, err)
				}
			})
		}
	}
	wg.Wait()
	for _, s := range up.requests {
		key := strings.TrimPrefix(s.header.Get("Authorization"), "Bearer key-")
		ownCanaries := strings.Count(string(s.body), "canary-"+key+"-")
		if all := strings.Count(string(s.body), "canary-"); ownCanaries == 0 {
			t.Error("ownCanaries = 0, want at least 1")
		} else if ownCanaries != all {
			t.Errorf("ownCanaries = %d, want %d", ownCanaries, all)
		}
	}
	got := storedExchanges(t, f, "build")
	if len(got) != tenants {
		t.Errorf("got %d stored tenants, want %d", len(got), tenants)
	}
	for tenant, xs := range got {
		if len(xs) != turns {
			t.Errorf("tenant %s: got %d exchanges, want %d", tenant, len(xs), turns)
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
			t.Errorf("tenant %s: exchanges contain the canaries %v, want one", tenant, seen)
		}
	}
}

// converse returns an error, because a goroutine must not call t.Fatal.
func converse(t *testing.T, f *fixture, c *http.Client, h http.Header, a *agent, turns int) error {
	t.Helper()
	session := ""
	for turn := range turns {
		req, err := http.NewRequestWithContext(t.Context(), "POST", f.url+chatPath, strings.NewReader(a.body()))
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
			return fmt.Errorf("turn %d: read body: %w", turn, err)
		}
		if res.StatusCode != 200 {
			return fmt.Errorf("turn %d: got status %d, body %s, want status 200", turn, res.StatusCode, b)
		}
		if got := res.Header.Get("Precept-Session"); session != "" && got != session {
			return fmt.Errorf("turn %d: session = %s, want %s", turn, got, session)
		} else if session = got; session == "" {
			return fmt.Errorf("turn %d has no session", turn)
		}
		call, err := findCall(b)
		if err != nil {
			return fmt.Errorf("turn %d: %w", turn, err)
		}
		a.addCall(call, "ls", fmt.Sprint("line ", turn))
	}
	return nil
}
