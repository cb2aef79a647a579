package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"precept/internal/spell"
)

// arguments returns a validator of arguments whose errors have the exit code of a misuse.
func arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		err := check(c, args)
		if err == nil {
			return nil
		}
		return misuse(fmt.Errorf(
			"%s `%s --help` shows the usage", wrongArguments(c, args), c.CommandPath(),
		))
	}
}

// wrongArguments describes what is wrong with the number of arguments, or with the name of a command.
func wrongArguments(c *cobra.Command, args []string) string {
	switch {
	case len(args) == 0:
		return fmt.Sprintf("an argument is missing: %s;", c.UseLine())
	case c.HasSubCommands():
		var names []string
		for _, sub := range c.Commands() {
			names = append(names, sub.Name())
		}
		if near := spell.Nearest(args[0], names); near != "" {
			return fmt.Sprintf(
				"%q is not a command of %s; did you mean %s?", args[0], c.CommandPath(), near,
			)
		}
		return fmt.Sprintf("%q is not a command of %s;", args[0], c.CommandPath())
	}
	return fmt.Sprintf("too many arguments, %q is one: %s;", args[len(args)-1], c.UseLine())
}

// suggestedFlag returns the flag that a misspelt flag most likely means.
func suggestedFlag(c *cobra.Command, err error) string {
	wrong, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return ""
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := spell.Nearest(wrong.GetSpecifiedName(), names); near != "" {
		return "did you mean --" + near + "? "
	}
	return ""
}

// plainFlagError replaces an error that names a Go function. The new error describes the expected form of the flag's
// value.
func plainFlagError(err error) error {
	wrong, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	flag := wrong.GetFlag()
	_, number := errors.AsType[*strconv.NumError](err)
	switch kind := flag.Value.Type(); {
	case kind == "bool":
		return fmt.Errorf("--%s: %q is neither true nor false", flag.Name, wrong.GetValue())
	case kind == "float64" && number:
		return fmt.Errorf("--%s: %q is not a number", flag.Name, wrong.GetValue())
	case number:
		return fmt.Errorf("--%s: %q is not a whole number, or too large", flag.Name, wrong.GetValue())
	}
	return err
}
