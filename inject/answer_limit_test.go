package inject

import (
	"fmt"
	"strings"
	"testing"

	"precept/inject/writ"
)

// Answers stay in all later requests, so the total size is limited. The first answer above the limit becomes a notice.
func TestSessionAnswersAreLimited(t *testing.T) {
	s := newTestSession(t, plainChat, injectAll(), newBook(), "s")
	s.agent.addUserMessage("Fix it.")
	answer := "[/lesson list]\nOK: 200 lessons:\n" + strings.Repeat("#1 [a signature] a text of a lesson\n", 16<<10/36) + "[END LESSON]\n"
	for i := range 30 {
		s.rec.Mailbox.Answers = []string{answer}
		s.plan(s.agent.body())
		s.endTurn()
		s.addSuccessfulCall(fmt.Sprint("ls ", i))
	}
	size := 0
	for _, b := range s.rec.Lessons.Blocks {
		size += len(b.Text)
	}
	if size > maxAnswerBytes || size < maxAnswerBytes/2 {
		t.Errorf("answers in 30 turns with %d bytes each: got %d bytes in the session, want %d to %d", len(answer), size, maxAnswerBytes/2, maxAnswerBytes)
	}
	if last := s.rec.Lessons.Blocks[len(s.rec.Lessons.Blocks)-1].Text; last != writ.NoRoom {
		t.Errorf("last answer: got %.80q, want the notice %.80q", last, writ.NoRoom)
	}
	if len(s.rec.Mailbox.Answers) > 0 {
		t.Errorf("waiting answers: got %d, want 0", len(s.rec.Mailbox.Answers))
	}
}
