package proxy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// agent is a scripted agent. Like a real agent, it never sees the text that precept inserts.
type agent struct {
	list []any
}

type obj = map[string]any

func newAgent(task string) *agent {
	return &agent{list: []any{obj{"role": "system", "content": "Be careful."}, obj{"role": "user", "content": task}}}
}

func (a *agent) body() string {
	b, err := json.Marshal(obj{"model": "m-1", "messages": a.list, "tools": []any{obj{"type": "function", "function": obj{"name": "bash", "parameters": obj{}}}}})
	if err != nil {
		panic(err)
	}
	return string(b)
}

func (a *agent) addCall(callID, command, result string) {
	a.list = append(a.list,
		obj{"role": "assistant", "content": nil, "tool_calls": []any{obj{"id": callID, "type": "function", "function": obj{"name": "bash", "arguments": `{"command":` + jsonString(command) + `}`}}}},
		obj{"role": "tool", "tool_call_id": callID, "content": result})
}

func (a *agent) addUserMessage(text string) {
	a.list = append(a.list, obj{"role": "user", "content": text})
}

func jsonString(s string) string { b, _ := json.Marshal(s); return string(b) }

func callingModel() http.HandlerFunc {
	var n atomic.Int64
	return func(w http.ResponseWriter, _ *http.Request) {
		i := n.Add(1)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"chatcmpl-%d","model":"m-1","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[{"id":%q,"type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}}]}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`, i, randomCallID(i))
	}
}

func firstCallID(t *testing.T, reply []byte) string {
	t.Helper()
	id, err := findCall(reply)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// findCall works like firstCallID, but returns an error. Goroutines use findCall, because they must not call t.Fatal.
func findCall(reply []byte) (string, error) {
	var r struct {
		Choices []struct {
			Message struct {
				ToolCalls []struct {
					ID string `json:"id"`
				} `json:"tool_calls"`
			}
		}
	}
	if err := json.Unmarshal(reply, &r); err != nil || len(r.Choices) == 0 || len(r.Choices[0].Message.ToolCalls) == 0 {
		return "", fmt.Errorf("no tool call in reply %s", reply)
	}
	return r.Choices[0].Message.ToolCalls[0].ID, nil
}

// messagesJSON returns the message list without the closing bracket, so that a longer list begins with the same bytes.
func messagesJSON(t *testing.T, body []byte) string {
	t.Helper()
	var r struct{ Messages json.RawMessage }
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(r.Messages), "]")
}

// During the twenty turns, the agent gets three lessons and a loop warning, and the proxy restarts twice.
func TestTwentyTurnsExtendPreviousMessages(t *testing.T) {
	for _, named := range []bool{true, false} {
		t.Run(fmt.Sprint("named=", named), func(t *testing.T) {
			up := newUpstream(t, callingModel())
			book := newBook(t, "start: the build", "middle: no rule to make", "late: deploy it")
			dir := t.TempDir()
			f := newFixture(t, up, dir, book, injectAll())
			header := http.Header{"Authorization": {"Bearer k"}, "User-Agent": {"test/1"}}
			if named {
				header.Set("Precept-Session", "twenty")
			}
			a := newAgent("Please fix the build.")
			var previous, session string
			for turn := range 20 {
				if turn == 9 || turn == 15 {
					f.stop()
					f = newFixture(t, up, dir, book, injectAll())
				}
				if turn == 12 {
					a.addUserMessage("Now deploy it.")
				}
				res, reply := f.send(t, "POST", chatPath, header, a.body())
				if session == "" {
					session = res.Header.Get("Precept-Session")
				}
				if got := res.Header.Get("Precept-Session"); got != session {
					t.Fatalf("turn %d: session = %s, want %s", turn, got, session)
				}
				list := messagesJSON(t, up.lastRequest(t).body)
				if !strings.HasPrefix(list, previous) {
					t.Fatalf("turn %d: messages:\n%s\nwant prefix:\n%s", turn, list, previous)
				}
				previous = list
				result := fmt.Sprintf("line %d", turn)
				if turn >= 4 && turn <= 6 {
					result = "make: *** No rule to make target 'x'.  Stop.\nExit code 2"
				}
				a.addCall(firstCallID(t, reply), map[bool]string{true: "make x", false: fmt.Sprintf("cat f%d", turn)}[turn >= 4 && turn <= 6], result)
			}
			for _, want := range []string{"[start]", "[middle]", "[late]", "[LOOP DETECTED]", "[END LOOP DETECTED]"} {
				if n := strings.Count(previous, want); n != 1 {
					t.Errorf("last message list contains %s %d times, want once:\n%s", want, n, previous)
				}
			}
		})
	}
}

// A request that equals a failed earlier request is a retry, and continues the failed request's session.
func TestEqualFirstRequestsStartTwoSessions(t *testing.T) {
	var fail atomic.Bool
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		if fail.Load() {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		_, _ = io.WriteString(w, chatReply("chatcmpl-same", "the same"))
	})
	f := newDefaultFixture(t, up)
	sendMessage := func(text string) string {
		res, _ := f.send(t, "POST", chatPath, nil, fmt.Sprintf(`{"messages":[{"role":"user","content":%q}]}`, text))
		return res.Header.Get("Precept-Session")
	}
	if a, b := sendMessage("hi"), sendMessage("hi"); a == b {
		t.Errorf("both first requests have session %q, want two sessions", a)
	} else if !strings.HasPrefix(a, "s_") {
		t.Errorf(`session = %q, want prefix "s_"`, a)
	}
	for i := range 100 { // the failed request may not be recorded yet
		text := fmt.Sprint("hi ", i)
		fail.Store(true)
		a := sendMessage(text)
		fail.Store(false)
		if b := sendMessage(text); a != b {
			t.Fatalf("attempt %d: retry session = %s, want %s as in the failed first request", i, b, a)
		}
	}
	res, _ := f.send(t, "POST", "/p/session=%00%0d%0a..%2f..%2fetc/v1/chat/completions", nil, `{"messages":[{"role":"user","content":"hi"}]}`)
	if s := res.Header.Get("Precept-Session"); strings.ContainsAny(s, "\r\n\x00") || len(s) > 256 {
		t.Errorf("session name = %q, want at most 256 plain bytes", s)
	}
}

func TestRejectedInjectionIsRetriedWithOriginalBody(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if bytes.Contains(b, []byte("[one]")) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"message":"too clever"}}`)
			return
		}
		_, _ = io.WriteString(w, chatReply("c", "ok"))
	})
	f := newFixture(t, up, "", newBook(t, "one: alpha"), injectAll())
	body := `{"messages":[{"role":"user","content":"alpha"}]}`
	header := http.Header{"Precept-Session": {"s"}}
	f.chat(t, header, body)
	if n := up.requestCount(); n != 2 {
		t.Errorf("requests = %d, want 2", n)
	} else if string(up.lastRequest(t).body) != body {
		t.Errorf("the upstream: body = %q, want %q", string(up.lastRequest(t).body), body)
	}
	f.chat(t, header, `{"messages":[{"role":"user","content":"alpha"},{"role":"assistant","content":"ok"},{"role":"user","content":"alpha again"}]}`)
	if n := up.requestCount(); n != 3 {
		t.Errorf("requests = %d, want 3", n)
	}
}

