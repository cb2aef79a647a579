package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"precept/bandit/report"
	"precept/configs"
	"precept/inject/rules"
)

func (inv *invocation) rulesStopCommand() *cobra.Command {
	var names []string
	var asJSON bool
	c := &cobra.Command{
		Use:   "stop FILE",
		Short: "Stop measuring a rules file's sections; open sessions keep their random decisions",
		Args:  argsValidator(cobra.ExactArgs(1)),
	}
	c.Flags().StringArrayVar(&names, "section", nil, "stop this section only; repeat the flag for several sections")
	addJSONFlag(c, &asJSON)
	return inv.withConfig(c, append(storeKeys(), "lessons"), func(c *cobra.Command, cfg *configs.Config, args []string) error {
		storage, closeStorage, err := inv.tools.OpenRegistry(cfg)
		if err != nil {
			return err
		}
		defer closeStorage()
		name := rules.Base(args[0])
		now, err := storage.Now(c.Context(), inv.tools.Now())
		if err != nil {
			return err
		}
		var stopped []string
		err = storage.Update(c.Context(), func(list []rules.RegisteredSection) ([]rules.RegisteredSection, error) {
			stopped = nil // Update may call the function again
			for i := range list {
				s := &list[i]
				isNamed := len(names) == 0 || slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, s.Section) })
				if s.File != name || !isNamed || s.State == rules.Stopped || s.State == rules.Finished {
					continue
				}
				s.State, s.Ended = rules.Stopped, now.UTC()
				stopped = append(stopped, s.Slug())
			}
			rules.Advance(list, cfg.Rules.AtOnce, now, func(*rules.RegisteredSection) string { return "" })
			return list, nil
		})
		if err != nil {
			return err
		}
		if len(stopped) == 0 {
			subject := "section of " + name
			if len(names) > 0 {
				subject += " named " + strings.Join(names, " or ")
			}
			return fmt.Errorf("no %s is queued or being measured; `precept rules list` shows the registered sections", subject)
		}
		if asJSON {
			return writeJSON(inv.stdout, map[string][]string{"stopped": stopped})
		}
		for _, slug := range stopped {
			fmt.Fprintf(inv.stdout, "%s is stopped\n", report.Printable(slug))
		}
		return nil
	})
}
