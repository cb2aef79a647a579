package sample_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"precept/internal/sample"
)

// A correction is a string, a message, or a list of parts. Any other JSON becomes the text of the correction. A
// correction without text is ignored.
func TestPreferenceReadsEachCorrectionForm(t *testing.T) {
	for correction, want := range map[string]string{
		`"better"`:             "better",
		`{"content":"better"}`: "better",
		`{"content":[{"text":"be"},{"type":"image"},{"text":"tter"}]}`: "be\ntter",
		`[{"text":"better"}]`:        "better",
		`[{"text":""},{"text":"x"}]`: "x",
		`{"content":null,"x":1}`:     "",
		`{"content":""}`:             "",
		`{"any":"thing"}`:            `{"any":"thing"}`,
		`7`:                          "7",
		`""`:                         "",
		`null`:                       "",
		``:                           "",
	} {
		s := newScript()
		s.addTurn(sample.Reply{Text: "bad"}, messageJSON("user", "one"))
		s.session.Ratings = []sample.Rating{{Source: "user", Type: "correction", Turn: 1, Correction: json.RawMessage(correction)}}
		got := ""
		for _, p := range s.session.Preferences() {
			got += *p.Chosen[0].Content
		}
		if got != want {
			t.Errorf("correction %s: got chosen reply %q, want %q", correction, got, want)
		}
	}
}

func TestPreferencePairsRequireSameUserMessage(t *testing.T) {
	for _, tc := range []struct {
		name   string
		rating sample.Rating
		user   string // second user message
		chosen string
	}{
		{"approved", sample.Rating{Source: "user", Type: "approval", Turn: 2}, "one", "good"},
		{"high score", sample.Rating{Source: "user", Type: "score", Score: 0.9, Turn: 2}, "one", "good"},
		{"low score", sample.Rating{Source: "user", Type: "score", Score: 0.1, Turn: 2}, "one", ""},
		{"also rejected", sample.Rating{Source: "user", Type: "rejection", Turn: 2}, "one", ""},
		{"approved by a verifier", sample.Rating{Source: "system", Type: "approval", Turn: 2}, "one", ""},
		{"approved session", sample.Rating{Source: "user", Type: "approval"}, "one", ""},
		{"approved turn that does not exist", sample.Rating{Source: "user", Type: "approval", Turn: 9}, "one", ""},
		{"rejected reply approved", sample.Rating{Source: "user", Type: "approval", Turn: 1}, "two", ""},
		{"approved reply to a different user message", sample.Rating{Source: "user", Type: "approval", Turn: 2}, "two", ""},
	} {
		s := newScript()
		s.addTurn(sample.Reply{Text: "bad"}, messageJSON("user", "one"))
		s.addTurn(sample.Reply{Text: "good"}, messageJSON("user", tc.user))
		s.session.Ratings = []sample.Rating{{Source: "user", Type: "rejection", Turn: 1}, tc.rating}
		got := ""
		for _, p := range s.session.Preferences() {
			if p.Turn == 1 {
				got += *p.Chosen[0].Content
			}
		}
		if got != tc.chosen {
			t.Errorf("%s: got chosen reply %q, want %q", tc.name, got, tc.chosen)
		}
	}
}

func TestCorrectionRequiresSimilarArguments(t *testing.T) {
	for _, tc := range []struct {
		failed, worked string
		corrects       bool
	}{
		{`{"path":"src/main.go"}`, `{"path":"lib/main.go"}`, true},
		{`{"path":"src/main.go"}`, `{"path":"src/main.go"}`, false}, // the calls are equal, so something else changed
		{`{"query":"weather in Oslo"}`, `{"sql":"select 1 from t"}`, false},
		{``, `{"sql":"select 1"}`, true}, // nothing to compare
		{`{"sql":"select 1"}`, `{}`, true},
		{`{"a":"one two"}`, `{"b":"one four five six"}`, true}, // a third of the shorter text's words
		{`{"a":"one two three seven"}`, `{"b":"one four five six"}`, false},
		{`{"command":"python x.py"}`, `{"command":"git push origin fix/x"}`, false}, // keys and single letters do not count
		{`{"command":"python x.py"}`, `{"command":"python y.py"}`, true},
	} {
		s := newScript()
		s.session.IsFailure = isFailure
		s.addTurn(callReply("c1", "run", tc.failed), messageJSON("user", "go"))
		s.addTurn(callReply("c2", "run", tc.worked), resultJSON("c1", "error: no"))
		s.addTurn(sample.Reply{Text: "done"}, resultJSON("c2", "fine"))
		if got := strings.Contains(families(sample.Build(s.session)), sample.ErrorCorrection); got != tc.corrects {
			t.Errorf("%s after the failed %s: got a correction: %v, want %v", tc.worked, tc.failed, got, tc.corrects)
		}
	}
}

