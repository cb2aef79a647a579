package wire

import (
	"encoding/json"
	"errors"
	"fmt"

	"precept/internal/label"
)

// Recording is a recorded conversation: an object with a "messages" or "input" member, in one of the dialects.
type Recording struct {
	Source, ID []byte   // JSON of the members, empty if absent
	Request    *Request // the whole conversation
	Reward     *float64 // 0 to 1; nil if unknown
}

// ErrNoRecording is the error for JSON that is not an object with messages or input.
var ErrNoRecording = errors.New("the text is not an object with messages or input")

// ReadRecording reads one recording. The result refers to raw. The error is ErrNoRecording, wraps an *Uninspected, or
// describes an invalid reward.
func ReadRecording(raw []byte) (Recording, error) {
	var rec Recording
	if len(raw) > maxBody {
		return rec, &Uninspected{label.UninspectedSize}
	}
	s := scanner{b: raw}
	if end := s.skipValue(s.skipSpace(0), 0); s.deep {
		return rec, &Uninspected{label.UninspectedDepth}
	} else if end < 0 || s.skipSpace(end) != len(raw) {
		return rec, &Uninspected{label.UninspectedInvalid}
	}
	var source, id, messages, input, reward, success span
	findMembers(raw, span{s.skipSpace(0), len(raw)}, field{"source", &source}, field{"id", &id},
		field{"messages", &messages}, field{"input", &input}, field{"reward", &reward}, field{"success", &success})
	rec.Source, rec.ID = source.of(raw), id.of(raw)
	if err := rec.readReward(reward.of(raw), success.of(raw)); err != nil {
		return rec, err
	}
	list, d := input, Responses
	if !messages.empty() {
		list, d = messages, recordedDialect(raw, messages)
	}
	if list.empty() {
		return rec, ErrNoRecording
	}
	p := &parser{scan: scanner{b: raw}, dialect: d, spans: memberSpans{list: list}}
	if raw[list.start] == '[' {
		p.itemList(list.start)
	}
	req, err := p.request(len(raw), nil)
	if err != nil {
		return rec, fmt.Errorf("the list cannot be read: %w", err)
	}
	rec.Request = req
	return rec, nil
}

// readReward sets Reward from reward, a number from 0 to 1, or else from success, a boolean. null is the same as
// absent.
func (r *Recording) readReward(reward, success json.RawMessage) error {
	given := func(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
	if given(reward) {
		r.Reward = new(float64)
		if json.Unmarshal(reward, r.Reward) != nil || !(*r.Reward >= 0 && *r.Reward <= 1) {
			return fmt.Errorf("the reward is %.40s; write a number from 0 to 1", reward)
		}
		return nil
	}
	if given(success) {
		var ok bool
		if json.Unmarshal(success, &ok) != nil {
			return fmt.Errorf("success is %.40s; write true or false", success)
		}
		r.Reward = new(float64)
		if ok {
			*r.Reward = 1
		}
	}
	return nil
}

func recordedDialect(b []byte, list span) Dialect {
	d := Chat
	for e := range elements(b, list) {
		var kind, content span
		findMembers(b, e, field{"type", &kind}, field{"content", &content})
		d = typedDialect(d, textBytes(b, kind))
		for p := range elements(b, content) {
			d = typedDialect(d, textBytes(b, member(b, p, "type")))
		}
		if d == Messages {
			break
		}
	}
	return d
}

// typedDialect returns the dialect that an item's type implies, or d. A Messages API type always replaces d. A
// Responses API type replaces only Chat.
func typedDialect(d Dialect, kind []byte) Dialect {
	switch string(kind) {
	case "tool_result", "tool_use":
		return Messages
	case "function_call", "function_call_output":
		if d == Chat {
			return Responses
		}
	}
	return d
}
