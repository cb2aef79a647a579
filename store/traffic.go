package store

import (
	"bytes"
	"context"
	"slices"

	"precept/detect"
	"precept/feedback"
	"precept/sample"
	"precept/session"
	"precept/wire"
)

// signal is what the traffic itself says of a session.
type signal struct {
	touch
	entry feedback.Entry
}

// readTraffic reads what new tool results and new words of a person say of the session: the outcome of a test, lint or
// build run (tier 2), refusals and interrupts (tier 3). The exchange is redacted already.
func (s *Store) readTraffic(x *sample.Exchange) []signal {
	id, ok := session.ParseID(x.Session)
	req := listOf(x)
	if req == nil || !ok {
		return nil
	}
	var out []signal
	for _, sg := range detect.Signals(req, nil) {
		if sg.Sentiment && (!s.opts.Sentiment || x.Turn <= 1) {
			continue
		}
		e := feedback.Implicit(x.Session, x.Turn, sg.Tier, kindOf(sg.Feeling), sg.Rule, x.At)
		out = slices.DeleteFunc(out, func(s signal) bool { return s.entry.ID == e.ID }) // of one turn the last word counts
		out = append(out, signal{touch{x.Tenant, id}, e})
	}
	return out
}

// kindOf is the type of feedback that a feeling stands for.
func kindOf(f detect.Feeling) string {
	if f == detect.Thanks {
		return feedback.TypeApproval
	}
	return string(f)
}

// listOf reads the new items of an exchange as the list that they came in.
func listOf(x *sample.Exchange) *wire.Request {
	if len(x.New) == 0 {
		return nil
	}
	d, key := wire.Chat, "messages"
	switch x.Dialect {
	case wire.Responses.String():
		d, key = wire.Responses, "input"
	case wire.Messages.String():
		d = wire.Messages
	}
	var b bytes.Buffer
	b.WriteString(`{"` + key + `":[`)
	for i, raw := range x.New {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(raw)
	}
	b.WriteString("]}")
	req, err := wire.Parse(d, b.Bytes())
	if err != nil {
		return nil // a string input, or what redaction made of an odd list: there is nothing to read in it
	}
	return req
}

// tell adds what the traffic said to the sessions' feedback.
func (s *Store) tell(ctx context.Context, signals []signal) {
	for i := range signals {
		sg := &signals[i]
		if _, err := s.be.AddFeedback(ctx, sg.tenant, sg.id, []feedback.Entry{sg.entry}); err != nil {
			s.opts.Failed("implicit", err)
			continue
		}
		s.touch(sg.tenant, sg.id)
	}
}
