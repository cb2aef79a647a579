package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"precept/admin"
	"precept/bandit/report"
	"precept/bandit/trial"
	"precept/configs"
	"precept/inject/bank"
	"precept/inject/lesson"
	"precept/inject/rules"
)

// removalDecision says whether a section can be removed from a rules file, and why.
type removalDecision struct {
	section *rules.Section
	text    string
	row     *report.Row // nil if the section was not measured
	rule    string      // rule that permits the removal; "" keeps the section
	reason  string      // why the section is kept
}

func (inv *invocation) rulesProposeCommand() *cobra.Command {
	var tenant string
	var margin float64
	var force, asJSON bool
	c := &cobra.Command{
		Use:   "propose FILE",
		Short: "Print a diff that removes unneeded sections from a rules file",
		Long: "Propose prints a diff on standard output, for `patch`, and never changes the file. It removes a section for " +
			"one of three reasons, and names the reason: the section is proven harmful; the section has no material " +
			"effect (the interval is within 3 percentage points of 0); or leaving the section out is non-inferior (the " +
			"interval excludes a harm of --margin or more). For a planned measurement (`rules measure --picks` or " +
			"--detect), propose uses the evaluation's interval. Sections that forbid something are removed only with --force.",
		Args: argsValidator(cobra.ExactArgs(1)),
	}
	c.Flags().Float64Var(&margin, "margin", 0.05, "largest acceptable harm from leaving a section out: 0.05 is 5 percentage points")
	c.Flags().BoolVar(&force, "force", false, "also remove sections that forbid something")
	c.Flags().StringVar(&tenant, "tenant", "default", "tenant whose measurements are used")
	addJSONFlag(c, &asJSON)
	return inv.withConfig(c, append(storeKeys(), "lessons"), func(c *cobra.Command, cfg *configs.Config, args []string) error {
		if !(margin > 0 && margin < 1) {
			return misuse(errors.New("--margin must be between 0 and 1; 0.05 is 5 percentage points"))
		}
		text, err := readRules(args[0])
		if err != nil {
			return err
		}
		rep, err := findReport(c.Context(), inv.stderr, inv.tools, cfg, &reportFlags{query: admin.ReportQuery{Tenant: tenant}})
		if err != nil {
			return err
		}
		p := propose(filepath.ToSlash(args[0]), text, decideRemovals(rules.Base(args[0]), text, &rep, margin, force))
		if asJSON {
			return writeJSON(inv.stdout, p)
		}
		return p.print(inv.stdout)
	})
}

// refuseRulesFiles refuses rules files such as CLAUDE.md and AGENTS.md, because `precept rules` reads those. A file
// that begins with front matter or with JSON is not a rules file.
func refuseRulesFiles(files []string) error {
	for _, name := range files {
		if !rules.IsName(name) || isDirectory(name) {
			continue
		}
		if text, err := readRules(name); err == nil && !strings.HasPrefix(text, "---") && !strings.HasPrefix(text, "{") {
			return misuse(fmt.Errorf(
				"%s is a rules file for agents, not a lesson; `precept rules measure FILE` measures the sections, and "+
					"`precept rules to-lessons FILE --section S` turns a section into a lesson", name,
			))
		}
	}
	return nil
}

type proposal struct {
	File    string            `json:"file"`
	Removed []proposedRemoval `json:"removed"`
	Kept    []keptSection     `json:"kept"`
	Diff    string            `json:"diff"` // unified; empty if no section can be removed
}

// proposedRemoval is a removable section. Effect is the mean reward with the section minus the mean reward without it;
// Lo and Hi are the limits of the interval.
type proposedRemoval struct {
	Section  string   `json:"section"`
	Rule     string   `json:"rule"`
	Evidence string   `json:"evidence"`
	Effect   *float64 `json:"effect"`
	Lo       *float64 `json:"lo"`
	Hi       *float64 `json:"hi"`
}

// keptSection is a section that is not proposed for removal.
type keptSection struct {
	Section string `json:"section"`
	Reason  string `json:"why"`
}

