package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"precept/bandit/report"
	"precept/cmd/precept/server"
	"precept/configs"
	"precept/inject/bank"
	"precept/internal/sample"
	"precept/store/redis"
)

// configFlags holds the flag --config and one flag for every key of the configuration.
type configFlags struct {
	command *cobra.Command
	file    string
	accepts bool              // the verb accepts precept.yaml of the working directory, for this user
	given   map[string]string // by path
}

// projectFile is the configuration file that every verb reads from the working directory.
const projectFile = "precept.yaml"

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
// the verb with the configuration. Faults of keys that only a server needs are ignored, because the
// verb works on files.
func (w *invocation) configured(c *cobra.Command, shown []string, run func(*cobra.Command, *configs.Config, []string) error) *cobra.Command {
	flags := w.addConfigFlags(c, shown...)
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, err := flags.load(w)
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
	f := &configFlags{command: c, given: map[string]string{}}
	c.Flags().StringVar(&f.file, "config", "", "configuration file (PRECEPT_CONFIG; default: precept.yaml, if the file exists)")
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

// path returns the path of the configuration file, "" for none: --config, PRECEPT_CONFIG, or precept.yaml of the
// working directory. An empty --config selects no file.
func (f *configFlags) path(w *invocation) string {
	path, _ := f.find(w)
	return path
}

// find returns path, and reports whether the file is precept.yaml of the working directory, which
// no flag and no variable named.
func (f *configFlags) find(w *invocation) (path string, found bool) {
	if f.command.Flags().Changed("config") {
		return f.file, false
	}
	if path := variable(w.env, "PRECEPT_CONFIG"); path != "" {
		return path, false
	}
	if info, err := os.Stat(projectFile); err == nil && !info.IsDir() {
		return projectFile, true
	}
	return "", false
}

// announce prints the configuration file in use on standard error. With JSON output, announce prints the name only if
// no flag and no variable named the file.
func (f *configFlags) announce(w *invocation) {
	asJSON := f.command.Flags().Lookup("json")
	if path, found := f.find(w); path != "" && (found || asJSON == nil || asJSON.Value.String() != "true") {
		fmt.Fprintln(w.err, "precept: configuration file", report.Printable(path))
	}
}

// source returns the source of the configuration; offline accepts faults in keys of the server alone. A file that no
// flag and no variable named needs trust, at the start and at each reload.
func (f *configFlags) source(w *invocation, offline bool) *server.Source {
	path, found := f.find(w)
	return &server.Source{File: path, Parse: func(file []byte) (*configs.Config, error) {
		if found {
			if err := f.checkTrust(w, file); err != nil {
				return nil, err
			}
		}
		c, err := configs.Parse(configs.Sources{
			FileName: path, File: file, Env: w.env, EnvNames: w.envNames, Flags: f.given, Offline: offline,
			ReadFile: readSecret,
			Redis:    redis.CheckURL,
		})
		if found && f.accepts && err == nil {
			w.accept(file)
		}
		return c, err
	}}
}

// maxSecret bounds the size of a file with the value of a variable.
const maxSecret = 64 << 10

// readSecret reads a file with the value of a variable. A pipe or a device could block the start, or never end.
func readSecret(name string) ([]byte, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("the file is not a regular file")
	case info.Size() > maxSecret:
		return nil, errors.New("the file is larger than 64 KiB")
	}
	return os.ReadFile(name) //nolint:gosec // the operator names the file
}

// load reads the configuration for a verb, and prints the configuration file.
func (f *configFlags) load(w *invocation) (*configs.Config, error) {
	f.announce(w)
	c, err := f.source(w, true).Load()
	if err != nil {
		return nil, misuse(err)
	}
	c.DataDir = f.dataDir(w, c.DataDir)
	return c, nil
}

// optOutEvery is the time after which a running verb reads the opt-outs of the configuration again.
const optOutEvery = 10 * time.Second

// presentOptOut returns a function that returns the opt-outs of the configuration. A verb that keeps running applies
// changed opt-outs. A configuration with faults leaves the last opt-outs in effect.
func (f *configFlags) presentOptOut(w *invocation, cfg *configs.Config) (func() *sample.OptOut, error) {
	var mu sync.Mutex
	last, err := server.OptOutOf(cfg)
	read, fault := w.tools.Now(), ""
	return func() *sample.OptOut {
		mu.Lock()
		defer mu.Unlock()
		now := w.tools.Now()
		if now.Sub(read) < optOutEvery {
			return last
		}
		read = now
		next, err := f.source(w, true).Load()
		if err == nil {
			var rules *sample.OptOut
			if rules, err = server.OptOutOf(next); err == nil {
				last, fault = rules, ""
				return last
			}
		}
		if text := err.Error(); text != fault {
			fault = text
			fmt.Fprintln(w.err, "precept: the configuration was rejected, and the last opt-outs stay in effect; correct the file:", report.Printable(text))
		}
		return last
	}, err
}

// dataDir returns the data directory of a verb. Without a configured data directory and without precept's data in
// ./data, a verb uses the data of the running server of this user, or the data of earlier runs without a server
// (`precept run`).
func (f *configFlags) dataDir(w *invocation, configured string) string {
	if f.placesData(w) || server.HoldsData(configured) {
		return configured
	}
	if r, ok := server.ReadUserRunFile(w.env); ok {
		return r.DataDir
	}
	if own := server.UserDataDir(w.env); own != "" && isDirectory(own) {
		return own
	}
	return configured
}

// placesData reports whether a flag, a variable or a configuration file decides on the place of the data.
func (f *configFlags) placesData(w *invocation) bool {
	return f.path(w) != "" || f.given["data_dir"] != "" || f.given["store.url"] != "" ||
		variable(w.env, "PRECEPT_DATA_DIR", "PRECEPT_STORE_URL", "PRECEPT_STORE_URL_FILE") != ""
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
