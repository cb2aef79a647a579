package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"precept/bandit/report"
	"precept/configs"
	"precept/inject/bank"
	"precept/inject/lesson"
)

type draftFlags struct {
	title, advice, situation, counterExample, outcome, category       string
	keywords, errorPatterns, errorKinds, requestKinds, tags, evidence []string
}

func (inv *invocation) lessonsNewCommand() *cobra.Command {
	var f draftFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "new SLUG",
		Short: "Create a lesson",
		Long: "New writes a lesson file with the given fields, and runs all checks. With --advice, the " +
			"lesson is active at once, because a person wrote it. Without --advice, the lesson " +
			"is a candidate: write the advice into the file, then run `precept lessons approve SLUG`.",
		Args:    argsValidator(cobra.ExactArgs(1)),
		Example: `  precept lessons new pin-the-page --title "Pin the page before clicking" --keyword "load more" --error "stale element" --advice "Read the page id again after every navigation."`,
	}
	f.add(c)
	addJSONFlag(c, &asJSON)
	return inv.withBank(c, func(ctx context.Context, b *bank.Bank, args []string) error {
		l, err := inv.draft(&f, args[0])
		if err != nil {
			return err
		}
		raw, err := lesson.Format(l)
		if err != nil {
			return err
		}
		name := path.Join(f.category, l.Slug+".md")
		if book, _, err := b.List(ctx); err == nil {
			if old, ok := book.Get(l.Slug); ok {
				return fmt.Errorf(
					"slug_collision: the lesson %s already exists in %s; edit the lesson, or choose another slug",
					l.Slug, old.Path,
				)
			}
		}
		r, err := b.Put(ctx, name, raw, userName(inv.env))
		printFindings(inv.stderr, r.Findings)
		if err != nil {
			return err
		}
		l = r.Lesson
		text := "%s is %s now: %s"
		if l.State == lesson.Candidate {
			text += "; `precept lessons approve %[1]s` puts the lesson to use"
		}
		return printResult(inv.stdout, asJSON, stateResult{l.Slug, l.State, l.ContentHash, l.Path}, text, l.Slug, l.State, l.Path)
	})
}

func (f *draftFlags) add(c *cobra.Command) {
	c.Flags().StringVar(
		&f.title, "title", "", "what to do or avoid, as an imperative sentence; default: the words in SLUG",
	)
	c.Flags().StringVar(
		&f.advice, "advice", "", "instructions for the model, in Markdown; - reads standard input",
	)
	c.Flags().StringVar(&f.situation, "when", "", "situation in which the lesson applies")
	c.Flags().StringVar(
		&f.counterExample, "counter-example", "", "situation in which the lesson does not apply, in Markdown",
	)
	c.Flags().StringVar(
		&f.outcome, "outcome", "success", "success, failure or mixed; with failure, the model gets the lesson as a warning",
	)
	c.Flags().StringVar(&f.category, "category", "", "subfolder for the lesson file")
	c.Flags().StringSliceVar(
		&f.keywords, "keyword", nil,
		"phrase in a user message or a tool error that triggers the lesson; repeatable",
	)
	c.Flags().StringSliceVar(
		&f.errorPatterns, "error", nil, "phrase in a tool error that triggers the lesson; repeatable",
	)
	c.Flags().StringSliceVar(
		&f.errorKinds, "error-kind", nil,
		"kind of tool error that triggers the lesson, such as command-not-found; repeatable",
	)
	c.Flags().StringSliceVar(
		&f.requestKinds, "request-kind", nil,
		"kind of user request that triggers the lesson, such as commit; repeatable",
	)
	c.Flags().StringSliceVar(&f.tags, "tag", nil, "tag that triggers the lesson; repeatable")
	c.Flags().StringSliceVar(
		&f.evidence, "evidence", nil,
		"the lesson's source as KIND:REF, such as run:ci/4711; repeatable; default: your name and the date",
	)
}

