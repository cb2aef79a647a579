package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"precept/bandit/report"
	"precept/cmd/precept/server"
	"precept/configs"
	"precept/inject/rules"
)

func (inv *invocation) rulesCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "rules",
		Short: "Measure which sections in CLAUDE.md, AGENTS.md and similar files are worth the tokens",
		Args:  argsValidator(cobra.NoArgs),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(inv.rulesScanCommand(), inv.rulesMeasureCommand(), inv.rulesListCommand(), inv.rulesStopCommand(), inv.rulesProposeCommand(), inv.rulesToLessonsCommand())
	return c
}

type scanResult struct {
	Sessions int              `json:"sessions"` // captured sessions read
	Files    []rules.SeenFile `json:"files"`
}

func (inv *invocation) rulesScanCommand() *cobra.Command {
	var tenant string
	var asJSON bool
	c := &cobra.Command{
		Use:   "scan",
		Short: "List the rules files in captured sessions, with the tokens in each section",
		Long: "Scan reads the newest captured sessions, and finds rules files by the headings and tags that agents write " +
			"around them. A section is a heading with content, or a bullet at the left margin. tokens: an estimate for " +
			"one request, at four bytes per token; every request in a session repeats the file. forbids: the word that " +
			"makes the section a prohibition; `precept rules measure` needs --force for such a section.",
		Args: argsValidator(cobra.NoArgs),
	}
	c.Flags().StringVar(&tenant, "tenant", "default", "tenant whose sessions are read")
	addJSONFlag(c, &asJSON)
	return inv.withConfig(c, storeKeys(), func(c *cobra.Command, cfg *configs.Config, _ []string) error {
		reader, err := inv.tools.OpenFiltered(c.Context(), cfg)
		if err != nil {
			return err
		}
		defer reader.Close() //nolint:errcheck // nothing was written
		scan, err := server.ScanRules(c.Context(), reader, tenant, inv.tools.Now())
		if err != nil {
			return err
		}
		answer := scanResult{Sessions: scan.Sessions, Files: scan.Files()}
		if asJSON {
			return writeJSON(inv.stdout, answer)
		}
		return printScan(inv.stdout, &answer)
	})
}

func printScan(out io.Writer, answer *scanResult) error {
	if len(answer.Files) == 0 {
		_, err := fmt.Fprintf(out, "No rules file was found in %s. precept recognises the rules files of Claude Code, Codex, opencode, Qwen Code, Gemini CLI, Copilot, Cline, Continue, aider, Cursor and pi, if learning.enabled is true.\n", countNoun(answer.Sessions, "captured session"))
		return err
	}
	for i := range answer.Files {
		f := &answer.Files[i]
		fmt.Fprintf(out, "%s: %s, %s per request, %s per session, %.1f%% of the input tokens\n", report.Printable(f.File), countNoun(f.Sessions, "session"), countNoun(f.TokensPerRequest, "token"), countNoun(f.TokensPerSession, "token"), 100*f.InputShare)
		if f.Problem != "" {
			fmt.Fprintln(out, "  "+f.Problem)
		}
		t, flush := newTabWriter(out)
		fmt.Fprintln(t, "  section\ttokens\tper session\tsessions\tinput\tnote")
		depth := map[string]int{}
		for k := range f.Sections {
			s := &f.Sections[k]
			if s.Parent != "" {
				depth[s.Section] = depth[s.Parent] + 1
			}
			note := s.Problem
			if note == "" && s.Forbids != "" {
				note = "forbids: " + s.Forbids
			}
			fmt.Fprintf(t, "  %s%s\t%d\t%d\t%d\t%.1f%%\t%s\n", strings.Repeat("  ", depth[s.Section]), report.Printable(s.Section), s.TokensPerRequest, s.TokensPerSession, s.Sessions, 100*s.InputShare, note)
		}
		if err := flush(); err != nil {
			return err
		}
	}
	return nil
}

func newTabWriter(out io.Writer) (columns io.Writer, flush func() error) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	return t, t.Flush
}
