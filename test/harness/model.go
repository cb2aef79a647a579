package harness

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

// Step is one reply of the model: a call of the agent's shell tool if Command is set, and otherwise an answer.
type Step struct {
	Text    string
	Command string
	Tokens  int // prompt tokens that the model reports (0 means 100); a large number makes the agent shorten the history
}

// ModelRequest is a request for generated text that reached the model.
type ModelRequest struct {
	Kind   string // chat, responses, messages
	IsMain bool   // the request asks for the next step, not for a summary or a title
	Step   int    // index in the script, or -1 if IsMain is false
	Fault  *Fault // the fault that the model returned instead of an answer, or nil
	Header http.Header
	Body   map[string]any
	Raw    string
}

// Fault is a failure that the model returns instead of an answer. It applies to the main requests from FirstRequest to
// FirstRequest+Times-1, or with Overflow or RefuseLessons, to every request that meets this condition.
type Fault struct {
	Name                string
	FirstRequest, Times int
	Status              int
	Cut                 bool // start a stream and drop the connection
	Unfinished          bool // end a stream without a finish reason
	Hang                bool // start a stream and wait, at most a minute, until the client disconnects
	// With Overflow, the model refuses the history as too long from the third step on, until the agent sends a shorter
	// history or asks for a summary.
	Overflow      bool
	RefuseLessons bool // refuse each request that contains lessons
}

// Model is a scripted LLM for chat completions, responses and messages. Each reply contains a mark with the step
// number. The model answers a request with the step after the highest number in the request, so a retry gets the same
// answer, in whatever order the requests arrive.
type Model struct {
	*httptest.Server
	steps []Step
	// FormatCommand formats a command as answer text, for agents that offer no tools.
	FormatCommand func(command, text string) string

	Mu            sync.Mutex
	Requests      []ModelRequest
	otherRequests []string // method and path
	mainRequests  int
	Faults        []Fault

	overflow  overflow
	gathering gathering

	Hung         chan struct{}  // receives a value when a stream begins to hang
	Disconnected chan time.Time // receives the time when the client disconnects from a hanging stream
}

// overflow is the state of a test in which the agent must shorten a long history.
type overflow struct {
	reported  map[int]bool // steps for which the model has reported a long prompt
	tokens    int
	maxItems  int // number of items in the longest history
	shortened bool
}

// gathering makes requests wait until enough requests have arrived.
type gathering struct {
	wait  int // number of requests that have not arrived yet
	ready chan struct{}
}

// NewModel starts a server for a model that replies with the steps in order, and with the faults where they apply.
func NewModel(t *testing.T, steps []Step, faults ...Fault) *Model {
	t.Helper()
	m := &Model{steps: steps, Faults: faults, overflow: overflow{reported: map[int]bool{}}, Hung: make(chan struct{}, 1), Disconnected: make(chan time.Time, 1)}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

// LessonLabel is the first line of the block in which precept inserts lessons.
const LessonLabel = "Lessons from past experience:"

// StepMark matches a step mark, with the step number, in a request or a reply.
var StepMark = regexp.MustCompile(`step_(\d+)_[0-9a-f]{16}`)

// ServeHTTP implements http.Handler.
func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != "" { // after this refusal, an agent that asked for a websocket uses HTTP
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
		m.Mu.Lock()
		m.otherRequests = append(m.otherRequests, r.Method+" "+r.URL.Path)
		m.Mu.Unlock()
		if strings.HasSuffix(r.URL.Path, "/models") {
			ReplyJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{map[string]any{"id": "gpt-5-codex", "object": "model"}, map[string]any{"id": "mock-model", "object": "model"}}})
			return
		}
		ReplyJSON(w, http.StatusNotFound, map[string]any{"error": map[string]any{"message": "no such route", "type": "invalid_request_error"}})
		return
	}
	a := answer{kind: kind, body: body, text: "The user wants the build script run and its result reported; nothing was changed so far (" + RandomHex(4) + ").", stepMark: RandomHex(12), tokens: 100, hang: func() { m.hang(r.Context()) }}
	f := m.respond(&a, r, string(raw))
	m.waitForGathering(r.Context(), &a)
	if f != nil && f.Status != 0 {
		w.Header().Set("Retry-After", "1")
		ReplyJSON(w, f.Status, f.errorBody(kind))
		return
	}
	a.write(w, f)
}

// Gather makes the first n requests for step 0 wait until all n have arrived, at most a minute.
func (m *Model) Gather(n int) { m.gathering.wait, m.gathering.ready = n, make(chan struct{}) }

func (m *Model) waitForGathering(ctx context.Context, a *answer) {
	if m.gathering.ready == nil || !strings.HasPrefix(a.stepMark, "step_0_") {
		return
	}
	m.Mu.Lock()
	if m.gathering.wait--; m.gathering.wait == 0 {
		close(m.gathering.ready)
	}
	m.Mu.Unlock()
	select {
	case <-m.gathering.ready:
	case <-ctx.Done():
	case <-time.After(time.Minute):
	}
}

// errorBody returns the error in the words of the real API, because agents recognize by these words that the history is
// too long.
func (f *Fault) errorBody(kind string) any {
	text, code := "scripted fault", any(nil)
	switch {
	case f.Overflow && kind == "messages":
		text = "prompt is too long: 395000 tokens > 128000 maximum"
	case f.Overflow:
		text, code = "This model's maximum context length is 128000 tokens. However, your messages resulted in 395000 tokens. Please reduce the length of the messages.", "context_length_exceeded"
	}
	errorType := map[bool]string{true: "api_error", false: "invalid_request_error"}[f.Status >= 500]
	return map[string]any{"type": "error", "error": map[string]any{"type": errorType, "message": text, "code": code}}
}