func TestInjectOffHeaderSkipsLessons(t *testing.T) {
	up := newUpstream(t, nil)
	flags := injectAll()
	flags["debug_headers"] = "true"
	f := newFixture(t, up, "", newBook(t, "one: alpha"), flags)
	body := `{"messages":[{"role":"user","content":"alpha"}]}`
	res, _ := f.send(t, "POST", chatPath, http.Header{"Precept-Inject": {"off"}}, body)
	if string(up.lastRequest(t).body) != body {
		t.Errorf("with Precept-Inject: body = %q, want %q", string(up.lastRequest(t).body), body)
	}
	if res.Header.Get("Precept-Skip") != "off" {
		t.Errorf(`with Precept-Inject: Precept-Skip = %q, want "off"`, res.Header.Get("Precept-Skip"))
	}
	res, _ = f.send(t, "POST", chatPath, nil, body)
	if res.Header.Get("Precept-Lessons") != "one" {
		t.Errorf("Precept-Lessons = %q, want \"one\"", res.Header.Get("Precept-Lessons"))
	}
	want := `{"messages":[{"role":"user","content":"Lessons from past experience:\n(Advice from earlier runs, not a request from the user. Ignore what does not apply.)\n- [one] Follow one\n  | Do as one says.\nEnd of lessons.\n\nalpha"}]}`
	if got := string(up.lastRequest(t).body); got != want {
		t.Errorf("the upstream got\n%s\nwant\n%s", got, want)
	}
}

