package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"precept/bandit/report"
	"precept/cmd/precept/server"
	"precept/configs"
	"precept/inject/backtest"
	"precept/inject/lesson"
)

type phrasesResult struct {
	Slug      string                    `json:"slug"`
	Sessions  int                       `json:"sessions"` // captured sessions read
	Proposals []backtest.PhraseProposal `json:"proposals"`
	Tokens    int64                     `json:"tokens"`   // tokens used by the judge
	Refused   int                       `json:"refused"`  // the judge's phrases that match in too many sessions, or that were already proposed
	Accepted  []string                  `json:"accepted"` // phrases added to the lesson
	State     lesson.State              `json:"state"`    // lesson state after the command
}

func (inv *invocation) lessonsPhrasesCommand() *cobra.Command {
	var accept []string
	var judge, asJSON bool
	c := &cobra.Command{
		Use:   "phrases SLUG",
		Short: "Propose trigger phrases for a lesson from captured sessions",
		Long: "Phrases searches the captured sessions for near misses, that is, sentences that resemble the lesson but " +
			"contain none of its phrases. For each proposed phrase, the command prints the number of sessions in which " +
			"the phrase would fire, with excerpts. With --judge, the model in distill.judge also proposes phrases; it " +
			"reads the lesson and at most 40 redacted sentences. --accept adds phrases to the lesson's keywords; an " +
			"approved lesson is then quarantined until `precept lessons approve SLUG`. The command needs at least 200 " +
			"captured sessions.",
		Args: argsValidator(cobra.ExactArgs(1)),
	}
	c.Flags().StringSliceVar(&accept, "accept", nil, "add these phrases to the lesson; a phrase proposed without --judge can be given by its number: 1,3")
	c.Flags().BoolVar(&judge, "judge", false, "also ask the model in distill.judge for phrases")
	addJSONFlag(c, &asJSON)
	keys := append(storeKeys(), "lessons", "distill.judge", "distill.model", "distill.api_key", "distill.prompts")
	return inv.withConfig(c, keys, func(c *cobra.Command, cfg *configs.Config, args []string) error {
		if err := checkJudge(cfg, judge, accept); err != nil {
			return err
		}
		book, problems, err := readExistingBook(c.Context(), inv.tools, cfg)
		if err != nil {
			return err
		}
		l, ok := book.Get(args[0])
		if !ok {
			return missingLessonError(args[0], problems...)
		}
		sessions, traffic, err := inv.readCapturedSessions(c.Context(), cfg)
		if err != nil {
			return err
		}
		if !traffic.HasEnoughSessions() {
			return fmt.Errorf(
				"the store has %s, but `precept lessons phrases` needs %d; add past conversations with `precept import`",
				countNoun(traffic.Sessions(), "captured session"), lesson.LikeSessions,
			)
		}
		if !l.State.IsActive() { // the matcher ignores an inactive lesson
			active := l.Clone()
			active.State = lesson.Active
			book = lesson.NewBook(append(slices.DeleteFunc(book.Lessons(), func(o *lesson.Lesson) bool { return o == l }), active))
		}
		near := backtest.NearMisses(book.WithLikeness(traffic, cfg.Match.LikeRate), l, sessions)
		answer := phrasesResult{
			Slug: l.Slug, Sessions: traffic.Sessions(), State: l.State, Accepted: []string{},
			Proposals: append([]backtest.PhraseProposal{}, backtest.ProposePhrases(near, sessions)...),
		}
		if judge {
			if err := inv.askPhrases(c.Context(), cfg, l, near, sessions, &answer); err != nil {
				return err
			}
		}
		if len(accept) > 0 {
			if err := answer.accept(accept, sessions); err != nil {
				return err
			}
			if err := inv.addPhrases(c.Context(), cfg, l, &answer); err != nil {
				return err
			}
		}
		if asJSON {
			return writeJSON(inv.stdout, answer)
		}
		printPhrases(inv.stdout, &answer)
		return nil
	})
}

