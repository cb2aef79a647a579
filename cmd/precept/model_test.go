package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// step is what the scripted model does next: call the agent's shell tool, or answer.
type step struct {
	Text    string
	Command string
	Tokens  int // what it says, once, that the prompt was long; 0 for little
}

// asked is one generation request as it reached the model.
type asked struct {
	kind   string // chat, responses, messages
	main   bool   // it offers tools
	step   int
	fault  *fault // what it got instead of an answer
	header http.Header
	body   map[string]any
	raw    string
}

// fault is what the model does wrong, so many times, from the at-th main request on.
type fault struct {
	name      string
	at, times int
	status    int
	cut       bool // begins a stream and drops the connection
	nothing   bool // begins a stream and ends it without a finish
	hang      bool // begins a stream and is silent until the client is gone
	// overflow: the history is too long from the third step on, until the agent asks for a summary
	// or sends a shorter one
	overflow bool
	strict   bool // refuses what holds a block
}

// model is a scripted LLM: chat completions, responses and messages, streamed or not. The step is
// read from the request itself (the highest step_N in it), so that a retry gets the same answer and
// nothing depends on the order of arrival.
type model struct {
	*httptest.Server
	steps []step
	form  func(command, text string) string // how calls stand in the answers of an agent that offers no tools

	mu     sync.Mutex
	asked  []asked
	others []string // method and path of what was no generation request
	mains  int
	faults []fault
	told   map[int]bool // steps that have said how long their prompt was
	long   int          // what the last of them said
	most   int          // items in the longest list
	short  bool         // the agent has done something about its length

	wait  int           // how many first requests are still to come before the first is answered
	ready chan struct{} // closed when they have

	hung chan struct{}  // gets a value when a stream begins to hang
	gone chan time.Time // and when its client is gone
}

func newModel(t *testing.T, steps []step, faults ...fault) *model {
	t.Helper()
	m := &model{steps: steps, faults: faults, told: map[int]bool{}, hung: make(chan struct{}, 1), gone: make(chan time.Time, 1)}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

var stepMark = regexp.MustCompile(`step_(\d+)_[0-9a-f]{16}`)

// ServeHTTP implements http.Handler.
func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != "" { // as an API without websockets does; agents then speak HTTP
		w.WriteHeader(http.StatusUpgradeRequired)
		return
	}
	raw, _ := io.ReadAll(r.Body)
	kind := ""
	for _, k := range []string{"chat/completions", "responses", "messages"} {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/"+k) {
			kind = strings.TrimSuffix(k, "/completions")
		}
	}
	var body map[string]any
	if kind == "" || json.Unmarshal(raw, &body) != nil {
		m.mu.Lock()
		m.others = append(m.others, r.Method+" "+r.URL.Path)
		m.mu.Unlock()
		if strings.HasSuffix(r.URL.Path, "/models") {
			replyJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{map[string]any{"id": "gpt-5-codex", "object": "model"}, map[string]any{"id": "mock-model", "object": "model"}}})
			return
		}
		replyJSON(w, http.StatusNotFound, map[string]any{"error": map[string]any{"message": "no such route", "type": "invalid_request_error"}})
		return
	}
	a := answer{kind: kind, body: body, text: "The user wants the build script run and its result told; nothing was changed so far (" + random(4) + ").", mark: random(12), tokens: 100, hang: func() { m.hang(r.Context()) }}
	f := m.note(&a, r, string(raw))
	m.held(r.Context(), &a)
	if f != nil && f.status != 0 {
		w.Header().Set("Retry-After", "1")
		replyJSON(w, f.status, f.said(kind))
		return
	}
	a.write(w, f)
}

// gather has the first requests wait for each other, so many of them.
func (m *model) gather(n int) { m.wait, m.ready = n, make(chan struct{}) }

func (m *model) held(ctx context.Context, a *answer) {
	if m.ready == nil || !strings.HasPrefix(a.mark, "step_0_") {
		return
	}
	m.mu.Lock()
	if m.wait--; m.wait == 0 {
		close(m.ready)
	}
	m.mu.Unlock()
	select {
	case <-m.ready:
	case <-ctx.Done():
	case <-time.After(time.Minute):
	}
}

// said is the body of a refusal, in the API's own words where agents read them.
func (f *fault) said(kind string) any {
	text, code := "scripted fault", any(nil)
	switch {
	case f.overflow && kind == "messages":
		text = "prompt is too long: 395000 tokens > 128000 maximum"
	case f.overflow:
		text, code = "This model's maximum context length is 128000 tokens. However, your messages resulted in 395000 tokens. Please reduce the length of the messages.", "context_length_exceeded"
	}
	kindOf := map[bool]string{true: "api_error", false: "invalid_request_error"}[f.status >= 500]
	return map[string]any{"type": "error", "error": map[string]any{"type": kindOf, "message": text, "code": code}}
}

// hang lasts until the client is gone.
func (m *model) hang(ctx context.Context) {
	m.hung <- struct{}{}
	select {
	case <-ctx.Done():
		m.gone <- time.Now()
	case <-time.After(time.Minute):
	}
}

