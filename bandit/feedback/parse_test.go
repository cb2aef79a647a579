package feedback_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/bandit/feedback"
)

func TestParseReadsEachFeedbackKind(t *testing.T) {
	long := strings.Repeat("x", feedback.MaxID+1)
	for _, tc := range []struct {
		name, body string
		want       feedback.Post // compared except for correction and comment
		fault      string        // part of the error; empty for no error
	}{
		{"approval", `{"session_id":"s","source":"user","type":"approval"}`, feedback.Post{SessionID: "s", Entry: feedback.Entry{Source: "user", Type: "approval", Score: 1, Tier: 1}}, ""},
		{"rejection", `{"request_id":"r","type":"rejection"}`, feedback.Post{RequestID: "r", Entry: feedback.Entry{Source: "user", Type: "rejection", Score: 0, Tier: 1}}, ""},
		{"correction", `{"response_id":"resp_1","source":"user","type":"correction","correction":{"x":[1]}}`, feedback.Post{ResponseID: "resp_1", Entry: feedback.Entry{Source: "user", Type: "correction", Score: .5, Tier: 1}}, ""},
		{"verifier score", `{"sample_id":"x","source":"system","type":"score","score":0.25}`, feedback.Post{SampleID: "x", Entry: feedback.Entry{Source: "system", Type: "score", Score: .25, Tier: 2}}, ""},
		{"score 0", `{"session_id":"s","type":"score","score":0}`, feedback.Post{SessionID: "s", Entry: feedback.Entry{Source: "user", Type: "score", Score: 0, Tier: 1}}, ""},
		{"score without type", `{"session_id":"s","score":1}`, feedback.Post{SessionID: "s", Entry: feedback.Entry{Source: "user", Type: "score", Score: 1, Tier: 1}}, ""},
		{"label without type or score", `{"session_id":"s","quality_label":"acceptable"}`, feedback.Post{SessionID: "s", Entry: feedback.Entry{Source: "user", Type: "score", Score: .5, Tier: 1, Label: "acceptable"}}, ""},
		{"label poor", `{"session_id":"s","quality_label":"poor"}`, feedback.Post{SessionID: "s", Entry: feedback.Entry{Source: "user", Type: "score", Tier: 1, Label: "poor"}}, ""},
		{"label and a type", `{"session_id":"s","type":"approval","quality_label":"good"}`, feedback.Post{SessionID: "s", Entry: feedback.Entry{Source: "user", Type: "approval", Score: 1, Tier: 1, Label: "good"}}, ""},
		{"null values", `{"session_id":"s","request_id":null,"type":"approval","score":null,"comment":null}`, feedback.Post{SessionID: "s", Entry: feedback.Entry{Source: "user", Type: "approval", Score: 1, Tier: 1}}, ""},

		{"score equal to type score", `{"session_id":"s","type":"approval","score":1}`, feedback.Post{SessionID: "s", Entry: feedback.Entry{Source: "user", Type: "approval", Score: 1, Tier: 1}}, ""},
		{"run", `{"run_id":"ci-1","type":"approval"}`, feedback.Post{RunID: "ci-1", Entry: feedback.Entry{Source: "user", Type: "approval", Score: 1, Tier: 1}}, ""},
		{"empty comment and rater", `{"session_id":"s","type":"approval","comment":"","rater":""}`, feedback.Post{SessionID: "s", Entry: feedback.Entry{Source: "user", Type: "approval", Score: 1, Tier: 1}}, ""},
		{"empty label", `{"session_id":"s","type":"approval","quality_label":""}`, feedback.Post{}, "quality_label is empty"},
		{"empty id", `{"id":"","session_id":"s","type":"approval"}`, feedback.Post{}, "id is empty"},
		{"two invalid values", `{"id":7,"session_id":"s","type":"approval","comment":8}`, feedback.Post{}, "id must be"},
		{"key without _id", `{"session":"s","type":"approval"}`, feedback.Post{}, `unknown key "session"; did you mean session_id?`},
		{"key without quality_", `{"session_id":"s","label":"good"}`, feedback.Post{}, `unknown key "label"; did you mean quality_label?`},
		{"several unknown keys", `{"session_id":"s","zeal":1,"zest":1,"awe":1,"type":"approval"}`, feedback.Post{}, `unknown key "awe"`},
		{"long unknown key", `{"` + long + `":1}`, feedback.Post{}, `"` + strings.Repeat("x", 64) + `..."`},
		{"64-byte unknown key", `{"` + long[:64] + `":1}`, feedback.Post{}, `"` + long[:64] + `"; known`},
		{"multibyte character at limit", `{"session_id":"s","type":"` + strings.Repeat("x", 63) + `é"}`, feedback.Post{}, `"` + strings.Repeat("x", 63) + `..."`},

		{"unknown key", `{"session_id":"s","type":"approval","raiting":5}`, feedback.Post{}, `"raiting"`},
		{"key in another letter case", `{"Session_ID":"s","type":"approval"}`, feedback.Post{}, `"Session_ID"`},
		{"no target", `{"type":"approval"}`, feedback.Post{}, "exactly one of"},
		{"two targets", `{"session_id":"s","response_id":"r","type":"approval"}`, feedback.Post{}, "session_id and response_id"},
		{"empty target", `{"session_id":"","type":"approval"}`, feedback.Post{}, "session_id"},
		{"no type", `{"session_id":"s"}`, feedback.Post{}, "type"},
		{"bad type", `{"session_id":"s","type":"love"}`, feedback.Post{}, "type"},
		{"bad source", `{"session_id":"s","source":"implicit","type":"approval"}`, feedback.Post{}, "source"},
		{"bad label", `{"session_id":"s","quality_label":"great"}`, feedback.Post{}, "quality_label"},
		{"score missing", `{"session_id":"s","type":"score"}`, feedback.Post{}, "score"},
		{"label and a missing score", `{"session_id":"s","type":"score","quality_label":"good"}`, feedback.Post{}, "score"},
		{"score above 1", `{"session_id":"s","type":"score","score":1.01}`, feedback.Post{}, "between 0 and 1"},
		{"score below 0", `{"session_id":"s","type":"score","score":-0.1}`, feedback.Post{}, "between 0 and 1"},
		{"score above 1 and a type", `{"session_id":"s","type":"approval","score":7}`, feedback.Post{}, "between 0 and 1"},
		{"score is a string", `{"session_id":"s","type":"score","score":"1"}`, feedback.Post{}, "score must be a number"},
		{"score beyond float64", `{"session_id":"s","type":"score","score":1e999}`, feedback.Post{}, "score"},
		{"id too long", `{"id":"` + long + `","session_id":"s","type":"approval"}`, feedback.Post{}, "id is"},
		{"session too long", `{"session_id":"` + long + `","type":"approval"}`, feedback.Post{}, "session_id"},
		{"comment too long", `{"session_id":"s","type":"approval","comment":"` + strings.Repeat("x", feedback.MaxComment+1) + `"}`, feedback.Post{}, "comment"},
		{"details too long", `{"session_id":"s","type":"approval","details":"` + strings.Repeat("x", feedback.MaxJSON+1) + `"}`, feedback.Post{}, "details"},
		{"id is a number", `{"id":7,"session_id":"s","type":"approval"}`, feedback.Post{}, "id must be a string"},
		{"not an object", `7`, feedback.Post{}, "object"},
		{"null", `null`, feedback.Post{}, "object"},
		{"truncated JSON", `{"session_id":`, feedback.Post{}, "object"},
		{"two objects", `{"session_id":"s","type":"approval"}{}`, feedback.Post{}, "object"},
		{"empty", ` `, feedback.Post{}, "empty"},
		{"not UTF-8", "{\"session_id\":\"\xff\",\"type\":\"approval\"}", feedback.Post{}, "UTF-8"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			posts, errs, bulk, err := feedback.Parse([]byte(tc.body))
			if tc.fault != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fault) || len(posts) > 0 || bulk {
					t.Errorf("got err = %v, %d posts, bulk = %v, want an error with %q, no post, and bulk = false", err, len(posts), bulk, tc.fault)
				}
				return
			}
			if err != nil || len(posts) != 1 || errs[0] != nil || bulk {
				t.Fatalf("Parse = %v, %v, %v, %v, want one post without an error", posts, errs, bulk, err)
			}
			p := posts[0]
			p.Entry.Correction, p.Entry.Comment = nil, ""
			if fmt.Sprintf("%+v", p) != fmt.Sprintf("%+v", tc.want) {
				t.Errorf("got  %+v\nwant %+v", p, tc.want)
			}
		})
	}
}

