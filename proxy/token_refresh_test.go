package proxy_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// jwt returns a token with an invented signature. In tokens with different issue times, only the issuer and the subject
// are equal.
func jwt(issuer, subject string, issued int) string {
	part := func(v any) string { b, _ := json.Marshal(v); return base64.RawURLEncoding.EncodeToString(b) }
	return part(obj{"alg": "RS256", "kid": fmt.Sprint("k", issued)}) + "." +
		part(obj{"iss": issuer, "sub": subject, "iat": issued, "exp": issued + 3600, "jti": fmt.Sprint("id-", issued)}) + "." +
		part(fmt.Sprint("signature ", issued))
}

func parseMessages(t *testing.T, body []byte) []json.RawMessage {
	t.Helper()
	var v struct{ Messages []json.RawMessage }
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	return v.Messages
}

// Forty agents send no session header, and change their tokens after three turns. The lessons stay in the messages of
// the first turn.
func TestRefreshedTokenKeepsSession(t *testing.T) {
	const conversations, turns, turnsPerToken = 40, 5, 3
	opaque := func(owner, issued int) string { return fmt.Sprintf("ya29.a0AfH6SM-%d-%d", owner, issued) }
	signed := func(owner, issued int) string {
		return jwt("https://login.example", fmt.Sprint("user-", owner), issued)
	}
	for name, tc := range map[string]struct {
		model   http.HandlerFunc
		tenancy string
		shared  bool // all agents share one token
		token   func(owner, issued int) string
	}{
		"opaque tokens, random call ids":                      {callingModel(), "single", false, opaque},
		"shared opaque token, random call ids":                {callingModel(), "single", true, opaque},
		"opaque tokens, sequential call ids":                  {sequentialCallsModel, "single", false, opaque},
		"signed tokens, random call ids":                      {callingModel(), "single", false, signed},
		"signed tokens, sequential call ids":                  {sequentialCallsModel, "single", false, signed},
		"signed tokens, random call ids, by-credential":       {callingModel(), "by-credential", false, signed},
		"signed tokens, sequential call ids, by-credential":   {sequentialCallsModel, "by-credential", false, signed},
		"shared signed token, random call ids, by-credential": {callingModel(), "by-credential", true, signed},
	} {
		t.Run(name, func(t *testing.T) {
			up := newUpstream(t, tc.model)
			f := newFixture(t, up, "", newBook(t, "one: build", "two: build"), map[string]string{
				"tenancy": tc.tenancy, "bandit.objective": "all", "bandit.epsilon": "0.5", "bandit.control": "0",
			})
			agents, sessions, sent := make([]*agent, conversations), make([]string, conversations), make([][]byte, conversations)
			for turn := range turns {
				for i := range agents {
					if turn == 0 {
						agents[i] = newAgent(fmt.Sprintf("Fix the build of part %d.", i))
					}
					owner := i
					if tc.shared {
						owner = 0
					}
					res, reply := f.send(t, "POST", chatPath, bearerHeader(tc.token(owner, turn/turnsPerToken)), agents[i].body())
					before := sent[i]
					sent[i] = up.lastRequest(t).body
					if turn == 0 {
						sessions[i] = res.Header.Get("Precept-Session")
					} else {
						if got := res.Header.Get("Precept-Session"); got != sessions[i] {
							t.Fatalf("conversation %d, turn %d: session = %s, want %s", i, turn+1, got, sessions[i])
						}
						earlier, current := parseMessages(t, before), parseMessages(t, sent[i])
						for n := range earlier {
							if !bytes.Equal(earlier[n], current[n]) {
								t.Fatalf("turn %d: message %d = %s, want %s as in the previous turn", turn+1, n, current[n], earlier[n])
							}
						}
						for _, m := range current[len(earlier):] {
							if bytes.Contains(m, []byte("[one]")) {
								t.Fatalf("turn %d: body = %s, want no [one]", turn+1, m)
							}
							if bytes.Contains(m, []byte("[two]")) {
								t.Fatalf("turn %d: body = %s, want no [two]", turn+1, m)
							}
						}
					}
					agents[i].addCall(firstCallID(t, reply), "ls", fmt.Sprintf("%d files", turn))
				}
			}
			if all := bytes.Join(sent, nil); !bytes.Contains(all, []byte("[one]")) {
				t.Error("the upstream received no conversation with lesson one")
			}
		})
	}
}

// A request that repeats an answer text continues a session only with the same credential, because a model can give the
// same answer to two users.
func TestAnswerTextIdentifiesSession(t *testing.T) {
	chatBody := func(list ...string) string {
		var messages []obj
		for i, text := range list {
			messages = append(messages, obj{"role": [...]string{"user", "assistant"}[i%2], "content": text})
		}
		b, _ := json.Marshal(obj{"model": "m-1", "messages": messages})
		return string(b)
	}
	const answerText = "The parser fails on nested lists because the stack is popped twice; remove one of both pops."
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, chatReply("chatcmpl-1", answerText))
	})
	f := newDefaultFixture(t, up)
	sessionFor := func(token string, list ...string) string {
		res, _ := f.send(t, "POST", chatPath, bearerHeader(token), chatBody(list...))
		return res.Header.Get("Precept-Session")
	}
	opaque := sessionFor("one", "Why does the parser fail?")
	if sessionFor("two", "Why does the parser fail?", answerText, "Thanks.") == opaque {
		t.Error("a different key continued the session")
	}
	if sessionFor("one", "Why does the parser fail?", answerText, "Thanks.") != opaque {
		t.Error("the same key started a new session")
	}
	signed := sessionFor(jwt("i", "s", 1), "Why does the lexer fail?")
	if sessionFor(jwt("i", "other", 2), "Why does the lexer fail?", answerText, "Thanks.") == signed {
		t.Error("a different subject continued the session")
	}
	if sessionFor(jwt("i", "s", 2), "Why does the lexer fail?", answerText, "Thanks.") != signed {
		t.Error("a refreshed token started a new session")
	}
}

