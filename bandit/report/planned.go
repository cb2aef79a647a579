package report

import (
	"math"
	"slices"
	"time"

	"precept/bandit/trial"
)

// plannedTrials returns all planned trials, including those of listed lessons that have no rewarded session yet.
func (b *builder) plannedTrials(rows []Lesson) (map[trial.Arm][]PlannedTrial, PlannedTrials) {
	var all []PlannedTrial
	withEntries := map[[2]string]bool{}
	for _, e := range b.in.Counters.Evaluations() {
		withEntries[[2]string{string(e.Arm), e.Trial}] = true
		all = append(all, newPlannedTrial(e))
	}
	for _, l := range rows {
		if l.Trial == "" || withEntries[[2]string{string(l.Arm), l.Trial}] {
			continue
		}
		all = append(all, newPlannedTrial(trial.NewEvaluation(l.Arm, l.Trial)))
	}
	sum := PlannedTrials{Planned: len(all), Level: trial.DiscoveryRate}
	var ps []float64
	for i := range all {
		if all[i].P != nil {
			ps = append(ps, *all[i].P)
		}
	}
	slices.Sort(ps)
	sum.Evaluated, sum.Bar = len(ps), math.Max(0, trial.Discoveries(
		ps, sum.Planned, trial.DiscoveryRate,
	))
	out := map[trial.Arm][]PlannedTrial{}
	for i := range all {
		p := &all[i]
		p.Verdict = p.verdict(sum.Bar)
		if p.P != nil && *p.P <= sum.Bar {
			sum.Proven++
		}
		out[p.arm] = append(out[p.arm], *p)
	}
	return out, sum
}

func newPlannedTrial(ev trial.Evaluation) PlannedTrial {
	out := PlannedTrial{
		Began: time.Unix(ev.Began, 0).UTC(), Outcome: ev.Outcome, Planned: ev.Planned, Rewarded: ev.Entries, Evaluated: ev.Evaluated,
		NInjected: ev.Injected, NWithheld: ev.Withheld, arm: ev.Arm, name: ev.Trial,
	}
	if ev.Entries > 0 {
		out.Last = time.Unix(ev.LastStart, 0).UTC()
	}
	s := sums{float64(ev.Injected + ev.Withheld), ev.Z, ev.ZZ, float64(ev.Injected), float64(ev.Withheld)}
	if !s.hasEnoughPicks() {
		return out
	}
	e, v := s.effect(), s.variance()
	h := trial.PlannedHalfWidth(s.count, v)
	out.Effect, out.Lo, out.Hi = new(e), new(e-h), new(e+h)
	if o, ok := ev.TestedOutcome(); ok {
		out.Effect, out.Lo, out.Hi = new(inUnit(o, e)), new(inUnit(o, e-h)), new(inUnit(o, e+h))
	}
	if ev.Evaluated {
		out.P = new(trial.PlannedP(e, s.count, v))
	}
	return out
}

// verdict returns an evaluated trial's verdict, or "" before the evaluation. bar is corrected for all planned trials.
// If the p-value is larger than bar, the lesson is unproven even if the interval excludes 0.
func (p *PlannedTrial) verdict(bar float64) Verdict {
	if o, ok := trial.ParseOutcome(p.Outcome); ok {
		return p.outcomeVerdict(o, bar)
	}
	switch {
	case p.P == nil:
		return ""
	case *p.P <= bar && *p.Effect > 0:
		return TrialHelps
	case *p.P <= bar && *p.Effect < 0:
		return TrialHarms
	case p.Effect == nil:
		return Unproven
	case *p.Lo >= -trial.MaterialEffect && *p.Hi <= trial.MaterialEffect:
		return NoEffect
	}
	return Unproven
}

func (p *PlannedTrial) outcomeVerdict(o trial.Outcome, bar float64) Verdict {
	switch smallest := inUnit(o, materialChange(o)); {
	case p.P == nil:
		return ""
	case *p.P <= bar && *p.Effect < 0 && o == trial.Recurrence:
		return Verdict(Prevents)
	case *p.P <= bar:
		return Verdict(provenPrefix + findingFor(o, *p.Effect))
	case *p.Lo >= -smallest && *p.Hi <= smallest:
		return NoEffect
	}
	return Unproven
}

// picksToEvaluation returns the picks left until the evaluation, or 0 if no planned trial is running.
func (r *Row) picksToEvaluation(l Lesson) int64 {
	pos := slices.IndexFunc(r.PlannedTrials, func(k PlannedTrial) bool { return k.name == l.Trial })
	if pos < 0 || r.Trial != trialRunning {
		return 0
	}
	return max(0, r.PlannedTrials[pos].Planned-r.PlannedTrials[pos].Rewarded)
}

func (b *builder) setTrial(r *Row, l Lesson) {
	r.PlannedTrials = b.trials[l.Arm]
	switch {
	case l.Epsilon <= 0:
	case !b.in.Counters.Progress(l.Arm, l.Until, l.Trial, 0).TrialEnded:
		r.Trial = trialRunning
	case l.Trial != "":
		r.Trial = "ended"
	default:
		r.Trial = "reached"
	}
}

func (r *Row) trialVerdict() Verdict {
	for _, planned := range slices.Backward(r.PlannedTrials) {
		if planned.Evaluated && planned.Outcome == "" {
			return planned.Verdict
		}
	}
	return ""
}

// afterTrial says what happens to the lesson now that its planned trial has ended, or returns "".
func (r *Row) afterTrial() string {
	if r.Trial != "ended" {
		return ""
	}
	stays := "the lesson stays active like any other lesson"
	if last := len(r.PlannedTrials) - 1; last >= 0 && r.PlannedTrials[last].Outcome != "" {
		return stays
	}
	switch r.trialVerdict() {
	case TrialHelps, ProvenHelps:
		return stays
	case TrialHarms, ProvenHarms:
		return "until a person retires the lesson, the chooser decides; if the chooser expects harm, it picks the lesson in few sessions only"
	case NoEffect:
		return stays + "; it costs tokens for an effect of less than 3 points"
	default: // no effect found
	}
	return stays + ", unless distill.gate: auto started the trial and retires it; another trial would need more picks"
}
