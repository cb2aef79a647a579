package sample_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"precept/internal/sample"
)

func TestBuildReturnsRatingFeedback(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }
	approve := sample.Rating{At: day(1), Source: "user", Type: "approval", Score: 1}
	tests := []struct {
		name    string
		ratings []sample.Rating
		source  string
		typ     string
		label   string
		review  string // human_feedback_label
		score   float64
	}{
		{"approval", []sample.Rating{approve}, "user", "approval", sample.Good, sample.Approved, 1},
		{"approval without a score", []sample.Rating{{Source: "user", Type: "approval"}}, "user", "approval", sample.Good, sample.Approved, 1},
		{"rejection", []sample.Rating{{Source: "user", Type: "rejection"}}, "user", "rejection", sample.Poor, sample.Rejected, 0},
		{"rejection with a label", []sample.Rating{{Source: "user", Type: "rejection", Label: sample.Acceptable}}, "user", "rejection", sample.Acceptable, sample.Rejected, 0},
		{"score", []sample.Rating{{Source: "user", Type: "score", Score: 0.5}}, "user", "score", sample.Acceptable, sample.Approved, 0.5},
		{"low score", []sample.Rating{{Source: "user", Type: "score", Score: 0.1}}, "user", "score", sample.Poor, sample.Rejected, 0.1},
		{"score out of range", []sample.Rating{{Source: "user", Type: "score", Score: 7}}, "user", "score", sample.Good, sample.Approved, 1},
		{"correction", []sample.Rating{{Source: "user", Type: "correction", Score: 0.3, Correction: json.RawMessage(`"x"`)}}, "user", "correction", sample.Poor, sample.Rejected, 0.3},
		{"a verifier's rating is not a review", []sample.Rating{{Source: "system", Type: "score", Score: 1}}, "system", "score", sample.Good, sample.NotReviewed, 1},
		{"implicit feedback has the source system", []sample.Rating{{Source: "implicit", Type: "rejection"}}, "system", "rejection", sample.Poor, sample.NotReviewed, 0},
		{"user takes precedence", []sample.Rating{{At: day(3), Source: "system", Type: "score"}, approve, {At: day(4), Source: "implicit", Type: "rejection"}}, "user", "approval", sample.Good, sample.Approved, 1},
		{"latest rating counts", []sample.Rating{approve, {At: day(2), Source: "user", Type: "rejection"}}, "user", "rejection", sample.Poor, sample.Rejected, 0},
		{"another turn's rating", []sample.Rating{{Source: "user", Type: "rejection", Turn: 9}}, "system", "score", "", sample.NotReviewed, 0.5},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c := newScript()
			c.addTurn(sample.Reply{Text: "ok"}, messageJSON("user", "Hi"))
			c.session.Ratings = tc.ratings
			s := sample.Build(c.session)[0]
			if s.Feedback.Source != tc.source || s.Feedback.Type != tc.typ || s.Feedback.QualityLabel != tc.label {
				t.Errorf("got feedback %+v, want source %s, type %s, label %s", s.Feedback, tc.source, tc.typ, tc.label)
			}
			if s.Meta["human_feedback_label"] != tc.review || s.Meta["quality_score"] != tc.score {
				t.Errorf("got meta %v, want human_feedback_label %v, quality_score %v", s.Meta, tc.review, tc.score)
			}
			if err := validateSample(s); err != nil {
				t.Errorf("schema check: %v", err)
			}
		})
	}
}