func (inv *invocation) readCapturedSessions(ctx context.Context, cfg *configs.Config) (sessions []backtest.CapturedSession, traffic *lesson.Traffic, err error) {
	reader, err := inv.tools.OpenFiltered(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	defer reader.Close() //nolint:errcheck // nothing was written
	traffic, err = server.ReadTraffic(ctx, reader, inv.tools.Now(), func(s *backtest.Session, queries []lesson.Query) {
		for i := range queries {
			queries[i].Tenant = s.Tenant
		}
		sessions = append(sessions, backtest.CapturedSession{Name: s.Name, Queries: queries})
	})
	return sessions, traffic, err
}

// checkJudge refuses --judge with --accept. The judge (the model in distill.judge) may return different phrases in a
// second call, so a number could select a phrase that the user has not seen.
func checkJudge(cfg *configs.Config, judge bool, accept []string) error {
	if !judge {
		return nil
	}
	switch {
	case len(accept) > 0:
		return misuse(errors.New("--judge and --accept cannot be combined; omit --judge and give the phrases: --accept \"first phrase,second phrase\""))
	case cfg.Distill.Judge == "rules":
		return misuse(errors.New("--judge needs a model, but distill.judge is rules; set distill.judge and distill.model, or add --distill-judge URL --distill-model M"))
	case cfg.Distill.Model == "":
		return misuse(errors.New("--judge needs a model; set distill.model, or add --distill-model M"))
	}
	return nil
}

// askPhrases adds the judge's proposals, except phrases that match in too many sessions or were already proposed.
func (inv *invocation) askPhrases(
	ctx context.Context, cfg *configs.Config, l *lesson.Lesson, near []lesson.Resemblance, sessions []backtest.CapturedSession, answer *phrasesResult,
) error {
	var sentences []string
	for i := range near {
		sentences = append(sentences, near[i].Window)
	}
	phrases, used, err := inv.tools.AskPhrases(ctx, cfg, l, sentences)
	answer.Tokens = used.Input + used.Output
	if err != nil {
		return fmt.Errorf("ask the judge for phrases: %w", err)
	}
	for _, phrase := range phrases {
		p := backtest.NewPhraseProposal(phrase, "judge", sessions)
		alreadyProposed := slices.ContainsFunc(answer.Proposals, func(o backtest.PhraseProposal) bool { return o.Phrase == phrase })
		if p.IsBroad() || alreadyProposed {
			answer.Refused++
			continue
		}
		p.Number = len(answer.Proposals) + 1
		answer.Proposals = append(answer.Proposals, p)
	}
	return nil
}

// accept adds the accepted phrases to the answer. An argument is a phrase or a proposal number.
func (a *phrasesResult) accept(accept []string, sessions []backtest.CapturedSession) error {
	for _, name := range accept {
		name = strings.Join(strings.Fields(name), " ")
		i := slices.IndexFunc(a.Proposals, func(p backtest.PhraseProposal) bool { return name == p.Phrase || name == strconv.Itoa(p.Number) })
		_, err := strconv.Atoi(name)
		switch {
		case i < 0 && (err == nil || name == "") && len(a.Proposals) == 0:
			return misuse(fmt.Errorf("proposal %q does not exist, because there are no proposals for %s; give the phrase itself", name, a.Slug))
		case i < 0 && (err == nil || name == ""):
			return misuse(fmt.Errorf("proposal %q does not exist; the numbers are 1 to %d", name, len(a.Proposals)))
		case i < 0:
			i = len(a.Proposals)
			a.Proposals = append(a.Proposals, backtest.NewPhraseProposal(name, "person", sessions))
			a.Proposals[i].Number = i + 1
		}
		a.Accepted = append(a.Accepted, a.Proposals[i].Phrase)
	}
	return nil
}

func (inv *invocation) addPhrases(ctx context.Context, cfg *configs.Config, l *lesson.Lesson, answer *phrasesResult) error {
	edited, err := lesson.Edit(l, func(l *lesson.Lesson) {
		for _, phrase := range answer.Accepted {
			if !slices.Contains(l.Trigger.Keywords, phrase) {
				l.Trigger.Keywords = append(l.Trigger.Keywords, phrase)
			}
		}
	})
	if err != nil {
		return fmt.Errorf("%s: %w", l.Slug, err)
	}
	b, closeBank, err := inv.tools.OpenBank(cfg)
	if err != nil {
		return err
	}
	defer closeBank()
	ctx, cancel := context.WithTimeout(ctx, server.BankTimeout)
	defer cancel()
	r, err := b.Put(ctx, path.Join(l.Category, path.Base(strings.ReplaceAll(l.Path, "\\", "/"))), []byte(edited.Raw), userName(inv.env))
	printFindings(inv.stderr, r.Findings)
	if err != nil {
		return errors.Join(fmt.Errorf("%s is unchanged", l.Slug), err)
	}
	answer.State = r.Lesson.State
	return nil
}

func printPhrases(out io.Writer, a *phrasesResult) {
	if a.Refused > 0 {
		fmt.Fprintf(out, "left out %s proposed by the judge (too common, that is, in over 10%% of the sessions, or already proposed)\n", countNoun(a.Refused, "phrase"))
	}
	if len(a.Proposals) == 0 {
		fmt.Fprintf(out, "no near misses for %s in %s\n", a.Slug, countNoun(a.Sessions, "session"))
	}
	for i := range a.Proposals {
		p := &a.Proposals[i]
		by := "given with --accept"
		if p.By == "judge" {
			by = "proposed by the judge"
		}
		if len(p.Words) > 0 {
			by = "words in common with the lesson: " + strings.Join(p.Words, ", ")
		}
		fmt.Fprintf(out, "%2d  %s\n    fires in %d of %s%s; %s\n", p.Number, report.Printable(p.Phrase),
			p.Matched, countNoun(p.Sessions, "session"), percentage(p.Matched, p.Sessions), report.Printable(by))
		for _, e := range p.Examples[:min(len(p.Examples), 3)] {
			fmt.Fprintf(out, "    %s: %s\n", report.Printable(e.Session), report.Printable(e.Excerpt))
		}
	}
	switch {
	case len(a.Accepted) > 0:
		fmt.Fprintf(out, "added %s to %s; the lesson is %s", countNoun(len(a.Accepted), "keyword"), a.Slug, a.State)
		if a.State == lesson.Quarantined {
			fmt.Fprintf(out, "; to approve the new text, run `precept lessons approve %s`", a.Slug)
		}
		fmt.Fprintln(out)
	case len(a.Proposals) > 0:
		fmt.Fprintf(out, "to add a phrase, run `precept lessons phrases %s --accept %q`\n", a.Slug, a.Proposals[len(a.Proposals)-1].Phrase)
	}
}
