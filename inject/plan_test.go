package inject

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"precept/bandit"
	"precept/bandit/trial"
	"precept/inject/lesson"
	"precept/internal/session"
	"precept/internal/wire"
)

func insertedSlugs(p *Plan) (slugs []string) {
	for _, e := range p.Edits {
		for line := range strings.Lines(e.Text) {
			if rest, ok := strings.CutPrefix(line, "- ["); ok {
				slug, _, _ := strings.Cut(rest, "]")
				slugs = append(slugs, slug)
			}
		}
	}
	slices.Sort(slugs)
	return slices.Compact(slugs)
}

func TestBlockIsInsertedBeforeUserMessage(t *testing.T) {
	want := adviceHead + "- [deploy] About deploy.\n  | Ask first.\n" + adviceEnd
	for _, form := range forms() {
		t.Run(string(form), func(t *testing.T) {
			s := newTestSession(t, form, injectAll(), newBook(activeLesson("deploy", "deploy", "Ask first.")), "s")
			s.agent.addUserMessage("please deploy it")
			p := s.send()
			if !slices.Equal(p.Injected, []string{"deploy"}) || !slices.Equal(insertedSlugs(&p), p.Injected) || p.SkipReason != "" || len(p.Edits) != 1 {
				t.Fatalf("plan = %+v, want one edit with the lesson \"deploy\", and no SkipReason", p)
			}
			if got := p.Edits[0]; got.Text != want || got.Block != -1 {
				t.Errorf("edit = %+v, want text %q and block -1", got, want)
			}
			if l := p.Lessons; len(l) != 1 || l[0].State != "injected" || l[0].Propensity != 1 || l[0].Arm != string(p.Picks[0].Arm) {
				t.Errorf("plan lessons = %+v, want one injected with propensity 1 and arm %q", l, p.Picks[0].Arm)
			}
		})
	}
}

func TestLessonMatchesOncePerSession(t *testing.T) {
	s := newTestSession(t, plainChat, injectAll(), newBook(activeLesson("deploy", "deploy", "x")), "s")
	s.agent.addUserMessage("deploy")
	s.send()
	s.endTurn()
	s.agent.addAnswer("ok")
	s.agent.addUserMessage("deploy again")
	if p := s.send(); len(p.Matched) != 0 || len(p.Edits) != 1 || !slices.Equal(insertedSlugs(&p), []string{"deploy"}) {
		t.Errorf("plan after \"deploy again\" = %+v, want no match, and only the block from the first turn", p)
	}
}

func TestSuccessfulToolResultMatchesNoLesson(t *testing.T) {
	s := newTestSession(t, claude, injectAll(), newBook(activeLesson("deploy", "deploy", "x"), activeLesson("other", "omega", "y")), "s")
	s.agent.addUserMessage("deploy")
	s.send()
	for i := range 10 {
		s.endTurn()
		s.agent.addResult(s.agent.addCall(fmt.Sprint("step ", i)), "omega", false)
		if p := s.send(); len(p.Edits) != 1 {
			t.Fatalf("turn %d: got %d edits, want only the block from the first turn", i, len(p.Edits))
		}
	}
}

// A harness can wrap the user's request in a template. Only the request can match a lesson, but the block is inserted
// before the whole message.
func TestLessonsMatchUserRequestNotTemplate(t *testing.T) {
	const tail = "\n\nYou can execute bash commands and edit files to implement the necessary changes.\n\n5. Run omega again"
	for _, form := range []wireForm{plainChat, partsChat, claude, responses} {
		s := newTestSession(t, form, injectAll(), newBook(activeLesson("on-request", "alpha", "x"), activeLesson("on-template", "omega", "y")), "s")
		s.agent.addUserMessage("Please solve this issue: rename alpha" + tail)
		if p := s.send(); !slices.Equal(p.Matched, []string{"on-request"}) || len(p.Edits) != 1 || p.Edits[0].Block != -1 {
			t.Errorf("%s: plan = %+v, want the lesson on-request before the message", s.agent.dialect(), p)
		}
		s.endTurn()
		s.agent.addAnswer("It is renamed.")
		s.agent.addUserMessage("<user_message>\nrun omega\n</user_message>")
		if p := s.send(); !slices.Equal(p.Matched, []string{"on-template"}) {
			t.Errorf("%s: second turn: Matched = %q, want on-template", s.agent.dialect(), p.Matched)
		}
	}
}