func TestRetryWithNewTokenContinuesSession(t *testing.T) {
	up := newUpstream(t, nil)
	var refused atomic.Int64
	answer := callingModel()
	up.reply = func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.Header.Get("Authorization"), "expired") {
			refused.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		answer(w, r)
	}
	f := newDefaultFixture(t, up)
	a := newAgent("Fix it.")
	first, _ := f.send(t, "POST", chatPath, bearerHeader("expired"), a.body())
	second, reply := f.send(t, "POST", chatPath, bearerHeader("fresh"), a.body())
	if got, want := second.Header.Get("Precept-Session"), first.Header.Get("Precept-Session"); got != want {
		t.Errorf("retry = %q, want %q", got, want)
	} else if refused.Load() != 1 {
		t.Errorf("retry: refused = %d, want 1", refused.Load())
	}
	a.addCall(firstCallID(t, reply), "ls", "x")
	third, _ := f.send(t, "POST", chatPath, bearerHeader("fresh"), a.body())
	if got, want := third.Header.Get("Precept-Session"), first.Header.Get("Precept-Session"); got != want {
		t.Errorf("next turn: session = %s, want %s", got, want)
	}
	other, _ := f.send(t, "POST", chatPath, bearerHeader("somebody"), newAgent("Fix it.").body())
	if got := other.Header.Get("Precept-Session"); got == first.Header.Get("Precept-Session") {
		t.Errorf("different agent's equal first request: session = %s, want a new one", got)
	}
}

// A random id of a call, an item or a response occurs in one conversation only, so it identifies the session even with
// a different credential.
func TestRandomReplyIDIdentifiesSession(t *testing.T) {
	input := `{"type":"message","role":"user","content":"Fix it."}`
	for name, tc := range map[string]struct {
		path, reply, first, second string
	}{
		"Messages API call": {
			"/v1/messages",
			`{"id":"msg_01","type":"message","role":"assistant","content":[{"type":"tool_use","id":"toolu_01A09q90qw90lq917835lq9","name":"bash","input":{}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}}`,
			`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Fix it."}]}`,
			`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Fix it."},{"role":"assistant","content":[{"type":"tool_use","id":"toolu_01A09q90qw90lq917835lq9","name":"bash","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_01A09q90qw90lq917835lq9","content":"x"}]}]}`,
		},
		"Responses API item": {
			"/v1/responses",
			`{"id":"resp_1","object":"response","status":"completed","output":[{"type":"message","id":"msg_bc068d65db054a6d1a349360","role":"assistant","status":"completed","content":[{"type":"output_text","text":"ok"}]}]}`,
			`{"model":"m","input":[` + input + `]}`,
			`{"model":"m","input":[` + input + `,{"type":"item_reference","id":"msg_bc068d65db054a6d1a349360"},{"type":"message","role":"user","content":"Go on."}]}`,
		},
		"Responses API response": {
			"/v1/responses",
			`{"id":"resp_68a1","object":"response","status":"completed","output":[{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"ok"}]}]}`,
			`{"model":"m","input":[` + input + `]}`,
			`{"model":"m","previous_response_id":"resp_68a1","input":[{"type":"message","role":"user","content":"Go on."}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprint(w, tc.reply)
			})
			f := newDefaultFixture(t, up)
			one, _ := f.send(t, "POST", tc.path, http.Header{"X-Api-Key": {"sk-one"}}, tc.first)
			two, _ := f.send(t, "POST", tc.path, bearerHeader("another"), tc.second)
			if got, want := two.Header.Get("Precept-Session"), one.Header.Get("Precept-Session"); got != want {
				t.Errorf("second request = %q, want %q", got, want)
			} else if got == "" {
				t.Error("second request is empty")
			}
		})
	}
}

// For a key that is not a signed token, the whole key determines the tenant.
func TestTokenTenantIsIssuerAndSubject(t *testing.T) {
	up := newUpstream(t, callingModel())
	f := newFixture(t, up, "", nil, map[string]string{"tenancy": "by-credential"})
	for _, token := range []string{
		jwt("https://a.example", "one", 1), jwt("https://a.example", "one", 2), // the same tenant
		jwt("https://a.example", "two", 1), jwt("https://b.example", "one", 1),
		"opaque-1", "opaque-2", "a.b.c", jwt("", "one", 1), jwt("https://a.example", "", 1),
	} {
		f.chat(t, bearerHeader(token, "Precept-Session", "shared"), newAgent("Fix it.").body())
	}
	sizes := map[int]int{}
	for _, exchanges := range storedExchanges(t, f, "shared") {
		sizes[len(exchanges)]++
	}
	if sizes[2] != 1 {
		t.Errorf("tenants by exchange count: sizes[2] = %d, want 1", sizes[2])
	}
	if sizes[1] != 7 {
		t.Errorf("tenants by exchange count: sizes[1] = %d, want 7", sizes[1])
	}
}