func TestRatingAppliesToRatedOrLastTurn(t *testing.T) {
	s := newScript()
	s.addTurn(sample.Reply{Text: "a"}, messageJSON("user", "one"))
	s.addTurn(sample.Reply{Text: "b"}, messageJSON("user", "two"))
	s.addTurn(sample.Reply{Text: "c"}, messageJSON("user", "three"))
	s.session.Ratings = []sample.Rating{
		{Source: "user", Type: "rejection", Turn: 2, Comment: "no", Details: json.RawMessage(`{"why":1}`)},
		{Source: "user", Type: "approval"},
	}
	got := sample.Build(s.session)
	labels := []string{got[0].Feedback.QualityLabel, got[1].Feedback.QualityLabel, got[2].Feedback.QualityLabel}
	if !reflect.DeepEqual(labels, []string{"", sample.Poor, sample.Good}) {
		t.Errorf("got labels %q, want no label for turn 1, poor for the rejected turn 2, and good for turn 3, the last", labels)
	}
	d := got[1].Feedback.Details
	if d["comment"] != "no" || d["turn"] != 2 || d["rated"] != true || string(d["details"].(json.RawMessage)) != `{"why":1}` {
		t.Errorf("got details %v, want comment no, turn 2, rated true and the rating's details", d)
	}
}

func TestQualityCountsRatings(t *testing.T) {
	var q sample.Quality
	if q.Rates().OK {
		t.Error("no samples: got Rates().OK = true, want false")
	}
	ratedSample := func(typ, label string, score float64) *sample.Sample {
		return &sample.Sample{Family: sample.DialogResponse, Feedback: sample.Feedback{Type: typ, QualityLabel: label, Details: map[string]any{"score": score}}}
	}
	for _, s := range []*sample.Sample{
		ratedSample("approval", sample.Good, 1), ratedSample("score", sample.Good, 0.9), ratedSample("score", sample.Acceptable, 0.5), ratedSample("score", sample.Poor, 0.1),
		ratedSample("rejection", sample.Poor, 0), ratedSample("correction", sample.Poor, 0.5), ratedSample("approval", sample.Good, 1), ratedSample("approval", sample.Good, 0),
		{Family: sample.IntentResolution, Feedback: sample.Unrated()},
	} {
		q.Add(s)
	}
	if q.Samples != 9 || q.Rated != 8 || q.ByFamily[sample.DialogResponse] != 8 || q.ByLabel[sample.Poor] != 3 {
		t.Errorf("got %+v, want Samples = 9, Rated = 8, ByFamily[DialogResponse] = 8, ByLabel[Poor] = 3", q)
	}
	want := sample.Rates{Approval: 0.5, Correction: 0.125, Rejection: 0.25, MeanScore: 0.5, OK: true}
	if got := q.Rates(); got != want {
		t.Errorf("got rates %+v, want %+v", got, want)
	}
}

func TestFilterMatchesEachCriterion(t *testing.T) {
	c := newScript()
	e := c.addTurn(sample.Reply{Text: "a"}, messageJSON("user", "one"))
	e.Lessons = []sample.Lesson{{Slug: "x", State: "injected"}, {Slug: "y", State: "withheld"}}
	s := sample.Build(c.session)[0]
	var decoded sample.Sample
	raw, _ := json.Marshal(s)
	if err := json.Unmarshal(raw, &decoded); err != nil {
		t.Fatal(err)
	}
	at := s.CreatedAt
	tests := []struct {
		name string
		f    sample.Filter
		want bool
	}{
		{"empty filter", sample.Filter{}, true},
		{"tenant", sample.Filter{Tenant: "default"}, true},
		{"other tenant", sample.Filter{Tenant: "x"}, false},
		{"from is inclusive", sample.Filter{From: at}, true},
		{"to is exclusive", sample.Filter{To: at}, false},
		{"too late", sample.Filter{From: at.Add(time.Second)}, false},
		{"family", sample.Filter{Families: []string{sample.IntentResolution, sample.DialogResponse}}, true},
		{"other family", sample.Filter{Families: []string{sample.IntentResolution}}, false},
		{"unrated", sample.Filter{Quality: []string{"unrated"}}, true},
		{"good", sample.Filter{Quality: []string{sample.Good}}, false},
		{"lesson", sample.Filter{Lesson: "x"}, true},
		{"withheld lesson", sample.Filter{Lesson: "y"}, false},
	}
	for _, tc := range tests {
		for _, sample := range []*sample.Sample{&s, &decoded} {
			if got := tc.f.Match("default", sample); got != tc.want {
				t.Errorf("%s: got Match = %v, want %v", tc.name, got, tc.want)
			}
		}
	}
}