func TestEarlierRequestIsMatchedWithoutTemplate(t *testing.T) {
	const tail = "\n\nYou can execute bash commands and edit files to implement the necessary changes.\n\n5. Run omega again"
	s := newTestSession(t, plainChat, injectAll(), newBook(activeLesson("on-request", "alpha", "x"), activeLesson("on-template", "omega", "y")), "s")
	s.agent.addUserMessage("Please solve this issue: rename alpha" + tail)
	s.agent.addAnswer("First I read the file.")
	s.agent.addUserMessage("Now proceed and carry out this plan.")
	if p := s.send(); !slices.Equal(p.Matched, []string{"on-request"}) {
		t.Errorf("Matched = %q, want on-request", p.Matched)
	}
}

func TestTemplateWithoutRequestMatchesNoLesson(t *testing.T) {
	s := newTestSession(t, plainChat, injectAll(), newBook(activeLesson("on-template", "omega", "y")), "s")
	s.agent.addUserMessage("This is the Qwen Code. We are setting up the context for our chat.\nThe folder is omega.")
	if p := s.send(); len(p.Matched) > 0 || len(p.Edits) > 0 {
		t.Errorf("plan = %+v, want no match and no edit", p)
	}
}

func TestErrorAndUserTextGetSeparateBlocks(t *testing.T) {
	b := newBook(activeLesson("on-words", "alpha", "x"), activeLesson("on-error", "omega", "y"))
	s := newTestSession(t, claude, injectAll(), b, "s")
	s.agent.addUserMessage("go")
	s.send()
	s.endTurn()
	s.addFailedCall("make", "omega")
	s.agent.addUserMessage("and alpha")
	p := s.send()
	if len(p.Edits) != 2 || !slices.Equal(p.Injected, []string{"on-error", "on-words"}) {
		t.Fatalf("plan = %+v, want two edits with the lessons on-error and on-words", p)
	}
	for _, e := range p.Edits {
		if strings.Contains(e.Text, "on-words") != (e.Block == -1) {
			t.Errorf("edit = %+v, want only the lesson on-words in the block before the message", e)
		}
	}
}

func TestErrorBlockIsAtFailedParallelResult(t *testing.T) {
	s := newTestSession(t, plainChat, injectAll(), newBook(activeLesson("on-error", "omega", "y")), "s")
	s.agent.addUserMessage("go")
	s.send()
	s.endTurn()
	one, two := s.agent.addCall("a"), s.agent.addCall("b")
	s.agent.addResult(one, "all is well", false)
	s.agent.addResult(two, "Error: omega failed\nExit code 1", true)
	p := s.send()
	if len(p.Edits) != 1 || p.Edits[0].Item != 4 {
		t.Fatalf("edits = %+v, want one at item 4", p.Edits)
	}
	if !strings.Contains(s.sent[4], `"tool_call_id":"call_2"`) || !strings.Contains(s.sent[4], "on-error") || strings.Contains(s.sent[3], "on-error") {
		t.Errorf("request = %s, want on-error in call_2's result (item 4) and not in item 3", s.upstream())
	}
}

func TestOnlyNewestMessageGetsABlock(t *testing.T) {
	b := newBook(activeLesson("old", "alpha", "x"), activeLesson("new", "beta", "y"))
	s := newTestSession(t, plainChat, injectAll(), b, "s")
	s.agent.addUserMessage("alpha")
	s.agent.addAnswer("ok")
	s.agent.addUserMessage("beta")
	p := s.send()
	if !slices.Equal(p.Injected, []string{"new"}) {
		t.Errorf("plan = %+v, want only the lesson \"new\", at the newest message", p)
	}
}

// precept inserts no block into a message that was already sent, because a change would invalidate the provider's
// prompt cache.
func TestSentMessageGetsNoLaterBlock(t *testing.T) {
	s := newTestSession(t, plainChat, injectAll(), newBook(), "s")
	s.agent.addUserMessage("deploy")
	if p := s.send(); p.SkipReason != SkipNoMatch {
		t.Errorf("SkipReason = %q, want %q", p.SkipReason, SkipNoMatch)
	}
	s.book = newBook(activeLesson("deploy", "deploy", "x"))
	if p := s.send(); p.Kind != session.Retry || len(p.Edits) != 0 {
		t.Errorf("retry plan = %+v, want no edits", p)
	}
	s.endTurn()
	if p := s.send(); p.Kind != session.Repeat || len(p.Edits) != 0 {
		t.Errorf("repeat plan = %+v, want no edits", p)
	}
	s.agent.addUserMessage("hurry")
	if p := s.send(); len(p.Edits) != 0 {
		t.Errorf("next turn's plan = %+v, want no edits", p)
	}
}

