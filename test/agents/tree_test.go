package agents

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"precept/test/harness"
)

// branchingChat is an agent that continues one conversation in several directions.
type branchingChat struct {
	t        *testing.T
	sender   string
	url      func() string
	list     []harness.Object
	mu       sync.Mutex
	requests map[string]int // request count by session
}

// ask sends the messages in list, with additional fields in the request. It returns the message in each choice of the
// reply.
func (c *branchingChat) ask(list []harness.Object, fields harness.Object) []harness.Object {
	c.t.Helper()
	body := harness.Object{"model": "m", "messages": list, "tools": []harness.Object{{"type": "function", "function": harness.Object{"name": "bash"}}}}
	maps.Copy(body, fields)
	raw, _ := json.Marshal(body)
	status, reply, name := postAsSender(c.t, c.url()+"/v1/chat/completions", c.sender, string(raw))
	var got struct {
		Choices []struct {
			Message harness.Object `json:"message"`
		} `json:"choices"`
	}
	if err := json.Unmarshal([]byte(reply), &got); status != http.StatusOK || err != nil || len(got.Choices) == 0 {
		c.t.Errorf("%s: got status %d, reply %s, want 200 and at least one choice", c.sender, status, reply)
		return []harness.Object{{}}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests[name]++
	var out []harness.Object
	for _, c := range got.Choices {
		out = append(out, c.Message)
	}
	return out
}

// withAnswer returns list with the answer appended, and for each call in the answer a message with result.
func withAnswer(list []harness.Object, answer harness.Object, result string) []harness.Object {
	list = append(append([]harness.Object{}, list...), answer)
	calls, _ := answer["tool_calls"].([]any)
	for _, c := range calls {
		call, _ := c.(map[string]any)
		list = append(list, harness.Object{"role": "tool", "tool_call_id": call["id"], "content": result})
	}
	return list
}

// newManyAnswersModel starts a model that returns the requested number of choices, each with a different call.
func newManyAnswersModel(t *testing.T, inspect func(sender, body string)) *httptest.Server {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			N int `json:"n"`
		}
		raw, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(raw, &body)
		inspect(r.Header.Get("X-Who"), string(raw))
		var choices []harness.Object
		for i := range max(body.N, 1) {
			choices = append(choices, harness.Object{"index": i, "finish_reason": "tool_calls", "message": harness.Object{"role": "assistant", "content": nil, "tool_calls": []harness.Object{
				{"id": "call_" + harness.RandomHex(10), "type": "function", "function": harness.Object{"name": "bash", "arguments": `{"command":"ls ` + harness.RandomHex(2) + `"}`}},
			}}})
		}
		harness.ReplyJSON(w, http.StatusOK, harness.Object{"id": "chatcmpl-" + harness.RandomHex(10), "object": "chat.completion", "choices": choices})
	}))
	t.Cleanup(upstream.Close)
	return upstream
}

// Fifty conversations begin at the same time with the same message. Each then branches, as agents with tree search do.
func TestBranchingConversationIsOneSession(t *testing.T) {
	shapes := map[string]func(c *branchingChat, i int, turn int){
		"one request with three choices": func(c *branchingChat, i, _ int) {
			choices := c.ask(c.list, harness.Object{"n": 3})
			c.list = withAnswer(c.list, choices[i%len(choices)], "ok")
		},
		"three equal requests at once": func(c *branchingChat, i, turn int) {
			if turn == 0 {
				c.list = withAnswer(c.list, c.ask(c.list, nil)[0], "ok")
				return
			}
			answers := make([]harness.Object, 3)
			var wg sync.WaitGroup
			for n := range answers {
				wg.Go(func() { answers[n] = c.ask(c.list, harness.Object{"temperature": 1})[0] })
			}
			wg.Wait()
			c.list = withAnswer(c.list, answers[i%3], "ok")
		},
		"two branches in use": func(c *branchingChat, _, turn int) {
			answer := c.ask(c.list, nil)[0]
			if turn == 1 {
				other := withAnswer(c.list, answer, "the other way")
				for range 2 {
					other = withAnswer(other, c.ask(other, nil)[0], "further")
				}
			}
			c.list = withAnswer(c.list, answer, "ok")
		},
		"fork with a different user message": func(c *branchingChat, i, turn int) {
			if turn == 2 { // drops the messages after the first answer
				c.list = append(c.list[:4:4], harness.Object{"role": "user", "content": fmt.Sprint("No, try another way, number ", i%2)})
			}
			c.list = withAnswer(c.list, c.ask(c.list, nil)[0], "ok")
		},
		"resumed after a kill": func(c *branchingChat, _, _ int) { c.list = withAnswer(c.list, c.ask(c.list, nil)[0], "ok") },
	}
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) { runBranchingChats(t, shape, strings.Contains(name, "kill")) })
	}
}

// runBranchingChats sends four turns in each of fifty conversations, and checks that each conversation is one session
// with one lesson. With kill, the server is killed after two turns.
func runBranchingChats(t *testing.T, sendTurn func(c *branchingChat, i, turn int), kill bool) {
	t.Helper()
	var mu sync.Mutex
	faulty := map[string]int{}
	upstream := newManyAnswersModel(t, func(sender, body string) {
		mu.Lock()
		defer mu.Unlock()
		if strings.Count(body, taskSlug) != 1 {
			faulty[sender]++
		}
	})
	flags := harness.AlwaysInject(&harness.Model{Server: upstream}, harness.LessonDir(t))
	// After the kill, all conversations are looked up together. With the race detector this takes longer than the
	// default limit, and a late look-up would make the conversation count as new.
	flags = append(flags, "--limits-lookup-timeout", "10s")
	p := harness.Start(t, t.TempDir(), flags...)
	all := make([]*branchingChat, crowdSize)
	for i := range all {
		all[i] = &branchingChat{t: t, sender: fmt.Sprint("conversation ", i), url: func() string { return p.DataURL }, requests: map[string]int{}}
		all[i].list = []harness.Object{{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Look at the build script"}}
	}
	counted := map[string]int{}
	for turn := range 4 {
		if kill && turn == 2 {
			counted = readCounters(t, p)
			time.Sleep(500 * time.Millisecond) // requests older than 100 ms are stored
			p.Kill()
			p = harness.Start(t, p.Dir, p.Flags...)
		}
		var wg sync.WaitGroup
		for i, c := range all {
			wg.Go(func() { sendTurn(c, i, turn) })
		}
		wg.Wait()
	}
	owner := map[string]string{}
	for _, c := range all {
		if len(c.requests) != 1 {
			t.Errorf("%s: got sessions %v, want 1", c.sender, c.requests)
		}
		for name := range c.requests {
			if earlier := owner[name]; earlier != "" {
				t.Errorf("%s and %s share session %s", c.sender, earlier, name)
			}
			owner[name] = c.sender
		}
	}
	if len(faulty) > 0 {
		t.Errorf("requests without exactly one lesson, by conversation: got %v, want none", faulty)
	}
	got := readCounters(t, p)
	for name, want := range map[string]int{"precept_sessions_total": crowdSize, "precept_lessons_injected_total": crowdSize, "precept_sessions_excluded_total": 0} {
		if n := got[name] + counted[name]; n != want {
			t.Errorf("%s = %d, want %d", name, n, want)
		}
	}
}
