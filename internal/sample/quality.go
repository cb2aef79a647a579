package sample

import (
	"slices"
	"time"
)

// Filter selects samples. An empty field does not restrict the selection.
type Filter struct {
	From, To time.Time // From <= created_at < To
	Quality  []string  // labels; "unrated" selects samples without a rating
	Families []string
	Tenant   string
	Lesson   string // slug of a lesson injected in one of the sample's exchanges
}

// Match reports whether the filter selects the tenant's sample.
func (f *Filter) Match(tenant string, s *Sample) bool {
	if f.Tenant != "" && f.Tenant != tenant {
		return false
	}
	if (!f.From.IsZero() && s.CreatedAt.Before(f.From)) || (!f.To.IsZero() && !s.CreatedAt.Before(f.To)) {
		return false
	}
	if len(f.Families) > 0 && !slices.Contains(f.Families, s.Family) {
		return false
	}
	if len(f.Quality) > 0 {
		label := s.Feedback.QualityLabel
		if label == "" {
			label = "unrated"
		}
		if !slices.Contains(f.Quality, label) {
			return false
		}
	}
	return f.Lesson == "" || hasLesson(s.Meta["lessons"], f.Lesson)
}

// hasLesson reports whether v, the meta.lessons value, contains the lesson with the state "injected". v can be decoded
// JSON.
func hasLesson(v any, slug string) bool {
	switch list := v.(type) {
	case []Lesson:
		return slices.ContainsFunc(list, func(l Lesson) bool { return l.Slug == slug && l.State == "injected" })
	case []any:
		return slices.ContainsFunc(list, func(e any) bool {
			l, _ := e.(map[string]any)
			return l["slug"] == slug && l["state"] == "injected"
		})
	}
	return false
}

// Quality counts samples by rating. The zero value is ready for use.
type Quality struct {
	Samples    int            `json:"samples"`
	Rated      int            `json:"rated"`
	Approved   int            `json:"approved"` // approvals and good scores
	Corrected  int            `json:"corrected"`
	Rejected   int            `json:"rejected"` // rejections and poor scores
	ByFamily   map[string]int `json:"by_family,omitempty"`
	ByLabel    map[string]int `json:"by_label,omitempty"`
	scoreTotal float64
}

// Add counts one sample.
func (q *Quality) Add(s *Sample) {
	q.Samples++
	if q.ByFamily == nil {
		q.ByFamily, q.ByLabel = map[string]int{}, map[string]int{}
	}
	q.ByFamily[s.Family]++
	f := s.Feedback
	if f.QualityLabel == "" {
		return
	}
	q.Rated++
	q.ByLabel[f.QualityLabel]++
	if score, ok := f.Details["score"].(float64); ok {
		q.scoreTotal += score
	}
	switch {
	case f.Type == "correction":
		q.Corrected++
	case f.Type == "approval" || (f.Type == "score" && f.QualityLabel == Good):
		q.Approved++
	case f.Type == "rejection" || (f.Type == "score" && f.QualityLabel == Poor):
		q.Rejected++
	}
}

// Rates holds shares among the rated samples in [0,1]. OK is false if no sample is rated.
type Rates struct {
	Approval   float64 `json:"approval_rate"`
	Correction float64 `json:"correction_rate"`
	Rejection  float64 `json:"rejection_rate"`
	MeanScore  float64 `json:"mean_score"`
	OK         bool    `json:"ok"`
}

// Rates returns the shares among the rated samples.
func (q *Quality) Rates() Rates {
	if q.Rated == 0 {
		return Rates{}
	}
	n := float64(q.Rated)
	return Rates{
		Approval:   float64(q.Approved) / n,
		Correction: float64(q.Corrected) / n,
		Rejection:  float64(q.Rejected) / n,
		MeanScore:  q.scoreTotal / n,
		OK:         true,
	}
}
