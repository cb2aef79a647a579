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
		as, err := assignmentOf(r, a)
		if err != nil {
			return err
		}
		run := runName(r)
		for _, t := range trialsOf(r, a, as) {
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

// assignmentOf returns a session's random decisions and picks. A closed session has a frozen copy, from which the
// report's counters were computed.
func assignmentOf(r session.Row, a session.SettledState) (*trial.Assignment, error) {
	if len(a.Frozen) > 0 {
		var as trial.Assignment
		if err := json.Unmarshal(a.Frozen, &as); err != nil {
			return nil, fmt.Errorf("read the random assignments in session %s: %w", r.ID, err)
		}
		return &as, nil
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

// trialsOf returns a session's trials, or none if it is excluded from the experiment or had no match.
func trialsOf(r session.Row, a session.SettledState, as *trial.Assignment) []sample.Trial {
	if as.Excluded || !as.Decided {
		return nil
	}
	base := sample.Trial{
		Session: r.ID.String(), Tenant: r.Tenant, Tier: a.Tier, Closed: a.Version > 0, Model: as.Model, Graded: as.Graded,
		At: r.Started.UTC().Format(time.RFC3339),
	}
	if base.Closed {
		base.Reward = cmp.Or(as.Reward, feedback.DefaultDefinition)
	}
	if a.Rewarded {
		base.Outcome = &a.Reward
	}
	if as.RewardAtClose != nil {
		base.OutcomeAtClose, base.TierAtClose = &as.RewardAtClose.Y, as.RewardAtClose.Tier
	}
	var out []sample.Trial
	if as.InComparison() {
		t := base
		t.Coin, t.Assigned, t.Propensity, t.Eps, t.Center = "control", "treated", 1-as.ControlP, as.ControlP, as.Centre
		if as.Control {
			t.Assigned, t.Propensity = "control", as.ControlP
		}
		out = append(out, t)
		if as.Control {
			for _, m := range as.Matched {
				t.Arm, t.Slug = string(m.Arm), m.Arm.Slug()
				out = append(out, t)
			}
		}
	}
	for i := range as.Picks {
		p, t := &as.Picks[i], base
		t.Coin, t.Arm, t.Slug, t.Eps, t.Center = "holdout", string(p.Arm), p.Slug, p.Eps, p.Centre
		if p.Arm.IsRule() {
			t.Coin = "rule"
		}
		t.Trial, t.Turn, t.Outcomes = p.Trial, p.Turn, outcomesOf(&p.Measurement)
		t.Weight = p.Measurement.Weight
		t.Assigned, t.Propensity = "injected", p.Propensity
		if !p.Injected {
			t.Assigned, t.Propensity = "withheld", p.Eps*(1-as.ControlP)
		}
		out = append(out, t)
	}
	return out
}

// outcomesOf returns a closed session's outcomes.
func outcomesOf(w *trial.Measurement) (out []sample.TrialOutcome) {
	for o := range trial.OutcomeCount {
		if y, ok := w.Value(o); ok {
			x := float64(w.After[o])
			if o == trial.Seconds {
				x /= 1000
			}
			out = append(out, sample.TrialOutcome{Name: o.String(), X: x, Y: y, Center: w.Centres[o], Width: w.Width[o]})
		}
	}
	return out
}
