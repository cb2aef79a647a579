package sample

import (
	"crypto/sha256"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// Families of the samples that Build returns.
const (
	IntentResolution = "intent_resolution" // a task that was carried out with tools
	DialogResponse   = "dialog_response"   // an answer in words to words of the user
	ErrorCorrection  = "error_correction"  // a failed call and the different call that worked
	PlanOptimization = "plan_optimization" // a slow or costly session
)

// The quality labels of feedback.
const (
	Good       = "good"
	Acceptable = "acceptable"
	Poor       = "poor"
)

// The values of meta.human_feedback_label.
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

// Feedback is the rating of a sample. Every sample has a Feedback; a sample without a rating has Unrated.
type Feedback struct {
	Source       string         `json:"source"` // user | system
	Type         string         `json:"type"`   // approval | rejection | correction | score
	Details      map[string]any `json:"details"`
	QualityLabel string         `json:"quality_label,omitempty"` // Good, Acceptable or Poor; empty when unrated
}

// Unrated returns the feedback of an unrated sample.
func Unrated() Feedback {
	return Feedback{Source: "system", Type: "score", Details: map[string]any{"rated": false}}
}

// deriveID returns the id of the nth sample of a family in a session. The id has the form of a UUID v4, whose 122 free
// bits are taken from a SHA-256 hash of the arguments. The ids must be identical if the samples of a session are built
// again, after a crash or late feedback, because otherwise the store would hold a sample twice.
func deriveID(tenant, session, family string, n int) string {
	h := sha256.New()
	for _, part := range []string{"precept sample", tenant, session, family, strconv.Itoa(n)} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	var id uuid.UUID
	copy(id[:], h.Sum(nil))
	id[6] = id[6]&0x0f | 0x40 // version 4
	id[8] = id[8]&0x3f | 0x80 // variant of RFC 9562
	return id.String()
}