// note records a request and decides what it gets.
func (m *model) note(a *answer, r *http.Request, raw string) *fault {
	m.mu.Lock()
	defer m.mu.Unlock()
	rec := asked{kind: a.kind, header: r.Header.Clone(), body: a.body, raw: raw, step: -1}
	defer func() { m.asked = append(m.asked, rec) }()
	tools := toolsOf(a.body)
	if a.compacts() {
		a.text, a.sealed = "", random(40)
		return nil
	}
	if len(tools) == 0 && m.form == nil || a.summarises() {
		m.short = true
		a.tokens = max(a.tokens, m.long) // the summary of a long history was asked for with a long prompt
		return nil
	}
	rec.main = true
	m.mains++
	for _, f := range stepMark.FindAllStringSubmatch(raw, -1) {
		n, _ := strconv.Atoi(f[1])
		rec.step = max(rec.step, n)
	}
	rec.step++
	n := len(rec.list())
	m.short = m.short || n < m.most
	m.most = max(m.most, n)
	s := m.steps[min(rec.step, len(m.steps)-1)]
	mark := "step_" + strconv.Itoa(rec.step) + "_" + random(8)
	a.text, a.mark = s.Text, mark
	if s.Tokens > 0 && !m.told[rec.step] { // once, or an agent would shorten its history for ever
		m.told[rec.step], a.tokens, m.long = true, s.Tokens, s.Tokens
	}
	if m.form != nil {
		a.text = m.form(s.Command, s.Text+" ("+mark+")")
	} else if tool, ok := shellOf(tools); ok && s.Command != "" {
		a.callID, a.tool, a.namespace = "call_"+mark, tool.name, tool.namespace
		a.args = tool.fill(s.Command)
		if tool.code {
			a.code = "const r = await tools.exec_command({cmd: " + strconv.Quote(s.Command) + "});\ntext(r);"
		}
	} else {
		a.text += " (" + mark + ")"
	}
	for i := range m.faults {
		f := &m.faults[i]
		if f.overflow && rec.step >= 2 && !m.short || f.strict && strings.Contains(raw, lessonLabel) {
			rec.fault = f
			return f
		}
		if m.mains >= f.at && f.times > 0 {
			f.times--
			rec.fault = f
			return f
		}
	}
	return nil
}

func (m *model) all() []asked {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]asked(nil), m.asked...)
}

// otherRequests are method and path of what was no generation request, sorted. The version is left
// out: precept adds the upstream's own to a path that has none.
func (m *model) otherRequests() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for _, s := range m.others {
		out = append(out, strings.Replace(s, " /v1/", " /", 1))
	}
	slices.Sort(out)
	return out
}

// list is the conversation in a request.
func (a *asked) list() []any {
	if l, ok := a.body["messages"].([]any); ok {
		return l
	}
	l, _ := a.body["input"].([]any)
	return l
}

func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

func replyJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// tool is one that an agent offers.
type tool struct {
	name, namespace string
	schema          map[string]any
	code            bool // it takes a program that calls the other tools: Codex's exec
}

// toolsOf reads the tools at the top, and those that an item of the list holds.
func toolsOf(body map[string]any) []tool {
	var out []tool
	list, _ := body["tools"].([]any)
	input, _ := body["input"].([]any)
	for _, v := range input {
		if item, _ := v.(map[string]any); item["type"] == "additional_tools" {
			more, _ := item["tools"].([]any)
			list = append(list, more...)
		}
	}
	for _, v := range list {
		t, _ := v.(map[string]any)
		name, _ := t["name"].(string)
		switch f, _ := t["function"].(map[string]any); {
		case f != nil:
			name, _ = f["name"].(string)
			schema, _ := f["parameters"].(map[string]any)
			out = append(out, tool{name: name, schema: schema})
		case t["type"] == "namespace":
			subs, _ := t["tools"].([]any)
			for _, s := range subs {
				sub, _ := s.(map[string]any)
				n, _ := sub["name"].(string)
				schema, _ := sub["parameters"].(map[string]any)
				out = append(out, tool{name: n, namespace: name, schema: schema, code: sub["type"] == "custom" && n == "exec"})
			}
		case t["input_schema"] != nil:
			schema, _ := t["input_schema"].(map[string]any)
			out = append(out, tool{name: name, schema: schema})
		default:
			schema, _ := t["parameters"].(map[string]any)
			out = append(out, tool{name: name, schema: schema})
		}
	}
	return out
}

// shellOf finds the tool that runs a command, by the names that agents give it.
func shellOf(tools []tool) (tool, bool) {
	for _, name := range []string{"shell", "shell_command", "exec_command", "bash", "Bash", "run_shell_command", "execute_command", "run_commands", "run_command", "terminal"} {
		for _, t := range tools {
			if t.code || (t.name == name || strings.HasSuffix(t.name, "-"+name)) && t.schema != nil {
				return t, true
			}
		}
	}
	return tool{}, false
}

// fill makes arguments by the tool's own schema.
func (t *tool) fill(command string) map[string]any {
	props, _ := t.schema["properties"].(map[string]any)
	args := map[string]any{}
	for _, k := range []string{"command", "cmd", "commands", "script"} {
		p, ok := props[k].(map[string]any)
		if !ok {
			continue
		}
		args[k] = command
		if p["type"] == "array" {
			args[k] = []string{"bash", "-lc", command}
			if k == "commands" {
				args[k] = []string{command}
			}
		}
		break
	}
	required, _ := t.schema["required"].([]any)
	for _, v := range required {
		k, _ := v.(string)
		if _, have := args[k]; have {
			continue
		}
		p, _ := props[k].(map[string]any)
		switch p["type"] {
		case "boolean":
			args[k] = false
		case "number", "integer":
			args[k] = 10000
		case "array":
			args[k] = []any{}
		default:
			args[k] = "run the step"
		}
	}
	return args
}

// waitFor is how long a scripted stream waits before it drops the connection, so that what it wrote
// arrives and is read.
const waitFor = 200 * time.Millisecond
