package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build is what the binary says of itself.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
}

// readBuild asks the binary; nothing is stamped in, so that two builds of one source are the same
// bytes.
func readBuild() build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return build{Version: "unknown"}
	}
	b := build{Version: info.Main.Version, Go: info.GoVersion}
	if b.Version == "" {
		b.Version = "(devel)"
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (w *world) version() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Tell the version of this binary",
		Args:  arguments(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			b := readBuild()
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
	c.Flags().BoolVar(&asJSON, "json", false, "answer as JSON")
	return c
}
