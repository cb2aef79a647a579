package sample

import (
	"encoding/json"
	"reflect"
	"slices"
)

const (
	minGoodScore       = 0.75
	minAcceptableScore = 0.4
)

// ratingFor returns the feedback and the review label for the turns in [from, to], or for all turns if from is 0. With
// includeSession, a rating on the whole session is used as well. A person's rating takes precedence over a verifier's,
// and a verifier's over implicit feedback. Among ratings from equal sources, the latest counts.
func (h *history) ratingFor(from, to int, includeSession bool) (Feedback, string) {
	var best *Rating
	count := 0
	for i := range h.Session.Ratings {
		r := &h.Session.Ratings[i]
		inTurns := r.Turn != 0 && (from == 0 || (r.Turn >= from && r.Turn <= to))
		ofSession := includeSession && r.Turn == 0
		if !inTurns && !ofSession {
			continue
		}
		count++
		if best == nil || sourceRank(r) > sourceRank(best) || (sourceRank(r) == sourceRank(best) && !r.At.Before(best.At)) {
			best = r
		}
	}
	if best == nil {
		return Unrated(), NotReviewed
	}
	rating := *best
	if rating.Turn != 0 && h.ratedIndex(&rating) < 0 { // h lacks the turn, which might have opted out
		rating.Comment, rating.Correction, rating.Details = "", nil, nil
	}
	return rating.feedback(count), rating.reviewLabel()
}

func sourceRank(r *Rating) int {
	switch r.Source {
	case "user":
		return 3
	case "system":
		return 2
	default:
		return 1
	}
}

// feedback returns the rating in MPLP's form. Implicit feedback has the source "system".
func (r *Rating) feedback(count int) Feedback {
	f := Feedback{Source: "system", Type: r.Type, QualityLabel: r.label(), Details: map[string]any{"rated": true, "score": r.score()}}
	if r.Source == "user" {
		f.Source = "user"
	}
	if r.Source == "implicit" {
		f.Details["implicit"] = true
	}
	if count > 1 {
		f.Details["ratings"] = count
	}
	if r.Turn != 0 {
		f.Details["turn"] = r.Turn
	}
	if r.Comment != "" {
		f.Details["comment"] = r.Comment
	}
	if json.Valid(r.Correction) {
		f.Details["correction"] = r.Correction
	}
	if json.Valid(r.Details) {
		f.Details["details"] = r.Details
	}
	return f
}

// score returns the reward from 0 to 1. An approval without a score counts as 1.
func (r *Rating) score() float64 {
	switch {
	case r.Type == "approval" && r.Score == 0:
		return 1
	default:
		return min(1, max(0, r.Score))
	}
}

func (r *Rating) label() string {
	switch {
	case r.Label == Good || r.Label == Acceptable || r.Label == Poor:
		return r.Label
	case r.Type == "rejection":
		return Poor
	default:
		return ScoreLabel(r.score())
	}
}

// ScoreLabel returns the quality label for a score from 0 to 1.
func ScoreLabel(score float64) string {
	switch {
	case score >= minGoodScore:
		return Good
	case score >= minAcceptableScore:
		return Acceptable
	default:
		return Poor
	}
}

// reviewLabel returns MPLP's review label. Only a person's feedback is a review.
func (r *Rating) reviewLabel() string {
	switch {
	case r.Source != "user":
		return NotReviewed
	case r.Type == "rejection" || r.Type == "correction":
		return Rejected
	case r.Type == "approval" || r.label() != Poor:
		return Approved
	default:
		return Rejected
	}
}

// qualityScore returns the rating's score. Without a rating, the score depends on the last outcome: 0.5 if complete, 0
// for an error, 0.25 for any other outcome. A loop warning subtracts 0.1, except after an error.
func qualityScore(f Feedback, exchanges []*Exchange) float64 {
	if score, ok := f.Details["score"].(float64); ok {
		return score
	}
	q := 0.25
	switch lastOutcome(exchanges) {
	case Complete:
		q = 0.5
	case Failed:
		return 0
	}
	if slices.ContainsFunc(exchanges, func(e *Exchange) bool { return e.Loops > 0 }) {
		q -= 0.1
	}
	return q
}

// unchangedCallFeedback returns the feedback for an unrated corrected call that was executed as the model wrote it and
// that worked. The call might still be unwanted, so the label is only "acceptable".
func unchangedCallFeedback() Feedback {
	return Feedback{Source: "system", Type: "score", QualityLabel: Acceptable, Details: map[string]any{
		"rated": true, "score": 0.5, "implicit": true, "rule": "executed_unchanged",
	}}
}

// sameArgs reports whether two arguments are equal as JSON values. Agents encode arguments again when they send the
// history.
func sameArgs(a, b string) bool {
	if a == b {
		return true
	}
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}
