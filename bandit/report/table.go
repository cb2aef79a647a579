package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"precept/bandit/trial"
)

// Column widths. Without the plot, the columns and the gaps add up to NarrowWidth. With the plot, they add up to
// FullWidth.
const (
	verdictWidth = 22
	effectWidth  = 21
	countWidth   = 9

	NarrowWidth = 80  // columns: a table's minimum width
	FullWidth   = 100 // with room for the plot
)

// Table writes the report for a terminal with the given width. In each group, rows with an effect come first, and the
// largest effect is at the top.
func (r Report) Table(w io.Writer, columns int) error {
	b := bufio.NewWriter(w)
	t := table{w: b, axis: r.plotAxis(), columns: NarrowWidth}
	if columns >= FullWidth {
		t.columns = FullWidth
	}
	t.head(r)
	g := r.Global
	if g.Verdict == Invalid {
		g.Effect, g.Lo, g.Hi = nil, nil, nil
	}
	t.line("all lessons together", g.Verdict, g.Effect, g.Lo, g.Hi, g.NTreated, g.NControl)
	fmt.Fprintln(t.w, strings.Repeat("-", t.columns))
	rows := slices.Clone(r.Lessons)
	slices.SortStableFunc(rows, func(x, y Row) int {
		return cmp.Or(
			cmp.Compare(x.Group(), y.Group()), cmp.Compare(rowRank(x), rowRank(y)), cmp.Compare(sortValue(y), sortValue(x)),
			cmp.Compare(x.Slug, y.Slug),
		)
	})
	rows, unmatched := splitUnmatched(rows)
	group := InUse
	for i := range rows {
		if next := rows[i].Group(); next != group {
			group = next
			fmt.Fprintln(t.w, "\n"+group.Title())
		}
		e, lo, hi := rows[i].Effect, rows[i].Lo, rows[i].Hi
		if rows[i].Verdict == Invalid { // invalid numbers are not printed
			e, lo, hi = nil, rows[i].WorstLo, rows[i].WorstHi
		}
		t.line(rows[i].Slug, rows[i].Verdict, e, lo, hi, rows[i].NInjected, rows[i].NWithheld)
		t.notes(rows[i])
	}
	if len(rows)+len(unmatched) == 0 {
		fmt.Fprintln(t.w, "no lesson has matched yet")
	}
	if group != InUse && len(unmatched) > 0 {
		fmt.Fprintln(t.w)
	}
	t.unmatchedNames(unmatched, r.Open)
	t.foot(r, rows)
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func splitUnmatched(rows []Row) (shown, unmatched []Row) {
	for i := range rows {
		r := &rows[i]
		if r.Matched+r.Picked+r.NInjected+r.NWithheld == 0 && r.Verdict == Unproven && r.Note == "" && r.Trial == "" {
			unmatched = append(unmatched, *r)
			continue
		}
		shown = append(shown, *r)
	}
	return shown, unmatched
}

// unmatchedNames prints the names of the lessons without a match. A lesson that also matches similar texts has two
// rows, but is named once.
func (t table) unmatchedNames(rows []Row, open *OpenSessions) {
	inOpen := map[string]bool{}
	for i := range rows {
		if open.MatchedArm(rows[i].Arm) > 0 {
			inOpen[Printable(trial.LessonSlug(rows[i].Slug))] = true
		}
	}
	openNames := slices.Sorted(maps.Keys(inOpen))
	var names []string
	for i := range rows {
		name := Printable(trial.LessonSlug(rows[i].Slug))
		if !slices.Contains(names, name) && !inOpen[name] {
			names = append(names, name)
		}
	}
	if len(openNames) > 0 {
		t.sentence("matched only in open sessions (%d): %s", len(openNames), strings.Join(openNames, ", "))
	}
	if len(names) > 0 {
		t.sentence("no match yet (%d): %s", len(names), strings.Join(names, ", "))
	}
}

// rowRank puts rows with an effect first, and invalid rows last.
func rowRank(r Row) int {
	switch {
	case r.Verdict == Invalid:
		return 2
	case r.Effect != nil:
		return 0
	}
	return 1
}

func sortValue(r Row) float64 {
	if r.Effect != nil {
		return *r.Effect
	}
	return float64(r.Rewarded)
}

type table struct {
	w       io.Writer // a bufio.Writer, which keeps the first error
	axis    axis
	columns int
}

func (t table) sentence(format string, args ...any) {
	for _, line := range wrap(fmt.Sprintf(format, args...), t.columns) {
		fmt.Fprintln(t.w, line)
	}
}

func (t table) nameWidth() int {
	width := t.columns - verdictWidth - effectWidth - countWidth - 3
	if t.columns == FullWidth {
		width -= plotWidth + 1
	}
	return width
}

func (t table) row(name, verdict, effect, axis, counts string) {
	if t.columns == FullWidth {
		effect = fmt.Sprintf("%-*s %s", effectWidth, effect, axis)
	}
	fmt.Fprintf(
		t.w, "%-*s %-*s %-*s %*s\n", t.nameWidth(), name, verdictWidth, verdict, effectWidth,
		effect, countWidth, counts,
	)
}

func (t table) head(r Report) {
	title := "Lesson effects, " + r.GeneratedAt.Format("2006-01-02 15:04 UTC")
	if r.Window != "" {
		title += ", sessions in the last " + r.Window
	}
	if r.Provisional {
		title += ", PROVISIONAL (with open sessions)"
	}
	t.sentence("%s", title)
	if r.RewardDefinition != "" {
		t.sentence("Reward: %s", r.RewardDefinition)
	}
	for _, e := range r.OtherDefinitions {
		t.sentence(
			"Not included: %d sessions that closed under another reward definition, %s", e.Sessions,
			e.RewardDefinition,
		)
	}
	if text := r.FlowSentence(); text != "" {
		t.sentence("%s", text)
	}
	if r.Open != nil {
		t.sentence("%s `precept report --provisional` includes open sessions.", r.Open)
	}
	if note := objectives()[r.Objective]; note != "" {
		t.sentence("Objective: %s, %s", r.Objective, note)
	}
	if note := holdouts()[r.Holdout]; note != "" {
		t.sentence("Holdout: %s, %s", r.Holdout, note)
	}
	t.sentence(
		"effect: mean reward with the lesson minus mean reward in sessions where it was withheld at random, in percentage points. In brackets: the 95%% interval, valid however often you read the report.",
	)
	t.sentence(
		"sessions: rewarded sessions with the lesson / with the lesson withheld. The first row compares " +
			"treated sessions / control sessions; a control session gets no lesson at all.",
	)
	fmt.Fprintln(t.w)
	left, right := fmt.Sprintf("-%.0f", t.axis*100), fmt.Sprintf("+%.0f", t.axis*100)
	axis := left + strings.Repeat(" ", plotWidth/2-len(left)) + "0" + strings.Repeat(" ", plotWidth/2-len(right)) + right
	t.row("lesson", "verdict", "effect", axis, "sessions")
}

// objectives explains the objectives other than the default.
func objectives() map[string]string {
	return map[string]string{
		"raw":    "which picks the lessons with the most successful sessions, even if these sessions are only easier: the choice is biased, the effects are not",
		"random": "a pure experiment: the chooser uses no learned effects",
		"all":    "every match: the chooser uses no learned effects",
	}
}

func holdouts() map[string]string {
	return map[string]string{
		"earn":  "which withholds a lesson less often if the lesson is expected to help; more sessions benefit, but fewer effects are proven",
		"fixed": "which withholds a lesson just as often after a verdict",
	}
}

// line writes one row. A long name gets a separate line and is not truncated, because two truncated names may look
// identical.
func (t table) line(name string, v Verdict, effect, lo, hi *float64, with, without int64) {
	name = Printable(name)
	if utf8.RuneCountInString(name) > t.nameWidth() {
		fmt.Fprintln(t.w, name)
		name = ""
	}
	numbers := "not enough data"
	switch {
	case lo == nil || hi == nil:
	case effect != nil:
		numbers = fmt.Sprintf("%5s [%5s, %5s]", SignedPoints(*effect), SignedPoints(*lo), SignedPoints(*hi))
	default:
		numbers = fmt.Sprintf("  ?   [%5s, %5s]", SignedPoints(*lo), SignedPoints(*hi))
	}
	t.row(name, string(v), numbers, t.axis.plot(effect, lo, hi), shortCount(with)+"/"+shortCount(without))
}

func shortCount(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprint(n)
	case n < 1_000_000:
		return fmt.Sprintf("%dk", n/1_000)
	case n < 1_000_000_000:
		return fmt.Sprintf("%dM", n/1_000_000)
	}
	return "many"
}

