package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"precept/bandit/report"
	"precept/bandit/trial"
	"precept/cmd/precept/server"
	"precept/configs"
	"precept/inject/rules"
	"precept/internal/file"
)

type measureFlags struct {
	sections []string
	share    float64
	picks    int64
	detect   float64
	force    bool
	asJSON   bool
}

// skippedSection is a section that was not registered.
type skippedSection struct {
	Section string `json:"section"`
	Reason  string `json:"why"`
}

type measureResult struct {
	Registered []rules.RegisteredSection `json:"registered"`
	Skipped    []skippedSection          `json:"skipped"`
	Displaced  []rules.RegisteredSection `json:"displaced"` // earlier versions of registered sections; their measurements ended
}

func (inv *invocation) rulesMeasureCommand() *cobra.Command {
	var f measureFlags
	c := &cobra.Command{
		Use:   "measure FILE",
		Short: "Measure sections of a rules file by leaving them out of some sessions",
		Long: "Measure registers sections of a rules file. For each new session, precept decides at random whether all of " +
			"the session's requests keep a registered section or go without it, and compares the two groups of " +
			"sessions. A section is registered with its text: after an edit, register the section again, and the " +
			"measurement starts again from zero. Without --section, measure registers all outermost sections. At most " +
			"rules.at_once sections are measured at a time; the others wait until a measurement ends. A section with a " +
			"word such as never, must not, secrets, production or deletion needs --force. A running server applies " +
			"the change within two seconds, to sessions that start later. Requests with the header Precept-Rules: off " +
			"keep all sections.",
		Args:    argsValidator(cobra.ExactArgs(1)),
		Example: "  precept rules measure CLAUDE.md\n  precept rules measure AGENTS.md --section Testing --share 0.5",
	}
	c.Flags().StringArrayVar(&f.sections, "section", nil, "register this section only; repeat the flag for several sections")
	c.Flags().Float64Var(&f.share, "share", 0.5, "share of the sessions without the section; 0.5 needs the fewest sessions")
	c.Flags().Int64Var(&f.picks, "picks", 0, "plan the measurement: one evaluation after this number of sessions with a reward")
	c.Flags().Float64Var(&f.detect, "detect", 0, "plan the measurement with enough sessions to detect an effect of this size: 0.05 is 5 percentage points")
	c.Flags().BoolVar(&f.force, "force", false, "also register sections that forbid something, and a section as long as the whole file")
	addJSONFlag(c, &f.asJSON)
	return inv.withConfig(c, append(storeKeys(), "lessons"), func(_ *cobra.Command, cfg *configs.Config, args []string) error {
		if err := f.check(); err != nil {
			return misuse(err)
		}
		text, err := readRules(args[0])
		if err != nil {
			return err
		}
		path, err := filepath.Abs(args[0])
		if err != nil {
			return fmt.Errorf("read the rules file: %w", err)
		}
		storage, closeStorage, err := inv.tools.OpenRegistry(cfg)
		if err != nil {
			return err
		}
		defer closeStorage()
		answer, err := f.register(c.Context(), storage, cfg.Rules.AtOnce, path, text, inv.tools.Now())
		if err != nil {
			return err
		}
		if f.asJSON {
			return writeJSON(inv.stdout, answer)
		}
		for _, s := range answer.Registered {
			when := "start from now on"
			if s.State == rules.Queued {
				when = "start after another measurement has ended (rules.at_once)"
			}
			fmt.Fprintf(inv.stdout, "%s is %s: precept leaves the section (%s per request) out of %.0f%% of the sessions that %s\n", report.Printable(s.Slug()), s.State, countNoun(rules.Tokens(s.Text), "token"), 100*s.CutProbability, when)
		}
		for _, s := range answer.Displaced {
			fmt.Fprintf(inv.stdout, "%s@%s is stopped, because the new text replaces this version\n", report.Printable(s.Slug()), s.Hash)
		}
		for _, s := range answer.Skipped {
			fmt.Fprintf(inv.stdout, "%s is not measured: the section %s\n", report.Printable(s.Section), report.Printable(s.Reason))
		}
		if len(answer.Registered) == 0 {
			return errors.New("no section was registered; `precept rules list` shows the registered sections")
		}
		return nil
	})
}

func (f *measureFlags) check() error {
	switch {
	case !(f.share > 0 && f.share < 1):
		return errors.New("--share must be between 0 and 1; the usual value is 0.5")
	case f.picks < 0 || f.detect != 0 && !(f.detect > 0 && f.detect < 1):
		return errors.New("--picks must be a positive number such as 3000, and --detect must be between 0 and 1, such as 0.05")
	case f.picks > 0 && f.detect > 0:
		return errors.New("--picks and --detect cannot be combined; give only one of them")
	}
	return nil
}

// Assumptions for --detect before any data exists.
const (
	plannedVariance = 0.24 // variance for a binary reward with mean 0.6
	plannedPower    = 0.8  // probability that the measurement finds the effect
)

