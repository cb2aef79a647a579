package sample

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"precept/internal/redact"

	"github.com/google/uuid"
)

// Exchange outcomes.
const (
	Complete   = "complete"
	Incomplete = "incomplete"        // the upstream's stream was cut
	Aborted    = "aborted_by_client" // the client closed the connection
	Failed     = "error"             // the upstream answered with an error
)

// Exchange is the stored, redacted form of one turn's new part.
type Exchange struct {
	ID               string            `json:"id"` // UUID v4
	Tenant           string            `json:"tenant"`
	Agent            string            `json:"agent"`
	Session          string            `json:"session"`          // session.ID in hex
	SessionName      string            `json:"session_name"`     // from the client, else from precept
	Run              string            `json:"run,omitempty"`    // name of the run or the parent session
	Caller           string            `json:"caller,omitempty"` // digest of the credential's owner; "" without a credential
	RequestID        string            `json:"request_id"`
	Turn             int               `json:"turn"`
	At               time.Time         `json:"at"`
	Dialect          string            `json:"dialect"`
	Model            string            `json:"model"`
	Status           int               `json:"status"`
	Outcome          string            `json:"outcome"`  // Complete, Incomplete, Aborted or Failed
	New              []json.RawMessage `json:"new"`      // list items since the last turn, without precept's text
	FirstNew         int               `json:"new_from"` // list index of the first item in New
	Reply            Reply             `json:"reply"`
	Lessons          []Lesson          `json:"lessons,omitempty"`
	Loops            int               `json:"loops,omitempty"` // loops found in this turn
	ResultJudgements *ResultJudgements `json:"verdicts,omitempty"`
	LatencyMS        float64           `json:"latency_ms"`
	FirstByteMS      float64           `json:"first_byte_ms"`
	Book             string            `json:"book,omitempty"`      // hash of the active lessons
	Config           string            `json:"config,omitempty"`    // hash of the configuration
	Redacted         map[string]int    `json:"redacted,omitempty"`  // replacements by kind
	Truncated        bool              `json:"truncated,omitempty"` // the capture reached its limit

	// System and Tools are the system prompt and the tool definitions, if the request has them outside the message
	// list. Only a session's first exchange has them, because the agent repeats them every turn.
	System    json.RawMessage `json:"-"`
	Tools     json.RawMessage `json:"-"`
	HasPrompt bool            `json:"prompt,omitempty"` // stored items begin with System and Tools; set by Encode

	// Facts is stored in the session's row, not with the exchange.
	Facts TurnFacts `json:"-"`

	// Repeated is how many items at the start of New repeat earlier replies. Repeated is not stored.
	Repeated int `json:"-"`

	sealed *Encoded // set by Seal
}

// maxUncutTask is the maximum length of a complete TurnFacts.Task, in bytes. A longer text was cut, possibly inside a
// secret.
const maxUncutTask = 4 << 10

// TurnFacts holds facts about a turn for session lists.
type TurnFacts struct {
	Task  string   // user's first words, at the first turn
	Tags  []string // tags from the client
	Kinds []string // kinds of failed tool results
	Paths string   // OptOut.PathHash for the applied patterns
}

// Lesson is the state in a turn of a matching lesson, or of a rules file section that precept leaves out at random.
type Lesson struct {
	Slug       string  `json:"slug"`
	Arm        string  `json:"arm"`
	State      string  `json:"state"` // matched | injected | withheld | control; for a rules file section: kept | cut (left out)
	Propensity float64 `json:"propensity,omitempty"`
}

// ResultJudgements records which tool results in New were judged to be errors during the turn, so that the results need
// not be parsed again when the session closes. If New was cut afterwards, and therefore has a different number of
// results, the judgements are ignored.
type ResultJudgements struct {
	Results int   `json:"results"`          // number of tool results in New
	Failed  []int `json:"failed,omitempty"` // indices among the results
}

// Reply is the model's answer. A token count is 0 or less if the upstream did not report the count.
type Reply struct {
	ID           string `json:"id,omitempty"`
	Text         string `json:"text,omitempty"`
	Calls        []Call `json:"calls,omitempty"`
	Finish       string `json:"finish,omitempty"`
	Error        string `json:"error,omitempty"`
	InputTokens  int    `json:"input_tokens,omitempty"`
	CachedTokens int    `json:"cached_tokens,omitempty"`
	OutputTokens int    `json:"output_tokens,omitempty"`
	Written      int    `json:"cache_write_tokens,omitempty"`    // written to the provider's prompt cache
	WrittenHour  int    `json:"cache_write_1h_tokens,omitempty"` // part of Written that the cache keeps for an hour
	Choices      int    `json:"choices,omitempty"`               // if more than one; the first is stored
}

// Call is a tool call in the reply.
type Call struct {
	ID   string `json:"id,omitempty"`
	Name string `json:"name"`
	Args string `json:"args"`
}

// NewID returns a new exchange id, a UUID v4.
func NewID(random io.Reader) (string, error) {
	id, err := uuid.NewRandomFromReader(random)
	if err != nil {
		return "", fmt.Errorf("making an exchange id: %w", err)
	}
	return id.String(), nil
}

// Redact redacts every text, and counts the replacements in Redacted. Items without a replacement keep their bytes.
func (e *Exchange) Redact(r *redact.Redactor) {
	r.DrainCounts()
	redactItem := r.JSON
	if e.FirstNew == 0 { // the first items are a prompt and rules files, which other sessions send as well
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
	if e.Truncated || e.Outcome == Incomplete || e.Outcome == Aborted { // the reply can end inside a secret
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
	e.Facts.Task = redactTask(e.Facts.Task) // these replacements are not counted, because the task is also part of New
	for i, tag := range e.Facts.Tags {
		e.Facts.Tags[i] = r.Text(tag)
	}
}