func propose(name, text string, decisions []removalDecision) proposal {
	p := proposal{File: name, Removed: []proposedRemoval{}, Kept: []keptSection{}}
	var cuts []rules.Span
	for i := range decisions {
		decision := &decisions[i]
		if decision.rule == "" {
			p.Kept = append(p.Kept, keptSection{decision.section.Name, decision.reason})
			continue
		}
		cuts = append(cuts, rules.Span{Start: decision.section.Start, End: decision.section.End})
		e, lo, hi := effectInterval(decision.row)
		p.Removed = append(p.Removed, proposedRemoval{decision.section.Name, decision.rule, decision.evidence(), e, lo, hi})
	}
	if len(cuts) > 0 {
		name = strings.TrimPrefix(name, "/")
		p.Diff = string(diff.Diff("a/"+name, []byte(text), "b/"+name, []byte(cutSections(text, cuts))))
	}
	return p
}

func (p *proposal) print(out io.Writer) error {
	for _, x := range p.Removed {
		fmt.Fprintf(out, "# removed: %s: %s\n#   %s\n", report.Printable(x.Section), x.Rule, x.Evidence)
	}
	for _, x := range p.Kept {
		fmt.Fprintf(out, "# kept: %s: %s\n", report.Printable(x.Section), x.Reason)
	}
	text := p.Diff
	if text == "" {
		text = "# The measurements so far justify removing no section.\n"
	}
	_, err := io.WriteString(out, text)
	return err
}

// decideRemovals applies the removal rules to the measured sections of a file. Sections inside a removed section are
// omitted.
func decideRemovals(file, text string, rep *report.Report, margin float64, force bool) (out []removalDecision) {
	all := rules.Split(text)
	topSections := rules.TopSections(all)
	removed := rules.Span{}
	for i := range all {
		s := &all[i]
		body := text[s.Start:s.End]
		r := rules.RegisteredSection{File: file, Section: s.Name, Hash: rules.Hash(body)}
		// The text identifies a section, because the number in a repeated name, such as "Notes (2)", changes when an
		// earlier section is removed.
		at := slices.IndexFunc(rep.Lessons, func(row report.Row) bool {
			arm := trial.Arm(row.Arm)
			return arm == r.Arm() || arm.IsRule() && strings.HasPrefix(row.Arm, rules.ArmPrefix+file+"#") && strings.HasSuffix(row.Arm, "@"+r.Hash)
		})
		if at < 0 && !slices.Contains(topSections, i) || s.Start < removed.End {
			continue
		}
		decision := removalDecision{section: s, text: body}
		switch {
		case at < 0:
			decision.reason = "not measured"
		default:
			decision.row = &rep.Lessons[at]
			decision.rule, decision.reason = removalRule(decision.row, margin)
		}
		if word := rules.FindProhibition(body); decision.rule != "" && word != "" && !force {
			decision.rule, decision.reason = "", fmt.Sprintf("%s, but the section forbids something (%q); add --force to remove it", decision.rule, word)
		}
		if decision.rule != "" {
			removed = rules.Span{Start: s.Start, End: s.End}
		}
		out = append(out, decision)
	}
	return out
}

// removalRule returns the rule that permits removing the section, or the reason to keep it. The row's effect is the
// reward with the section minus the reward without it.
func removalRule(r *report.Row, margin float64) (rule, reason string) {
	switch r.Verdict {
	case report.Invalid:
		return "", "the measurement is invalid; `precept report --explain` shows why"
	case report.ProvenHarms, report.TrialHarms:
		return string(r.Verdict), ""
	case report.NoEffect:
		return "no material effect (within 3 points of 0)", ""
	case report.ProvenHelps, report.TrialHelps, report.Helps:
		return "", string(r.Verdict) + " (" + formatEffect(r) + ")"
	case report.Harms, report.LikelyHelps, report.LikelyHarms, report.Benched, report.Unproven:
	}
	_, _, hi := effectInterval(r)
	if hi != nil && *hi < margin {
		return fmt.Sprintf("non-inferior (leaving the section out costs less than %.1f points)", 100*margin), ""
	}
	if hi == nil {
		return "", fmt.Sprintf("too few sessions: %d with the section, %d without it", r.NInjected, r.NWithheld)
	}
	return "", "unproven (" + formatEffect(r) + ")"
}