// register adds the chosen sections to the registered sections. At most atOnce measurements run at the same time; the
// other sections wait in the queue.
func (f *measureFlags) register(
	ctx context.Context, storage *server.RegistryStorage, atOnce int, path, text string, now time.Time,
) (answer measureResult, err error) {
	name := rules.Base(path)
	all := rules.Split(text)
	indices, err := chooseSections(name, all, f.sections)
	if err != nil {
		return answer, err
	}
	picks := f.picks
	if f.detect > 0 {
		picks = trial.PicksFor(f.detect, plannedPower, trial.Alpha, f.share, plannedVariance)
	}
	if now, err = storage.Now(ctx, now); err != nil {
		return answer, err
	}
	err = storage.Update(ctx, func(list []rules.RegisteredSection) ([]rules.RegisteredSection, error) {
		answer = measureResult{Registered: []rules.RegisteredSection{}, Skipped: []skippedSection{}, Displaced: []rules.RegisteredSection{}}
		var newArms []string
		for _, i := range indices {
			s := &all[i]
			body := text[s.Start:s.End]
			entry := rules.RegisteredSection{
				File: name, Path: path, Section: s.Name, Hash: rules.Hash(body), Text: rules.Normalize(body), CutProbability: f.share, State: rules.Queued,
				Picks: picks, DetectableEffect: 100 * f.detect, Forbids: rules.FindProhibition(body), Added: now.UTC(),
			}
			if reason := f.skipReason(s, &entry, list, all, text); reason != "" {
				answer.Skipped = append(answer.Skipped, skippedSection{s.Name, reason})
				continue
			}
			list = slices.DeleteFunc(list, func(existing rules.RegisteredSection) bool { return existing.Arm() == entry.Arm() })
			for i := range list { // end the measurement for an earlier version of the section
				if existing := &list[i]; existing.Slug() == entry.Slug() && (existing.State == rules.Measuring || existing.State == rules.Queued) {
					existing.State, existing.Ended = rules.Stopped, now.UTC()
					answer.Displaced = append(answer.Displaced, *existing)
				}
			}
			list, newArms = append(list, entry), append(newArms, string(entry.Arm()))
		}
		rules.Advance(list, atOnce, now, func(*rules.RegisteredSection) string { return "" })
		for i := range list {
			if slices.Contains(newArms, string(list[i].Arm())) {
				answer.Registered = append(answer.Registered, list[i])
			}
		}
		return list, nil
	})
	return answer, err
}

// skipReason returns the reason why a section cannot be registered. s is the section in the file, and entry is the same
// section as it would be registered. list holds the registered sections, and all holds every section in the file.
func (f *measureFlags) skipReason(s *rules.Section, entry *rules.RegisteredSection, list []rules.RegisteredSection, all []rules.Section, text string) string {
	if p := s.Problem(); p != "" && !(s.WholeFile && !s.Empty && !s.Repeated && f.force) {
		if s.WholeFile && !s.Empty && !s.Repeated {
			p += "; add --force to measure the file as a whole, or name sections with --section"
		}
		return p
	}
	if entry.Forbids != "" && !f.force {
		return fmt.Sprintf("forbids something (%q): leaving the section out may do harm; add --force to measure the section", entry.Forbids)
	}
	for i := range list {
		existing := &list[i]
		if existing.State == rules.Finished && existing.Arm() == entry.Arm() && entry.Picks == 0 {
			return fmt.Sprintf("already has the verdict %q, which would end a new measurement at once; add --picks to plan a measurement with new sessions", existing.Verdict)
		}
		if existing.State != rules.Measuring && existing.State != rules.Queued {
			continue
		}
		if existing.Arm() == entry.Arm() {
			return "is already registered"
		}
		if existing.Slug() == entry.Slug() && existing.Path != "" && existing.Path != entry.Path {
			return fmt.Sprintf("has the same name as a registered section in %s; stop that section first: `precept rules stop %s --section %q`", existing.Path, existing.File, existing.Section)
		}
		for k := range all {
			other := &all[k]
			if other != s && rules.Hash(text[other.Start:other.End]) == existing.Hash && other.Start < s.End && s.Start < other.End {
				return fmt.Sprintf("overlaps with the registered section %q; stop that section first: `precept rules stop %s --section %q`", existing.Section, existing.File, existing.Section)
			}
		}
	}
	return ""
}

// chooseSections returns the named sections, or the outermost sections if no name is given.
func chooseSections(file string, all []rules.Section, names []string) (indices []int, err error) {
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no sections: a section is a heading with content, or a bullet at the left margin", file)
	}
	if len(names) == 0 {
		return rules.TopSections(all), nil
	}
	for _, name := range names {
		i := slices.IndexFunc(all, func(s rules.Section) bool { return s.Name == name })
		if i < 0 {
			want := strings.ToLower(strings.TrimSpace(strings.TrimLeft(name, "#-* ")))
			i = slices.IndexFunc(all, func(s rules.Section) bool { return strings.ToLower(s.Name) == want })
		}
		if i < 0 {
			sectionNames := make([]string, len(all))
			for i := range all {
				sectionNames[i] = fmt.Sprintf("%q", all[i].Name)
			}
			return nil, fmt.Errorf("%s has no section %q; the sections are %s", file, name, strings.Join(sectionNames, ", "))
		}
		indices = append(indices, i)
	}
	return indices, nil
}

func readRules(path string) (string, error) {
	raw, err := file.Read(path)
	if err != nil {
		return "", fmt.Errorf("read the rules file: %w", err)
	}
	if strings.TrimSpace(string(raw)) == "" {
		return "", fmt.Errorf("%s is empty; there is nothing to measure", path)
	}
	return string(raw), nil
}
