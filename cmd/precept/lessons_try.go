package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"precept/bandit/report"
	"precept/configs"
	"precept/detect"
	"precept/inject/lesson"
	"precept/internal/wire"
)

// maxTryBytes is the default limits.inspect_bytes.
const maxTryBytes = 8 << 20

type tryFlags struct {
	file, tenant, agent, role, skill, model, tool string
	tags                                          []string
	toolError, asJSON                             bool
}

// triedLesson is a lesson whose trigger occurs in the text. WhyNot has the reasons if the lesson does not match.
type triedLesson struct {
	Slug   string         `json:"slug"`
	Title  string         `json:"title"`
	Causes []lesson.Cause `json:"by"`
	WhyNot []string       `json:"why_not,omitempty"`
}

// suggestedLesson is a lesson that a sentence in the text resembles.
type suggestedLesson struct {
	Slug      string   `json:"slug"`
	Title     string   `json:"title"`
	Score     float64  `json:"score"`
	Threshold float64  `json:"threshold"`
	Sentence  string   `json:"sentence"`
	Words     []string `json:"words"`    // words shared by the sentence and the lesson
	Injected  bool     `json:"injected"` // match.like is on, and the lesson has like: true
}

type tryResult struct {
	Searched     string              `json:"searched"` // part of the text that is matched against the triggers
	Stripped     []wire.RemovedPiece `json:"stripped"`
	Outcome      string              `json:"outcome,omitempty"` // a tool result's outcome, such as error
	ErrorKinds   []detect.Kind       `json:"error_kinds"`       // a tool error's kinds, the most specific first
	RequestKinds []string            `json:"request_kinds"`     // request kinds in the user's words
	Tags         []string            `json:"tags"`              // the request's tags, and the tags configured for its words
	Matches      []triedLesson       `json:"matches"`
	NearMisses   []triedLesson       `json:"near"`
	Suggestions  []suggestedLesson   `json:"suggestions"`                  // lessons that the text resembles; empty with fewer than 200 captured sessions
	ErrorMatches []string            `json:"tool_error_matches,omitempty"` // if no lesson matches: slugs that would match a failed tool call with this result
}

func (inv *invocation) lessonsTryCommand() *cobra.Command {
	var f tryFlags
	c := &cobra.Command{
		Use:   "try [TEXT]",
		Short: "Show the lessons that a text would match, and the reason for each near miss",
		Long: "Try matches a text in the same way as the proxy matches a user's newest words or, with --tool-error, a " +
			"failed tool call's result. Try prints the parts of the text that the match ignores (reminders, environment " +
			"blocks, precept's own blocks), the matching lessons with their triggers, and the near misses: lessons with " +
			"a trigger that occurs in the text but does not fire, each with the reason. If several lessons match, the " +
			"proxy selects a few of them. The text is TEXT, the content of --file, or standard input. Try needs no " +
			"server.",
		Args: argsValidator(cobra.MaximumNArgs(1)),
	}
	c.Flags().StringVar(&f.file, "file", "", "read the text from this file; - is standard input")
	c.Flags().StringVar(&f.tenant, "tenant", "default", "the request's tenant")
	c.Flags().StringVar(&f.agent, "agent", "default", "the request's agent")
	c.Flags().StringVar(&f.role, "role", "", "the agent's role")
	c.Flags().StringVar(&f.skill, "skill", "", "the agent's skill")
	c.Flags().StringVar(&f.model, "model", "", "the request's model")
	c.Flags().StringSliceVar(
		&f.tags, "tags", nil, "the request's tags, as in the Precept-Tags header",
	)
	c.Flags().StringVar(
		&f.tool, "tool", "",
		"a tool in the request or, with --tool-error, the failed tool",
	)
	c.Flags().BoolVar(
		&f.toolError, "tool-error", false, "treat the text as a failed tool call's result",
	)
	addJSONFlag(c, &f.asJSON)
	return inv.withConfig(c, append(storeKeys(), "lessons"), func(c *cobra.Command, cfg *configs.Config, args []string) error {
		text, err := readTryText(inv.stdin, &f, args)
		if err != nil {
			return err
		}
		book, problems, err := readExistingBook(c.Context(), inv.tools, cfg)
		if err != nil {
			return err
		}
		answer, q := tryLessons(inv.tools.Now(), cfg, book, &f, text)
		if !f.toolError && len(answer.Matches) == 0 {
			asError := f
			asError.toolError = true
			result, _ := tryLessons(inv.tools.Now(), cfg, book, &asError, text)
			for _, l := range result.Matches {
				answer.ErrorMatches = append(answer.ErrorMatches, l.Slug)
			}
		}
		answer.Suggestions = inv.suggest(c.Context(), cfg, book, &q)
		if f.asJSON {
			return writeJSON(inv.stdout, answer)
		}
		if len(problems) > 0 {
			printFaultWarning(inv.stderr, problems)
		}
		printTryResult(inv.stdout, &answer)
		return nil
	})
}

