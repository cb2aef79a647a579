package sample_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"precept/sample"
)

// published compiles the schemas of MPLP v1.0; copies of the published documents stand in testdata.
func published(t testing.TB) map[string]*jsonschema.Schema {
	t.Helper()
	const base = "https://mplp.dev/schemas/v1.0/learning/"
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for _, name := range []string{"core", "intent", "delta"} {
		file := "mplp-learning-sample-" + name + ".schema.json"
		raw, err := os.ReadFile("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource(base+file, doc); err != nil {
			t.Fatal(err)
		}
	}
	out := map[string]*jsonschema.Schema{}
	for family, name := range map[string]string{"": "core", sample.IntentResolution: "intent", sample.DeltaImpact: "delta"} {
		s, err := c.Compile(base + "mplp-learning-sample-" + name + ".schema.json")
		if err != nil {
			t.Fatal(err)
		}
		out[family] = s
	}
	return out
}

func conforms(t testing.TB, schemas map[string]*jsonschema.Schema, raw []byte) bool {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return false
	}
	schema := schemas[""]
	if m, ok := doc.(map[string]any); ok {
		if family, ok := m["sample_family"].(string); ok && schemas[family] != nil {
			schema = schemas[family]
		}
	}
	return schema.Validate(doc) == nil
}

const goodIntent = `{"sample_id":"3f2b8c1e-7d4a-4c1b-9e2f-0a1b2c3d4e5f","sample_family":"intent_resolution","created_at":"2026-01-02T03:04:05Z",
	"input":{"intent_id":"i","raw_request_summary":"r","dialog_turns_count":1},"state":{"psg_node_count":0},"output":{"final_intent_summary":"f","resolution_quality_label":"good"},
	"feedback":{"source":"user","type":"approval","details":{},"quality_label":"good"},"meta":{"human_feedback_label":"approved","quality_score":1,"source_flow_id":"x"}}`

const goodDelta = `{"sample_id":"3f2b8c1e-7d4a-4c1b-9e2f-0a1b2c3d4e5f","sample_family":"delta_impact","created_at":"2026-01-02T03:04:05.678+01:00",
	"input":{"delta_id":"d","intent_id":"i","change_summary":"c","delta_type":"pivot"},"state":{"risk_level":"low","psg_complexity_score":1.5},
	"output":{"actual_impact_summary":"a","impact_scope":"local","rollback_used":false},"meta":{"predicted_vs_actual_accuracy":"accurate"}}`

