package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"precept/cmd/precept/server"
)

func (w *world) version() *cobra.Command {
	var asJSON, bill bool
	c := &cobra.Command{
		Use:   "version [--sbom [BINARY]]",
		Short: "Tell the version of this binary, or what it is made of",
		Long: "Version tells the version of this binary. With --sbom it tells the modules that " +
			"were linked into it, or into another binary of Go, as CycloneDX 1.5 JSON.",
		Args: arguments(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			if bill {
				return w.printBill(args)
			}
			if len(args) > 0 {
				return misuse(errors.New("a binary is named with --sbom only"))
			}
			b := server.ReadBuild()
			if asJSON {
				return writeJSON(w.out, b)
			}
			text := "precept " + b.Version
			if b.Revision != "" {
				text += " " + b.Revision
			}
			_, err := fmt.Fprintln(w.out, text, b.Go)
			return err
		},
	}
	addJSON(c, &asJSON)
	c.Flags().BoolVar(
		&bill, "sbom", false, "the bill of materials of this binary, or of the one that is named",
	)
	return c
}

// printBill tells what a binary is made of.
func (w *world) printBill(args []string) error {
	path, err := os.Executable()
	if len(args) > 0 {
		path, err = args[0], nil
	}
	if err != nil {
		return err
	}
	b, err := billOf(path)
	if err != nil {
		return err
	}
	return writeJSON(w.out, b)
}
