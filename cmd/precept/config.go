package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"precept/app"
	"precept/configs"
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
		flag.Hidden = len(shown) > 0
		for _, s := range shown {
			if s == name.Path {
				flag.Hidden = false
			}
		}
	}
	return f
}

// configNames are the keys with what help says of them.
func configNames() []configs.Name {
	names := configs.Names()
	for i := range names {
		name := &names[i]
		if name.Default != "" && name.Default != "[]" && name.Default != "{}" && !strings.Contains(name.Default, "\n") {
			name.Usage += " (" + name.Default + ")"
		}
	}
	return names
}

// storeKeys are the keys that every verb shows that reads the store.
func storeKeys() []string { return []string{"data_dir", "store.url"} }

// path is the configuration file, "" for none.
func (f *configFlags) path(w *world) string {
	if f.file != "" {
		return f.file
	}
	path, _ := w.env("PRECEPT_CONFIG")
	return path
}

// source is where the configuration is read from; offline lets pass what only a server needs.
func (f *configFlags) source(w *world, offline bool) *app.Source {
	path := f.path(w)
	return &app.Source{File: path, Parse: func(file []byte) (*configs.Config, error) {
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