func TestValidateJSON(t *testing.T) {
	tests := []struct {
		name, from, old, new string
		rule, path           string // "" for no problem
	}{
		{"intent", goodIntent, "", "", "", ""},
		{"delta", goodDelta, "", "", "", ""},
		{"id is v1", goodIntent, "-4c1b-", "-1c1b-", "learning_sample_id_is_uuid", "sample_id"},
		{"id has another variant", goodIntent, "-9e2f-", "-ce2f-", "learning_sample_id_is_uuid", "sample_id"},
		{"id in braces", goodIntent, `"3f2b8c1e-7d4a-4c1b-9e2f-0a1b2c3d4e5f"`, `"{3f2b8c1e-7d4a-4c1b-9e2f-0a1b2c3d4e5f}"`, "learning_sample_id_is_uuid", "sample_id"},
		{"id is missing", goodIntent, `"sample_id":`, `"x":`, "required", "sample_id"},
		{"family is empty", goodIntent, `"intent_resolution"`, `" "`, "learning_sample_family_non_empty", "sample_family"},
		{"family is a number", goodIntent, `"intent_resolution"`, `3`, "type", "sample_family"},
		{"time without zone", goodIntent, "05Z", "05", "learning_sample_created_at_iso", "created_at"},
		{"no such month", goodIntent, "2026-01", "2026-13", "learning_sample_created_at_iso", "created_at"},
		{"input is a list", goodIntent, `"input":{"intent_id":"i","raw_request_summary":"r","dialog_turns_count":1}`, `"input":[]`, "type", "input"},
		{"no output", goodIntent, `"output":`, `"outputs":`, "required", "output"},
		{"intent id is empty", goodIntent, `"intent_id":"i"`, `"intent_id":""`, "learning_intent_has_intent_id", "input.intent_id"},
		{"no intent id", goodIntent, `"intent_id":"i",`, ``, "required", "input.intent_id"},
		{"negative count", goodIntent, `_count":1`, `_count":-1`, "minimum", "input.dialog_turns_count"},
		{"half a count", goodIntent, `_count":1`, `_count":1.5`, "minimum", "input.dialog_turns_count"},
		{"a whole float", goodIntent, `_count":1`, `_count":1.0`, "", ""},
		{"label", goodIntent, `quality_label":"good"},"meta`, `quality_label":"great"},"meta`, "enum", "feedback.quality_label"},
		{"resolution label", goodIntent, `resolution_quality_label":"good"`, `resolution_quality_label":"poor"`, "learning_intent_quality_label_valid", "output.resolution_quality_label"},
		{"human label", goodIntent, `"approved"`, `"fine"`, "learning_sample_feedback_label_valid", "meta.human_feedback_label"},
		{"score above 1", goodIntent, `"quality_score":1`, `"quality_score":1.01`, "minimum", "meta.quality_score"},
		{"score of many digits", goodIntent, `"quality_score":1`, `"quality_score":1e99999999`, "type", "meta.quality_score"},
		{"flow is empty", goodIntent, `"source_flow_id":"x"`, `"source_flow_id":""`, "learning_sample_source_flow_non_empty", "meta.source_flow_id"},
		{"events", goodIntent, `"source_flow_id":"x"`, `"source_event_ids":["x"]`, "format", "meta.source_event_ids.0"},
		{"project", goodIntent, `"source_flow_id":"x"`, `"project_id":"x"`, "format", "meta.project_id"},
		{"flags", goodIntent, `"source_flow_id":"x"`, `"ambiguity_flags":[1]`, "type", "meta.ambiguity_flags"},
		{"feedback without details", goodIntent, `"details":{},`, ``, "required", "details"},
		{"scope", goodDelta, `"local"`, `"here"`, "learning_delta_scope_valid", "output.impact_scope"},
		{"risk", goodDelta, `"low"`, `"none"`, "learning_delta_risk_valid", "state.risk_level"},
		{"delta id", goodDelta, `"delta_id":"d"`, `"delta_id":""`, "learning_delta_has_delta_id", "input.delta_id"},
		{"delta type", goodDelta, `"pivot"`, `"turn"`, "enum", "input.delta_type"},
		{"rollback", goodDelta, `"rollback_used":false`, `"rollback_used":"no"`, "type", "output.rollback_used"},
		{"complexity", goodDelta, `1.5`, `-1.5`, "minimum", "state.psg_complexity_score"},
		{"no JSON", `{`, "", "", "json", "$"},
		{"no object", `[]`, "", "", "type", "$"},
		{"dialog without answer", `{"sample_id":"3f2b8c1e-7d4a-4c1b-9e2f-0a1b2c3d4e5f","sample_family":"dialog_response","created_at":"2026-01-02T03:04:05Z","input":{"user_text":"x"},"output":{}}`, "", "", "required", "output.response_text"},
	}
	// Invariants that the schemas do not hold.
	ours := map[string]bool{
		"learning_sample_id_is_uuid": true, "learning_sample_family_non_empty": true, "learning_sample_source_flow_non_empty": true,
		"learning_intent_has_intent_id": true, "learning_delta_has_delta_id": true,
	}
	schemas := published(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			raw := strings.Replace(tt.from, tt.old, tt.new, 1)
			if tt.old != "" && raw == tt.from {
				t.Fatalf("%q does not occur", tt.old)
			}
			got := sample.ValidateJSON([]byte(raw))
			if tt.rule == "" {
				if len(got) != 0 {
					t.Errorf("problems %v", got)
				}
			} else if len(got) != 1 || got[0].Rule != tt.rule || got[0].Path != tt.path {
				t.Errorf("problems %v, want one of %s at %s", got, tt.rule, tt.path)
			}
			if strings.Contains(raw, "1e99999999") { // a number of a hundred million digits makes the oracle panic
				return
			}
			if ok := conforms(t, schemas, []byte(raw)); !ok && len(got) == 0 {
				t.Error("the published schema refuses what we accept")
			} else if ok && len(got) != 0 && !ours[tt.rule] && !strings.HasPrefix(tt.name, "feedback") && !strings.HasPrefix(tt.path, "feedback") && !strings.HasPrefix(tt.name, "dialog") {
				t.Error("we refuse what the published schema accepts")
			}
		})
	}
}