// A lesson that did not fit in the turn in which it matched is not inserted in a later turn.
func TestManyMatchesStayWithinLimits(t *testing.T) {
	var all []*lesson.Lesson
	for i := range 50 {
		all = append(all, activeLesson(fmt.Sprintf("l-%02d", i), "deploy", strings.Repeat("A rather long sentence is here. ", 30)))
	}
	s := newTestSession(t, plainChat, injectAll(), newBook(all...), "s")
	for range 4 {
		s.agent.addUserMessage("deploy")
		s.send()
		s.assertBounds(injectAll())
		s.endTurn()
		s.agent.addAnswer("ok")
	}
	if n := len(s.rec.Assignment.Picks); n != 3 {
		t.Errorf("session has %d picks, want 3, because a lesson that did not fit must not be inserted in a later turn", n)
	}
	if n := len(s.rec.Lessons.Matched); n != 50 {
		t.Errorf("%d lessons are recorded as matched, want 50", n)
	}
	if n := strings.Count(s.upstream(), "A rather long sentence is here."); n < 30 {
		t.Errorf("request has %d sentences from lessons, want at least 30 within the 2 KiB budget", n)
	}
}

// A turn gets at most K lessons, and a session at most twice as many.
func TestLaterLessonsUseTheRemainingSlots(t *testing.T) {
	var all []*lesson.Lesson
	for i := range 9 {
		all = append(all, activeLesson(fmt.Sprint("l", i), fmt.Sprint("word", i), "Do so."))
	}
	s := newTestSession(t, plainChat, injectAll(), newBook(all...), "s")
	for i := range 9 {
		s.agent.addUserMessage(fmt.Sprint("word", i))
		s.send()
		s.endTurn()
		s.agent.addAnswer("ok")
	}
	if n := len(s.rec.Lessons.Blocks); n != 6 {
		t.Errorf("session has %d blocks, want 6 (twice K)", n)
	}
}

func TestSkipReasonIsReported(t *testing.T) {
	withheld, control, tight := injectAll(), injectAll(), injectAll()
	withheld.Bandit.Epsilon, control.Bandit.Control, tight.BudgetBytes = 1, 1, 100
	for _, tc := range []struct {
		name, words, want string
		cfg               Config
	}{
		{"no match", "hello", SkipNoMatch, injectAll()},
		{"lesson withheld", "deploy", SkipWithheld, withheld},
		{"control session", "deploy", SkipControl, control},
		{"lesson exceeds the budget", "deploy", SkipNotPicked, tight},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newTestSession(t, plainChat, tc.cfg, newBook(activeLesson("a", "deploy", "x")), "s")
			for range 2 {
				s.agent.addUserMessage(tc.words)
				if p := s.send(); p.SkipReason != tc.want {
					t.Errorf("SkipReason = %q, want %q", p.SkipReason, tc.want)
				}
				s.endTurn()
				s.agent.addAnswer("ok")
				tc.words = "go on"
			}
		})
	}
	t.Run("provider has the block", func(t *testing.T) {
		s := newTestSession(t, responses, injectAll(), newBook(activeLesson("a", "deploy", "x")), "s")
		storedTurnBody := func(text string) []byte {
			return []byte(`{"model":"m","previous_response_id":"resp_1","input":[{"role":"user","content":"` + text + `"}]}`)
		}
		if p := s.plan(storedTurnBody("deploy")); p.SkipReason != "" {
			t.Fatalf("SkipReason = %q, want an inserted block", p.SkipReason)
		}
		s.endTurn()
		if p := s.plan(storedTurnBody("go on")); p.SkipReason != SkipEarlier {
			t.Errorf("SkipReason = %q, want %q", p.SkipReason, SkipEarlier)
		}
	})
}

// A withheld lesson uses as much of the budget as an inserted lesson. Otherwise, the random decision would change how
// many other lessons fit.
func TestWithheldLessonUsesBudget(t *testing.T) {
	cfg := injectAll()
	cfg.Bandit.Epsilon = 1
	s := newTestSession(t, plainChat, cfg, newBook(activeLesson("a", "deploy", "x"), activeLesson("b", "deploy", "y")), "s")
	s.agent.addUserMessage("deploy")
	p := s.send()
	if p.SkipReason != SkipWithheld || len(p.Edits) != 0 || !slices.Equal(p.Withheld, []string{"a", "b"}) || s.rec.Lessons.BlockBytes == 0 {
		t.Errorf("plan = %+v, BlockBytes = %d, want a and b withheld, no edit, and BlockBytes > 0", p, s.rec.Lessons.BlockBytes)
	}
	if p.Lessons[0].State != "withheld" || p.Lessons[0].Propensity != 0 {
		t.Errorf("plan lessons = %+v, want the first withheld with propensity 0", p.Lessons)
	}
}

