package sample

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Problem is one way in which a sample does not conform.
type Problem struct {
	Path    string `json:"path"` // dotted, such as meta.quality_score
	Rule    string `json:"rule"` // the invariant or schema keyword
	Message string `json:"message"`
}

// String is the problem as a line of text.
func (p Problem) String() string { return p.Path + ": " + p.Message + " (" + p.Rule + ")" }

// Validate checks a sample against MPLP v1.0: the core schema, the schema of its family where there
// is one (intent_resolution, delta_impact), and the learning invariants. On top of them it asks for
// what precept promises: feedback, and the members of the families dialog_response,
// error_correction and plan_optimization.
func Validate(s Sample) []Problem {
	raw, err := json.Marshal(s)
	if err != nil {
		return []Problem{{Path: "$", Rule: "json", Message: "cannot be written as JSON: " + err.Error()}}
	}
	return validateJSON(raw)
}

// validateJSON is Validate for a sample in JSON, ours or another's: members that MPLP does not know
// are allowed, and so is the lack of what only precept promises.
func validateJSON(raw []byte) []Problem {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var root any
	if err := dec.Decode(&root); err != nil {
		return []Problem{{Path: "$", Rule: "json", Message: "is no JSON: " + err.Error()}}
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return []Problem{{Path: "$", Rule: "json", Message: "is followed by something else; write one sample only"}}
	}
	c := checker{}
	doc, ok := root.(map[string]any)
	if !ok {
		c.fault("$", "type", "must be an object")
		return c.problems
	}
	c.core(doc)
	switch family, _ := doc["sample_family"].(string); family {
	case IntentResolution:
		c.intent(doc)
	case DeltaImpact:
		c.delta(doc)
	case DialogResponse:
		c.needText(doc, "input", "user_text")
		c.needText(doc, "output", "response_text")
	case ErrorCorrection:
		c.needText(doc, "input", "tool")
		c.needText(doc, "input", "error")
		c.need(doc, "output", "corrected_call")
	case PlanOptimization:
		c.need(doc, "input", "reasons")
		c.needText(doc, "output", "result_summary")
	}
	if f, has := doc["feedback"]; has {
		c.feedback(f)
	}
	return c.problems
}

type checker struct{ problems []Problem }

func (c *checker) fault(path, rule, format string, args ...any) {
	c.problems = append(c.problems, Problem{Path: path, Rule: rule, Message: fmt.Sprintf(format, args...)})
}

func (c *checker) core(doc map[string]any) {
	if id, ok := c.text(doc, "", "sample_id", true); ok {
		if u, err := uuid.Parse(id); err != nil || len(id) != 36 || u.Version() != 4 || u.Variant() != uuid.RFC4122 {
			c.fault("sample_id", "learning_sample_id_is_uuid", "must be a UUID v4, is %q", id)
		}
	}
	if family, ok := c.text(doc, "", "sample_family", true); ok && strings.TrimSpace(family) == "" {
		c.fault("sample_family", "learning_sample_family_non_empty", "must not be empty")
	}
	if at, ok := c.text(doc, "", "created_at", true); ok {
		// time.Parse takes an hour of one digit, which the format does not.
		if _, err := time.Parse(time.RFC3339Nano, strings.ToUpper(at)); err != nil || at[13] != ':' || strings.Contains(at, ",") {
			c.fault("created_at", "learning_sample_created_at_iso", "must be ISO 8601 with zone, is %q", at)
		}
	}
	c.object(doc, "input", true)
	c.object(doc, "output", true)
	c.object(doc, "state", false)
	meta, ok := c.object(doc, "meta", false)
	if !ok {
		return
	}
	if flow, ok := c.text(meta, "meta.", "source_flow_id", false); ok && strings.TrimSpace(flow) == "" {
		c.fault("meta.source_flow_id", "learning_sample_source_flow_non_empty", "must not be empty")
	}
	if ids, has := meta["source_event_ids"]; has {
		list, ok := ids.([]any)
		if !ok {
			c.fault("meta.source_event_ids", "type", "must be an array")
		}
		for i, id := range list {
			c.uuid(fmt.Sprintf("meta.source_event_ids.%d", i), id)
		}
	}
	if id, has := meta["project_id"]; has {
		c.uuid("meta.project_id", id)
	}
	c.enum(meta, "meta.", "human_feedback_label", "learning_sample_feedback_label_valid", Approved, Rejected, NotReviewed)
	c.number(meta, "meta.", "quality_score", 0, 1)
}