// needsText returns the number of picks that an effect or a verdict still needs, and the expected time.
func (r *Row) needsText() string {
	if r.NeedsUnclear {
		return TooEarly
	}
	text := fmt.Sprintf("needs about %s more picks", Grouped(r.RoundedNeeds()))
	if r.Effect == nil {
		text += " to show an effect"
	}
	if r.Weeks != nil {
		text += fmt.Sprintf(" (%s at %.0f a week", weeksText(*r.Weeks), r.assumedRate())
		if r.Expected != "" {
			text += ", until " + r.Expected
		}
		text += ")"
	}
	return text
}

func (t table) notes(r Row) {
	var notes []string
	if r.Note != "" {
		notes = append(notes, r.Note)
	}
	if rare := r.RarelyChosen(); rare != "" {
		notes = append(notes, rare)
	}
	otherText := map[string]string{
		stateEdited: "an earlier text", stateRemoved: "the lesson no longer exists",
		stateOldPresentation: "the same text, presented in another way",
	}[r.State]
	if otherText != "" {
		notes = append(notes, otherText)
	}
	if text := r.DescribeModels(); text != "" && len(r.Models.WithoutVerdict) > 0 {
		notes = append(notes, text)
	}
	if r.Guardrail != "" {
		notes = append(notes, "GUARDRAIL: "+r.Guardrail)
	}
	for i := range r.Outcomes {
		if x := &r.Outcomes[i]; x.Verdict.Direction() != 0 {
			notes = append(notes, x.Name+" "+string(x.Verdict)+": "+x.Interval())
		}
	}
	if r.NeedsPicks > 0 && otherText == "" { // only the current text and presentation get more picks
		notes = append(notes, r.needsText())
		if len(r.Speedups) > 0 && (r.Weeks == nil || *r.Weeks >= 1) {
			notes = append(notes, "sooner: "+r.Speedups[0])
		}
	}
	if r.RefusedWith+r.RefusedWithout > 0 {
		notes = append(notes, fmt.Sprintf(
			"the upstream refused requests in %d sessions with the lesson, and in %d with the lesson withheld", r.RefusedWith, r.RefusedWithout,
		))
	}
	if r.Late > 0 {
		notes = append(notes, fmt.Sprintf("%d rewards arrived after the session had closed", r.Late))
	}
	if r.WorstLo != nil && r.WorstHi != nil {
		notes = append(notes, "the bounds are the smallest and the largest possible effect")
	}
	if r.WhatIf != nil {
		notes = append(notes, r.WhatIf.text(r.NeedsUnclear))
	}
	for i := range r.PlannedTrials {
		notes = append(notes, r.PlannedTrials[i].text())
	}
	if r.AfterTrial != "" {
		notes = append(notes, r.AfterTrial)
	}
	switch r.Trial {
	case trialRunning:
		notes = append(notes, "on trial")
	case "reached":
		notes = append(notes, "the trial is over: the interval has the requested width")
	}
	if r.Caution {
		notes = append(notes, "shown as a caution")
	}
	if r.RetireReason != "" {
		notes = append(notes, "consider retiring the lesson: "+r.RetireReason)
	}
	t.list(notes)
}