// Feedback before the session's first request is "parked", and later feedback "joined". No secret or email address may
// be on disk.
func TestFeedbackIsJoinedByEachID(t *testing.T) {
	up := newUpstream(t, nil)
	flags := injectAll()
	flags["reward.close_after"] = "300ms"
	f := newFixture(t, up, "", newBook(t, "one: alpha"), flags)
	post := func(body string) (int, map[string]any) {
		res, b := f.send(t, "POST", "/v1/feedback", nil, body)
		var m map[string]any
		_ = json.Unmarshal(b, &m)
		return res.StatusCode, m
	}
	if code, m := post(`{"id":"early","session_id":"fb","source":"user","type":"score","score":1}`); code != 202 {
		t.Errorf("feedback before its session: code = %d, want 202", code)
	} else if m["status"] != "parked" {
		t.Errorf(`feedback before its session: m["status"] = %v, want "parked"`, m["status"])
	}
	res, _ := f.send(t, "POST", chatPath, http.Header{"Precept-Session": {"fb"}}, `{"messages":[{"role":"user","content":"alpha, write to jane.doe@example.org with sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"}]}`)
	id := res.Header.Get("Precept-Request-Id")
	for _, idMember := range []string{`"session_id":"fb"`, `"request_id":"` + id + `"`, `"response_id":"chatcmpl-1"`} {
		if code, m := post(`{"id":"f",` + idMember + `,"source":"user","type":"approval","comment":"mail me at joe@example.org"}`); code != 202 {
			t.Errorf("feedback by %s: code = %d, want 202", idMember, code)
		} else if m["status"] != "joined" {
			t.Errorf(`feedback by %s: m["status"] = %v, want "joined"`, idMember, m["status"])
		} else if m["session_id"] != "fb" {
			t.Errorf(`feedback by %s: m["session_id"] = %v, want "fb"`, idMember, m["session_id"])
		}
	}
	for _, bad := range []string{`{}`, `{"session_id":"fb","source":"user","type":"approval","extra":1}`, `{"session_id":"fb","response_id":"x","source":"user","type":"approval"}`, `{"session_id":"fb","source":"user","type":"score","score":2}`, `nonsense`} {
		if code, m := post(bad); code != 400 {
			t.Errorf("invalid feedback %s: got status %d, body %v, want status 400", bad, code, m)
		}
	}
	if code, _ := post(`{"sample_id":"9b2d0e62-0f39-4d5c-8d5d-0a5ba4a3f3c1","source":"user","type":"approval"}`); code != 404 {
		t.Errorf("feedback for an unknown sample: got status %d, want 404", code)
	}
	_, b := f.send(t, "POST", "/v1/feedback", nil, `[{"session_id":"fb","source":"user","type":"approval"},{"session_id":"fb"}]`)
	var bulk []map[string]any
	if err := json.Unmarshal(b, &bulk); err != nil {
		t.Error(err)
	} else if len(bulk) != 2 {
		t.Errorf("one valid and one invalid entry: bulk = %+v, want 2 items", bulk)
	} else if bulk[0]["status"] != "joined" {
		t.Errorf(`one valid and one invalid entry: bulk[0]["status"] = %v, want "joined"`, bulk[0]["status"])
	} else if bulk[1]["error"] == nil {
		t.Error(`one valid and one invalid entry: bulk[1]["error"] = nil`)
	}
	eventually(t, func() bool { return f.learned.Samples.Load() > 0 && f.learned.Closed.Load() == 1 })
	f.stop()
	checkNotOnDisk(t, f, "jane.doe@example.org", "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD", "joe@example.org")
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("condition not met within a minute")
		}
	}
}

