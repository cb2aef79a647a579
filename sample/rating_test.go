package sample

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestRatings(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }
	approve := Rating{At: day(1), Source: "user", Type: "approval", Score: 1}
	tests := []struct {
		name    string
		ratings []Rating
		source  string
		typ     string
		label   string
		human   string
		score   float64
	}{
		{"approval", []Rating{approve}, "user", "approval", Good, Approved, 1},
		{"approval without a number", []Rating{{Source: "user", Type: "approval"}}, "user", "approval", Good, Approved, 1},
		{"rejection", []Rating{{Source: "user", Type: "rejection"}}, "user", "rejection", Poor, Rejected, 0},
		{"rejection with a label", []Rating{{Source: "user", Type: "rejection", Label: Acceptable}}, "user", "rejection", Acceptable, Rejected, 0},
		{"score", []Rating{{Source: "user", Type: "score", Score: 0.5}}, "user", "score", Acceptable, Approved, 0.5},
		{"low score", []Rating{{Source: "user", Type: "score", Score: 0.1}}, "user", "score", Poor, Rejected, 0.1},
		{"score out of range", []Rating{{Source: "user", Type: "score", Score: 7}}, "user", "score", Good, Approved, 1},
		{"correction", []Rating{{Source: "user", Type: "correction", Score: 0.3, Correction: json.RawMessage(`"x"`)}}, "user", "correction", Poor, Rejected, 0.3},
		{"a verifier does not review", []Rating{{Source: "system", Type: "score", Score: 1}}, "system", "score", Good, NotReviewed, 1},
		{"implicit is the system's", []Rating{{Source: "implicit", Type: "rejection"}}, "system", "rejection", Poor, NotReviewed, 0},
		{"a person goes first", []Rating{{At: day(3), Source: "system", Type: "score"}, approve, {At: day(4), Source: "implicit", Type: "rejection"}}, "user", "approval", Good, Approved, 1},
		{"the latest counts", []Rating{approve, {At: day(2), Source: "user", Type: "rejection"}}, "user", "rejection", Poor, Rejected, 0},
		{"another turn's", []Rating{{Source: "user", Type: "rejection", Turn: 9}}, "system", "score", "", NotReviewed, 0.5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newScript()
			c.turn(Reply{Text: "ok"}, say("user", "Hi"))
			c.s.Ratings = tt.ratings
			s := Build(c.s)[0]
			if s.Feedback.Source != tt.source || s.Feedback.Type != tt.typ || s.Feedback.QualityLabel != tt.label {
				t.Errorf("feedback %+v", s.Feedback)
			}
			if s.Meta["human_feedback_label"] != tt.human || s.Meta["quality_score"] != tt.score {
				t.Errorf("meta %v", s.Meta)
			}
			if p := Validate(s); len(p) != 0 {
				t.Errorf("problems %v", p)
			}
		})
	}
}

func TestRatingsOfTurns(t *testing.T) {
	c := newScript()
	c.turn(Reply{Text: "a"}, say("user", "one"))
	c.turn(Reply{Text: "b"}, say("user", "two"))
	c.turn(Reply{Text: "c"}, say("user", "three"))
	c.s.Ratings = []Rating{
		{Source: "user", Type: "rejection", Turn: 2, Comment: "no", Details: json.RawMessage(`{"why":1}`)},
		{Source: "user", Type: "approval"},
	}
	got := Build(c.s)
	labels := []string{got[0].Feedback.QualityLabel, got[1].Feedback.QualityLabel, got[2].Feedback.QualityLabel}
	if !reflect.DeepEqual(labels, []string{"", Poor, Good}) {
		t.Errorf("labels %q: a turn's rating belongs to it, the session's to its last answer", labels)
	}
	d := got[1].Feedback.Details
	if d["comment"] != "no" || d["turn"] != 2 || d["rated"] != true || string(d["details"].(json.RawMessage)) != `{"why":1}` {
		t.Errorf("details %v", d)
	}
}