func (inv *invocation) draft(f *draftFlags, slug string) (*lesson.Lesson, error) {
	l := &lesson.Lesson{
		Slug: slug, Title: f.title, Outcome: f.outcome, Confidence: 0.5, State: lesson.Active,
		Trigger: lesson.Trigger{
			Description: f.situation, Keywords: f.keywords, ErrorPatterns: f.errorPatterns, ErrorKinds: f.errorKinds, RequestKinds: f.requestKinds, Tags: f.tags,
		},
	}
	if l.Title == "" {
		words := strings.ReplaceAll(slug, "-", " ")
		l.Title = strings.ToUpper(words[:min(1, len(words))]) + words[min(1, len(words)):] + "."
	}
	if l.Trigger.Description == "" {
		l.Trigger.Description = "When any of these occurs: " + strings.Join(
			slices.Concat(f.keywords, f.errorPatterns, f.errorKinds, f.requestKinds, f.tags), ", ",
		) + "."
	}
	for _, e := range f.evidence {
		kind, ref, ok := strings.Cut(e, ":")
		if !ok {
			return nil, misuse(fmt.Errorf("--evidence %q has no colon; write KIND:REF, such as run:ci/4711", e))
		}
		l.Evidence = append(l.Evidence, lesson.Evidence{Kind: kind, Ref: ref})
	}
	if len(l.Evidence) == 0 {
		l.Evidence = []lesson.Evidence{{
			Kind: "audit", Ref: userName(inv.env) + "/" + inv.tools.Now().UTC().Format(time.DateOnly),
			Note: "Written by hand.",
		}}
	}
	advice := f.advice
	if advice == "-" {
		raw, err := readText(inv.stdin, "-", lesson.MaxFileSize)
		if err != nil {
			return nil, err
		}
		advice = string(raw)
	}
	if strings.TrimSpace(advice) == "" {
		l.State, advice = lesson.Candidate, ""
	}
	l.Body = lesson.FormatBody(
		l.Title, l.Trigger.Description, strings.TrimSpace(advice), strings.TrimSpace(f.counterExample),
	)
	return l, nil
}

func printProblems(console io.Writer, problems []lesson.Problem) {
	for i := range problems {
		printProblem(console, problems[i])
	}
}

func printProblem(out io.Writer, p lesson.Problem) {
	for _, line := range p.Lines() {
		fmt.Fprintln(out, report.Printable(line))
	}
}

func printFindings(out io.Writer, findings []lesson.Finding) {
	for _, f := range findings {
		fmt.Fprintln(out, report.Printable(f.String()))
	}
}

func (inv *invocation) lessonsImportCommand() *cobra.Command {
	var approve, asJSON bool
	c := &cobra.Command{
		Use:   "import FILE|DIR...",
		Short: "Import lessons from files, directories or an export",
		Long: "Import reads lesson files (in the AIP-11 or the gptme format), directories with such files, and the " +
			"JSON lines from `precept lessons export`; the FILE \"-\" is standard input. Import runs all checks. " +
			"Imported lessons lose their evidence counts and approvals, and are quarantined; --approve activates the " +
			"lessons that pass the checks. Exit code 1: at least one lesson was refused; all others were imported.",
		Args: argsValidator(cobra.MinimumNArgs(1)),
	}
	c.Flags().BoolVar(
		&approve, "approve", false, "approve the lessons that pass the checks, in your name",
	)
	addJSONFlag(c, &asJSON)
	return inv.withConfig(c, bankKeys(), func(c *cobra.Command, cfg *configs.Config, args []string) error {
		if err := refuseRulesFiles(args); err != nil {
			return err
		}
		b, closeBank, err := inv.tools.OpenBank(cfg, func(o *bank.Options) { // the limits are for programs, not for a person
			o.Limits = bank.Limits{AgentWritesPerHour: math.MaxInt, TenantWritesPerHour: math.MaxInt, TenantWaiting: math.MaxInt}
		})
		if err != nil {
			return err
		}
		defer closeBank()
		texts, problems, err := foreignTexts(inv.stdin, args)
		if err != nil {
			return err
		}
		printProblems(inv.stderr, problems)
		imported, failed, err := importLessons(c.Context(), inv.env, inv.stderr, b, texts, approve)
		if err != nil {
			return err
		}
		failed += len(problems)
		next := ""
		switch {
		case approve && imported > 0:
			next = "; the imported lessons are active"
		case imported > 0:
			next = "; the imported lessons are quarantined: review them with `precept lessons list --state quarantined`, then approve or reject each"
		}
		counts := map[string]int{"taken": imported, "refused": failed}
		if err := printResult(inv.stdout, asJSON, counts, "%s imported, %d refused%s", countNoun(imported, "lesson"), failed, next); err != nil {
			return err
		}
		return failedUnless(failed == 0)
	})
}