func TestLearnOffLeavesNothingOnDisk(t *testing.T) {
	up := newUpstream(t, callingModel())
	dir := t.TempDir()
	f := newFixture(t, up, dir, newBook(t, "one: alpha"), injectAll())
	f.chat(t, http.Header{"Precept-Session": {"quiet"}, "Precept-Learn": {"off"}}, `{"messages":[{"role":"user","content":"alpha zanzibar"}]}`)
	if !bytes.Contains(up.lastRequest(t).body, []byte("[one]")) {
		t.Errorf("request with learning off: the upstream got %s, want lesson one", up.lastRequest(t).body)
	}
	f.stop()
	checkNotOnDisk(t, f, "zanzibar", "quiet", "[one]")
}

// An unknown Precept-Learn value counts as off, and precept logs the value once.
func TestUnknownPreceptLearnValueStoresNothing(t *testing.T) {
	var log bytes.Buffer
	dir := t.TempDir()
	f := newFixture(t, newUpstream(t, callingModel()), dir, newBook(t, "one: alpha"), injectAll())
	f.Options().Log = slog.New(slog.NewTextHandler(&log, nil))
	for range 2 {
		f.chat(t, http.Header{"Precept-Session": {"quiet"}, "Precept-Learn": {"disabled"}}, `{"messages":[{"role":"user","content":"alpha zanzibar"}]}`)
	}
	f.stop()
	checkNotOnDisk(t, f, "zanzibar", "quiet", "[one]")
	if n := strings.Count(log.String(), "value=disabled"); n != 1 {
		t.Errorf("the log contains the value %d times, want once:\n%s", n, log.String())
	}
}

func TestSystemPlacementAppendsToSystemPrompt(t *testing.T) {
	up := newUpstream(t, nil)
	flags := injectAll()
	flags["inject.placement"] = "system"
	f := newFixture(t, up, "", newBook(t, "one: alpha"), flags)
	header := http.Header{"Precept-Session": {"s"}}
	for _, body := range []string{
		`{"messages":[{"role":"system","content":"Be good."},{"role":"user","content":"alpha"}]}`,
		`{"messages":[{"role":"system","content":"Be good."},{"role":"user","content":"alpha"},{"role":"assistant","content":"fine"},{"role":"user","content":"more"}]}`,
	} {
		f.chat(t, header, body)
		want := strings.Replace(body, "Be good.", `Be good.\n\nLessons from past experience:\n(Advice from earlier runs, not a request from the user. Ignore what does not apply.)\n- [one] Follow one\n  | Do as one says.\nEnd of lessons.`, 1)
		if got := string(up.lastRequest(t).body); got != want {
			t.Errorf("the upstream got\n%s\nwant\n%s", got, want)
		}
	}
}

func TestDetectLoopsFalseDisablesWarnings(t *testing.T) {
	up := newUpstream(t, callingModel())
	flags := injectAll()
	flags["detect.loops"] = "false"
	f := newFixture(t, up, "", nil, flags)
	a := newAgent("Fix it.")
	for range 4 {
		a.addCall(firstCallID(t, f.chat(t, nil, a.body())), "make x", "make: *** No rule to make target 'x'.\nExit code 2")
	}
	if got := string(up.lastRequest(t).body); strings.Contains(got, "LOOP DETECTED") {
		t.Errorf("with detect.loops false: the upstream got %s, want no LOOP DETECTED", got)
	}
}
