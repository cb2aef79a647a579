package inject

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"precept/bandit"
	"precept/bandit/trial"
	"precept/inject/lesson"
)

// manyLessons returns a book with ten lessons. Their texts differ between editions.
func manyLessons(edition string) *lesson.Book {
	var all []*lesson.Lesson
	for i := range 10 {
		l := activeLesson(fmt.Sprintf("lesson-%d", i), fmt.Sprintf("word%d", i), "")
		for range i {
			l.Advice += "Take another way in edition " + edition + ", and look twice before the next step is made. "
		}
		if i%4 == 3 {
			l.Outcome = "failure"
		}
		all = append(all, l)
	}
	return newBook(all...)
}

// In any conversation, the messages that the upstream gets in one turn are a prefix of the messages in the next turn.
func TestEachTurnExtendsThePreviousRequest(t *testing.T) {
	first, second := manyLessons("one"), manyLessons("two")
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			Style: rapid.SampledFrom([]Style{Advice, Pitfalls}).Draw(t, "style"),
			Bandit: bandit.Config{
				K: rapid.IntRange(1, 4).Draw(t, "k"), Salt: "x",
				Objective: rapid.SampledFrom([]bandit.Objective{bandit.All, bandit.Random, bandit.Uplift}).Draw(t, "objective"),
				Epsilon:   rapid.SampledFrom([]float64{0, 0.2, 0.5}).Draw(t, "epsilon"),
				Control:   rapid.SampledFrom([]float64{0, 0.05, 0.5}).Draw(t, "control"),
			},
		}
		form := rapid.SampledFrom(forms()).Draw(t, "form")
		s := newTestSession(t, form, cfg, first, fmt.Sprint(rapid.Int().Draw(t, "name")))
		keywords := rapid.SampledFrom([]string{"word0", "word1", "word2", "word3", "word4", "word5", "word6", "word7", "word8", "word9", "nothing"})
		cmd := rapid.SampledFrom([]string{"make", "make", "make", "go test ./...", "cat x"})
		s.agent.addMessage("do "+keywords.Draw(t, "words"), true)
		s.send()
		for range rapid.IntRange(5, 25).Draw(t, "turns") {
			switch rapid.SampledFrom([]string{"call", "call", "call", "parallel", "user", "interrupt", "retry", "repeat", "restart", "edit"}).Draw(t, "step") {
			case "call":
				s.endTurn()
				s.addCallWithResult(cmd.Draw(t, "cmd"), keywords.Draw(t, "words"), rapid.Bool().Draw(t, "fails"))
			case "parallel":
				s.endTurn()
				a, b := s.agent.addCall(cmd.Draw(t, "cmd")), s.agent.addCall(cmd.Draw(t, "cmd"))
				s.agent.addResult(a, "bash: "+keywords.Draw(t, "words")+": command not found\nExit code 127", true)
				s.agent.addResult(b, "ok", false)
			case "user":
				s.endTurn()
				s.agent.addAnswer("Done.")
				s.agent.addMessage(keywords.Draw(t, "words")+" please", rapid.Bool().Draw(t, "reminds"))
			case "interrupt": // the user interrupts the reply
				if form == claude {
					continue // the message was already sent without this lesson
				}
				s.agent.addUserMessage("and " + keywords.Draw(t, "words"))
			case "retry":
			case "repeat":
				s.endTurn()
			case "restart":
				s.restart()
			case "edit":
				s.book = second
			}
			s.send()
			s.assertBounds(cfg)
		}
	})
}

func (s *testSession) addFailedCall(cmd, keyword string) { s.addCallWithResult(cmd, keyword, true) }

func (s *testSession) addSuccessfulCall(cmd string) { s.addCallWithResult(cmd, "", false) }

// addCallWithResult adds a call, and a result that contains keyword only if the call fails.
func (s *testSession) addCallWithResult(cmd, keyword string, fails bool) {
	id := s.agent.addCall(cmd)
	out := "fine"
	if fails {
		out = "Error: " + keyword + " failed\nExit code 2"
	}
	s.agent.addResult(id, out, fails)
}

// assertBounds checks the limits for block sizes, lessons and picks.
func (s *testSession) assertBounds(cfg Config) {
	s.t.Helper()
	inserted := 0
	for i := range s.rec.Lessons.Blocks {
		b := &s.rec.Lessons.Blocks[i]
		if b.Loop {
			continue
		}
		inserted += len(b.Text)
		if len(b.Text) > defaultBudget || len(b.Slugs) > cfg.Bandit.K {
			s.t.Fatalf("block has %d bytes and %d lessons, want at most %d and %d", len(b.Text), len(b.Slugs), defaultBudget, cfg.Bandit.K)
		}
	}
	picks := 0
	for _, p := range s.rec.Assignment.Picks {
		if p.Arm != trial.LoopArm {
			picks++
		}
	}
	if inserted > 2*defaultBudget || s.rec.Lessons.BlockBytes > 2*defaultBudget || picks > 2*cfg.Bandit.K {
		s.t.Fatalf("inserted %d bytes, BlockBytes = %d, want at most %d; %d picks with K=%d, want at most twice K", inserted, s.rec.Lessons.BlockBytes, 2*defaultBudget, picks, cfg.Bandit.K)
	}
	if s.rec.Assignment.Control && len(s.rec.Lessons.Blocks) > 0 {
		s.t.Fatalf("control session got %d blocks, want 0", len(s.rec.Lessons.Blocks))
	}
}