// effectInterval returns the effect and the interval. It prefers a planned trial's interval, which is narrower because
// the session count is fixed.
func effectInterval(r *report.Row) (effect, lo, hi *float64) {
	for i := range slices.Backward(r.PlannedTrials) {
		if l := &r.PlannedTrials[i]; l.Evaluated && l.Outcome == "" && l.Effect != nil {
			return l.Effect, l.Lo, l.Hi
		}
	}
	return r.Effect, r.Lo, r.Hi
}

func formatEffect(r *report.Row) string {
	e, lo, hi := effectInterval(r)
	if e == nil {
		return "no effect shown"
	}
	return fmt.Sprintf("%+.1f points, 95%% interval %+.1f to %+.1f", 100**e, 100**lo, 100**hi)
}

func (j *removalDecision) evidence() string {
	r := j.row
	text := fmt.Sprintf("section effect %s; %d rewarded sessions with the section, %d without it", formatEffect(r), r.NInjected, r.NWithheld)
	tokens := rules.Tokens(j.text)
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		if o.Name == trial.Turns.String() && o.MeanWithheld != nil {
			requests := 1 + *o.MeanWithheld // the outcome does not count the first request
			return fmt.Sprintf("%s; saves about %.0f tokens per session (%d tokens per request, %.1f requests)", text, float64(tokens)*requests, tokens, requests)
		}
	}
	return fmt.Sprintf("%s; saves %d tokens in each request", text, tokens)
}

// cutSections removes sections from a text, and then headings without content.
func cutSections(text string, cuts []rules.Span) string {
	for i := range cuts { // also cut the blank lines after each section
		for cuts[i].End < len(text) && (text[cuts[i].End] == '\n' || text[cuts[i].End] == '\r') {
			cuts[i].End++
		}
	}
	var b strings.Builder
	written := 0
	cuts = rules.AddEmptiedHeadings(text, cuts)
	slices.SortFunc(cuts, func(a, b rules.Span) int { return a.Start - b.Start })
	for _, c := range cuts {
		if c.Start > written {
			b.WriteString(text[written:c.Start])
		}
		written = max(written, c.End)
	}
	b.WriteString(text[written:])
	return b.String()
}

// codeSpan matches text in backquotes, such as a command or a file name.
var codeSpan = regexp.MustCompile("`([^`\n]{3,60})`")

func (inv *invocation) rulesToLessonsCommand() *cobra.Command {
	var names, keywords []string
	var asJSON bool
	c := &cobra.Command{
		Use:   "to-lessons FILE --section S",
		Short: "Turn a section that helps only sometimes into a quarantined lesson",
		Long: "To-lessons writes a lesson with the section's text. The lesson fires on the phrases in --keyword or, without " +
			"the flag, on the section's commands, file names and heading. The lesson is quarantined: check the trigger, " +
			"run `precept lessons approve SLUG`, and then remove the section from the file.",
		Args: argsValidator(cobra.ExactArgs(1)),
	}
	c.Flags().StringArrayVar(&names, "section", nil, "section to turn into a lesson; repeat the flag for several sections")
	c.Flags().StringSliceVar(&keywords, "keyword", nil, "phrase on which the lesson fires")
	addJSONFlag(c, &asJSON)
	return inv.withBank(c, func(ctx context.Context, b *bank.Bank, args []string) error {
		if len(names) == 0 {
			return misuse(errors.New("--section is missing; name the section to turn into a lesson"))
		}
		text, err := readRules(args[0])
		if err != nil {
			return err
		}
		all := rules.Split(text)
		indices, err := chooseSections(rules.Base(args[0]), all, names)
		if err != nil {
			return err
		}
		for _, i := range indices {
			if all[i].Empty {
				return fmt.Errorf("the section %q %s", all[i].Name, all[i].Problem())
			}
			l := sectionLesson(rules.Base(args[0]), &all[i], text, keywords)
			if l.Trigger.Empty() {
				return misuse(fmt.Errorf("the section %q names no command or file on which a lesson could fire; add --keyword PHRASE", all[i].Name))
			}
			r, err := b.Propose(ctx, bank.Proposal{Lesson: l, Source: "import", By: userName(inv.env)})
			if len(keywords) == 0 { // the keywords are from the text of the section
				r.Findings = slices.DeleteFunc(r.Findings, func(f lesson.Finding) bool { return f.Code == lesson.CodeSelfMatch })
			}
			printFindings(inv.stderr, r.Findings)
			if err != nil {
				return err
			}
			if err := printResult(inv.stdout, asJSON, stateResult{r.Lesson.Slug, r.Lesson.State, r.Lesson.ContentHash, r.Lesson.Path}, "%s is %s and fires on %q: %s", r.Lesson.Slug, r.Lesson.State, l.Trigger.Keywords, r.Lesson.Path); err != nil {
				return err
			}
		}
		return nil
	})
}