func TestControlSessionGetsNoLesson(t *testing.T) {
	cfg := injectAll()
	cfg.Bandit.Control = 1
	s := newTestSession(t, plainChat, cfg, newBook(activeLesson("a", "deploy", "x")), "s")
	s.agent.addUserMessage("deploy")
	p := s.send()
	if p.SkipReason != SkipControl || len(p.Edits) != 0 || len(p.Picks) != 0 || p.Lessons[0].State != "control" {
		t.Errorf(`plan = %+v, want SkipReason %q, no edit, no pick, and the lesson in state "control"`, p, SkipControl)
	}
}

// A session's category consists of the agent, the model family and the length of the first message (s for short).
func TestCategoryIsFixedAtTheFirstTurn(t *testing.T) {
	s := newTestSession(t, plainChat, injectAll(), newBook(), "s")
	s.agent.addUserMessage("short")
	s.send()
	got := s.rec.Assignment
	if got.Category != "coder|some-model|s" || got.Day != trial.Day(noon) {
		t.Errorf(`assignment = %+v, want category "coder|some-model|s" and day %d`, got, trial.Day(noon))
	}
	s.endTurn()
	s.agent.addAnswer("ok")
	s.agent.addUserMessage(strings.Repeat("long ", 1000))
	s.send()
	if s.rec.Assignment.Category != got.Category {
		t.Errorf("after the second turn: Category = %q, want %q", s.rec.Assignment.Category, got.Category)
	}
}

func TestModelFamilyOmitsVersionAndProvider(t *testing.T) {
	for model, want := range map[string]string{
		"claude-opus-4-8": "claude-opus", "anthropic/claude-sonnet-4-5-20250929": "claude-sonnet", "gpt-4o-mini-2024-07-18": "gpt-4o-mini",
		"gpt-5": "gpt-5", "qwen2.5-coder:32b": "qwen2.5-coder", "": "", "GPT-4.1": "gpt-4.1",
	} {
		if got := modelFamily(model); got != want {
			t.Errorf("modelFamily(%q) = %q, want %q", model, got, want)
		}
	}
}

func TestInjectOffSkipsTheRequest(t *testing.T) {
	s := newTestSession(t, plainChat, injectAll(), newBook(activeLesson("a", "deploy", "x")), "s")
	s.claim.InjectOff = true
	s.agent.addUserMessage("deploy")
	if p := s.send(); p.SkipReason != SkipOff || len(p.Edits) != 0 {
		t.Errorf("plan = %+v, want SkipReason %q and no edit", p, SkipOff)
	}
	s.claim.InjectOff = false
	s.endTurn()
	s.agent.addAnswer("ok")
	s.agent.addUserMessage("deploy")
	if p := s.send(); len(p.Edits) != 1 || p.Edits[0].Item != 3 {
		t.Errorf("next turn's plan = %+v, want one edit at item 3", p)
	}
}

func TestRefusedSessionGetsNoMoreBlocks(t *testing.T) {
	s := newTestSession(t, plainChat, injectAll(), newBook(activeLesson("a", "deploy", "x"), activeLesson("b", "again", "y")), "s")
	s.agent.addUserMessage("deploy")
	s.send()
	s.injector.RecordRefusal(s.rec)
	s.restart()
	s.sent = nil // the upstream accepted the turn only without the block
	s.agent.addAnswer("ok")
	s.agent.addUserMessage("again")
	if p := s.send(); p.SkipReason != SkipRefused || len(p.Edits) != 0 || s.rec.Assignment.Excluded || !s.rec.Assignment.Refused || len(s.rec.Assignment.Picks) != 1 {
		t.Errorf("plan = %+v, assignment = %+v, want SkipReason %q, no edit, and an assignment with one pick that is marked as refused, but not as excluded",
			p, s.rec.Assignment, SkipRefused)
	}
}