const notesIndent = 4

func (t table) list(notes []string) {
	var lines []string
	for _, n := range notes {
		last := len(lines) - 1
		if last >= 0 &&
			utf8.RuneCountInString(lines[last])+2+utf8.RuneCountInString(n) <= t.columns-notesIndent {
			lines[last] += "; " + n
			continue
		}
		lines = append(lines, wrap(n, t.columns-notesIndent)...)
	}
	for _, line := range lines {
		fmt.Fprintf(t.w, "%*s%s\n", notesIndent, "", line)
	}
}

func (t table) advices(rows []Row) {
	for _, a := range Advices() {
		if slices.ContainsFunc(rows, func(r Row) bool { return r.Verdict == a.Verdict && (!isPast(r.State) || r.isHarmfulOldPresentation()) }) {
			t.sentence("%s: %s", a.Verdict, a.Text)
		}
	}
}

func (t table) foot(r Report, shown []Row) {
	fmt.Fprintln(t.w)
	t.advices(shown)
	if !r.SRM.OK {
		t.sentence(
			"WARNING: the share of control sessions differs from the configured share by more than chance explains (e-value %.3g).",
			r.SRM.EValue,
		)
	}
	if !r.Reporting.OK {
		t.sentence(
			"WARNING: sessions with and without lessons differ by more than chance explains in how many have a reward, or in the reward source (e-value %.3g).",
			r.Reporting.EValue,
		)
	}
	for _, text := range r.Flow.Groups() {
		t.sentence("%s", text)
	}
	t.sentence("%s", r.Reporting.Sentence())
	if g := r.Global; g.RefusedTreated+g.RefusedControl > 0 {
		t.sentence(
			"sessions in which the upstream refused a request (they stay in the comparison): %d treated, %d control",
			g.RefusedTreated, g.RefusedControl,
		)
	}
	if r.Global.MeasuredRules > 0 {
		t.sentence("%s", r.Global.RulesNote())
	}
	if r.PlannedTrials.Planned > 0 {
		t.sentence(
			"Planned trials: %d, of which %d have been evaluated (once, after the last planned pick). "+
				"One in twenty rows called \"proven in trial\" may be wrong.",
			r.PlannedTrials.Planned, r.PlannedTrials.Evaluated,
		)
	}
	t.sentence(`One in twenty rows called "proven" may be wrong. If a fifth of the lessons help, one in ten rows called "helps" or "harms" may be wrong; if hardly any lesson helps, more of them. Rows called "likely" or "benched" are predictions by the model that selects the lessons, not proofs. See docs/EXPERIMENT.md.`)
}
