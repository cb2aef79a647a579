package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"precept/cmd/precept/server"
	"precept/configs"
	"precept/inject/bank"
)

// configFlags are --config and a flag for every key of the configuration, on one verb.
type configFlags struct {
	file  string
	given map[string]string // by path
}

// value is one key's flag: it takes any text, the configuration judges it with everything else.
type value struct {
	name  *configs.Name
	given map[string]string
}

func (v value) String() string { return v.given[v.name.Path] }

func (v value) Set(text string) error {
	v.given[v.name.Path] = text
	return nil
}

func (v value) Type() string {
	if v.name.Bool {
		return ""
	}
	return "value"
}

// configured gives a verb the configuration's flags, of which help shows the ones in shown, and
// runs it with the configuration. The verb works on what lies on disk: what only a server needs may
// be wrong there.
func (w *world) configured(c *cobra.Command, shown []string, run func(*cobra.Command, *configs.Config, []string) error) *cobra.Command {
	flags := w.addConfigFlags(c, shown...)
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, err := flags.load(w, true)
		if err != nil {
			return err
		}
		return run(c, cfg, args)
	}
	return c
}

// onBank gives a verb the configuration's flags, and runs it with the configured bank.
func (w *world) onBank(c *cobra.Command, run func(context.Context, *bank.Bank, []string) error) *cobra.Command {
	return w.configured(c, bankKeys(), func(c *cobra.Command, cfg *configs.Config, args []string) error {
		b, closeBank, err := w.tools.OpenWriter(cfg)
		if err != nil {
			return err
		}
		defer closeBank()
		return run(c.Context(), b, args)
	})
}

// addConfigFlags gives a verb the configuration's flags, but for those that it has of its own. Help
// shows the ones in shown, or all of them when it is empty.
func (w *world) addConfigFlags(c *cobra.Command, shown ...string) *configFlags {
	f := &configFlags{given: map[string]string{}}
	c.Flags().StringVar(&f.file, "config", "", "configuration file (PRECEPT_CONFIG)")
	if w.names == nil {
		w.names = configNames()
	}
	for i := range w.names {
		name := &w.names[i]
		if c.Flags().Lookup(name.Flag) != nil {
			continue
		}
		flag := c.Flags().VarPF(value{name: name, given: f.given}, name.Flag, "", name.Usage)
		if name.Bool {
			flag.NoOptDefVal = "true"
		}
		flag.Hidden = len(shown) > 0 && !slices.Contains(shown, name.Path)
	}
	return f
}

// configNames are the keys with what help says of them.
func configNames() []configs.Name {
	names := configs.Names()
	for i := range names {
		name := &names[i]
		name.Usage = strings.ReplaceAll(name.Usage, "`", "") // a flag's help takes what is quoted so for the kind of its value
		if name.Default != "" && name.Default != "[]" && name.Default != "{}" && !strings.Contains(name.Default, "\n") {
			name.Usage += " (" + name.Default + ")"
		}
	}
	return names
}

// bankKeys are the keys that every verb shows that reads or writes the lessons.
func bankKeys() []string { return []string{"lessons", "store.url"} }

// storeKeys are the keys that every verb shows that reads the store.
func storeKeys() []string { return []string{"data_dir", "store.url"} }

// source is where the configuration is read from; offline lets pass what only a server needs.
func (f *configFlags) source(w *world, offline bool) *server.Source {
	path := cmp.Or(f.file, variable(w.env, "PRECEPT_CONFIG")) // "" is none
	return &server.Source{File: path, Parse: func(file []byte) (*configs.Config, error) {
		return configs.Parse(configs.Sources{FileName: path, File: file, Env: w.env, Flags: f.given, Offline: offline})
	}}
}

// load reads the configuration for a verb.
func (f *configFlags) load(w *world, offline bool) (*configs.Config, error) {
	c, err := f.source(w, offline).Load()
	if err != nil {
		return nil, misuse(err)
	}
	return c, nil
}

// configFaults takes the list of faults out of an error of load.
func configFaults(err error) (configs.Faults, bool) {
	var coded *codedError
	if errors.As(err, &coded) && coded.err != nil {
		return configs.AsFaults(coded.err)
	}
	return configs.AsFaults(err)
}