// Without a rating, the quality label is "acceptable".
func TestErrorCorrectionHasUserRatingLabel(t *testing.T) {
	s := newScript()
	s.session.IsFailure = isFailure
	s.addTurn(callReply("c1", "run", `{"path":"a"}`), messageJSON("user", "go"))
	s.addTurn(callReply("c2", "run", `{"path":"a.go"}`), resultJSON("c1", "error: no"))
	s.addTurn(sample.Reply{Text: "done"}, resultJSON("c2", "fine"))
	correctionFeedback := func() string {
		for _, x := range sample.Build(s.session) {
			if x.Family == sample.ErrorCorrection {
				return fmt.Sprint(x.Feedback.QualityLabel, x.Feedback.Details, x.Input["attempts"])
			}
		}
		return ""
	}
	want := "acceptablemap[implicit:true rated:true rule:executed_unchanged score:0.5] 1"
	if got := correctionFeedback(); got != want {
		t.Errorf("without a rating: got %s, want %s", got, want)
	}
	s.session.Ratings = []sample.Rating{{Source: "user", Type: "rejection", Turn: 2}}
	if got := correctionFeedback(); got != "poormap[rated:true score:0 turn:2] 1" {
		t.Errorf("with a rejection: got %s, want poor, score 0, turn 2", got)
	}
}

func TestPlanOptimizationHasRatingAndRepeatedCalls(t *testing.T) {
	s := newScript()
	s.addTurn(callReply("c0", "ls", "a"), messageJSON("user", "go"))
	for i, args := range []string{"b", "b", "c", "a", "b", "d"} {
		s.addTurn(callReply(fmt.Sprint("c", i+1), "ls", args), resultJSON(fmt.Sprint("c", i), "x"))
	}
	s.addTurn(sample.Reply{Text: "done"}, resultJSON("c6", "x")).Loops = 1
	s.session.Ratings = []sample.Rating{{Source: "user", Type: "approval", Turn: 3}}
	for _, x := range sample.Build(s.session) {
		if x.Family != sample.PlanOptimization {
			continue
		}
		if x.Feedback.QualityLabel != sample.Good || x.Meta["human_feedback_label"] != sample.Approved {
			t.Errorf("got feedback %+v, human_feedback_label %v, want QualityLabel %s, human_feedback_label %s", x.Feedback, x.Meta["human_feedback_label"], sample.Good, sample.Approved)
		}
		got := ""
		for _, c := range x.Output["repeated_calls"].([]map[string]any) {
			got += fmt.Sprint(c["arguments"], c["count"], " ")
		}
		if got != "b3 a2 " || fmt.Sprint(x.Input["reasons"]) != "[loop]" || x.Input["model_ms"] != 8000 {
			t.Errorf("got repeated calls %s, reasons %v, model_ms %v, want repeated calls b3 a2, reasons [loop], model_ms 8000", got, x.Input["reasons"], x.Input["model_ms"])
		}
		return
	}
	t.Error("got no plan_optimization sample, want one")
}

func TestSampleListsLessonWithStrongestState(t *testing.T) {
	s := newScript()
	s.addTurn(sample.Reply{Text: "a"}, messageJSON("user", "one")).Lessons = []sample.Lesson{
		{Slug: "b", State: "matched"}, {Slug: "a", State: "withheld", Arm: "first"}, {Slug: "c", State: "injected"},
	}
	s.addTurn(callReply("c1", "ls", ""), messageJSON("user", "two")).Lessons = []sample.Lesson{
		{Slug: "b", State: "control"}, {Slug: "a", State: "withheld", Arm: "second"}, {Slug: "c", State: "matched"},
	}
	got := ""
	for _, l := range sample.Build(s.session)[0].Meta["lessons"].([]sample.Lesson) {
		got += l.Slug + ":" + l.State + l.Arm + " "
	}
	if got != "a:withheldfirst b:control c:injected " {
		t.Errorf(`got lessons %s, want "a:withheldfirst b:control c:injected "`, got)
	}
}
