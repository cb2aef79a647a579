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

// phrasesAnswer is the answer of lessons phrases --json.
type phrasesAnswer struct {
	Slug      string                    `json:"slug"`
	Sessions  int                       `json:"sessions"` // captured sessions that were read
	Proposals []backtest.PhraseProposal `json:"proposals"`
	Accepted  []string                  `json:"accepted"` // phrases that were added to the lesson
	State     lesson.State              `json:"state"`    // state of the lesson after the command
}

func (w *invocation) lessonsPhrases() *cobra.Command {
	var accept []string
	var asJSON bool
	c := &cobra.Command{
		Use:   "phrases SLUG",
		Short: "Propose phrases for a lesson from captured near misses",
		Long: "Phrases reads the captured sessions for sentences that resemble a lesson and contain none " +
			"of its phrases. Phrases prints, for each proposed phrase, the sessions in which the phrase " +
			"would fire, with excerpts. --accept adds proposals to the keywords of the lesson; an approved " +
			"lesson is then quarantined until `precept lessons approve SLUG`. The verb needs 200 " +
			"captured sessions.",
		Args: arguments(cobra.ExactArgs(1)),
	}
	c.Flags().StringSliceVar(&accept, "accept", nil, "add these proposals to the lesson, by number or by phrase: 1,3")
	addJSON(c, &asJSON)
	return w.configured(c, append(storeKeys(), "lessons"), func(c *cobra.Command, cfg *configs.Config, args []string) error {
		book, _, err := loadBook(c.Context(), w.tools, cfg)
		if err != nil {
			return err
		}
		l, ok := book.Get(args[0])
		if !ok {
			return noLesson(args[0])
		}
		sessions, traffic, err := w.captured(c.Context(), cfg)
		if err != nil {
			return err
		}
		if !traffic.Enough() {
			return fmt.Errorf(
				"the store has %s and phrases need %d; add past transcripts with `precept import`",
				amount(traffic.Sessions(), "captured session"), lesson.LikeSessions,
			)
		}
		if !l.State.Fires() { // the proposals of a lesson without effect are shown as well
			active := l.Clone()
			active.State = lesson.Active
			book = lesson.NewBook(append(slices.DeleteFunc(book.Lessons(), func(o *lesson.Lesson) bool { return o == l }), active))
		}
		answer := phrasesAnswer{
			Slug: l.Slug, Sessions: traffic.Sessions(), State: l.State, Accepted: []string{},
			Proposals: append([]backtest.PhraseProposal{}, backtest.Phrases(book.WithLikeness(traffic, cfg.Match.LikeRate), l, sessions)...),
		}
		if len(accept) > 0 {
			if err := w.acceptPhrases(c.Context(), cfg, l, accept, &answer); err != nil {
				return err
			}
		}
		if asJSON {
			return writeJSON(w.out, answer)
		}
		printPhrases(w.out, &answer)
		return nil
	})
}

// captured reads the newest captured sessions.
func (w *invocation) captured(ctx context.Context, cfg *configs.Config) (sessions []backtest.Captured, traffic *lesson.Traffic, err error) {
	e, err := w.tools.OpenStored(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	defer e.Close() //nolint:errcheck // only read
	traffic, err = server.ReadTraffic(ctx, e, w.tools.Now(), func(s *backtest.Session, queries []lesson.Query) {
		sessions = append(sessions, backtest.Captured{Name: s.Name, Queries: queries})
	})
	return sessions, traffic, err
}

// acceptPhrases adds proposals to the keywords of the lesson.
func (w *invocation) acceptPhrases(ctx context.Context, cfg *configs.Config, l *lesson.Lesson, accept []string, answer *phrasesAnswer) error {
	for _, name := range accept {
		i := slices.IndexFunc(answer.Proposals, func(p backtest.PhraseProposal) bool { return name == p.Phrase || name == strconv.Itoa(p.Number) })
		if i < 0 && len(answer.Proposals) == 0 {
			return misuse(fmt.Errorf("proposal %q does not exist: there are no proposals for %s", name, l.Slug))
		}
		if i < 0 {
			return misuse(fmt.Errorf("proposal %q does not exist; the numbers are 1 to %d", name, len(answer.Proposals)))
		}
		answer.Accepted = append(answer.Accepted, answer.Proposals[i].Phrase)
	}
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
	b, closeBank, err := w.tools.OpenWriter(cfg)
	if err != nil {
		return err
	}
	defer closeBank()
	ctx, cancel := context.WithTimeout(ctx, server.BankLimit)
	defer cancel()
	r, err := b.Put(ctx, path.Join(l.Category, path.Base(strings.ReplaceAll(l.Path, "\\", "/"))), []byte(edited.Raw), who(w.env))
	printFindings(w.err, r.Findings)
	if err != nil {
		return errors.Join(fmt.Errorf("%s is unchanged", l.Slug), err)
	}
	answer.State = r.Lesson.State
	return nil
}

func printPhrases(out io.Writer, a *phrasesAnswer) {
	if len(a.Proposals) == 0 {
		fmt.Fprintf(out, "no near misses of %s in %s\n", a.Slug, amount(a.Sessions, "session"))
	}
	for i := range a.Proposals {
		p := &a.Proposals[i]
		fmt.Fprintf(out, "%2d  %s\n    fires in %d of %s%s; shares %s\n", p.Number, report.Printable(p.Phrase),
			p.Fired, amount(p.Sessions, "session"), share(p.Fired, p.Sessions), report.Printable(strings.Join(p.Words, ", ")))
		for _, e := range p.Examples[:min(len(p.Examples), 3)] {
			fmt.Fprintf(out, "    %s: %s\n", report.Printable(e.Session), report.Printable(e.Excerpt))
		}
	}
	switch {
	case len(a.Accepted) > 0:
		fmt.Fprintf(out, "added %s to %s; the lesson is %s", amount(len(a.Accepted), "keyword"), a.Slug, a.State)
		if a.State == lesson.Quarantined {
			fmt.Fprintf(out, "; approve the text with precept lessons approve %s", a.Slug)
		}
		fmt.Fprintln(out)
	case len(a.Proposals) > 0:
		fmt.Fprintf(out, "add phrases with precept lessons phrases %s --accept 1,2\n", a.Slug)
	}
}
