package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The help shows the kind of each flag's value in one word, such as int or duration.
func TestHelpDescribesCommandsAndFlagsWithin100Columns(t *testing.T) {
	kinds := map[string]bool{"": true, "value": true, "string": true, "strings": true, "stringArray": true, "int": true, "uint": true, "float": true, "duration": true}
	root := new(invocation).rootCommand()
	forEachCommand(root, func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if kind, _ := pflag.UnquoteUsage(f); !kinds[kind] {
				t.Errorf("%s --%s: got value kind %q, want a known kind", c.CommandPath(), f.Name, kind)
			}
		})
		if strings.HasPrefix(c.CommandPath(), "precept completion") {
			return // cobra writes this help
		}
		var b bytes.Buffer
		c.SetOut(&b)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), c.Short) && !strings.Contains(b.String(), c.Long) {
			t.Errorf("help of %s: got %s, want it to contain the short description %q or the long description %q", c.CommandPath(), b.String(), c.Short, c.Long)
		}
		for line := range strings.Lines(b.String()) {
			first, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 100 && first != "precept" && !strings.HasPrefix(first, "http") {
				t.Errorf("help of %s: got %d columns, want at most 100, in line %q", c.CommandPath(), n, line)
			}
		}
	})
}

func TestEachCommandHasJSONFlag(t *testing.T) {
	forEachCommand(new(invocation).rootCommand(), func(c *cobra.Command) {
		path := c.CommandPath()
		if c.HasSubCommands() || strings.HasPrefix(path, "precept completion") || path == "precept help" {
			return
		}
		if c.Flags().Lookup("json") == nil {
			t.Errorf("command %s: got no flag --json, want the flag", path)
		}
	})
}

func TestExamplesInHelpAreAccepted(t *testing.T) {
	examples := 0
	forEachCommand(new(invocation).rootCommand(), func(c *cobra.Command) {
		for line := range strings.Lines(c.Example) {
			examples++
			root := new(invocation).rootCommand()
			cmd, rest, err := root.Find(splitWords(line)[1:])
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err == nil {
				err = cmd.ValidateArgs(cmd.Flags().Args())
			}
			if err != nil || cmd.CommandPath() != c.CommandPath() {
				t.Errorf("example %q in the help of %s: got command %s, error %v, want the command that the help describes and no error", line, c.CommandPath(), cmd.CommandPath(), err)
			}
		}
	})
	if examples < 15 {
		t.Errorf("examples in the help of all commands: got %d, want at least 15", examples)
	}
}

// splitWords splits a line at each space that is not between double quotes.
func splitWords(line string) (words []string) {
	for i, part := range strings.Split(strings.TrimSpace(line), `"`) {
		if i%2 == 1 {
			words = append(words, part)
			continue
		}
		words = append(words, strings.Fields(part)...)
	}
	return words
}

// forEachCommand calls check for c and all subcommands.
func forEachCommand(c *cobra.Command, check func(*cobra.Command)) {
	check(c)
	for _, sub := range c.Commands() {
		forEachCommand(sub, check)
	}
}
