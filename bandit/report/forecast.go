package report

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"precept/bandit/trial"
)

// Goal is the goal of a planned trial: a number of picks, or enough picks to find an effect of size DetectableEffect
// with probability Power. Zero values for Power and Epsilon mean 0.8 and 0.5.
type Goal struct {
	Picks            int64   // rewarded picks; in a trial on an outcome: closed picks
	DetectableEffect float64 // for the outcomes turns, tokens and seconds: a relative change
	Power            float64
	Epsilon          float64 // withheld share
	Outcome          string  // empty: the reward
}

// Forecast is what a planned trial costs, computed before the start.
type Forecast struct {
	Slug             string        `json:"slug"`
	Outcome          string        `json:"outcome,omitempty"` // empty: the reward
	Picks            int64         `json:"picks"`             // rewarded picks; in a trial on an outcome: picks in closed sessions
	Epsilon          float64       `json:"epsilon"`
	DetectableEffect float64       `json:"detect"` // effect that the trial finds with probability power
	Power            float64       `json:"power"`
	Level            float64       `json:"level"`      // significance level, corrected for the other planned trials
	PlannedTrials    int           `json:"looks"`      // planned trials, including this one
	Variance         float64       `json:"variance"`   // reward variance around the session's expected reward
	Width            float64       `json:"half_width"` // half-width of the planned evaluation's 95% interval
	AnytimeWidth     float64       `json:"anytime"`    // half-width of the interval that is valid at any time, after the same number of picks
	Sessions         int64         `json:"sessions"`   // sessions with a pick, rewarded or not
	PerWeek          float64       `json:"picks_per_week"`
	Days             *float64      `json:"days"`         // at the current rate; null: no picks
	Withheld         float64       `json:"withheld"`     // sessions with the lesson withheld
	Reward           float64       `json:"reward"`       // cost of withholding in reward units, according to the chooser's belief
	ExtraCost        float64       `json:"reward_extra"` // part of the cost that the trial adds
	BelievedEffect   float64       `json:"believed"`     // the chooser's estimate of the effect
	Tokens           int64         `json:"tokens"`       // injected tokens
	Running          *PlannedTrial `json:"running,omitempty"`
}

const usualPower = 0.8

func (g *Goal) setDefaults() error {
	isShare := func(x float64) bool { return x > 0 && x < 1 }
	if _, ok := trial.ParseOutcome(g.Outcome); !ok && g.Outcome != "" {
		return fmt.Errorf("%q is not an outcome; choose one of %s", g.Outcome, strings.Join(trial.OutcomeNames(), ", "))
	}
	if g.Power == 0 {
		g.Power = usualPower
	}
	if g.Epsilon == 0 {
		g.Epsilon = trial.Epsilon
	}
	switch {
	case g.Picks != 0 && g.DetectableEffect != 0:
		return errors.New(
			"picks and detect cannot be combined; give the number of picks, or the effect to detect",
		)
	case g.Picks < 0 || g.Picks == 0 && !isShare(g.DetectableEffect):
		return errors.New(
			"a planned trial needs a number of picks such as 800, or an effect to detect such as 0.05",
		)
	case !isShare(g.Power) || !isShare(g.Epsilon):
		return errors.New("a trial's power and epsilon must be between 0 and 1; usual values are 0.8 and 0.5")
	}
	return nil
}

// Forecast returns how many picks a planned trial of a lesson needs, and what the trial costs.
func (r *Report) Forecast(slug string, g Goal) (Forecast, error) {
	if err := g.setDefaults(); err != nil {
		return Forecast{}, err
	}
	row := r.currentRow(slug)
	if row == nil {
		return Forecast{}, fmt.Errorf("%w %q", ErrNoLesson, slug)
	}
	// This is the Benjamini-Hochberg level if no other planned trial changes.
	level := trial.DiscoveryRate * float64(r.PlannedTrials.Proven+1) / float64(r.PlannedTrials.Planned+1)
	f := Forecast{
		Slug: slug, Outcome: g.Outcome, Picks: g.Picks, Epsilon: g.Epsilon, DetectableEffect: g.DetectableEffect, Power: g.Power,
		Level: level, PlannedTrials: r.PlannedTrials.Planned + 1,
		Variance: row.Variance, PerWeek: row.PerWeek, BelievedEffect: row.Posterior,
	}
	o, hasOutcome := trial.ParseOutcome(g.Outcome)
	if hasOutcome {
		f.Variance = startVariance(o)
		if i := slices.IndexFunc(row.Outcomes, func(x Outcome) bool { return x.Name == g.Outcome && x.Variance > 0 }); i >= 0 {
			f.Variance = row.Outcomes[i].Variance
		}
	}
	relative := hasOutcome && o.Logarithmic()
	if g.Picks == 0 {
		detect := g.DetectableEffect
		if relative {
			detect = trial.EffectFromPercent(100 * detect)
		}
		f.Picks = max(trial.PicksFor(detect, g.Power, level, g.Epsilon, f.Variance), trial.MinTrialPicks(f.Epsilon))
	} else {
		f.DetectableEffect = trial.DetectableEffect(g.Picks, g.Power, level, g.Epsilon, f.Variance)
		if relative {
			f.DetectableEffect = trial.PercentChange(f.DetectableEffect) / 100
		}
	}
	f.setCost(r, row)
	if relative {
		f.Width, f.AnytimeWidth = trial.PercentChange(f.Width)/100, trial.PercentChange(f.AnytimeWidth)/100
	}
	for i := range row.PlannedTrials {
		if !row.PlannedTrials[i].Evaluated && row.Trial == trialRunning {
			f.Running = &row.PlannedTrials[i]
		}
	}
	return f, nil
}

