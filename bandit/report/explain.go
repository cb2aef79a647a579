package report

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"precept/bandit/trial"
)

func (b *builder) setExplanation(r *Row, s trial.Stats) {
	e := &Explanation{N: s.N, SumZ: s.Z, SumZZ: s.ZZ}
	e.ProofBar = requiredP(trial.PValue(max(s.Maxima.LogEHelps, s.Maxima.LogEHarms)), b.proofBar, b.nextProofBar)
	for _, x := range s.Strata {
		e.Propensities = append(e.Propensities, Propensity{
			Epsilon: x.Eps, Injected: x.Assigned[1], Withheld: x.Assigned[0],
			RewardedInjected: x.RewardedInArm(1), RewardedWithheld: x.RewardedInArm(0),
			MeanInjected: mean(x.Y[1], float64(x.RewardedInArm(1))),
			MeanWithheld: mean(x.Y[0], float64(x.RewardedInArm(0))),
			EValue:       math.Exp(shareLogE(x.Assigned[0], x.Assigned[0]+x.Assigned[1], x.Eps)),
		})
	}
	if r.MeanInjected != nil && r.MeanWithheld != nil {
		e.Difference = new(*r.MeanInjected - *r.MeanWithheld)
	}
	if all := armSums(s); all.hasEnoughPicks() {
		v := all.variance()
		err := math.Sqrt(v / all.count)
		e.Mean, e.Variance, e.StandardError, e.ZScore = new(all.effect()), new(v), new(err), new(all.effect()/err)
		e.HalfWidth, e.PlannedHalfWidth, e.P = new(trial.HalfWidth(all.count, v, trial.LessonTightestAt)), new(trial.PlannedHalfWidth(all.count, v)), new(all.pValue())
	}
	e.SmallestP = math.Exp(-math.Max(maxDistances(s)))
	e.ClaimBar = requiredP(e.SmallestP, b.claimBar, b.nextClaimBar)
	r.Explanation = e
}

// requiredP returns the p-value that a row with p-value p needs. If the row passes, that is bar. Otherwise it is next,
// which is the bar with one more passing row.
func requiredP(p, bar, next float64) float64 {
	if p <= bar {
		return bar
	}
	return next
}

const explainIndent = 12 // columns before the text: two spaces and a label such as "interval"

// Explain writes how a lesson's rows are derived. Lines are wrapped at the given number of columns.
func (r Report) Explain(w io.Writer, slug string, columns int) error {
	found := false
	for i := range r.Lessons {
		row := &r.Lessons[i]
		if (row.Slug != slug && trial.LessonSlug(row.Slug) != slug) || row.Explanation == nil {
			continue
		}
		found = true
		for _, line := range row.explanation(r.Open) {
			if _, err := io.WriteString(w, wrapHanging(line, columns)); err != nil {
				return fmt.Errorf("write the explanation: %w", err)
			}
		}
	}
	if !found {
		return fmt.Errorf("%w %q", ErrNoLesson, slug)
	}
	return nil
}

