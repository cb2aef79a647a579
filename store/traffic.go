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
	req := listOf(x)
	if req == nil {
		return nil
	}
	id, ok := session.ParseID(x.Session)
	if !ok {
		return nil
	}
	var out []signal
	add := func(tier int, kind, rule string) {
		e := feedback.Implicit(x.Session, x.Turn, tier, kind, rule, x.At)
		out = slices.DeleteFunc(out, func(s signal) bool { return s.entry.ID == e.ID }) // of one turn the last word counts
		out = append(out, signal{touch{x.Tenant, id}, e})
	}
	previous := ""
	for i := range req.Len() {
		it := req.Item(i)
		if it.Role == wire.RoleAssistant {
			previous = it.Text
		}
		for _, res := range it.Results {
			call, _ := req.CallOf(res.CallID)
			if kind, passed, ok := detect.Verification(call.Name, call.Args, res.Text); ok {
				add(feedback.TierVerifier, verdict(passed), "verify-"+kind)
			}
			v := detect.Classify(call.Name, call.Args, res.Text, res.IsError)
			if v.Outcome == detect.Refusal && v.By == detect.Person {
				add(feedback.TierImplicit, feedback.TypeRejection, "refusal:"+v.Rule)
			}
		}
		if it.Role != wire.RoleUser || it.Text == "" || x.Turn <= 1 {
			continue
		}
		turn := detect.ReadTurn(it.Text, it.Words, previous)
		switch {
		case turn.Interrupt:
			add(feedback.TierImplicit, feedback.TypeRejection, turn.Rule)
		case s.opts.Sentiment && !turn.Synthetic && turn.Feeling != detect.Neutral:
			add(feedback.TierImplicit, kindOf(turn.Feeling), "sentiment")
		}
	}
	return out
}

// verdict is the feedback that a verification stands for.
func verdict(passed bool) string {
	if passed {
		return feedback.TypeApproval
	}
	return feedback.TypeRejection
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