// currentRow returns the row for the lesson's current text, or a row for an older text if there is none, or nil.
func (r *Report) currentRow(slug string) *Row {
	var found *Row
	for i := range r.Lessons {
		row := &r.Lessons[i]
		if row.Slug == slug && (found == nil || !isPast(row.State)) {
			found = row
		}
	}
	return found
}

func (f *Forecast) setCost(r *Report, row *Row) {
	v, n := f.Variance*trial.VarianceFactor(f.Epsilon), float64(f.Picks)
	f.Width, f.AnytimeWidth = trial.PlannedHalfWidth(n, v), trial.HalfWidth(n, v, trial.LessonTightestAt)
	share := 1.0 // share of picks with a reward
	rewarded, assigned := r.Reporting.RewardedTreated+r.Reporting.RewardedControl, r.Reporting.AssignedTreated+r.Reporting.AssignedControl
	switch {
	case f.Outcome != "":
		if row.Rewarded > 0 {
			f.PerWeek *= float64(row.Picked) / float64(row.Rewarded)
		}
	case row.Picked > 0 && row.Rewarded > 0:
		share = math.Min(1, float64(row.Rewarded)/float64(row.Picked))
	case rewarded > 0 && assigned > 0:
		share = math.Min(1, float64(rewarded)/float64(assigned))
	}
	sessions := n / share
	f.Sessions = int64(math.Ceil(sessions))
	if f.PerWeek > 0 {
		f.Days = new(7 * n / f.PerWeek)
	}
	f.Withheld = f.Epsilon * sessions
	f.Reward = f.Withheld * f.BelievedEffect
	f.ExtraCost = (f.Epsilon - row.Epsilon) * sessions * f.BelievedEffect
	f.Tokens = int64((1 - f.Epsilon) * sessions * float64(row.Tokens))
}

// Text returns the forecast as a few lines for people.
func (f *Forecast) Text() []string {
	kind, object := "picks with a reward", "an effect"
	if f.Outcome != "" {
		kind, object = "picks", "an effect on "+f.Outcome
	}
	out := []string{
		fmt.Sprintf(
			"The trial of %s takes %d %s, withholds %.0f%% of the picks, and ends with a single evaluation.",
			f.Slug, f.Picks, kind, 100*f.Epsilon,
		),
		fmt.Sprintf(
			"The trial finds %s of %.1f points with a probability of %.0f%%. The significance level is %.3g (planned trials, this one included: %d).",
			object, 100*f.DetectableEffect, 100*f.Power, f.Level, f.PlannedTrials,
		),
		fmt.Sprintf(
			"The trial's interval will be +-%.1f points. The usual interval, which is valid at any time, will be +-%.1f points after as many picks.",
			100*f.Width, 100*f.AnytimeWidth,
		),
	}
	duration := "the duration is unknown, because no picks arrive at present"
	if f.Days != nil {
		days := "days"
		if *f.Days <= 1 {
			days = "day"
		}
		duration = fmt.Sprintf(
			"%.0f %s at the current rate of %.0f %s a week", math.Ceil(*f.Days), days, f.PerWeek, kind,
		)
	}
	cost := fmt.Sprintf(
		"withheld from about %.0f sessions, which costs the reward of %.1f successful sessions (%.1f more than without the trial)",
		f.Withheld, f.Reward, f.ExtraCost,
	)
	if f.BelievedEffect <= 0 {
		cost = fmt.Sprintf(
			"injected into about %.0f sessions, which costs the reward of %.1f successful sessions",
			float64(f.Sessions)-f.Withheld, -f.BelievedEffect*(float64(f.Sessions)-f.Withheld),
		)
	}
	out = append(out,
		fmt.Sprintf("The trial needs about %d sessions with a pick: %s.", f.Sessions, duration),
		fmt.Sprintf(
			"The lesson is %s, if the chooser's estimate of %+.1f points is right.", cost,
			100*f.BelievedEffect,
		),
		fmt.Sprintf("The trial injects about %d tokens.", f.Tokens))
	if f.Running != nil {
		out = append(out, fmt.Sprintf(
			"The running trial (%d of %d picks) ends without an evaluation, and still counts as a planned trial.",
			f.Running.Rewarded, f.Running.Planned,
		))
	}
	return out
}
