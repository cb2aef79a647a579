package sample

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// Exporter writes JSON lines, one document a line, as they come: it holds no more than one
// document. Where writing failed, every later line and Flush, which ends the export, fail as well.
type Exporter struct {
	w     *bufio.Writer
	enc   *json.Encoder
	lines int
}

// NewExporter makes an exporter to w.
func NewExporter(w io.Writer) *Exporter {
	buf := bufio.NewWriterSize(w, 1<<16)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	return &Exporter{w: buf, enc: enc}
}

// Flush writes out what is buffered.
func (x *Exporter) Flush() error {
	if err := x.w.Flush(); err != nil {
		return fmt.Errorf("writing the export: %w", err)
	}
	return nil
}

// Line writes a Sample, a Trial, or whatever else is a document of its own.
func (x *Exporter) Line(v any) error {
	x.lines++
	if err := x.enc.Encode(v); err != nil {
		return fmt.Errorf("writing line %d of the export: %w", x.lines, err)
	}
	return nil
}

// Chat writes the session as one line of OpenAI's fine-tuning format, tool calls included. A
// session without an answer of the model is no example of anything and gives no line.
func (x *Exporter) Chat(s *Session) error {
	messages := s.Conversation()
	for i, message := range slices.Backward(messages) {
		if message.Role == "assistant" {
			return x.Line(map[string]any{"messages": messages[:i+1]})
		}
	}
	return nil
}

// Preference is one line of a preference export: the better and the worse answer to the same
// conversation.
type Preference struct {
	Prompt   []ChatMessage `json:"prompt"`
	Chosen   []ChatMessage `json:"chosen"`
	Rejected []ChatMessage `json:"rejected"`
	Session  string        `json:"session,omitempty"`
	Turn     int           `json:"turn,omitempty"`
}

// Preferences writes the pairs that the session's feedback allows; see Session.Preferences.
func (x *Exporter) Preferences(s *Session) error {
	for _, p := range s.Preferences() {
		if err := x.Line(p); err != nil {
			return err
		}
	}
	return nil
}

// Trial is one line of the experiment export: a coin, how it fell, how likely that was, and what
// came of it. From these lines anyone can compute the report again (examples/experiment).
type Trial struct {
	Session    string   `json:"session"`       // the unit of the draw: a session, or a run
	Run        string   `json:"run,omitempty"` // its name, where it is a run
	Tenant     string   `json:"tenant,omitempty"`
	Coin       string   `json:"coin"`               // holdout: of one lesson; control: of the whole session
	Arm        string   `json:"arm"`                // of a session's own line: ""
	Slug       string   `json:"slug"`               //
	Assigned   string   `json:"assigned"`           // injected | withheld; of a session's own line: treated | control; a control session's matches: control
	Propensity float64  `json:"propensity"`         // of what was assigned
	Eps        float64  `json:"eps"`                // the coin's own chance of withheld, or of control
	Center     float64  `json:"center"`             // what the session was expected to bring, fixed before the coin: the report takes it off the outcome
	Outcome    *float64 `json:"outcome"`            // the reward, 0..1; null when nobody told
	First      *float64 `json:"outcome_at_closing"` // the same as it stood when the session closed: a planned look counts that
	Turn       int      `json:"turn,omitempty"`     // of a pick: at which turn of its session (of a run: at which of its decisions)
	Trial      string   `json:"trial,omitempty"`    // of a pick: the planned trial that it belongs to, "its beginning.its picks"
	Tier       int      `json:"tier,omitempty"`
	FirstTier  int      `json:"tier_at_closing,omitempty"`   // of outcome_at_closing: the check of who reports counts that
	Closed     bool     `json:"closed"`                      // the report counts closed sessions
	Reward     string   `json:"reward_definition,omitempty"` // under which it closed: the report counts one definition
	At         string   `json:"at,omitempty"`                // RFC 3339
}