// TestValidateAgreesWithSchema changes good samples at random and compares our verdict with that of
// the published schemas.
func TestValidateAgreesWithSchema(t *testing.T) {
	schemas := published(t)
	values := []string{`null`, `true`, `-1`, `0`, `0.5`, `2`, `3.0`, `""`, `"x"`, `"good"`, `"approved"`, `"local"`, `"low"`, `[]`, `["x"]`, `{}`, `"2026-01-02T03:04:05Z"`, `"7f2b8c1e-7d4a-4c1b-9e2f-0a1b2c3d4e5f"`}
	rapid.Check(t, func(t *rapid.T) {
		var doc map[string]any
		if err := json.Unmarshal([]byte(rapid.SampledFrom([]string{goodIntent, goodDelta}).Draw(t, "from")), &doc); err != nil {
			t.Fatalf("%v", err)
		}
		delete(doc, "feedback")
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			at := doc
			keys := []string{"sample_id", "created_at", "input", "output", "state", "meta"}
			if section := rapid.SampledFrom([]string{"", "input", "output", "state", "meta"}).Draw(t, "section"); section != "" {
				inner, ok := doc[section].(map[string]any)
				if !ok {
					continue
				}
				at = inner
				keys = []string{
					"intent_id", "delta_id", "raw_request_summary", "constraints_summary", "dialog_turns_count", "change_summary", "delta_type", "project_phase",
					"psg_node_count", "existing_plan_count", "affected_artifact_count", "risk_level", "psg_complexity_score", "final_intent_summary", "plan_id", "plan_step_count",
					"resolution_quality_label", "actual_impact_summary", "impact_scope", "comp_plan_required", "comp_plan_applied", "rollback_used", "source_flow_id",
					"source_event_ids", "project_id", "human_feedback_label", "quality_score", "clarification_rounds", "ambiguity_flags", "impact_analysis_duration_ms", "predicted_vs_actual_accuracy",
				}
			}
			key := rapid.SampledFrom(keys).Draw(t, "key")
			if value := rapid.SampledFrom(append(values, "gone")).Draw(t, "value"); value == "gone" {
				delete(at, key)
			} else {
				at[key] = json.RawMessage(value)
				if value == `{}` {
					at[key] = map[string]any{}
				}
			}
		}
		raw, err := json.Marshal(doc)
		if err != nil {
			t.Fatalf("%v", err)
		}
		problems := sample.ValidateJSON(raw)
		schemaOK := conformsRapid(schemas, raw)
		stricter := true // whether every problem of ours is an invariant that the schemas do not hold
		for _, p := range problems {
			stricter = stricter && strings.HasPrefix(p.Rule, "learning_") && p.Rule != "learning_sample_created_at_iso"
		}
		if !schemaOK && len(problems) == 0 {
			t.Fatalf("the schema refuses, we accept: %s", raw)
		}
		if schemaOK && len(problems) > 0 && !stricter {
			t.Fatalf("the schema accepts, we refuse: %s: %v", raw, problems)
		}
	})
}

