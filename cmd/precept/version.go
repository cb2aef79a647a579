package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"precept/cmd/precept/server"
)

// version prints the version that the build wrote into the binary.
func (w *world) version() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary",
		Args:  arguments(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
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
	return c
}
