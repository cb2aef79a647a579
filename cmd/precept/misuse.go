package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"precept/configs"
	"precept/internal/spell"
)

func argsValidator(check cobra.PositionalArgs) cobra.PositionalArgs {
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

func wrongArguments(c *cobra.Command, args []string) string {
	switch {
	case len(args) == 0:
		return fmt.Sprintf("an argument is missing: %s;", c.UseLine())
	case c.HasSubCommands():
		var names []string
		for _, sub := range c.Commands() {
			names = append(names, sub.Name())
		}
		if near := cmp.Or(commandInOtherPrograms(c.Name(), args[0]), spell.Suggest(args[0], names)); near != "" {
			return fmt.Sprintf(
				"%q is not a %s command; did you mean %s?", args[0], c.CommandPath(), near,
			)
		}
		return fmt.Sprintf("%q is not a %s command;", args[0], c.CommandPath())
	}
	return fmt.Sprintf("unexpected argument %q: %s;", args[len(args)-1], c.UseLine())
}

// commandInOtherPrograms returns precept's name for a command that other programs have under a different name, or "".
func commandInOtherPrograms(parent, name string) string {
	return map[string]string{
		"precept start": "serve", "precept up": "serve", "precept proxy": "serve", "precept status": "doctor", "precept health": "doctor",
		"precept config": "check", "precept validate": "check", "precept lint": "check", "precept log": "watch", "precept logs": "watch",
		"precept tail": "watch", "precept session": "watch", "precept sessions": "watch", "precept stats": "report", "precept results": "report",
		"precept ui": "dashboard", "precept open": "dashboard", "precept login": "dashboard", "precept rate": "feedback",
		"precept delete": "forget", "precept rm": "forget", "precept list": "lessons", "precept samples": "export",
		"lessons add": "new", "lessons create": "new", "lessons delete": "retire", "lessons rm": "retire", "lessons remove": "retire",
		"lessons disable": "pause", "lessons stop": "pause", "lessons enable": "resume", "lessons start": "resume", "lessons test": "try",
		"lessons match": "try", "lessons check": "lint", "lessons validate": "lint", "lessons history": "log", "lessons cat": "show",
		"lessons view": "show", "lessons get": "show",
	}[parent+" "+name]
}

// suggestedFlag returns a question that names the flag that is closest to a misspelt flag.
func suggestedFlag(c *cobra.Command, err error) string {
	flagErr, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return ""
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	name := flagErr.GetSpecifiedName()
	near := spell.Suggest(name, names)
	switch {
	case near != "":
	case name == "format" && slices.Contains(names, "json"):
		near = "json"
	default:
		near = configs.FlagName(configs.NearestKey(name)) // the flag is the key's path with dashes
	}
	if slices.Contains(names, near) {
		return "did you mean --" + near + "? "
	}
	return ""
}

// plainFlagError replaces an error that names a Go function, such as strconv.ParseInt, with a plain message.
func plainFlagError(err error) error {
	valueErr, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	flag := valueErr.GetFlag()
	_, isNumberError := errors.AsType[*strconv.NumError](err)
	switch kind := flag.Value.Type(); {
	case kind == "bool":
		return fmt.Errorf("--%s: %q is neither true nor false", flag.Name, valueErr.GetValue())
	case kind == "float64" && isNumberError:
		return fmt.Errorf("--%s: %q is not a number", flag.Name, valueErr.GetValue())
	case isNumberError:
		return fmt.Errorf("--%s: %q is not a whole number, or is too large", flag.Name, valueErr.GetValue())
	}
	return err
}