func TestParseBulkReportsEachInvalidEntry(t *testing.T) {
	posts, errs, bulk, err := feedback.Parse([]byte(`[{"session_id":"a","type":"approval"}, {"session_id":"b","typ":"x"}, 7, null, {"session_id":"c","score":0.5}]`))
	if err != nil || !bulk || len(posts) != 5 || len(errs) != 5 {
		t.Fatalf("Parse = %v, %v, %v, %v, want 5 posts, 5 entry errors, true, nil", posts, errs, bulk, err)
	}
	for i, bad := range []bool{false, true, true, true, false} {
		if (errs[i] != nil) != bad {
			t.Errorf("entry %d: err = %v, want an error: %v", i, errs[i], bad)
		}
	}
	if posts[0].SessionID != "a" || posts[4].Entry.Score != .5 {
		t.Errorf("posts = %+v, want session a in the first post and score 0.5 in the last", posts)
	}
	largestBulk := strings.Repeat(`{"session_id":"s","score":1},`, feedback.MaxBulk)
	for body, wantErr := range map[string]string{`[]`: "empty", `[{]`: "not valid JSON", `[` + largestBulk + `{}]`: "send at most"} {
		if _, _, bulk, err := feedback.Parse([]byte(body)); err == nil || !bulk || !strings.Contains(err.Error(), wantErr) {
			t.Errorf("%.20s: got err = %v, bulk = %v, want an error with %q, and bulk = true", body, err, bulk, wantErr)
		}
	}
	if posts, _, _, err := feedback.Parse([]byte(`[` + strings.TrimSuffix(largestBulk, ",") + `]`)); err != nil || len(posts) != feedback.MaxBulk {
		t.Errorf("largest permitted bulk: %d posts, err = %v, want %d posts and no error", len(posts), err, feedback.MaxBulk)
	}
}