func (c *checker) intent(doc map[string]any) {
	if in, ok := doc["input"].(map[string]any); ok {
		if id, ok := c.text(in, "input.", "intent_id", true); ok && strings.TrimSpace(id) == "" {
			c.fault("input.intent_id", "learning_intent_has_intent_id", "must not be empty")
		}
		c.text(in, "input.", "raw_request_summary", true)
		c.text(in, "input.", "constraints_summary", false)
		c.count(in, "input.", "dialog_turns_count")
	}
	if st, ok := doc["state"].(map[string]any); ok {
		c.text(st, "state.", "project_phase", false)
		c.count(st, "state.", "psg_node_count")
		c.count(st, "state.", "existing_plan_count")
	}
	if out, ok := doc["output"].(map[string]any); ok {
		c.text(out, "output.", "final_intent_summary", true)
		if id, has := out["plan_id"]; has {
			c.uuid("output.plan_id", id)
		}
		c.count(out, "output.", "plan_step_count")
		c.enum(out, "output.", "resolution_quality_label", "learning_intent_quality_label_valid", Good, Acceptable, "bad", "unknown")
	}
	if meta, ok := doc["meta"].(map[string]any); ok {
		c.count(meta, "meta.", "clarification_rounds")
		if flags, has := meta["ambiguity_flags"]; has {
			list, ok := flags.([]any)
			if !ok || slices.ContainsFunc(list, func(v any) bool { _, ok := v.(string); return !ok }) {
				c.fault("meta.ambiguity_flags", "type", "must be an array of strings")
			}
		}
	}
}

func (c *checker) delta(doc map[string]any) {
	if in, ok := doc["input"].(map[string]any); ok {
		if id, ok := c.text(in, "input.", "delta_id", true); ok && strings.TrimSpace(id) == "" {
			c.fault("input.delta_id", "learning_delta_has_delta_id", "must not be empty")
		}
		c.text(in, "input.", "intent_id", true)
		c.text(in, "input.", "change_summary", true)
		c.enum(in, "input.", "delta_type", "enum", "refinement", "correction", "expansion", "reduction", "pivot")
	}
	if st, ok := doc["state"].(map[string]any); ok {
		c.count(st, "state.", "affected_artifact_count")
		c.enum(st, "state.", "risk_level", "learning_delta_risk_valid", "low", "medium", "high", "critical")
		c.number(st, "state.", "psg_complexity_score", 0, -1)
	}
	if out, ok := doc["output"].(map[string]any); ok {
		c.text(out, "output.", "actual_impact_summary", true)
		c.text(out, "output.", "impact_scope", true)
		c.enum(out, "output.", "impact_scope", "learning_delta_scope_valid", "local", "module", "system", "global")
		c.boolean(out, "output.", "comp_plan_required")
		c.boolean(out, "output.", "comp_plan_applied")
		c.boolean(out, "output.", "rollback_used")
	}
	if meta, ok := doc["meta"].(map[string]any); ok {
		c.count(meta, "meta.", "impact_analysis_duration_ms")
		c.enum(meta, "meta.", "predicted_vs_actual_accuracy", "enum", "accurate", "underestimated", "overestimated")
	}
}

// feedback is precept's own part of the document.
func (c *checker) feedback(v any) {
	f, ok := v.(map[string]any)
	if !ok {
		c.fault("feedback", "type", "must be an object")
		return
	}
	c.text(f, "feedback.", "source", true)
	c.text(f, "feedback.", "type", true)
	c.enum(f, "feedback.", "source", "enum", "user", "system")
	c.enum(f, "feedback.", "type", "enum", "approval", "rejection", "correction", "score")
	c.enum(f, "feedback.", "quality_label", "enum", Good, Acceptable, Poor)
	c.object(f, "details", true)
}
