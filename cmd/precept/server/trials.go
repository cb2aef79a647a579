package server

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/internal/sample"
	"precept/internal/session"
)

// writeTrials writes a line for each random assignment. A session is assigned to "control" (no lessons) or "treated". A
// pick, a lesson chosen for a session, is assigned to "injected" or "withheld". For a control session, writeTrials also
// writes a line for each matching lesson.
func (j *ExportJob) writeTrials(ctx context.Context, lines *sample.Exporter) error {
	f := j.Filter
	return j.EachSession(ctx, f.Tenant, f.From, f.To, func(r session.Row, a session.SettledState) error {
		j.reportRead()
		if !j.selectsRow(&r) {
			return nil
		}
		assignment, err := readAssignment(r, a)
		if err != nil {
			return err
		}
		run := runName(r)
		for _, t := range sessionTrials(r, a, assignment) {
			t.Run = run
			if f.Lesson != "" && t.Slug != f.Lesson {
				continue
			}
			if err := lines.WriteLine(&t); err != nil {
				return err
			}
		}
		return nil
	})
}

// readAssignment returns a session's random decisions and picks. A closed session has a frozen copy, from which the
// report's counters were computed.
func readAssignment(r session.Row, settled session.SettledState) (*trial.Assignment, error) {
	if len(settled.AssignmentAtClose) > 0 {
		var assignment trial.Assignment
		if err := json.Unmarshal(settled.AssignmentAtClose, &assignment); err != nil {
			return nil, fmt.Errorf("read the random assignments in session %s: %w", r.ID, err)
		}
		return &assignment, nil
	}
	record, err := session.Decode(r.ID, r.Data)
	if err != nil {
		return nil, err
	}
	return &record.Assignment, nil
}

// runName returns the name of the run stored in r, or "" if r is a session.
func runName(r session.Row) string {
	if rec, err := session.Decode(r.ID, r.Data); err == nil && rec.Unit.IsRun {
		return rec.Identity.Name
	}
	return ""
}

// sessionTrials returns a session's trials. A session has no trials if it is excluded from the experiment, or if
// nothing was decided because no lesson has matched.
func sessionTrials(r session.Row, settled session.SettledState, assignment *trial.Assignment) []sample.Trial {
	if assignment.Excluded || !assignment.Decided {
		return nil
	}
	base := sample.Trial{
		Session: r.ID.String(), Tenant: r.Tenant, Tier: settled.Tier, Closed: settled.Version > 0, Model: assignment.Model, Graded: assignment.Graded,
		At: r.Started.UTC().Format(time.RFC3339),
	}
	if base.Closed {
		base.Reward = cmp.Or(assignment.Reward, feedback.DefaultDefinition) // the definition; the value is base.Outcome
	}
	if settled.Rewarded {
		base.Outcome = &settled.Reward
	}
	if assignment.RewardAtClose != nil {
		base.OutcomeAtClose, base.TierAtClose = &assignment.RewardAtClose.Y, assignment.RewardAtClose.Tier
	}
	var out []sample.Trial
	if assignment.InComparison() {
		t := base
		t.Coin, t.Assigned, t.Propensity, t.Eps, t.Center = "control", "treated", 1-assignment.ControlP, assignment.ControlP, assignment.Centre
		if assignment.Control {
			t.Assigned, t.Propensity = "control", assignment.ControlP
		}
		out = append(out, t)
		if assignment.Control {
			for _, m := range assignment.Matched {
				t.Arm, t.Slug = string(m.Arm), m.Arm.Slug()
				out = append(out, t)
			}
		}
	}
	for i := range assignment.Picks {
		p, t := &assignment.Picks[i], base
		t.Coin, t.Arm, t.Slug, t.Eps, t.Center = "holdout", string(p.Arm), p.Slug, p.Eps, p.Centre
		if p.Arm.IsRule() {
			t.Coin = "rule"
		}
		t.Trial, t.Turn, t.Outcomes = p.Trial, p.Turn, trialOutcomes(&p.Measurement)
		t.Weight = p.Measurement.Weight
		t.Assigned, t.Propensity = "injected", p.Propensity
		if !p.Injected {
			t.Assigned, t.Propensity = "withheld", p.Eps*(1-assignment.ControlP)
		}
		out = append(out, t)
	}
	return out
}

// trialOutcomes returns a closed session's outcomes.
func trialOutcomes(measurement *trial.Measurement) (out []sample.TrialOutcome) {
	for o := range trial.OutcomeCount {
		if y, ok := measurement.Value(o); ok {
			x := float64(measurement.After[o])
			if o == trial.Seconds {
				x /= 1000
			}
			out = append(out, sample.TrialOutcome{Name: o.String(), Raw: x, Scaled: y, Center: measurement.Centres[o], Width: measurement.Width[o]})
		}
	}
	return out
}