func TestExcludedSessionGetsNoLesson(t *testing.T) {
	s := newTestSession(t, plainChat, injectAll(), newBook(activeLesson("a", "deploy", "x")), "s")
	s.rec.Assignment.Excluded = true
	s.agent.addUserMessage("deploy")
	if p := s.send(); p.SkipReason != SkipExcluded || len(p.Edits) != 0 || len(p.Matched) != 0 {
		t.Errorf("plan = %+v, want SkipReason %q, no edit and no match", p, SkipExcluded)
	}
}

func TestExcludedSessionKeepsBlocks(t *testing.T) {
	s := newTestSession(t, plainChat, injectAll(), newBook(activeLesson("a", "deploy", "x"), activeLesson("b", "again", "y")), "s")
	s.agent.addUserMessage("deploy")
	s.send()
	s.endTurn()
	s.rec.Assignment.Excluded = true
	s.agent.addAnswer("ok")
	s.agent.addUserMessage("again")
	if p := s.send(); p.SkipReason != "" || len(p.Edits) != 1 || len(p.Matched) != 0 || len(s.rec.Lessons.Blocks) != 1 {
		t.Errorf("plan = %+v, recorded blocks = %d, want only the block from before the exclusion", p, len(s.rec.Lessons.Blocks))
	}
}

// A compaction replaces the history with a summary. Afterwards, precept inserts the lessons again, with the text that
// they had before the compaction.
func TestLessonsAreInsertedAgainAfterCompaction(t *testing.T) {
	s := newTestSession(t, plainChat, injectAll(), newBook(activeLesson("a", "deploy", "x"), activeLesson("b", "omega", "y")), "s")
	s.agent.addUserMessage("deploy")
	s.send()
	s.endTurn()
	s.addFailedCall("make", "omega")
	if p := s.send(); !slices.Equal(insertedSlugs(&p), []string{"a", "b"}) {
		t.Fatalf("plan = %+v, want blocks for a and b", p)
	}
	s.endTurn()
	s.book = newBook(activeLesson("a", "deploy", "another text"))
	s.agent.history, s.sent = nil, nil
	s.agent.addUserMessage("What was done so far?")
	s.agent.addAnswer("A summary.")
	s.agent.addUserMessage("Go on.")
	p := s.send()
	if !slices.Equal(insertedSlugs(&p), []string{"a", "b"}) || len(p.Edits) != 2 || len(p.Picks) != 0 {
		t.Fatalf("plan after the compaction = %+v, want two edits with a and b, and no new pick", p)
	}
	for _, e := range p.Edits {
		if e.Item != 3 || e.Block != -1 {
			t.Errorf("edit = %+v, want item 3 and block -1", e)
		}
	}
	if !strings.Contains(s.upstream(), `  | x\n`) {
		t.Errorf("request =\n%s\nwant lesson a with its text from before the compaction, x", s.upstream())
	}
	s.endTurn()
	s.addSuccessfulCall("make")
	if p := s.send(); len(p.Edits) != 2 {
		t.Errorf("next plan = %+v, want the two blocks", p)
	}
	s.assertBounds(injectAll())
}

func TestMainAgentKeepsBlockAfterSubAgent(t *testing.T) {
	s := newTestSession(t, plainChat, injectAll(), newBook(activeLesson("a", "deploy", "x")), "s")
	s.agent.addUserMessage("deploy")
	s.send()
	s.endTurn()
	main, mainSent := s.agent, s.sent
	s.agent, s.sent = &agent{form: plainChat}, nil
	s.agent.addUserMessage("a task of a sub-agent")
	for i := range 5 {
		s.send()
		s.endTurn()
		s.addSuccessfulCall(fmt.Sprint(i))
	}
	s.agent, s.sent = main, mainSent
	s.agent.addAnswer("ok")
	s.agent.addUserMessage("go on")
	if p := s.send(); len(p.Edits) != 1 || p.Edits[0].Item != 1 {
		t.Errorf("main agent's edits = %+v, want one at item 1", p.Edits)
	}
}

