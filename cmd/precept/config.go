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
	"precept/store/redis"
)

// configFlags holds the flag --config and one flag for every key of the configuration.
type configFlags struct {
	file  string
	given map[string]string // by path
}

// value is the flag of one key. The flag accepts any text; configs.Parse checks all keys together.
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

// configured adds the configuration's flags to a verb, of which help shows those in shown, and runs
// the verb with the configuration. Keys that only a server needs may be faulty: the verb works on
// files.
func (w *invocation) configured(c *cobra.Command, shown []string, run func(*cobra.Command, *configs.Config, []string) error) *cobra.Command {
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

// onBank adds the configuration's flags to a verb and runs the verb with the configured bank.
func (w *invocation) onBank(c *cobra.Command, run func(context.Context, *bank.Bank, []string) error) *cobra.Command {
	return w.configured(c, bankKeys(), func(c *cobra.Command, cfg *configs.Config, args []string) error {
		b, closeBank, err := w.tools.OpenWriter(cfg)
		if err != nil {
			return err
		}
		defer closeBank()
		return run(c.Context(), b, args)
	})
}

// addConfigFlags adds the configuration's flags to a verb, except those that the verb defines. Help
// shows the flags of shown, or all flags when shown is empty.
func (w *invocation) addConfigFlags(c *cobra.Command, shown ...string) *configFlags {
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

// configNames returns the keys with their help texts.
func configNames() []configs.Name {
	names := configs.Names()
	for i := range names {
		name := &names[i]
		name.Usage = strings.ReplaceAll(name.Usage, "`", "") // pflag shows a quoted word as the type of the value
		if name.Default != "" && name.Default != "[]" && name.Default != "{}" && !strings.Contains(name.Default, "\n") {
			name.Usage += " (" + name.Default + ")"
		}
	}
	return names
}

// bankKeys returns the keys that help shows for verbs on lessons.
func bankKeys() []string { return []string{"lessons", "store.url"} }

// storeKeys returns the keys that help shows for verbs on the store.
func storeKeys() []string { return []string{"data_dir", "store.url"} }

// source returns the source of the configuration; offline accepts faults in keys of the server alone.
func (f *configFlags) source(w *invocation, offline bool) *server.Source {
	path := cmp.Or(f.file, variable(w.env, "PRECEPT_CONFIG")) // "" is none
	return &server.Source{File: path, Parse: func(file []byte) (*configs.Config, error) {
		return configs.Parse(configs.Sources{
			FileName: path, File: file, Env: w.env, EnvNames: w.envNames, Flags: f.given, Offline: offline,
			Redis: redis.CheckURL,
		})
	}}
}

// load reads the configuration for a verb.
func (f *configFlags) load(w *invocation, offline bool) (*configs.Config, error) {
	c, err := f.source(w, offline).Load()
	if err != nil {
		return nil, misuse(err)
	}
	return c, nil
}

// loadServed reads the configuration for a server, and checks the files that a start needs.
func loadServed(source *server.Source) (*configs.Config, error) {
	c, err := source.Load()
	if err != nil {
		return nil, misuse(err)
	}
	if faults := server.CheckFiles(c); len(faults) > 0 {
		return nil, misuse(faults)
	}
	return c, nil
}

// configFaults returns the list of faults in an error of load.
func configFaults(err error) (configs.Faults, bool) {
	var coded *codedError
	if errors.As(err, &coded) && coded.err != nil {
		return configs.AsFaults(coded.err)
	}
	return configs.AsFaults(err)
}
