package report

import (
	"fmt"
	"math"
	"strings"

	"precept/bandit/trial"
)

// Models lists the models in sessions with a pick.
type Models struct {
	WithVerdict    []string      `json:"seen"` // models in the sessions behind the verdict, most picks first
	WithoutVerdict []string      `json:"open"` // models with too few picks or a different effect; bandit.retest withholds the full bandit.epsilon in their sessions
	Effects        []ModelEffect `json:"effects,omitempty"`
}

// ModelEffect is a lesson's effect in one model's sessions. The effect is exploratory: no verdict uses it.
type ModelEffect struct {
	Model     string   `json:"model"`      // as requested; "other": all models beyond the tenant's first 32
	Picks     int64    `json:"picks"`      // closed picks with random assignment
	NInjected int64    `json:"n_injected"` // rewarded picks
	NWithheld int64    `json:"n_withheld"` // rewarded picks
	Effect    *float64 `json:"effect"`     // null below 50 rewarded picks, 5 in each arm
	Lo        *float64 `json:"lo"`         // 95% interval for one reading, widened for the number of models
	Hi        *float64 `json:"hi"`
	Shrunken  *float64 `json:"shrunken"` // effect, shrunk towards the lesson's effect
}

// splitModels splits a row's models into those that the verdict covers and the others. A verdict on the reward covers a
// model if enough rewarded picks on the model agree. Any other verdict needs only enough closed picks.
func (r *Row) splitModels(effects []trial.ModelEffect) Models {
	m := Models{WithVerdict: []string{}, WithoutVerdict: []string{}}
	shown := 0
	for i := range effects {
		if effects[i].HasEffect {
			shown++
		}
	}
	wide := widenedHalfWidth(shown)
	sign, causal := r.Verdict.sign()
	for i := range effects {
		e := &effects[i]
		out := ModelEffect{Model: e.Model, Picks: int64(e.C1 + e.C0), NInjected: int64(e.M1), NWithheld: int64(e.M0)}
		if e.HasEffect {
			h := wide * math.Sqrt(e.Variance)
			out.Effect, out.Lo, out.Hi, out.Shrunken = new(e.Effect), new(e.Effect-h), new(e.Effect+h), new(e.Shrunken)
		}
		m.Effects = append(m.Effects, out)
		if causal && e.IncludesModel(sign) || !causal && e.HasEnoughClosedPicks() {
			m.WithVerdict = append(m.WithVerdict, e.Model)
		} else {
			m.WithoutVerdict = append(m.WithoutVerdict, e.Model)
		}
	}
	return m
}

// sign returns the sign of the effect that a verdict states. causal is true for verdicts measured by withholding
// lessons at random, and false for predictions.
func (v Verdict) sign() (sign float64, causal bool) {
	switch v {
	case ProvenHelps, TrialHelps, Helps:
		return 1, true
	case ProvenHarms, TrialHarms, Harms:
		return -1, true
	case NoEffect:
		return 0, true
	default:
		return 0, false
	}
}

const listedModels = 4 // most model names in a sentence

// DescribeModels describes the verdict by model: "proven on A, undecided on B". The result is "" if neither the reward
// nor an outcome has a verdict, or if no model is known.
func (r *Row) DescribeModels() string {
	word := string(r.Verdict)
	if _, causal := r.Verdict.sign(); !causal {
		word = ""
		for i := range r.Outcomes {
			if x := &r.Outcomes[i]; x.Verdict.Direction() != 0 && (word == "" || x.Verdict.Proven()) {
				word = x.Name + " " + string(x.Verdict)
				if x.Verdict.Proven() {
					word = provenWord
					break
				}
			}
		}
	}
	if strings.HasPrefix(word, provenWord) {
		word = provenWord
	}
	switch m := &r.Models; {
	case word == "" || len(m.WithVerdict)+len(m.WithoutVerdict) == 0:
		return ""
	case len(m.WithVerdict) == 0:
		return "undecided on " + listModels(m.WithoutVerdict)
	case len(m.WithoutVerdict) == 0:
		return word + " on " + listModels(m.WithVerdict)
	default:
		return word + " on " + listModels(m.WithVerdict) + ", undecided on " + listModels(m.WithoutVerdict)
	}
}

const provenWord = "proven"

func listModels(names []string) string {
	text := Printable(strings.Join(names[:min(len(names), listedModels)], ", "))
	if rest := len(names) - listedModels; rest > 0 {
		text += fmt.Sprintf(" and %d more", rest)
	}
	return text
}

// Sentence describes the effect on one model.
func (e *ModelEffect) Sentence() string {
	s := fmt.Sprintf("%s: %d picks; with a reward, %d injected and %d withheld", Printable(e.Model), e.Picks, e.NInjected, e.NWithheld)
	if e.Effect == nil {
		return s
	}
	interval := signedInterval(Points(*e.Effect), Points(*e.Lo), Points(*e.Hi))
	return fmt.Sprintf("%s; effect %s points, shrunken effect %s", s, interval, SignedPoints(*e.Shrunken))
}