func readTryText(in io.Reader, f *tryFlags, args []string) (string, error) {
	if len(args) > 0 && f.file != "" {
		return "", misuse(errors.New("TEXT and --file cannot be combined; omit one"))
	}
	if len(args) > 0 && args[0] != "-" {
		return args[0], nil
	}
	b, err := readText(in, cmp.Or(f.file, "-"), maxTryBytes)
	switch {
	case err != nil:
		return "", fmt.Errorf("read the text: %w", err)
	case strings.TrimSpace(string(b)) == "":
		return "", errors.New(
			"the text is missing; give TEXT, --file FILE, or standard input",
		)
	}
	return string(b), nil
}

func tryLessons(now time.Time, cfg *configs.Config, book *lesson.Book, f *tryFlags, text string) (tryResult, lesson.Query) {
	out := tryResult{
		Stripped: []wire.RemovedPiece{}, ErrorKinds: []detect.Kind{}, RequestKinds: []string{}, Tags: []string{}, Matches: []triedLesson{},
		NearMisses: []triedLesson{},
	}
	q := lesson.Query{
		Tenant: f.tenant, Agent: f.agent, Role: f.role, Skill: f.skill, Model: f.model,
		Tags: f.tags, Now: now,
	}
	if f.tool != "" {
		q.Tools = []string{f.tool}
	}
	if f.toolError {
		v := detect.Classify(f.tool, "", text, 1)
		out.Outcome = string(v.Outcome)
		if v.Outcome == detect.Error {
			out.Searched = detect.Signature(text)
			out.ErrorKinds = append(out.ErrorKinds, detect.Kinds(text, v)...)
			q.Errors = []lesson.ErrorText{{CallID: "tried", Tool: f.tool, Text: out.Searched, Kinds: out.ErrorKinds}}
		}
	} else {
		var cut []wire.RemovedPiece
		out.Searched, cut = wire.StripUserText(text)
		out.Stripped = append(out.Stripped, cut...)
		if words := out.Searched; words != "" {
			if out.Searched = wire.UserRequest(words); out.Searched != words {
				out.Stripped = append(out.Stripped, wire.RemovedPiece{Kind: "template", Text: wire.ElideRequest(words, out.Searched)})
			}
		}
		if out.Searched != "" {
			q.Words = []string{out.Searched}
			for _, kind := range q.RequestKinds() {
				out.RequestKinds = append(out.RequestKinds, string(kind))
			}
		}
	}
	lesson.NewTagger(cfg.Tags).Tag(&q)
	out.Tags = append(out.Tags, q.Tags...)
	for _, e := range book.Explain(&q) {
		t := triedLesson{Slug: e.Lesson.Slug, Title: e.Lesson.Title, Causes: append(
			[]lesson.Cause{}, e.Causes...,
		)}
		if e.Matches {
			out.Matches = append(out.Matches, t)
			continue
		}
		t.WhyNot = e.Obstacles
		out.NearMisses = append(out.NearMisses, t)
	}
	return out, q
}

