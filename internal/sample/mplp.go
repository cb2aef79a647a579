package sample

import (
	"crypto/sha256"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// Sample families.
const (
	IntentResolution = "intent_resolution" // a task carried out with tools
	DialogResponse   = "dialog_response"   // an answer to the user in words
	ErrorCorrection  = "error_correction"  // a failed call and a different call that worked
	PlanOptimization = "plan_optimization" // a slow or costly session
)

// Feedback quality labels.
const (
	Good       = "good"
	Acceptable = "acceptable"
	Poor       = "poor"
)

// Values for meta.human_feedback_label.
const (
	Approved    = "approved"
	Rejected    = "rejected"
	NotReviewed = "not_reviewed"
)

// Sample is an MPLP LearningSample (MPLP v1.0, learning-sample-core).
type Sample struct {
	ID        string         `json:"sample_id"` // UUID v4
	Family    string         `json:"sample_family"`
	CreatedAt time.Time      `json:"created_at"` // UTC
	Input     map[string]any `json:"input"`
	State     map[string]any `json:"state,omitempty"`
	Output    map[string]any `json:"output"`
	Feedback  Feedback       `json:"feedback"`
	Meta      map[string]any `json:"meta"`
}

// Feedback is a sample's rating. Without a rating, Feedback is Unrated.
type Feedback struct {
	Source       string         `json:"source"` // user | system
	Type         string         `json:"type"`   // approval | rejection | correction | score
	Details      map[string]any `json:"details"`
	QualityLabel string         `json:"quality_label,omitempty"` // Good, Acceptable or Poor; empty when unrated
}

// Unrated returns the feedback for an unrated sample.
func Unrated() Feedback {
	return Feedback{Source: "system", Type: "score", Details: map[string]any{"rated": false}}
}

// deriveID returns the id for the nth sample of a family in a session, a UUID v4 from SHA-256. A sample that is built
// again must keep the same id. Otherwise the store would hold the sample twice.
func deriveID(tenant, session, family string, n int) string {
	h := sha256.New()
	for _, part := range []string{"precept sample", tenant, session, family, strconv.Itoa(n)} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	var id uuid.UUID
	copy(id[:], h.Sum(nil))
	id[6] = id[6]&0x0f | 0x40 // version 4
	id[8] = id[8]&0x3f | 0x80 // RFC 9562 variant
	return id.String()
}