func (m *Model) hang(ctx context.Context) {
	m.Hung <- struct{}{}
	select {
	case <-ctx.Done():
		m.Disconnected <- time.Now()
	case <-time.After(time.Minute):
	}
}

// respond fills in the answer, or returns the fault that the model returns instead.
func (m *Model) respond(a *answer, r *http.Request, raw string) *Fault {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	rec := ModelRequest{Kind: a.kind, Header: r.Header.Clone(), Body: a.body, Raw: raw, Step: -1}
	defer func() { m.Requests = append(m.Requests, rec) }()
	tools := requestTools(a.body)
	if a.asksForCompaction() {
		a.text, a.encryptedSummary = "", RandomHex(40)
		return nil
	}
	if len(tools) == 0 && m.FormatCommand == nil || a.asksForSummary() {
		m.overflow.shortened = true
		a.tokens = max(a.tokens, m.overflow.tokens) // a request for a summary contains the long history, so the model reports the same number of tokens
		return nil
	}
	rec.IsMain = true
	m.mainRequests++
	for _, f := range StepMark.FindAllStringSubmatch(raw, -1) {
		n, _ := strconv.Atoi(f[1])
		rec.Step = max(rec.Step, n)
	}
	rec.Step++
	n := len(rec.Items())
	m.overflow.shortened = m.overflow.shortened || n < m.overflow.maxItems
	m.overflow.maxItems = max(m.overflow.maxItems, n)
	s := m.steps[min(rec.Step, len(m.steps)-1)]
	mark := "step_" + strconv.Itoa(rec.Step) + "_" + RandomHex(8)
	a.text, a.stepMark = s.Text, mark
	if s.Tokens > 0 && !m.overflow.reported[rec.Step] { // a second report would make the agent shorten the history again
		m.overflow.reported[rec.Step], a.tokens, m.overflow.tokens = true, s.Tokens, s.Tokens
	}
	if m.FormatCommand != nil {
		a.text = m.FormatCommand(s.Command, s.Text+" ("+mark+")")
	} else if tool, ok := findShellTool(tools); ok && s.Command != "" {
		a.callID, a.tool, a.namespace = "call_"+mark, tool.name, tool.namespace
		a.args = tool.arguments(s.Command)
		if tool.code {
			a.code = "const r = await tools.exec_command({cmd: " + strconv.Quote(s.Command) + "});\ntext(r);"
		}
	} else {
		a.text += " (" + mark + ")"
	}
	for i := range m.Faults {
		f := &m.Faults[i]
		if f.Overflow && rec.Step >= 2 && !m.overflow.shortened || f.RefuseLessons && strings.Contains(raw, LessonLabel) {
			rec.Fault = f
			return f
		}
		if m.mainRequests >= f.FirstRequest && f.Times > 0 {
			f.Times--
			rec.Fault = f
			return f
		}
	}
	return nil
}

// GenerationRequests returns the generation requests that have reached the model.
func (m *Model) GenerationRequests() []ModelRequest {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	return append([]ModelRequest(nil), m.Requests...)
}

// OtherRequests returns the sorted methods and paths of the requests that do not ask for generated text. The paths are
// without the version /v1, because precept may have added it.
func (m *Model) OtherRequests() []string {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	var out []string
	for _, s := range m.otherRequests {
		out = append(out, strings.Replace(s, " /v1/", " /", 1))
	}
	slices.Sort(out)
	return out
}

// Items returns a request's messages or input items.
func (m *ModelRequest) Items() []any {
	if l, ok := m.Body["messages"].([]any); ok {
		return l
	}
	l, _ := m.Body["input"].([]any)
	return l
}

// RandomHex returns n random bytes in hexadecimal.
func RandomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

// ReplyJSON writes a response with v as JSON.
func ReplyJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

type tool struct {
	name, namespace string
	schema          map[string]any
	code            bool // the tool runs a program, as Codex's exec does
}

// requestTools returns the tools that a request offers. It understands the forms of all three APIs.
func requestTools(body map[string]any) []tool {
	var out []tool
	list, _ := body["tools"].([]any)
	input, _ := body["input"].([]any)
	for _, v := range input {
		if item, _ := v.(map[string]any); item["type"] == "additional_tools" {
			added, _ := item["tools"].([]any)
			list = append(list, added...)
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

func findShellTool(tools []tool) (tool, bool) {
	for _, name := range []string{"shell", "shell_command", "exec_command", "bash", "Bash", "run_shell_command", "execute_command", "run_commands", "run_command", "terminal"} {
		for _, t := range tools {
			if t.code || (t.name == name || strings.HasSuffix(t.name, "-"+name)) && t.schema != nil {
				return t, true
			}
		}
	}
	return tool{}, false
}

// arguments returns arguments for a call that runs a shell command, with a value for every required parameter.
func (t *tool) arguments(command string) map[string]any {
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
		if _, got := args[k]; got {
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

// CutDelay is the pause before a scripted stream drops the connection. In this time, the client can read the bytes that
// were written.
const CutDelay = 200 * time.Millisecond
