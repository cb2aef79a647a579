package sample_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"precept/internal/sample"
)

// schemas returns the MPLP v1.0 schemas by family. The core schema is under "", and precept's requirements are under
// "precept".
var schemas = sync.OnceValues(func() (map[string]*jsonschema.Schema, error) { //nolint:gochecknoglobals // compiled once for all tests
	const base = "https://mplp.dev/schemas/v1.0/learning/"
	files := map[string]string{
		"":                      "mplp-learning-sample-core.schema.json",
		sample.IntentResolution: "mplp-learning-sample-intent.schema.json",
		"precept":               "precept-sample.schema.json",
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for _, file := range files {
		raw, err := os.ReadFile("testdata/" + file)
		if err != nil {
			return nil, err
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			return nil, err
		}
		if err := c.AddResource(base+file, doc); err != nil {
			return nil, err
		}
	}
	out := map[string]*jsonschema.Schema{}
	for family, file := range files {
		s, err := c.Compile(base + file)
		if err != nil {
			return nil, err
		}
		out[family] = s
	}
	return out, nil
})

// validateSample checks a sample against the family's schema (or else the core schema) and against precept's.
func validateSample(s sample.Sample) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return validateJSON(raw)
}

func validateJSON(raw []byte) error {
	all, err := schemas()
	if err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	m, _ := doc.(map[string]any)
	family, _ := m["sample_family"].(string)
	published := all[family]
	if published == nil || family == "precept" {
		published = all[""]
	}
	if err := published.Validate(doc); err != nil {
		return err
	}
	return all["precept"].Validate(doc)
}

func TestValidateJSONRejectsInvalidSamples(t *testing.T) {
	head := func(family string) string {
		return `{"sample_id":"3f2b8c1e-7d4a-4c1b-9e2f-0a1b2c3d4e5f","sample_family":"` + family + `","created_at":"2026-01-02T03:04:05Z",
			"feedback":{"source":"user","type":"approval","details":{},"quality_label":"good"},"meta":{"human_feedback_label":"approved","quality_score":1,"source_flow_id":"x"},`
	}
	intent := head("intent_resolution") + `"input":{"intent_id":"i","raw_request_summary":"r","dialog_turns_count":1},"output":{"final_intent_summary":"f","resolution_quality_label":"good"}}`
	good := map[string]string{
		"intent": intent,
		"dialog": head("dialog_response") + `"input":{"user_text":"u"},"output":{"response_text":"r"}}`,
		"fix":    head("error_correction") + `"input":{"tool":"t","error":"e"},"output":{"corrected_call":{}}}`,
		"plan":   head("plan_optimization") + `"input":{"reasons":[]},"output":{"result_summary":"s"}}`,
	}
	for name, raw := range good {
		if err := validateJSON([]byte(raw)); err != nil {
			t.Errorf("valid sample %s: %v", name, err)
		}
	}
	for _, tc := range []struct{ from, old, new string }{
		{"intent", "-4c1b-", "-1c1b-"},
		{"intent", "-9e2f-", "-ce2f-"},
		{"intent", `"sample_id":`, `"x":`},
		{"intent", "05Z", "05"},
		{"intent", "2026-01", "2026-13"},
		{"intent", `"output":`, `"outputs":`},
		{"intent", `"intent_id":"i"`, `"intent_id":" "`},
		{"intent", `_count":1`, `_count":1.5`},
		{"intent", `resolution_quality_label":"good"`, `resolution_quality_label":"poor"`},
		{"intent", `"approved"`, `"fine"`},
		{"intent", `"quality_score":1`, `"quality_score":1.01`},
		{"intent", `"source_flow_id":"x"`, `"source_flow_id":""`},
		{"intent", `"details":{},`, ``},
		{"intent", `"feedback":`, `"said":`},
		{"intent", `"good"},"meta`, `"great"},"meta`},
		{"intent", `"intent_resolution"`, `"other"`},
		{"dialog", `"user_text":"u"`, ``},
		{"dialog", `"response_text":"r"`, `"response_text":null`},
		{"fix", `"error":"e"`, `"error":3`},
		{"fix", `"corrected_call":{}`, `"corrected_call":null`},
		{"plan", `"reasons":[]`, ``},
		{"plan", `"result_summary":"s"`, `"result_summary":null`},
	} {
		raw := strings.Replace(good[tc.from], tc.old, tc.new, 1)
		if raw == good[tc.from] {
			t.Fatalf("valid sample %s lacks %q", tc.from, tc.old)
		}
		if validateJSON([]byte(raw)) == nil {
			t.Errorf("%s with %q instead of %q: err = nil, want an error", tc.from, tc.new, tc.old)
		}
	}
}

func TestEachSampleFamilyConformsToSchema(t *testing.T) {
	s := newScript()
	s.session.IsFailure = isFailure
	s.addTurn(callReply("c1", "bash", "go tst"), messageJSON("user", "Run the tests"))
	s.addTurn(callReply("c2", "bash", "go test"), resultJSON("c1", "error: unknown")).Loops = 1
	s.addTurn(sample.Reply{Text: "All pass."}, resultJSON("c2", "ok"))
	s.addTurn(sample.Reply{Text: "Bye."}, messageJSON("user", "Thanks"))
	s.session.Ratings = []sample.Rating{{Source: "user", Type: "approval"}}
	got := sample.Build(s.session)
	if families(got) != "intent_resolution dialog_response error_correction plan_optimization" {
		t.Fatalf("got families %s, want one sample for each family", families(got))
	}
	for _, s := range got {
		if err := validateSample(s); err != nil {
			t.Errorf("validateSample(%s) error = %v", s.Family, err)
		}
	}
}
