package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"precept/admin"
	"precept/bandit/report"
	"precept/configs"
	"precept/inject/rules"
)

func (inv *invocation) rulesListCommand() *cobra.Command {
	var asJSON bool
	var tenant string
	c := &cobra.Command{
		Use:   "list",
		Short: "List the registered sections, with each section's state and session counts",
		Args:  argsValidator(cobra.NoArgs),
	}
	addJSONFlag(c, &asJSON)
	c.Flags().StringVar(&tenant, "tenant", "default", "tenant whose sessions are counted")
	return inv.withConfig(c, append(storeKeys(), "lessons"), func(c *cobra.Command, cfg *configs.Config, _ []string) error {
		registry, err := inv.tools.ReadRegistry(c.Context(), cfg)
		if err != nil {
			return err
		}
		if asJSON {
			return writeJSON(inv.stdout, rules.Registry{Sections: append([]rules.RegisteredSection{}, registry.Sections...)})
		}
		if len(registry.Sections) == 0 {
			fmt.Fprintln(inv.stdout, "No section is registered. `precept rules measure FILE` registers a file's sections.")
			return nil
		}
		rep, err := findReport(c.Context(), inv.stderr, inv.tools, cfg, &reportFlags{query: admin.ReportQuery{Tenant: tenant}})
		none := "0/0"
		if err != nil {
			none = "-"
			fmt.Fprintf(inv.stderr, "precept: the session counts are unknown: %v\n", err)
		}
		rows := map[string]*report.Row{}
		for i := range rep.Lessons {
			rows[rep.Lessons[i].Arm] = &rep.Lessons[i]
		}
		prices := admin.Prices{Models: cfg.PriceTable(), Currency: cfg.Currency()}
		var costs []string
		t, flush := newTabWriter(inv.stdout)
		fmt.Fprintln(t, "section\tstate\tshare\ttokens\twith/without\tsince\tnote")
		for i := range registry.Sections {
			s := &registry.Sections[i]
			sessions := none
			if row := rows[string(s.Arm())]; row != nil {
				sessions = fmt.Sprintf("%d/%d", row.NInjected, row.NWithheld)
				if cost := prices.CompareSection(row); cost != "" {
					costs = append(costs, report.Printable(s.Slug())+" "+strings.ReplaceAll(cost, "\u00a0", " "))
				}
			}
			note := s.Verdict
			if s.Forbids != "" {
				note = strings.TrimPrefix(note+"; forbids: "+s.Forbids, "; ")
			}
			since := s.Added
			if !s.Began.IsZero() {
				since = s.Began
			}
			fmt.Fprintf(t, "%s\t%s\t%.2f\t%d\t%s\t%s\t%s\n", report.Printable(s.Slug()), s.State, s.CutProbability, rules.Tokens(s.Text), sessions, since.Format(time.DateOnly), report.Printable(note))
		}
		if err := flush(); err != nil {
			return err
		}
		for _, cost := range costs {
			fmt.Fprintln(inv.stdout, cost)
		}
		return nil
	})
}
