package sample

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"precept/internal/redact"

	"github.com/google/uuid"
)

// The outcomes of an exchange.
const (
	Complete   = "complete"
	Incomplete = "incomplete"        // the upstream's stream was cut
	Aborted    = "aborted_by_client" // the client closed the connection
	Failed     = "error"             // the upstream answered with an error
)

// Exchange is the stored, redacted form of the new part of one turn.
type Exchange struct {
	ID               string            `json:"id"` // UUID v4
	Tenant           string            `json:"tenant"`
	Agent            string            `json:"agent"`
	Session          string            `json:"session"`          // hex of session.ID
	SessionName      string            `json:"session_name"`     // name of the session, given by the client, or else by precept
	Run              string            `json:"run,omitempty"`    // name of the run, or of the parent session
	Caller           string            `json:"caller,omitempty"` // digest of the owner of the client's credential; "" means no credential
	RequestID        string            `json:"request_id"`
	Turn             int               `json:"turn"`
	At               time.Time         `json:"at"`
	Dialect          string            `json:"dialect"`
	Model            string            `json:"model"`
	Status           int               `json:"status"`
	Outcome          string            `json:"outcome"`  // Complete, Incomplete, Aborted or Failed
	New              []json.RawMessage `json:"new"`      // list items since the last turn, without the text that precept inserted
	FirstNew         int               `json:"new_from"` // index of the first item of New in the list
	Reply            Reply             `json:"reply"`
	Lessons          []Lesson          `json:"lessons,omitempty"`
	Loops            int               `json:"loops,omitempty"` // number of loops that precept noticed in this turn
	ResultJudgements *ResultJudgements `json:"verdicts,omitempty"`
	LatencyMS        float64           `json:"latency_ms"`
	FirstMS          float64           `json:"first_byte_ms"`
	Book             string            `json:"book,omitempty"`      // hash of the lessons in effect
	Config           string            `json:"config,omitempty"`    // hash of the configuration
	Redacted         map[string]int    `json:"redacted,omitempty"`  // number of replacements by kind
	Truncated        bool              `json:"truncated,omitempty"` // the capture reached its limit

	// System and Tools are the system prompt and the tools that the agent sent outside of its list. Only the first
	// exchange of a session has them, because the agent sends the same ones with every turn. A system prompt inside of
	// the list is in New.
	System    json.RawMessage `json:"-"`
	Tools     json.RawMessage `json:"-"`
	HasPrompt bool            `json:"prompt,omitempty"` // the stored items begin with System and Tools; set by Encode

	// Facts is stored in the row of the session instead of the exchange.
	Facts TurnFacts `json:"-"`

	// Repeated is the number of items at the start of New that repeat earlier replies of the session. It is not stored.
	Repeated int `json:"-"`

	sealed *Encoded // encoded form; set by Seal
}

// maxUncutTask is the length, in bytes, up to which a task is never cut off.
const maxUncutTask = 4 << 10

// TurnFacts holds facts about a turn that the lists of sessions show.
type TurnFacts struct {
	Task  string   // first words of the user; set at the first turn
	Tags  []string // tags that the client sent
	Kinds []string // kinds of the failed tool results
	Paths string   // OptOut.PathHash of the patterns that were applied to the exchange
}

// Lesson is the state, in a turn, of a lesson that matched, or of a section of a rules file whose coin was flipped.
type Lesson struct {
	Slug       string  `json:"slug"`
	Arm        string  `json:"arm"`
	State      string  `json:"state"` // matched | injected | withheld | control; for a section of a rules file: kept | cut
	Propensity float64 `json:"propensity,omitempty"`
}

// ResultJudgements records which tool results of New were judged to be errors during the turn. The close of the session
// uses the verdicts, because a second judgement would parse each result again. If Results differs from the number of
// results in New, New was cut at its limit after the judgement, and the verdicts do not apply.
type ResultJudgements struct {
	Results int   `json:"results"`          // number of tool results in New
	Failed  []int `json:"failed,omitempty"` // indices of the errors among the results, from 0
}

// Reply is the model's answer. A token count that the provider did not report is 0 or less.
type Reply struct {
	ID           string `json:"id,omitempty"`
	Text         string `json:"text,omitempty"`
	Calls        []Call `json:"calls,omitempty"`
	Finish       string `json:"finish,omitempty"`
	Error        string `json:"error,omitempty"`
	InputTokens  int    `json:"input_tokens,omitempty"`
	CachedTokens int    `json:"cached_tokens,omitempty"`
	OutputTokens int    `json:"output_tokens,omitempty"`
	Choices      int    `json:"choices,omitempty"` // number of choices if more than one; the first choice is stored
}

// Call is a tool call of the reply.
type Call struct {
	ID   string `json:"id,omitempty"`
	Name string `json:"name"`
	Args string `json:"args"`
}

// NewID returns a new exchange id, a UUID v4, made from the random source.
func NewID(random io.Reader) (string, error) {
	id, err := uuid.NewRandomFromReader(random)
	if err != nil {
		return "", fmt.Errorf("making an exchange id: %w", err)
	}
	return id.String(), nil
}

// Redact redacts every text of the exchange, and counts the replacements in Redacted. Items of New without a
// replacement keep their bytes.
func (e *Exchange) Redact(r *redact.Redactor) {
	r.DrainCounts()
	redactItem := r.JSON
	if e.FirstNew == 0 { // other sessions send the same system prompt and rules files
		redactItem = r.JSONCached
	}
	for _, text := range []*json.RawMessage{&e.System, &e.Tools} {
		if len(*text) > 0 {
			*text = r.JSONCached(nil, *text)
		}
	}
	for i, item := range e.New {
		e.New[i] = redactItem(nil, item)
	}
	redactText := r.Text
	if e.Truncated || e.Outcome == Incomplete || e.Outcome == Aborted { // the reply may end anywhere
		redactText = r.TruncatedText
	}
	for i := range e.Reply.Calls {
		call := &e.Reply.Calls[i]
		call.ID, call.Name, call.Args = r.Text(call.ID), r.Text(call.Name), redactText(call.Args)
	}
	e.Reply.Text = redactText(e.Reply.Text)
	e.Reply.Error = r.Text(e.Reply.Error)
	e.Model = r.Text(e.Model)
	e.Redacted = r.DrainCounts()
	redactTask := r.Text
	if len(e.Facts.Task) > maxUncutTask {
		redactTask = r.TruncatedText
	}
	e.Facts.Task = redactTask(e.Facts.Task) // not counted, because the task is also part of New
	for i, tag := range e.Facts.Tags {
		e.Facts.Tags[i] = r.Text(tag)
	}
}