func TestQuality(t *testing.T) {
	var q Quality
	if q.Rates().OK {
		t.Error("rates of nothing")
	}
	rated := func(typ, label string, score float64) *Sample {
		return &Sample{Family: DialogResponse, Feedback: Feedback{Type: typ, QualityLabel: label, Details: map[string]any{"score": score}}}
	}
	for _, s := range []*Sample{
		rated("approval", Good, 1), rated("score", Good, 0.9), rated("score", Acceptable, 0.5), rated("score", Poor, 0.1),
		rated("rejection", Poor, 0), rated("correction", Poor, 0.5), rated("approval", Good, 1), rated("approval", Good, 0),
		{Family: IntentResolution, Feedback: Unrated()},
	} {
		q.Add(s)
	}
	if q.Samples != 9 || q.Rated != 8 || q.ByFamily[DialogResponse] != 8 || q.ByLabel[Poor] != 3 {
		t.Errorf("%+v", q)
	}
	want := Rates{Approval: 0.5, Correction: 0.125, Rejection: 0.25, MeanScore: 0.5, OK: true}
	if got := q.Rates(); got != want {
		t.Errorf("rates %+v, want %+v", got, want)
	}
}

func TestFilter(t *testing.T) {
	c := newScript()
	e := c.turn(Reply{Text: "a"}, say("user", "one"))
	e.Lessons = []Lesson{{Slug: "x", State: "injected"}, {Slug: "y", State: "withheld"}}
	s := Build(c.s)[0]
	var decoded Sample
	raw, _ := json.Marshal(s)
	if err := json.Unmarshal(raw, &decoded); err != nil {
		t.Fatal(err)
	}
	at := s.CreatedAt
	tests := []struct {
		name string
		f    Filter
		want bool
	}{
		{"all", Filter{}, true},
		{"tenant", Filter{Tenant: "default"}, true},
		{"other tenant", Filter{Tenant: "x"}, false},
		{"from is inclusive", Filter{From: at}, true},
		{"to is exclusive", Filter{To: at}, false},
		{"too late", Filter{From: at.Add(time.Second)}, false},
		{"family", Filter{Families: []string{IntentResolution, DialogResponse}}, true},
		{"other family", Filter{Families: []string{IntentResolution}}, false},
		{"unrated", Filter{Quality: []string{"unrated"}}, true},
		{"good", Filter{Quality: []string{Good}}, false},
		{"lesson", Filter{Lesson: "x"}, true},
		{"a withheld lesson was not there", Filter{Lesson: "y"}, false},
	}
	for _, tt := range tests {
		for _, sample := range []*Sample{&s, &decoded} {
			if got := tt.f.Match("default", sample); got != tt.want {
				t.Errorf("%s: %v", tt.name, got)
			}
		}
	}
}

// A corrected call that nobody rated is acceptable when it was carried out as the model made it;
// not when somebody changed it, and what people say goes before.
func TestExecutedUnchanged(t *testing.T) {
	for name, c := range map[string]struct {
		sentBack string // the arguments with which the call comes back
		ratings  []Rating
		want     string
	}{
		"as it was":         {`{"cmd":"npm test -- -w"}`, nil, Acceptable},
		"written anew":      {`{ "cmd" : "npm test -- -w" }`, nil, Acceptable},
		"changed":           {`{"cmd":"npm test -- -x"}`, nil, ""},
		"a person's word":   {`{"cmd":"npm test -- -w"}`, []Rating{{Source: "user", Type: "rejection", Turn: 2}}, Poor},
		"a person's praise": {`{"cmd":"npm test -- -w"}`, []Rating{{Source: "user", Type: "approval", Turn: 2}}, Good},
	} {
		s := newScript()
		s.s.Failing = func(_, _, text string, _ int8) bool { return text == "failed" }
		s.turn(calls("c1", "sh", `{"cmd":"npm test"}`), say("user", "Run the tests"))
		s.turn(calls("c2", "sh", `{"cmd":"npm test -- -w"}`), answer("c1", "failed"))
		s.echo[0] = strings.Replace(s.echo[0], `{\"cmd\":\"npm test -- -w\"}`, strings.ReplaceAll(c.sentBack, `"`, `\"`), 1)
		s.turn(Reply{Text: "They pass."}, answer("c2", "ok"))
		s.s.Ratings = c.ratings
		found := false
		for _, m := range Build(s.s) {
			if m.Family != ErrorCorrection {
				continue
			}
			found = true
			if m.Feedback.QualityLabel != c.want {
				t.Errorf("%s: %q, want %q", name, m.Feedback.QualityLabel, c.want)
			}
			if p := Validate(m); len(p) > 0 {
				t.Errorf("%s: %v", name, p)
			}
		}
		if !found {
			t.Errorf("%s: no error_correction", name)
		}
	}
}
