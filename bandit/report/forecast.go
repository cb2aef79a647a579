package report

import (
	"errors"
	"fmt"
	"math"

	"precept/bandit/trial"
)

// Goal is what a planned trial is to find: Picks told picks, or as many as it takes to find an
// effect of Detect with the chance Power. Zeros of Power and Epsilon take what is usual: 0.8 and
// 0.5.
type Goal struct {
	Picks   int64
	Detect  float64
	Power   float64
	Epsilon float64
}

// Forecast is what a planned trial of a lesson would cost, told before it begins.
type Forecast struct {
	Slug     string   `json:"slug"`
	Picks    int64    `json:"picks"` // told ones
	Epsilon  float64  `json:"epsilon"`
	Detect   float64  `json:"detect"` // the effect that it finds with this power
	Power    float64  `json:"power"`
	Level    float64  `json:"level"`      // of its test, after allowing for the other planned looks
	Looks    int      `json:"looks"`      // planned looks, this one among them
	Variance float64  `json:"variance"`   // of a reward around what was expected of its session
	Width    float64  `json:"half_width"` // of the one look's 95% interval
	Anytime  float64  `json:"anytime"`    // of the interval that may be looked at always, after as many picks
	Sessions int64    `json:"sessions"`   // in which the lesson is picked, told or not
	PerWeek  float64  `json:"picks_per_week"`
	Days     *float64 `json:"days"`         // at the present rate; null: no picks come in
	Withheld float64  `json:"withheld"`     // the sessions of them without the lesson
	Reward   float64  `json:"reward"`       // what withholding costs in all, in units of reward, by what the chooser believes
	Extra    float64  `json:"reward_extra"` // of it, what would not be withheld without the trial
	Believed float64  `json:"believed"`     // the effect that this rests on
	Tokens   int64    `json:"tokens"`       // injected
	Running  *Look    `json:"running,omitempty"`
}

const usualPower = 0.8

// check refuses a goal that is none.
func (g *Goal) check() error {
	in := func(x float64) bool { return x > 0 && x < 1 }
	if g.Power == 0 {
		g.Power = usualPower
	}
	if g.Epsilon == 0 {
		g.Epsilon = trial.Epsilon
	}
	switch {
	case g.Picks != 0 && g.Detect != 0:
		return errors.New(
			"a planned trial has a number of picks, or an effect to detect; ask for one of them",
		)
	case g.Picks < 0 || g.Picks == 0 && !in(g.Detect):
		return errors.New(
			"a planned trial takes a number of picks such as 800, or an effect to detect such as 0.05",
		)
	case !in(g.Power) || !in(g.Epsilon):
		return errors.New("power and epsilon of a trial lie between 0 and 1; 0.8 and 0.5 are usual")
	}
	return nil
}

// Forecast computes how many picks a planned trial of a lesson needs, and what it costs.
func (r *Report) Forecast(slug string, g Goal) (Forecast, error) {
	if err := g.check(); err != nil {
		return Forecast{}, err
	}
	row := r.current(slug)
	if row == nil {
		return Forecast{}, fmt.Errorf("%w %q", ErrNoLesson, slug)
	}
	// By Benjamini and Hochberg a look faces this level, while the others stay as they are.
	level := trial.DiscoveryRate * float64(r.Looks.Proven+1) / float64(r.Looks.Planned+1)
	f := Forecast{
		Slug: slug, Picks: g.Picks, Epsilon: g.Epsilon, Detect: g.Detect, Power: g.Power,
		Level: level, Looks: r.Looks.Planned + 1,
		Variance: row.Variance, PerWeek: row.PerWeek, Believed: row.Posterior,
	}
	if g.Picks == 0 {
		f.Picks = trial.PicksFor(g.Detect, g.Power, level, g.Epsilon, row.Variance)
	} else {
		f.Detect = trial.Detects(g.Picks, g.Power, level, g.Epsilon, row.Variance)
	}
	f.cost(r, row)
	for i := range row.Looks {
		if !row.Looks[i].Taken && row.Trial == running {
			f.Running = &row.Looks[i]
		}
	}
	return f, nil
}

// current is the row of a lesson's text of today.
func (r *Report) current(slug string) *Row {
	var found *Row
	for i := range r.Lessons {
		row := &r.Lessons[i]
		if row.Slug == slug && (found == nil || !past(row.State)) {
			found = row
		}
	}
	return found
}

func (f *Forecast) cost(r *Report, row *Row) {
	v, n := f.Variance*trial.Spread(f.Epsilon), float64(f.Picks)
	f.Width, f.Anytime = trial.LookWidth(n, v), trial.HalfWidth(n, v, trial.TightLesson)
	share := 1.0 // of the picks that are told of
	told, assigned := r.Reporting.ToldTreated+r.Reporting.ToldControl, r.Reporting.AssignedTreated+r.Reporting.AssignedControl
	switch {
	case row.Picked > 0 && row.Told > 0:
		share = math.Min(1, float64(row.Told)/float64(row.Picked))
	case told > 0 && assigned > 0:
		share = math.Min(1, float64(told)/float64(assigned))
	}
	sessions := n / share
	f.Sessions = int64(math.Ceil(sessions))
	if f.PerWeek > 0 {
		f.Days = new(7 * n / f.PerWeek)
	}
	f.Withheld = f.Epsilon * sessions
	f.Reward = f.Withheld * f.Believed
	f.Extra = (f.Epsilon - row.Epsilon) * sessions * f.Believed
	f.Tokens = int64((1 - f.Epsilon) * sessions * float64(row.Tokens))
}

// Text tells a person in a few lines.
func (f *Forecast) Text() []string {
	out := []string{
		fmt.Sprintf(
			"A trial of %s: %d told picks, of which %.0f%% are withheld; then one look, and it ends.",
			f.Slug, f.Picks, 100*f.Epsilon,
		),
		fmt.Sprintf(
			"It finds an effect of %.1f points with a chance of %.0f%%, tested at %.3g (planned looks, with this one: %d).",
			100*f.Detect, 100*f.Power, f.Level, f.Looks,
		),
		fmt.Sprintf(
			"Its interval will be +-%.1f points; the one that may be looked at always is +-%.1f after as many picks.",
			100*f.Width, 100*f.Anytime,
		),
	}
	days := "no picks come in at present, so nobody can say how long it takes"
	if f.Days != nil {
		days = fmt.Sprintf(
			"%.0f days at the present %.0f told picks a week", math.Ceil(*f.Days), f.PerWeek,
		)
	}
	cost := fmt.Sprintf(
		"withheld from about %.0f of them: that costs the reward of %.1f sessions (%.1f more than without the trial)",
		f.Withheld, f.Reward, f.Extra,
	)
	if f.Believed <= 0 {
		cost = fmt.Sprintf(
			"given to about %.0f of them: that costs the reward of %.1f sessions",
			float64(f.Sessions)-f.Withheld, -f.Believed*(float64(f.Sessions)-f.Withheld),
		)
	}
	out = append(out,
		fmt.Sprintf("It takes about %d sessions with a pick: %s.", f.Sessions, days),
		fmt.Sprintf(
			"The lesson is %s, if its effect is the %+.1f points that the chooser believes.", cost,
			100*f.Believed,
		),
		fmt.Sprintf("It injects about %d tokens.", f.Tokens))
	if f.Running != nil {
		out = append(out, fmt.Sprintf(
			"The trial that runs now (%d of %d picks) ends without a look, and still counts as planned.",
			f.Running.Told, f.Running.Planned,
		))
	}
	return out
}