func (r *Row) explanation(open *OpenSessions) []string {
	e := r.Explanation
	out := []string{
		fmt.Sprintf("%s (%s): %s", Printable(r.Arm), r.State, r.Verdict),
		fmt.Sprintf("  picks     in %d of %d sessions with a match; %d rewarded: %d injected, %d withheld (the upstream refused requests in %d and %d)",
			r.Picked, r.Matched, r.Rewarded, r.NInjected, r.NWithheld, r.RefusedWith, r.RefusedWithout),
	}
	if rare := r.RarelyChosen(); rare != "" {
		out = append(out, "  chooser   "+rare)
	}
	waiting := open.MatchedArm(r.Arm)
	if waiting > 0 {
		out = append(out, fmt.Sprintf("  open      %d open sessions matched and do not count yet.%s `precept report --provisional --explain %s` includes open sessions.",
			waiting, open.closingSentence(), Printable(trial.LessonSlug(r.Slug))))
	}
	for _, p := range e.Propensities {
		out = append(out, fmt.Sprintf("  eps %-5.3g %d injected, %d withheld; rewarded %d and %d; mean reward %s and %s; e-value %.3g",
			p.Epsilon, p.Injected, p.Withheld, p.RewardedInjected, p.RewardedWithheld, formatOptional("%.3f", p.MeanInjected, 1), formatOptional("%.3f", p.MeanWithheld, 1), p.EValue))
	}
	if e.Mean == nil {
		out = append(out, fmt.Sprintf(
			"  effect    not shown below 50 rewarded picks, 5 injected and 5 withheld; assigned at random so far: %.0f",
			e.N,
		))
	} else {
		out = append(out,
			fmt.Sprintf(
				"  effect    sum z / n = %.4f / %.0f = %+.2f points (plain means differ by %s)",
				e.SumZ, e.N, 100**e.Mean, formatOptional("%+.2f", e.Difference, 100),
			),
			fmt.Sprintf(
				"  spread    s2 = sum z^2 / n - effect^2 = %.4f; standard error %.2f points; z score %+.2f; %s",
				*e.Variance, 100**e.StandardError, *e.ZScore, r.centresText(),
			),
			fmt.Sprintf("  interval  +-%.2f, valid at any time: [%+.2f, %+.2f]; a planned trial's single evaluation would have +-%.2f",
				100**e.HalfWidth, 100*(*e.Mean-*e.HalfWidth), 100*(*e.Mean+*e.HalfWidth), 100**e.PlannedHalfWidth),
			fmt.Sprintf(
				"  claim     p is %.3g (smallest with at least %d in each arm: %.3g); with these lessons, helps or harms needs p <= %.3g",
				*e.P, trial.MinVerdictPerArm, e.SmallestP, e.ClaimBar,
			))
	}
	out = append(out,
		fmt.Sprintf("  evidence  E+ %.3g, E- %.3g (p %.3g and %.3g); with these lessons, proven needs p <= %.3g",
			r.EHelps, r.EHarms, math.Min(1, 1/r.EHelps), math.Min(1, 1/r.EHarms), e.ProofBar),
		fmt.Sprintf("  checks    e-value of the assignment %.3g, of the reward reporting %.3g; an alarm from %.0f on", r.SRM.EValue, r.Reporting.EValue, r.SRM.Alarm))
	if r.Late > 0 {
		out = append(out, fmt.Sprintf("  late      %d sessions got the reward after closing; e-value of the late rewards %.3g", r.Late, r.LateReporting.EValue))
	}
	if r.AllSessions != nil {
		out = append(out, "  all       "+r.AllSessions.Sentence())
	}
	for i := range r.PlannedTrials {
		out = append(out, "  planned   "+r.PlannedTrials[i].text())
	}
	for i := range r.Outcomes {
		out = append(out, "  outcome   "+r.Outcomes[i].Sentence())
	}
	if text := r.DescribeModels(); text != "" {
		out = append(out, "  models    "+text)
	}
	for i := range r.Models.Effects {
		out = append(out, "  model     "+r.Models.Effects[i].Sentence())
	}
	if r.Guardrail != "" {
		out = append(out, "  guardrail "+r.Guardrail+" (see report.guardrails); the verdict does not change")
	}
	if r.Opinions != nil {
		out = append(out, "  judged    "+r.Opinions.String())
	}
	return append(out, "  missing   "+r.missingData(waiting))
}

func wrapHanging(line string, columns int) string {
	if utf8.RuneCountInString(line) <= columns {
		return line + "\n"
	}
	head := 0
	if strings.HasPrefix(line, "  ") { // the line starts with a label
		head = explainIndent
	}
	var b strings.Builder
	for i, part := range wrap(line[head:], columns-explainIndent) {
		if i == 0 {
			b.WriteString(line[:head])
		} else {
			b.WriteString(strings.Repeat(" ", explainIndent))
		}
		b.WriteString(part + "\n")
	}
	return b.String()
}

// missingData describes the data that a verdict needs. waiting is the number of open sessions with a match.
func (r *Row) missingData(waiting int) string {
	var parts []string
	needs := Grouped(r.RoundedNeeds())
	switch {
	case isPast(r.State):
		parts = append(parts, "nothing: no session gets this text in this presentation any more")
	case r.NeedsUnclear:
		parts = append(parts, TooEarly)
	case r.NeedsPicks > 0 && r.Weeks != nil:
		parts = append(parts, fmt.Sprintf(
			"about %s more picks with a reward: %s at %.0f a week", needs, weeksText(*r.Weeks), r.assumedRate(),
		))
	case r.NeedsPicks > 0 && waiting > 0:
		parts = append(parts, fmt.Sprintf("about %s more picks with a reward; open sessions do not count yet", needs))
	case r.NeedsPicks > 0:
		parts = append(parts, fmt.Sprintf("about %s more picks with a reward; there was none in the last four weeks", needs))
	default:
		parts = append(parts, "nothing")
	}
	if r.Note != "" {
		parts = append(parts, r.Note)
	}
	if r.AfterTrial != "" {
		parts = append(parts, r.AfterTrial)
	}
	return strings.Join(parts, "; ")
}

func formatOptional(format string, x *float64, units float64) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf(format, *x*units)
}

// ErrNoLesson is the error for a lesson without a row.
var ErrNoLesson = errors.New("the report has no row for the lesson")