// importLessons adds lessons to the bank b as quarantined proposals, and approves them if approve is true. failed
// counts the lessons that the parser, the checks or the approval refused.
func importLessons(
	ctx context.Context, env func(string) (string, bool), console io.Writer, b *bank.Bank, texts map[string][]byte, approve bool,
) (imported, failed int, err error) {
	var proposals []bank.Proposal
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		l, err := parseForeign(name, texts[name])
		if err != nil {
			fmt.Fprintln(console, report.Printable(fmt.Sprintf("%s: %v", name, err)))
			failed++
			continue
		}
		proposals = append(proposals, bank.Proposal{Lesson: l, Source: "import", By: userName(env)})
	}
	results, err := b.ProposeAll(ctx, proposals)
	if err != nil {
		return imported, failed, err
	}
	for i, r := range results {
		printFindings(console, r.Findings)
		if r.Err == nil && approve {
			_, r.Err = b.Act(ctx, r.Lesson.Slug, bank.Decision{Action: lesson.Approve, By: userName(env)})
		}
		if r.Err != nil {
			fmt.Fprintln(console, report.Printable(
				fmt.Sprintf("%s: %v", proposals[i].Lesson.Path, r.Err),
			))
			failed++
			continue
		}
		imported++
	}
	return imported, failed, nil
}

// foreignTexts reads lesson files and `lessons export` output. problems holds the unreadable files and lines.
func foreignTexts(in io.Reader, args []string) (out map[string][]byte, problems []lesson.Problem, err error) {
	out = map[string][]byte{}
	for _, arg := range args {
		if isDirectory(arg) {
			texts, _, unread, err := lesson.ReadDir(arg)
			if err != nil {
				return nil, nil, err
			}
			problems = append(problems, unread...)
			for name, text := range texts {
				out[filepath.Join(arg, name)] = text
			}
			continue
		}
		text, err := readText(in, arg, maxImportFile)
		if err != nil {
			return nil, nil, err
		}
		if isExport(text) {
			problems = append(problems, exportedTexts(arg, text, out)...)
		} else {
			out[arg] = text // lesson.Parse refuses a text that is too long
		}
	}
	return out, problems, nil
}

const maxImportFile = 1 << 30

// isExport reports whether a text is `lessons export` output. A lesson file never begins with {.
func isExport(text []byte) bool {
	return bytes.HasPrefix(bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\ufeff"))), []byte("{"))
}

// exportedTexts reads `lessons export` output, that is, JSON lines.
func exportedTexts(file string, text []byte, out map[string][]byte) (problems []lesson.Problem) {
	n := 0
	for line := range bytes.Lines(bytes.TrimPrefix(text, []byte("\ufeff"))) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var row struct {
			Slug string `json:"slug"`
			Text string `json:"text"`
		}
		err := json.Unmarshal(line, &row)
		if err == nil && row.Text == "" {
			err = errors.New("the key text is missing or empty; import the unchanged output of `precept lessons export`")
		}
		if err != nil {
			problems = append(problems, lesson.Problem{
				Path:   fmt.Sprintf("%s: line %d", file, n),
				Errors: lesson.ValidationErrors{{Code: lesson.CodeInvalid, Message: err.Error()}},
			})
			continue
		}
		out[fmt.Sprintf("%s: line %d/%s.md", file, n, path.Base("/"+row.Slug))] = []byte(row.Text)
	}
	return problems
}

// parseForeign reads a lesson from another precept or another program. It clears the body of a lesson in the gptme
// format, so the bank writes a new body in the AIP-11 format.
func parseForeign(name string, text []byte) (*lesson.Lesson, error) {
	l, err := lesson.Parse(name, text)
	if err != nil {
		return l, err
	}
	l.EvidenceCount = 0 // the sessions behind this count are not in this store
	if l.Form != lesson.FormGptme {
		return l, nil
	}
	ref := filepath.ToSlash(name)
	l.Evidence = []lesson.Evidence{{
		Kind: "wiki-page", Ref: ref[max(0, len(ref)-200):], Note: "Read from the gptme form.",
	}}
	l.Body = ""
	if l.Trigger.Description == "" {
		l.Trigger.Description = l.Title
	}
	return l, nil
}