// A delta request contains only new items, because the provider keeps the history. Therefore precept sends a block only
// in the turn in which it made the block. A request with the full history gets all blocks.
func TestDeltaRequestsGetEachBlockOnce(t *testing.T) {
	cfg := injectAll()
	s := newTestSession(t, responses, cfg, newBook(activeLesson("a", "deploy", "x"), activeLesson("b", "omega", "y")), "s")
	delta := func(list string) []byte {
		return []byte(`{"model":"m","previous_response_id":"resp_1","input":` + list + `}`)
	}
	p := s.plan([]byte(`{"model":"m","input":"please deploy"}`))
	if !slices.Equal(p.Injected, []string{"a"}) {
		t.Fatalf("first plan = %+v, want lesson a injected", p)
	}
	s.rec.AddReply(&wire.Reply{Complete: true, Calls: []wire.Call{{ID: "call_1", Name: "bash", Args: `{"command":"make"}`}}})
	failedResult := delta(`[{"type":"function_call_output","call_id":"call_1","output":"Error: omega failed\nExit code 2"}]`)
	for _, want := range []session.TurnKind{session.NewTurn, session.Retry} {
		if p = s.plan(failedResult); p.Kind != want || len(p.Edits) != 1 || !slices.Equal(insertedSlugs(&p), []string{"b"}) {
			t.Fatalf("plan = %+v, want kind %v and one edit with lesson b", p, want)
		}
		s.restart()
	}
	s.rec.AddReply(&wire.Reply{Complete: true})
	for _, want := range []session.TurnKind{session.Repeat, session.Retry} {
		if p = s.plan(failedResult); p.Kind != want || len(p.Edits) != 1 {
			t.Fatalf("plan = %+v, want kind %v and one edit", p, want)
		}
	}
	s.rec.AddReply(&wire.Reply{Complete: true})
	if p = s.plan(delta(`[{"role":"user","content":"go on"}]`)); len(p.Edits) != 0 {
		t.Fatalf("next turn's plan = %+v, want no edit, because the provider has the blocks", p)
	}
	p = s.plan([]byte(`{"model":"m","input":[{"role":"user","content":"please deploy"},
		{"type":"function_call","call_id":"call_1","name":"bash","arguments":"{}"},
		{"type":"function_call_output","call_id":"call_1","output":"Error: omega failed\nExit code 2"}, {"role":"user","content":"go on"}]}`))
	if !slices.Equal(insertedSlugs(&p), []string{"a", "b"}) {
		t.Fatalf("full list plan = %+v, want blocks for a and b", p)
	}
}

// A caution is a lesson that is shown as an approach to avoid.
func TestHarmfulLessonBecomesCaution(t *testing.T) {
	l := activeLesson("a", "deploy", "x")
	l.FailureCount, l.SuccessCount = 9, 1 // counts in the file are ignored
	for _, tc := range []struct {
		better, worse float64
		want          bool
	}{{0, 0, false}, {5, 4, false}, {4, 5, true}} {
		s := newTestSession(t, plainChat, injectAll(), newBook(l), "s")
		s.beliefs = fixedCounts{bandit.New(), tc.better, tc.worse}
		s.agent.addUserMessage("deploy")
		s.send()
		if got := strings.Contains(s.upstream(), "Cautions"); got != tc.want {
			t.Errorf("%v sessions above expectation and %v below: shown as caution = %v, want %v", tc.better, tc.worse, got, tc.want)
		}
	}
	off := Config{NoCautions: true}.Present(l, newBook(l).Text(l), fixedCounts{bandit.New(), 4, 5})
	if off.Caution || strings.Contains(string(off.Arm), "caution") {
		t.Errorf("Present with inject.cautions off = %+v, want the lesson as advice", off)
	}
}

// fixedCounts is a chooser that always reports the same numbers of sessions above (better) and below (worse)
// expectation.
type fixedCounts struct {
	*bandit.Chooser
	better, worse float64
}

func (p fixedCounts) CautionEvidence(trial.Arm) (better, worse float64) { return p.better, p.worse }

// The lesson supersedes two lessons. The book contains only the second of them, so the second one is the parent.
func TestTrialLessonActionHasParentArm(t *testing.T) {
	old, l := activeLesson("old", "unused", "x"), activeLesson("new", "deploy", "y")
	l.State, l.Supersedes = lesson.Trial, []string{"gone", "old"}
	s := newTestSession(t, plainChat, injectAll(), newBook(old, l), "s")
	w := work{injector: s.injector, rec: s.rec, input: Input{Book: s.book}}
	c := w.action(l, w.present(l).Arm)
	if c.Epsilon != trialEpsilon || c.Parent != w.present(old).Arm || c.Arm.Slug() != "new" {
		t.Errorf("action = %+v, want slug new, epsilon %v and parent %q", c, trialEpsilon, w.present(old).Arm)
	}
}

func TestNilBookMatchesNoLesson(t *testing.T) {
	s := newTestSession(t, plainChat, injectAll(), nil, "s")
	s.agent.addUserMessage("deploy")
	if p := s.send(); p.SkipReason != SkipNoMatch {
		t.Errorf("plan without a book = %+v, want SkipReason %q", p, SkipNoMatch)
	}
}