// suggest returns the lessons that the query's words resemble. The thresholds come from captured sessions. It returns
// none with match.like: off, or with fewer than lesson.LikeSessions sessions.
func (inv *invocation) suggest(ctx context.Context, cfg *configs.Config, book *lesson.Book, q *lesson.Query) []suggestedLesson {
	out := []suggestedLesson{}
	if cfg.Match.Like == configs.LikeOff {
		return out
	}
	_, traffic, err := inv.readCapturedSessions(ctx, cfg)
	if err != nil || !traffic.HasEnoughSessions() {
		return out
	}
	for _, h := range book.WithLikeness(traffic, cfg.Match.LikeRate).Match(q) {
		if r := h.Resemblance; r != nil {
			out = append(out, suggestedLesson{
				Slug: h.Lesson.Slug, Title: h.Lesson.Title, Score: r.Score, Threshold: r.Threshold, Sentence: r.Window, Words: r.Words,
				Injected: cfg.Match.Like == configs.LikeOn && h.Lesson.Trigger.ByLikeness,
			})
		}
	}
	return out
}

func printTryResult(out io.Writer, t *tryResult) {
	const maxStripped = 200
	for _, s := range t.Stripped {
		fmt.Fprintf(out, "stripped  %s: %s\n", s.Kind, report.Printable(shorten(s.Text, maxStripped)))
	}
	switch {
	case t.Outcome != "" && t.Outcome != string(detect.Error):
		fmt.Fprintf(
			out, "searched  nothing: precept classifies this result as %s, and lessons fire on errors only\n",
			t.Outcome,
		)
	case t.Searched == "":
		fmt.Fprintln(out, "searched  nothing: the text contains no user words")
	default:
		fmt.Fprintf(out, "searched  %s\n", report.Printable(shorten(t.Searched, maxStripped)))
	}
	if len(t.ErrorKinds) > 0 {
		fmt.Fprintf(out, "kinds     %s\n", strings.Trim(fmt.Sprint(t.ErrorKinds), "[]"))
	}
	if len(t.RequestKinds) > 0 {
		fmt.Fprintf(out, "requests  %s\n", strings.Trim(fmt.Sprint(t.RequestKinds), "[]"))
	}
	for _, l := range t.Matches {
		fmt.Fprintf(
			out, "match     %s  %s  (%s)\n", report.Printable(l.Slug), report.Printable(l.Title),
			report.Printable(lesson.CauseText(l.Causes)),
		)
	}
	for _, l := range t.Suggestions {
		kind := "resembles"
		if l.Injected {
			kind = "like     "
		}
		fmt.Fprintf(
			out, "%s %s  %s  (score %.2f, threshold %.2f; similar words: %s)\n", kind, report.Printable(l.Slug),
			report.Printable(l.Title), l.Score, l.Threshold, report.Printable(strings.Join(l.Words, ", ")),
		)
	}
	if len(t.Matches) == 0 {
		fmt.Fprintln(out, "no lesson matches")
	}
	if len(t.ErrorMatches) > 0 {
		fmt.Fprintf(out, "as a failed tool call's result (--tool-error), the text would match %s\n", report.Printable(strings.Join(t.ErrorMatches, ", ")))
	}
	for _, l := range t.NearMisses {
		fmt.Fprintf(
			out, "near      %s  %s\n", report.Printable(l.Slug), report.Printable(l.Title),
		)
		if len(l.Causes) > 0 {
			fmt.Fprintf(out, "          by %s\n", report.Printable(lesson.CauseText(l.Causes)))
		}
		for _, reason := range l.WhyNot {
			fmt.Fprintf(out, "          but %s\n", report.Printable(reason))
		}
	}
}

// shorten returns at most the first maxRunes characters, on one line.
func shorten(s string, maxRunes int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > maxRunes {
		return string(r[:maxRunes]) + " ..."
	}
	return s
}