// sectionLesson returns a lesson that fires on the keywords. Without keywords, the lesson fires on the section's first
// eight code spans, and on a heading of up to four words.
func sectionLesson(file string, s *rules.Section, text string, keywords []string) *lesson.Lesson {
	advice := strings.TrimSpace(text[s.BodyStart:s.End])
	if s.Level == 0 {
		advice = strings.TrimSpace(strings.TrimLeft(advice, "-*+ "))
	}
	if len(keywords) == 0 {
		for _, m := range codeSpan.FindAllStringSubmatch(advice, -1) {
			if k := strings.TrimSpace(m[1]); !slices.Contains(keywords, k) && len(keywords) < 8 {
				keywords = append(keywords, k)
			}
		}
		if words := strings.Fields(s.Name); s.Level > 0 && len(words) > 0 && len(words) <= 4 {
			keywords = append(keywords, strings.ToLower(s.Name))
		}
	}
	l := &lesson.Lesson{
		Title: sectionTitle(s, advice), Outcome: "mixed", Confidence: 0.5, Form: lesson.FormAIP11, Advice: advice,
		Evidence: []lesson.Evidence{{Kind: "work-item", Ref: file + "#" + s.Name, Note: "section of a rules file"}},
	}
	l.Trigger.Keywords = keywords
	l.Trigger.Description = "The task concerns: " + s.Name
	return l
}

// Limits for a title, in runes.
const (
	preferredTitle = 100 // a longer sentence is cut at the end of a clause
	maxTitle       = 200 // maximum for a lesson title
)

var (
	// listItem matches the start of a nested list, or of a bullet's next paragraph.
	listItem = regexp.MustCompile(`\n\s*\n|\n\s*(?:[-*+]|\d{1,9}[.)])\s`)
	// sentenceEnd requires a capital letter, because an abbreviation such as "e.g." does not end a sentence.
	sentenceEnd = regexp.MustCompile(`[.!?]\s+\p{Lu}`)
	// clauseEnd omits words for conditions (unless, if, except), because without the condition a sentence has a
	// different meaning.
	clauseEnd = regexp.MustCompile(`; |: | [-–—] | \(| because | so that | since `)
)

// sectionTitle returns the heading or a bullet's first sentence, cut only at the end of a clause.
func sectionTitle(s *rules.Section, advice string) string {
	if s.Level > 0 {
		return s.Name
	}
	if at := listItem.FindStringIndex(advice); at != nil {
		advice = advice[:at[0]]
	}
	title := strings.Join(strings.Fields(strings.NewReplacer("**", "", "__", "", "`", "").Replace(advice)), " ")
	if at := sentenceEnd.FindStringIndex(title); at != nil {
		title = title[:at[0]]
	}
	title = strings.TrimRight(title, ".,:;")
	if utf8.RuneCountInString(title) > preferredTitle {
		ends := clauseEnd.FindAllStringIndex(title, -1)
		for _, end := range slices.Backward(ends) {
			if n := utf8.RuneCountInString(title[:end[0]]); n <= preferredTitle && len(strings.Fields(title[:end[0]])) > 2 {
				return title[:end[0]]
			}
		}
	}
	if n := utf8.RuneCountInString(title); n == 0 || n > maxTitle {
		return s.Name
	}
	return title
}