func TestCallExecutedUnchangedIsAcceptable(t *testing.T) {
	for name, tc := range map[string]struct {
		sentBack string // arguments in the next request
		ratings  []sample.Rating
		want     string
	}{
		"unchanged":             {`{"cmd":"npm test -- -w"}`, nil, sample.Acceptable},
		"different white space": {`{ "cmd" : "npm test -- -w" }`, nil, sample.Acceptable},
		"changed":               {`{"cmd":"npm test -- -x"}`, nil, ""},
		"rejected by the user":  {`{"cmd":"npm test -- -w"}`, []sample.Rating{{Source: "user", Type: "rejection", Turn: 2}}, sample.Poor},
		"approved by the user":  {`{"cmd":"npm test -- -w"}`, []sample.Rating{{Source: "user", Type: "approval", Turn: 2}}, sample.Good},
	} {
		s := newScript()
		s.session.IsFailure = func(_, _, text string, _ int8) bool { return text == "failed" }
		s.addTurn(callReply("c1", "sh", `{"cmd":"npm test"}`), messageJSON("user", "Run the tests"))
		s.addTurn(callReply("c2", "sh", `{"cmd":"npm test -- -w"}`), resultJSON("c1", "failed"))
		s.repeatedReply[0] = strings.Replace(s.repeatedReply[0], `{\"cmd\":\"npm test -- -w\"}`, strings.ReplaceAll(tc.sentBack, `"`, `\"`), 1)
		s.addTurn(sample.Reply{Text: "They pass."}, resultJSON("c2", "ok"))
		s.session.Ratings = tc.ratings
		found := false
		for _, m := range sample.Build(s.session) {
			if m.Family != sample.ErrorCorrection {
				continue
			}
			found = true
			if m.Feedback.QualityLabel != tc.want {
				t.Errorf("%s: got label %q, want %q", name, m.Feedback.QualityLabel, tc.want)
			}
			if err := validateSample(m); err != nil {
				t.Errorf("%s: schema check: %v", name, err)
			}
		}
		if !found {
			t.Errorf("%s: got no error_correction sample, want one", name)
		}
	}
}

// A sample with feedback on an opted-out turn contains the feedback's score, but none of its text.
func TestSampleOmitsFeedbackTextOnOptedOutTurn(t *testing.T) {
	t.Parallel()
	s := sample.Session{
		Tenant: "t", ID: "s",
		Exchanges: []sample.Exchange{
			{Turn: 1, Dialect: "chat", New: []json.RawMessage{json.RawMessage(`{"role":"user","content":"fix it"}`)}, Reply: sample.Reply{Calls: []sample.Call{{ID: "c", Name: "bash", Args: `{"command":"make"}`}}}},
			{Turn: 3, Dialect: "chat", New: []json.RawMessage{json.RawMessage(`{"role":"tool","tool_call_id":"c","content":"ok"}`)}, Reply: sample.Reply{Text: "done"}},
		},
		Ratings: []sample.Rating{{Source: "user", Type: "score", Score: 0.25, Turn: 2, Comment: "canary", Correction: json.RawMessage(`"canary"`), Details: json.RawMessage(`"canary"`)}},
	}
	rated := 0
	for _, m := range sample.Build(s) {
		if text := fmt.Sprint(m); strings.Contains(text, "canary") {
			t.Errorf("sample contains text from feedback on an opted-out turn: %s", text)
		}
		if m.Feedback.Details["score"] == 0.25 {
			rated++
		}
	}
	if rated == 0 {
		t.Error("got no sample with the score 0.25, want at least one")
	}
}
