package proxy

import (
	"context"
	"testing"

	"precept/internal/session"
	"precept/store"
)

// slowAnswers is an AnswerStore whose lookups exceed their deadline while slow is true.
type slowAnswers struct {
	AnswerStore

	slow bool
	text string
}

func (s *slowAnswers) Answer(ctx context.Context, _ string, _ session.ID, _ string) (string, bool, error) {
	if s.slow {
		<-ctx.Done()
		return "", false, ctx.Err()
	}
	return s.text, s.text != "", nil
}

func (s *slowAnswers) DeleteAnswer(context.Context, string, session.ID, string) error { return nil }

func TestSlowLookupsLoseNoAnswer(t *testing.T) {
	answers := &slowAnswers{slow: true, text: `["OK: recorded lesson #1"]`}
	box := mailbox{&Options{Answers: answers}, &pendingReplies{}, "default", &store.Session{Record: &session.Record{}}}
	box.setPending("r1", true)
	for range maxLooks + 4 {
		box.collect(t.Context())
	}
	answers.slow = false
	box.collect(t.Context())
	if got := box.ses.Record.Mailbox.Answers; len(got) != 1 {
		t.Errorf("answers after %d timed-out lookups = %q, want 1", maxLooks+4, got)
	}
}

func TestMissingAnswerIsLookedUpSeventeenTimes(t *testing.T) {
	box := mailbox{&Options{Answers: &slowAnswers{}}, &pendingReplies{}, "default", &store.Session{Record: &session.Record{}}}
	box.setPending("r1", true)
	looks := 0
	for ; len(box.ses.Record.Mailbox.Pending) > 0 && looks < 100; looks++ {
		box.collect(t.Context())
	}
	if looks != 1+maxLooks {
		t.Errorf("turns that looked for an answer which does not exist = %d, want %d", looks, 1+maxLooks)
	}
}