// Every member is held, one at a time, to what the published schemas say of it.
func TestEveryMemberIsHeld(t *testing.T) {
	schemas := published(t)
	values := []string{
		"", `null`, `true`, `-1`, `-0.5`, `0`, `0.5`, `1`, `1.5`, `3.0`, `""`, `" "`, `"x"`, `[]`, `["x"]`, `[1]`, `{}`,
		`"good"`, `"poor"`, `"unknown"`, `"approved"`, `"rejected"`, `"not_reviewed"`, `"local"`, `"global"`, `"low"`, `"critical"`, `"refinement"`, `"pivot"`,
	}
	members := map[string]string{
		"input":  "intent_id delta_id raw_request_summary constraints_summary dialog_turns_count change_summary delta_type project_phase",
		"state":  "psg_node_count existing_plan_count affected_artifact_count risk_level psg_complexity_score",
		"output": "final_intent_summary plan_id plan_step_count resolution_quality_label actual_impact_summary impact_scope comp_plan_required comp_plan_applied rollback_used",
		"meta":   "source_flow_id source_event_ids project_id human_feedback_label quality_score clarification_rounds ambiguity_flags impact_analysis_duration_ms predicted_vs_actual_accuracy",
	}
	for _, good := range []string{goodIntent, goodDelta} {
		for section, keys := range members {
			for key := range strings.FieldsSeq(keys) {
				for _, value := range values {
					var doc map[string]any
					if err := json.Unmarshal([]byte(good), &doc); err != nil {
						t.Fatal(err)
					}
					at, ok := doc[section].(map[string]any)
					if !ok {
						continue
					}
					if delete(at, key); value != "" {
						at[key] = json.RawMessage(value)
					}
					raw, err := json.Marshal(doc)
					if err != nil {
						t.Fatal(err)
					}
					problems := sample.ValidateJSON(raw)
					ours := false // a rule of MPLP that the schemas do not hold
					for _, p := range problems {
						ours = ours || strings.HasPrefix(p.Rule, "learning_")
						if !strings.HasPrefix(p.Path, section+"."+key) {
							t.Errorf("%s.%s is %q, and the fault is found at %s", section, key, value, p.Path)
						}
					}
					if accepts := conforms(t, schemas, raw); accepts != (len(problems) == 0) && !(accepts && ours) {
						t.Errorf("%s.%s is %q: the schema accepts it: %v, our faults: %v", section, key, value, accepts, problems)
					}
				}
			}
		}
	}
}

func conformsRapid(schemas map[string]*jsonschema.Schema, raw []byte) bool {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return false
	}
	family, _ := doc.(map[string]any)["sample_family"].(string)
	return schemas[family].Validate(doc) == nil
}

// TestBuiltSamplesConform validates what Build makes with the published schemas.
func TestBuiltSamplesConform(t *testing.T) {
	c := newScript()
	c.s.Failing = failing
	c.turn(calls("c1", "bash", "go tst"), say("user", "Run the tests"))
	c.turn(calls("c2", "bash", "go test"), answer("c1", "error: unknown")).Loops = 1
	c.turn(sample.Reply{Text: "All pass."}, answer("c2", "ok"))
	c.turn(sample.Reply{Text: "Bye."}, say("user", "Thanks"))
	c.s.Ratings = []sample.Rating{{Source: "user", Type: "approval"}}
	schemas := published(t)
	got := sample.Build(c.s)
	if families(got) != "intent_resolution dialog_response error_correction plan_optimization" {
		t.Fatalf("got %s", families(got))
	}
	for _, s := range got {
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if !conforms(t, schemas, raw) {
			t.Errorf("%s does not conform: %s", s.Family, raw)
		}
	}
}

func TestValidateUnwritable(t *testing.T) {
	if p := sample.Validate(sample.Sample{Input: map[string]any{"x": func() {}}}); len(p) != 1 || p[0].Rule != "json" || p[0].String() == "" {
		t.Errorf("problems %v", p)
	}
}

func FuzzValidateJSON(f *testing.F) {
	f.Add([]byte(goodIntent))
	f.Add([]byte(goodDelta))
	f.Add([]byte(goodDelta + "}"))
	f.Add([]byte(`{"sample_id":"00000000-0000-4000-8000-000000000000","sample_family":"0","created_at":"0000-01-01T0:00:00Z","input":{},"output":{}}`))
	schemas := published(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(sample.ValidateJSON(raw)) == 0 && !conforms(t, schemas, raw) {
			t.Errorf("accepted, although the published schema refuses: %s", raw)
		}
	})
}
