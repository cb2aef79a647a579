package sample

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// Exporter writes one JSON document per line, and holds at most one document in memory. After a failed write, all later
// calls fail.
type Exporter struct {
	w     *bufio.Writer
	enc   *json.Encoder
	lines int
}

// NewExporter returns an Exporter that writes to w.
func NewExporter(w io.Writer) *Exporter {
	buf := bufio.NewWriterSize(w, 1<<16)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	return &Exporter{w: buf, enc: enc}
}

// Lines returns the number of lines written so far.
func (e *Exporter) Lines() int { return e.lines }

// Flush writes the buffered lines and ends the export.
func (e *Exporter) Flush() error {
	if err := e.w.Flush(); err != nil {
		return fmt.Errorf("writing the export: %w", err)
	}
	return nil
}

// WriteLine writes a Sample, a Trial, or another document as one line.
func (e *Exporter) WriteLine(v any) error {
	e.lines++
	if err := e.enc.Encode(v); err != nil {
		return fmt.Errorf("writing export line %d: %w", e.lines, err)
	}
	return nil
}

// WriteChat writes the session as one line of OpenAI's fine-tuning format, with tools and tool calls, up to the model's
// last complete answer. Without a complete answer, WriteChat writes nothing.
func (e *Exporter) WriteChat(s *Session) error {
	h := s.history().trainablePart()
	messages := h.conversation(-1)
	for i, message := range slices.Backward(messages) {
		if message.Role == "assistant" {
			return e.WriteLine(struct {
				Messages []ChatMessage `json:"messages"`
				Tools    []ChatTool    `json:"tools,omitempty"`
			}{messages[:i+1], h.tools()})
		}
	}
	return nil
}

// Preference is one line of a preference export: a better and a worse answer to the same conversation.
type Preference struct {
	Prompt   []ChatMessage `json:"prompt"`
	Tools    []ChatTool    `json:"tools,omitempty"`
	Chosen   []ChatMessage `json:"chosen"`
	Rejected []ChatMessage `json:"rejected"`
	Session  string        `json:"session,omitempty"`
	Turn     int           `json:"turn,omitempty"`
}

// WritePreferences writes the pairs from Session.Preferences.
func (e *Exporter) WritePreferences(s *Session) error {
	for _, p := range s.Preferences() {
		if err := e.WriteLine(p); err != nil {
			return err
		}
	}
	return nil
}

// TrialOutcome is one outcome in a session after a pick (a chosen lesson), with the parameters that were fixed when the
// lesson was picked.
type TrialOutcome struct {
	Name   string  `json:"name"`
	Raw    float64 `json:"x"`      // 0 or 1, failed calls, turns, tokens or seconds
	Scaled float64 `json:"y"`      // on the experiment's scale, 0..1
	Center float64 `json:"center"` // subtracted from the value in reports
	Width  float64 `json:"width"`  // distance from the centre at which a bet (the assumed effect in an e-value) is capped; 0 means no bet
}

// Trial is one line in the experiment export: a coin (the random decision to inject or withhold a lesson), the result,
// the probability, and the outcome. The report can be computed from these lines alone (examples/experiment).
type Trial struct {
	Session        string         `json:"session"`       // the coin's unit: a session, or a run
	Run            string         `json:"run,omitempty"` // run name
	Tenant         string         `json:"tenant,omitempty"`
	Coin           string         `json:"coin"`               // holdout: coin for one lesson; rule: for a rules file section; control: for the session
	Arm            string         `json:"arm"`                // a pick's arm; "" on the session's own line
	Slug           string         `json:"slug"`               // a pick's lesson
	Assigned       string         `json:"assigned"`           // pick: injected | withheld; session: treated | control; lesson that matched in a control session: control
	Propensity     float64        `json:"propensity"`         // probability that this arm was assigned
	Eps            float64        `json:"eps"`                // probability that withheld, or control, is assigned
	Center         float64        `json:"center"`             // expected reward, fixed before the coin; reports subtract it from the outcome
	Outcome        *float64       `json:"outcome"`            // reward, 0..1; null without feedback
	OutcomeAtClose *float64       `json:"outcome_at_closing"` // reward when the session closed, for a planned trial
	Turn           int            `json:"turn,omitempty"`     // pick: turn in the session (in a run: number of the decision)
	Trial          string         `json:"trial,omitempty"`    // pick: the planned trial, "start.picks"
	Outcomes       []TrialOutcome `json:"outcomes,omitempty"` // pick in a closed session: outcomes after the pick
	Model          string         `json:"model,omitempty"`    // from the session's first request
	Graded         bool           `json:"graded,omitempty"`   // closed by a release that counts the "explained" and "all_sessions" columns
	Weight         float64        `json:"weight,omitempty"`   // pick: weight in the estimate from all sessions
	Tier           int            `json:"tier,omitempty"`
	TierAtClose    int            `json:"tier_at_closing,omitempty"`   // tier for outcome_at_closing, to check reporting
	Closed         bool           `json:"closed"`                      // reports count closed sessions
	Reward         string         `json:"reward_definition,omitempty"` // reward definition when the session closed; each report uses a single definition
	At             string         `json:"at,omitempty"`                // RFC 3339
}