// Parse accepts fields of the maximum size, which is larger for the name of a run than for an id. It removes white
// space in JSON values.
func TestParseAcceptsMaximumSizeFields(t *testing.T) {
	id, comment, run := strings.Repeat("i", feedback.MaxID), strings.Repeat("c", feedback.MaxComment), strings.Repeat("r", feedback.MaxID+1)
	value := `"` + strings.Repeat("v", feedback.MaxJSON-2) + `"`
	posts, _, _, err := feedback.Parse([]byte(`{"id":"` + id + `","run_id":"` + run + `","score":1,"comment":"` + comment + `","details":` + value + `,"correction": {"a": [1, 2]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if p := posts[0]; p.Entry.ID != id || p.RunID != run || p.Entry.Comment != comment || string(p.Entry.Details) != value || string(p.Entry.Correction) != `{"a":[1,2]}` {
		t.Errorf("got id %d, run_id %d, comment %d, details %d bytes and correction %s, want %d, %d, %d and %d bytes, and {\"a\":[1,2]}",
			len(p.Entry.ID), len(p.RunID), len(p.Entry.Comment), len(p.Entry.Details), p.Entry.Correction, len(id), len(run), len(comment), len(value))
	}
}

func TestWithReceiptSetsIDTimeAndHash(t *testing.T) {
	at := time.Unix(9, 0)
	n := 0
	newID := func() string { n++; return fmt.Sprint("made-", n) }
	posts, _, _, err := feedback.Parse([]byte(`[{"session_id":"s","type":"approval"},{"id":"mine","session_id":"s","type":"approval"}]`))
	if err != nil {
		t.Fatal(err)
	}
	a, b := posts[0].WithReceipt(at, newID), posts[1].WithReceipt(at, newID)
	if a.Entry.ID != "made-1" || b.Entry.ID != "mine" || n != 1 || !a.Entry.At.Equal(at) || a.Entry.Hash == "" || a.Entry.Hash == b.Entry.Hash || a.Entry.Hash != a.Entry.ContentHash() {
		t.Errorf(`entries = %+v and %+v, want ids made-1 and mine, the time of the post, and different content hashes; generated %d ids, want 1`, a.Entry, b.Entry, n)
	}
	if a.HasSenderID || !b.HasSenderID {
		t.Errorf("HasSenderID = %t for a generated id and %t for a sender's id, want false and true", a.HasSenderID, b.HasSenderID)
	}
}

// Parse keeps the valid fields of a post, and derives the tier from the source. Feedback from the source system gets
// the verifier tier.
func TestParseKeepsValidPostFields(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		target := rapid.SampledFrom([]string{"session_id", "request_id", "response_id", "sample_id"}).Draw(t, "target")
		id := rapid.StringMatching(`[a-zA-Z0-9_\-:é]{1,40}`).Draw(t, "id")
		score := rapid.Float64Range(0, 1).Draw(t, "score")
		body, err := json.Marshal(map[string]any{target: id, "type": "score", "score": score, "source": "system", "details": map[string]any{"x": rapid.String().Draw(t, "x")}})
		if err != nil {
			t.Fatal(err)
		}
		posts, _, _, err := feedback.Parse(body)
		if err != nil {
			t.Fatal(err)
		}
		p := posts[0]
		if got := p.SessionID + p.RequestID + p.ResponseID + p.SampleID; got != id || p.Entry.Score != score || p.Entry.Tier != feedback.TierVerifier {
			t.Fatalf("post = %+v, want target %q, score %v and the verifier tier", p, id, score)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"session_id":"s","type":"score","score":0.5,"details":{"a":[1]}}`))
	f.Add([]byte(`[{"sample_id":"s","quality_label":"good"},{"x":1}]`))
	f.Add([]byte(`{"session_id":"s","type":"approval","score":1e400}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		posts, errs, bulk, err := feedback.Parse(body)
		if err != nil {
			return
		}
		if len(posts) != len(errs) || !bulk && len(posts) != 1 {
			t.Fatalf("%d posts and %d entry errors, want equal numbers, and 1 if bulk is false", len(posts), len(errs))
		}
		for i, p := range posts {
			if errs[i] == nil && (p.Entry.Score < 0 || p.Entry.Score > 1 || p.Entry.Tier < feedback.TierUser || p.Entry.Tier > feedback.TierVerifier || p.Entry.Type == "") {
				t.Fatalf("valid post = %+v, want a score from 0 to 1, the user or verifier tier, and a type", p)
			}
		}
	})
}
